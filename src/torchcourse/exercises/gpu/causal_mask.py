"""The exercise `causal_mask`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import of_one_tensor


def cases(draw: Draw) -> list[Case]:
    b, t, d = draw.size(2, 3), draw.size(4, 5), draw.size(6, 7)
    return [
        case("a batch", x=draw.normal(b, t, d)),
        case("one sequence", x=draw.normal(1, t, 2)),
        case("one position", x=draw.normal(b, 1, d)),
        case("as many features as positions", x=draw.normal(2, t, t)),
        case("float64, transposed", x=draw.normal(b, d, t, dtype=torch.float64).mT),
    ]


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    mask = seen.get("result")
    if not isinstance(mask, Tensor) or mask.ndim != 2 or mask.dtype != torch.bool:
        return {}
    inside = mask.shape[0] == mask.shape[1] and mask.shape[0] > 1
    return (
        {"diagonal": bool(mask.diagonal().any()), "future": bool(mask[0, 1]), "past": bool(mask[1, 0])}
        if inside
        else {}
    )


EXERCISE = Exercise(
    "causal_mask",
    of_one_tensor,
    cases,
    hints=(
        "Row i says what position i may look at. Which columns are its future: those with j greater, equal or less "
        "than i? What do `tril` and `triu` keep, and what does their argument `diagonal` shift?",
        "Comparing a column of positions with a row of positions also makes a square. What shape do "
        "`torch.arange(t)[:, None]` and `torch.arange(t)` broadcast to?",
        "On which device does `torch.ones(t, t)` live if nothing else is said? Whose device should the mask have?",
    ),
    quotes=quotes,
)
