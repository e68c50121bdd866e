"""The exercise `pairwise_distances`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import costs, float32_digits, growth, kept, look, numbers_of_rows, other_rows


def probe(answer: Watched, a: Tensor, b: Tensor) -> dict[str, Any]:
    """Observe the distances, and what a call costs for fewer and for more points."""
    before = a.clone(), b.clone()
    seen = {**look(answer(a, b), a), **kept(a=(a, before[0]), b=(b, before[1]))}
    numbers = zip(numbers_of_rows(len(a)), numbers_of_rows(len(b)), strict=True)
    return {**seen, "cost": costs(answer, [(other_rows(before[0], n), other_rows(before[1], m)) for n, m in numbers])}


def derive(case: Case, seen: Observations) -> Observations:
    """Say how the cost grows, and that some entries are NaN; the CPU decides which, and for how many rows."""
    seen = float32_digits(case, growth(case, seen))
    result = seen.get("result")
    if isinstance(result, Tensor) and result.isnan().any():
        rest = {name: value for name, value in seen.items() if not name.endswith(" rows")}
        return {**rest, "result": f"NaN in a tensor of shape {tuple(result.shape)}"}
    return seen


def cases(draw: Draw) -> list[Case]:
    n, m, d = draw.size(3, 4), draw.size(5, 6), draw.size(2, 4)
    points, small = draw.normal(24, 8), 1e-3 * draw.normal(n, d)
    return [
        case("n and m differ", rtol=1e-3, atol=1e-3, a=draw.normal(n, d), b=draw.normal(m, d)),
        case("as many in a as in b", rtol=1e-3, atol=1e-3, a=draw.normal(n, d), b=draw.normal(n, d)),
        case("a against itself", rtol=1e-3, atol=0.01, a=points, b=points.clone()),
        case("small numbers, one point in common", rtol=1e-2, atol=1e-5, a=small,
             b=torch.cat([1e-3 * draw.normal(m, d), small[:1]])),
        case("one point each", rtol=1e-3, atol=1e-3, a=draw.normal(1, d), b=draw.normal(1, d)),
        case("no points in a", a=torch.empty(0, d), b=draw.normal(m, d)),
        case("float64", rtol=1e-9, atol=1e-9, a=draw.normal(n, d, dtype=torch.float64),
             b=3 * draw.normal(m, d, dtype=torch.float64)),
        case("far from the origin", rtol=1e-2, atol=1.0, a=100 + 10 * draw.normal(n, d),
             b=100 + 10 * draw.normal(m, d)),
    ]  # fmt: skip


EXERCISE = Exercise(
    "pairwise_distances",
    probe,
    cases,
    hints=(
        "Which shapes must a and b have so that broadcasting pairs every row of a with every row of b?",
        "Put a dimension of size one into each: (n, 1, d) and (1, m, d). What shape does their difference have, and "
        "over which of its dimensions is a distance taken?",
        "If you expand the square instead (a·a + b·b - 2 a·b), what can rounding do to the sum for two equal points, "
        "and what does a root make of it?",
    ),
    forbids=("cdist", "cdist_forward", "euclidean_dist", "pdist", "pdist_forward"),
    derive=derive,
)
