"""The exercise `gradient`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.functions import coefficients, expected_error, function
from torchcourse.probes.observe import kept, look

PLAIN = "plain"
LEAF = "leaf"
USED = "leaf with a gradient"
INSIDE = "inside a graph"


def probe(answer: Watched, form: str, c: list[float], values: Tensor, role: str, weights: Tensor) -> dict[str, Any]:
    """Observe the gradient, and what the call left behind on `x`, whose `role` says what it is to autograd."""
    base = values.clone().requires_grad_(role != PLAIN)
    x = base * weights if role == INSIDE else base
    x.grad = weights.clone() if role == USED else None
    before = x.detach().clone()
    result = answer(function(form, c), x)
    seen = look(result, x)
    seen["result requires grad"] = bool(getattr(result, "requires_grad", False))
    seen |= {"x requires grad afterwards": x.requires_grad, "x.grad afterwards": x.grad}
    seen |= kept(x=(x.detach(), before))
    if role == INSIDE:
        seen["gradient of what x was made from"] = base.grad
        try:
            x.sum().backward()  # type: ignore[no-untyped-call]
            seen["backward through x later"] = base.grad
        except RuntimeError as error:
            reasons = {"second time": "graph freed", "does not require grad": "graph lost"}
            seen["backward through x later"] = expected_error(error, reasons)
    return seen


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)

    def drawn(name: str, form: str, role: str, *shape: int, dtype: torch.dtype = torch.float32) -> Case:
        values, weights = draw.normal(*shape, dtype=dtype), draw.uniform(1.0, 2.0, *shape, dtype=dtype)
        return case(name, form=form, c=coefficients(draw), values=values, role=role, weights=weights)

    return [
        drawn("a plain tensor", "polynomial", PLAIN, n),
        drawn("a leaf that requires grad", "neighbours", LEAF, n),
        drawn("a leaf that has a gradient already", "polynomial", USED, n),
        drawn("x is part of a graph", "neighbours", INSIDE, n),
        drawn("a matrix, float64", "wave", PLAIN, 2, n, dtype=torch.float64),
        drawn("a single number", "polynomial", PLAIN),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    later = seen.get("backward through x later")
    fields: dict[str, object] = {"grad": seen.get("x.grad afterwards")}
    fields |= {"requires": seen.get("x requires grad afterwards"), "attached": seen.get("result requires grad")}
    return fields | ({"later": later} if isinstance(later, Raised) else {})


EXERCISE = Exercise(
    "gradient",
    probe,
    cases,
    hints=(
        "Whatever you do to x itself, the caller will find it done. Which tensor with the same values could you work "
        "on instead?",
        "`backward()` leaves its result in `.grad` of every leaf that it reaches. Which function returns gradients and "
        "writes them nowhere?",
        "A leaf of your own needs two things: no history, and to require grad. `detach()` gives the one, "
        "`requires_grad_()` the other. Does the latter also change the x you detached from?",
    ),
    quotes=quotes,
)
