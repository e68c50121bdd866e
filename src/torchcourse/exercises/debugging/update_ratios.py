"""The exercise `update_ratios`: its probe, visible cases and hints."""

from __future__ import annotations

from math import inf
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.diagnosed_models import classifier, hooks, left_hooks, plain_number, starting
from torchcourse.probes.functions import expected_error
from torchcourse.probes.observe import kept, kind
from torchcourse.probes.trainable_models import BESIDE, LOSSES, counted, flat, held_beside, with_detail

OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1),
}


def probe(
    answer: Watched, x: Tensor, y: Tensor, sizes: list[int], seed: int, optimizer: str, frozen: bool, stale: bool,
    tiny: bool = False,
) -> Observations:  # fmt: skip
    """Observe the ratios, the step that was taken, and the mode in which the model ran."""
    model = starting(classifier(seed, x.device, x.dtype, sizes), "evaluation")
    with torch.no_grad():
        model.last.bias.zero_()
        if tiny:
            model.norm.bias.mul_(1e-10)
    model.first.requires_grad_(not frozen)
    if stale:
        LOSSES["cross entropy"](model(x.flip(0)), y).mul(2).backward()  # type: ignore[no-untyped-call]
    beside = held_beside(x, stale)
    made = OPTIMIZERS[optimizer]([*model.parameters(), beside])
    taken, raw, hooked = counted(made), x.clone(), hooks(model)
    model.runs.clear()
    try:
        ratios = answer(model, (x, y), LOSSES["cross entropy"], optimizer=made)
    except RuntimeError as error:
        return {"the call": expected_error(error, {"Got Long": "a norm of integers"})}
    if not isinstance(ratios, dict):
        return {"returned": kind(ratios)}
    return {
        **{f"ratio of {name}": _seen(ratio) for name, ratio in sorted(ratios.items())},
        "optimizer steps": len(taken),
        "the model ran in": model.runs.modes,
        "parameters afterwards": flat(model.parameters()),
        BESIDE: "as before" if float(beside) == 0 else "changed",
        "hooks left": left_hooks(hooks(model) - hooked),
        **kept(x=(x, raw)),
    }


def _seen(ratio: object) -> Any:
    """Return a ratio, and of a huge one only that it is huge: what is divided by next to nothing may be any number."""
    number = plain_number(ratio)
    return with_detail("a huge number", f"{number:.3g}") if isinstance(number, float) and 100 < number < inf else number


def cases(draw: Draw) -> list[Case]:
    def drawn(optimizer: str, dtype: torch.dtype = torch.float32, **more: Any) -> dict[str, Any]:
        inputs, classes, rows = draw.size(3, 5), draw.size(3, 4), draw.size(5, 7)
        return {
            "x": draw.normal(rows, inputs, dtype=dtype), "y": draw.integers(0, classes, rows),
            "sizes": [inputs, draw.size(4, 6), classes], "seed": draw.size(0, 9999), "optimizer": optimizer,
            "frozen": False, "stale": False, **more,
        }  # fmt: skip

    return [
        case("SGD", **drawn("SGD")),
        case("AdamW, a bias near zero", **drawn("AdamW", tiny=True)),
        case("a frozen layer", **drawn("AdamW", frozen=True)),
        case("gradients of an earlier batch", **drawn("SGD", stale=True)),
        case("momentum, float64", **drawn("momentum", dtype=torch.float64)),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    missing = [name.removeprefix("ratio of ") for name in wanted if name.startswith("ratio of ") and name not in seen]
    fields: dict[str, object] = {"missing": ", ".join(missing)} if missing else {}
    fields |= {"error": seen["the call"]} if "the call" in seen else {}
    return fields | {"ran": seen.get("the model ran in"), "should_run": wanted.get("the model ran in")}


EXERCISE = Exercise(
    "update_ratios",
    probe,
    cases,
    hints=(
        "An optimizer writes into the parameters that you have. If you want to know how far they went, what do you "
        "need from before the step, and does `detach()` alone give it to you?",
        "Between the copy and the comparison stands the training step that you know, with its mode and its clearing. "
        "Why is the learning rate times the gradient no answer for AdamW?",
        "The ratio is one norm divided by another, for each name in `named_parameters()`. Which parameters of a new "
        "model are often zero, and what does a division give there?",
    ),
    quotes=quotes,
)
