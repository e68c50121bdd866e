"""The exercise `standardize`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import float32_digits, kept, look


def probe(answer: Watched, x: Tensor, dim: int | tuple[int, ...], eps: float | None) -> dict[str, Any]:
    """Observe the result, and that `x` stays as it was; an `eps` of None leaves the answer's own default."""
    before = x.clone()
    result = answer(x, dim) if eps is None else answer(x, dim=dim, eps=eps)
    return {**look(result, x), **kept(x=(x, before))}


def cases(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 4), draw.size(5, 7)
    constant = draw.normal(n, d)
    constant[:, 1] = constant[0, 1]
    return [
        case("down the columns", x=3 + 2 * draw.normal(n, d), dim=0, eps=None),
        case("along the rows", x=3 + 2 * draw.normal(n, d), dim=1, eps=None),
        case("along the rows of a square", x=3 + 2 * draw.normal(d, d), dim=-1, eps=None),
        case("over batch, height and width", x=draw.normal(2, 3, n, d), dim=(0, 2, -1), eps=None),
        case("over the last two dimensions", x=draw.normal(2, n, d), dim=(-2, -1), eps=None),
        case("a large eps", x=draw.normal(n, d), dim=0, eps=draw.pick([0.5, 1.0, 2.0])),
        case("small values and an eps of zero", x=1e-3 * draw.normal(n, d), dim=0, eps=0.0),
        case("bfloat16", rtol=0.05, atol=0.1, x=draw.normal(n, d, dtype=torch.bfloat16), dim=1, eps=None),
        case("a constant column", atol=1e-3, x=constant, dim=0, eps=None),
        case("small values", x=1e-3 * draw.normal(n, d), dim=0, eps=None),
        case("float64", rtol=1e-10, atol=1e-12, x=draw.normal(d, d, dtype=torch.float64), dim=1, eps=None),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    x, dim, result = inputs["x"], inputs["dim"], seen["result"]
    return {
        "mean": result.mean().item(),
        "var": result.var(dim=dim, correction=0).flatten()[0].item(),
        "wanted_var": wanted["result"].var(dim=dim, correction=0).flatten()[0].item(),
        "eps": 1e-5 if inputs["eps"] is None else inputs["eps"],
        "count": x.numel() // x.mean(dim=dim).numel(),
    }


EXERCISE = Exercise(
    "standardize",
    probe,
    cases,
    hints=(
        "After `x.mean(dim)` the reduced dimension is gone. With which shape does the mean broadcast back against x, "
        "whatever `dim` is?",
        "`var` divides by n - 1 unless told otherwise. Which argument makes it divide by n?",
        "Where does eps stand in the formula: beside the variance under the root, or beside the root?",
    ),
    derive=float32_digits,
    quotes=quotes,
)
