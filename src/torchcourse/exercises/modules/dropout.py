"""The exercise `Dropout`: its probe, visible cases and hints."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.modules import (
    build,
    called,
    ends_when_unusable,
    gradients,
    quoting,
    ramp,
    sameness,
    without_none,
)
from torchcourse.probes.observe import kind, where

ROWS = 120
COLUMNS = 80
IMAGES = (ROWS // 4, 4, COLUMNS // 8, 8)
CALLS = 8


@ends_when_unusable
def probe(
    answer: Watched, p: float | None, dtype: torch.dtype, refused: bool, like: Tensor, images: bool = False
) -> Observations:
    """Observe a large table in training and evaluation, and its gradient; or how a bad `p` is refused.

    With `images`, the numbers of the table come as a batch of images, of which each channel is a row.
    """
    if refused:
        return {"refused with": turned_down(lambda: answer(p), "p", str(p))}
    module = build(answer, like.device, **without_none(p=p))
    shape = IMAGES if images else (ROWS, COLUMNS)
    x = ramp(*shape, low=1.0, high=3.0).to(like.device, dtype).requires_grad_()
    module.eval()
    passed = called(answer, module, x)
    seen: Observations = {"in eval": sameness(passed, x), "gradient in eval": getattr(passed, "requires_grad", False)}
    module.train()
    with torch.no_grad():
        seen["output and input under torch.no_grad()"] = sameness(called(answer, module, x), x)
    output, again = called(answer, module, x), called(answer, module, x)
    if not isinstance(output, Tensor) or output.shape != x.shape:
        return {**seen, "returned": kind(output)}
    seen |= {"dtype": output.dtype, "device": where(output, like), "two calls in training": sameness(output, again)}
    seen |= gradients(output, x=x)
    if p not in (0.0, 1.0):
        few = x.detach().flatten()[:COLUMNS]
        counts = {int((called(answer, module, few) == 0).sum()) for _ in range(CALLS)}
        seen["number of zeros"] = "different from call to call" if len(counts) > 1 else "the same in every call"
        seen["two calls, each after torch.manual_seed(1)"] = sameness(*(seeded(answer, module, few) for _ in range(2)))
    seen |= {
        "scale": (output.detach().float() / x.detach().float()).view(ROWS, COLUMNS),
        "parameters": len(list(module.parameters())),
    }
    return {**seen, "fed back": ramp(*output.shape, low=-1.0, high=2.0, like=output).float()}


def seeded(answer: Watched, module: object, x: Tensor) -> Any:
    """Return the result of a call after `torch.manual_seed`."""
    torch.manual_seed(1)
    return called(answer, module, x)


def turned_down(call: Callable[[], object], argument: str, got: str) -> Any:
    """Return how a call that should raise ends, whatever it raises."""
    try:
        result = call()
    except Exception as error:
        message = str(error)
        named = re.search(rf"\b{argument}\b|probab", message) is not None
        name = "names the argument" if named else "does not name the argument"
        value = "tells what it got" if got in message else "does not tell what it got"
        return f"an exception that {name}, and {value}"
    return f"no exception but {kind(result)}"


def derive(case: Case, seen: Observations) -> Observations:
    """Describe the mask by its share of zeros, its factor and its form: single draws are not compared."""
    scale = seen.get("scale")
    if not isinstance(scale, Tensor):
        return seen
    p = 0.5 if case.inputs["p"] is None else case.inputs["p"]
    kept_ones = scale[scale != 0]
    share = (scale == 0).float().mean().item()
    known = next((q for q in (p, 1 - p, 0.5, 0.0, 1.0) if abs(share - q) < 0.03), round(share, 1))
    columns = (scale == 0).float().mean(0)
    rows = (scale == 0).float().mean(1)
    alike = bool((columns.std() > 0.3) | (rows.std() > 0.3))
    arrived, fed = seen.get("gradient of x"), seen["fed back"]
    rest = {n: v for n, v in seen.items() if n not in ("scale", "fed back", "gradient of x")}
    through: str = "none"
    if isinstance(arrived, str) and not kept_ones.numel():  # zeros without history have the gradient they should have
        arrived = fed * 0
    if isinstance(arrived, Tensor):
        passed = fed * scale.view_as(fed)
        same = torch.allclose(arrived.float(), passed, rtol=0.02, atol=0.02, equal_nan=True)
        through = "scaled and dropped as the values are" if same else "unlike the values"
    return {
        **rest,
        "share of zeros": float(known),
        "kept values are multiplied by": kept_ones.median().item() if kept_ones.numel() else "none is kept",
        "dropped": "whole rows or columns" if alike else "entries together" if paired(scale) else "entry by entry",
        "NaNs": bool(scale.isnan().any()),
        "gradient": through,
    }


def paired(scale: Tensor) -> bool:
    """Return whether an entry is dropped, or kept, with the one some number of places away, whichever number."""
    mask = (scale == 0).double().flatten()
    if bool((mask == mask[0]).all()):
        return False
    mask = (mask - mask.mean()) / mask.std()
    alike = torch.fft.irfft(torch.fft.rfft(mask).abs().square(), n=mask.numel()) / mask.numel()
    return bool((alike[1:].abs() > 0.1).any())  # ten times what chance gives at one distance


def cases(draw: Draw) -> list[Case]:
    common: dict[str, Any] = {"dtype": torch.float32, "refused": False, "like": torch.zeros(1), "rtol": 0.01}
    odd = draw.pick([0.2, 0.25, 0.3])
    return [
        case("p = 0.5 by default", p=None, **common),
        case(f"p = {odd}", p=odd, **common),
        case(f"p = {1 - odd}", p=1 - odd, **common),
        case("p = 0", p=0.0, **common),
        case("p = 1", p=1.0, **common),
        case("float64", p=odd, **common | {"dtype": torch.float64}),
        case("a batch of images", p=odd, **common, images=True),
        case("p below 0", p=-0.1, **common | {"refused": True}),
        case("p above 1", p=1.5, **common | {"refused": True}),
    ]


def quotes_dropout(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"p": 0.5 if inputs["p"] is None else inputs["p"]}
    factor = "kept values are multiplied by"
    if factor in seen and factor in wanted:
        fields |= {"factor": seen[factor], "want_factor": wanted[factor]}
    for name in ("in eval", "two calls in training", "share of zeros", "refused with", "dropped"):
        if name in seen:
            fields[name.replace(" ", "_")] = seen[name]
    return fields


EXERCISE = Exercise(
    "Dropout",
    probe,
    cases,
    hints=(
        "Every module has a flag that `train()` and `eval()` set. What is its name, and what does forward do when it "
        "is "
        "False?",
        "A mask that keeps with probability 1 - p: compare what `torch.rand_like(x)` draws with p. If a share p of the "
        "values is gone, by what must the others grow to leave the mean as it was?",
        "For p = 1 that factor is 1 / 0. What does `0 * inf` give, and which case would you rather treat by itself? "
        "And where do you look at p at all: in forward, or once, in `__init__`?",
    ),
    forbids=("dropout", "native_dropout", "fused_dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout",
             "dropout1d", "dropout2d", "dropout3d"),
    derive=derive,
    quotes=quoting(quotes_dropout),
)  # fmt: skip
