"""The exercise `per_sample_gradients`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import costs, growth, kept, look, numbers_of_rows, other_rows

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
LOSSES: dict[str, Loss] = {
    "one output": lambda w, x, y: ((w * x).sum() - y) ** 2,
    "several outputs": lambda w, x, y: ((w @ x - y) ** 2).sum(),
    "a bent output": lambda w, x, y: (torch.sin(w @ x) * y).sum().exp(),
}


def probe(answer: Watched, loss: str, w: Tensor, xs: Tensor, ys: Tensor) -> dict[str, Any]:
    """Observe the gradients, and what a call costs for fewer and for more samples."""
    loss_fn, before = LOSSES[loss], [t.clone() for t in (w, xs, ys)]
    seen = look(answer(loss_fn, w, xs, ys), w)
    seen |= kept(w=(w, before[0]), xs=(xs, before[1]), ys=(ys, before[2]))
    numbers = numbers_of_rows(len(xs))
    more = [(loss_fn, before[0], other_rows(before[1], n), other_rows(before[2], n)) for n in numbers]
    return {**seen, "cost": costs(answer, more)}


def cases(draw: Draw) -> list[Case]:
    n, i, o = draw.size(5, 6), draw.size(3, 4), 2
    wide = torch.float64
    return [
        case("one output", loss="one output", w=draw.normal(i), xs=draw.normal(n, i), ys=draw.normal(n)),
        case("a matrix of weights", loss="several outputs", w=draw.normal(o, i), xs=draw.normal(n, i),
             ys=draw.normal(n, o)),
        case("as many samples as weights", loss="one output", w=draw.normal(i), xs=draw.normal(i, i),
             ys=draw.normal(i)),
        case("a single sample", loss="one output", w=draw.normal(i), xs=draw.normal(1, i), ys=draw.normal(1)),
        case("samples that are matrices", loss="one output", w=draw.normal(o, i), xs=draw.normal(n, o, i),
             ys=draw.normal(n)),
        case("a bent output, float64", loss="a bent output", w=draw.normal(o, i, dtype=wide),
             xs=draw.normal(n, i, dtype=wide), ys=draw.normal(n, o, dtype=wide)),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"n": len(inputs["xs"]), "calls": seen.get("torch calls")}
    result = seen.get("result")
    if isinstance(result, Tensor) and result.shape == wanted["result"].shape:
        fields["ratio"] = (result.norm() / wanted["result"].norm()).item()
    return fields


EXERCISE = Exercise(
    "per_sample_gradients",
    probe,
    cases,
    hints=(
        "`torch.func.grad(loss_fn)` is a function of (w, x, y) that returns the gradient with respect to its first "
        "argument. For one sample you would be done.",
        "`torch.func.vmap` runs a function for all entries along a dimension at once. Which arguments have such a "
        "dimension here, and which is the same for every sample?",
        "`in_dims` has an entry for each argument: 0 for one that is mapped over its first dimension, None for one "
        "that is handed on as it is.",
    ),
    measures=True,
    derive=growth,
    quotes=quotes,
)
