"""The exercise `pairwise_distances`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from autograde.hidden.common import NUMPY_ONLY, rounding, with_floats
from autograde.hidden.tensors.shared import HANDED
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Two axes of size one make every row of `a` meet every row of `b`. Taking the difference first is exact for"
    " rows that are close together; the shorter formula with squares and a matrix product cancels there and may"
    " give the root of a negative number."
)
"""Why the reference is written as it is."""
REQUIRED = ("elementwise-not-pairwise", "squared-not-rooted", "python-loop")
"""The mistakes that a check must always be able to name."""

PAIRS = "Broadcasting: shapes line up from the right"


def distances(a: Tensor, b: Tensor) -> Tensor:
    return ((a[:, None] - b) ** 2).sum(-1).sqrt()


def squares_without_a_root(a: Tensor, b: Tensor) -> Tensor:
    return (a * a).sum(-1)[:, None] + (b * b).sum(-1) - 2 * a @ b.T


def cross_term_once(a: Tensor, b: Tensor) -> Tensor:
    return ((a * a).sum(-1)[:, None] + (b * b).sum(-1) - a @ b.T).sqrt()


def cross_term_added(a: Tensor, b: Tensor) -> Tensor:
    return ((a * a).sum(-1)[:, None] + (b * b).sum(-1) + 2 * a @ b.T).sqrt()


def loop(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([torch.stack([((x - y) ** 2).sum().sqrt() for y in b]) for x in a])


def loop_filling_zeros(a: Tensor, b: Tensor) -> Tensor:
    result = torch.zeros(len(a), len(b))
    for i, row in enumerate(a):
        result[i] = ((row - b) ** 2).sum(-1).sqrt()
    return result


def loop_over_numbers(a: Tensor, b: Tensor) -> Tensor:
    rows = [[(((x - y) ** 2).sum() ** 0.5).item() for y in b] for x in a]
    return torch.tensor(rows, dtype=a.dtype, device=a.device)


def loop_over_numbers_on_cpu(a: Tensor, b: Tensor) -> Tensor:
    return torch.tensor([[((x - y) ** 2).sum().item() ** 0.5 for y in b] for x in a])


def distances_in_numpy(a: Tensor, b: Tensor) -> Tensor:
    x, y = a.numpy(), b.numpy()
    return torch.from_numpy(np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1)))


def scaled_first(a: Tensor, b: Tensor) -> Tensor:
    scale = a.abs().max()
    return distances(a / scale, b / scale) * scale


LOOP = "The number of {what} is {got}: a Python loop pays for each row what one call for all rows pays once."
SUMMED = (
    "The result has shape {got_shape} where {want_shape} is wanted: for each pair of points the sum goes over the "
    "features, the last of the dimensions (n, m, d)."
)
CROSS = (
    "The value at {at} is {got_at} and should be {want_at}: in the square of a difference, twice the product of the "
    "two is subtracted."
)


def kept_from_zero(eps: float, keep: Callable[[Tensor, float], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return an answer that adds `eps` to the squares, or has them be at least that."""
    return lambda a, b: keep((a[:, None] - b).square().sum(-1), eps).sqrt()


MISTAKES = [
    Mistake("elementwise-not-pairwise", lambda a, b: ((a - b) ** 2).sum(-1).sqrt(), "The result has shape {got_shape} "
            "where {want_shape} is wanted: row i of a was only compared with row i of b.", PAIRS),
    Mistake("squared-not-rooted", lambda a, b: ((a[:, None] - b) ** 2).sum(-1), "The value at {at} is {got_at} and "
            "should be {want_at}: the first is the square of the second, so the root is missing.", PAIRS),
    Mistake("city-block-distance", lambda a, b: (a[:, None] - b).abs().sum(-1), "The value at {at} is {got_at} and "
            "should be {want_at}: absolute differences were added up, where their squares are wanted.", PAIRS),
    Mistake("largest-difference-only", lambda a, b: (a[:, None] - b).abs().amax(-1), "The value at {at} is {got_at} "
            "and should be {want_at}: only the feature that differs most was counted.", PAIRS),
    Mistake("mean-not-sum", lambda a, b: ((a[:, None] - b) ** 2).mean(-1).sqrt(), "The value at {at} is {got_at} and "
            "should be {want_at}: the squares were averaged over the features, where their sum is wanted.", PAIRS),
    Mistake("rows-and-columns-swapped", lambda a, b: distances(b, a), "The result has shape {got_shape} where "
            "{want_shape} is wanted: rows belong to a, columns to b.", PAIRS),
    Mistake("sums-over-points", lambda a, b: ((a[:, None] - b) ** 2).sum(0).sqrt(), SUMMED, PAIRS),
    Mistake("sums-over-points", lambda a, b: ((a[:, None] - b) ** 2).sum(1).sqrt(), SUMMED, PAIRS),
    Mistake("sums-over-points", lambda a, b: ((a[:, None] - b) ** 2).sum().sqrt(), SUMMED, PAIRS),
    Mistake("dimension-left-over", lambda a, b: distances(a, b).unsqueeze(-1), "The result has shape {got_shape} where "
            "{want_shape} is wanted: with keepdim the dimension of the features stays, with size one.", PAIRS),
    Mistake("nan-at-equal-points", lambda a, b: squares_without_a_root(a, b).sqrt(), "The result is {got}: for equal "
            "points a·a + b·b - 2 a·b can round to a number just below zero, and its root is NaN.", PAIRS),
    *(Mistake("never-quite-zero", kept_from_zero(eps, keep), "In the case \"{case}\" the value at {at} is {got_at} and "
              "should be {want_at}: the number that keeps the root away from zero is large compared with data of this "
              "size; a minimum of 0 is enough.", PAIRS) for eps in (1e-8, 1e-6) for keep in (torch.add, torch.clamp)),
    Mistake("fails-without-points", scaled_first, "In the case \"{case}\" the call raised {error}: `min` and `max` "
            "have no answer for an empty tensor, and the distances from no points are a tensor of no rows.", PAIRS),
    Mistake("cross-term-wrong", cross_term_once, CROSS, PAIRS),
    Mistake("cross-term-wrong", cross_term_added, CROSS, PAIRS),
    Mistake("python-loop", loop, LOOP, PAIRS),
    Mistake("python-loop", loop_filling_zeros, LOOP, PAIRS),
    Mistake("python-loop", loop_over_numbers, LOOP, PAIRS),
    Mistake("python-loop", loop_over_numbers_on_cpu, LOOP, PAIRS),
    Mistake("python-loop", distances_in_numpy, HANDED, PAIRS),
    *(m for m in with_floats(distances, 2) if m.sentence is not NUMPY_ONLY),
    rounding(distances),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, m, d = draw.size(2, 12), draw.size(2, 12), draw.size(1, 9)
    base = draw.normal(n, d)
    return [
        case("one dimension", rtol=1e-3, atol=1e-3, a=draw.normal(n, 1), b=draw.normal(m, 1)),
        case("some points in common", rtol=1e-3, atol=0.03, a=base, b=torch.cat([base[:1], draw.normal(m, d)])),
        case("no points in b", a=draw.normal(n, d), b=torch.empty(0, d)),
        case("transposed inputs", rtol=1e-3, atol=1e-3, a=draw.normal(d, n).t(), b=draw.normal(d, m).t()),
        case("small numbers", rtol=1e-2, atol=1e-5, a=1e-3 * draw.normal(n, d), b=5e-3 + 1e-3 * draw.normal(m, d)),
        case("large numbers", rtol=1e-3, atol=10.0, a=1e6 * draw.normal(n, d), b=1e6 * draw.normal(m, d)),
    ]


# Right answers unlike the reference


def distances_by_broadcasting(a: Tensor, b: Tensor) -> Tensor:
    return (a[:, None] - b).pow(2).sum(dim=2).sqrt()


def distances_by_gram(a: Tensor, b: Tensor) -> Tensor:
    center = b.mean(0)
    a, b = a - center, b - center
    squares = (a * a).sum(1, keepdim=True) + (b * b).sum(1) - 2 * a @ b.T
    return squares.clamp(min=0).sqrt()


def distances_by_gram_in_double(a: Tensor, b: Tensor) -> Tensor:
    wide_a, wide_b = a.double(), b.double()
    dots = torch.einsum("nd,md->nm", wide_a, wide_b)
    squares = torch.einsum("nd,nd->n", wide_a, wide_a)[:, None] - 2 * dots
    squares = squares + torch.einsum("md,md->m", wide_b, wide_b)[None, :]
    return torch.sqrt(torch.maximum(squares, torch.zeros_like(squares))).to(a.dtype)


def distances_feature_by_feature(a: Tensor, b: Tensor) -> Tensor:
    total = torch.zeros(len(a), len(b), dtype=a.dtype, device=a.device)
    for k in range(a.shape[1]):  # over features, not over points
        total += torch.square(a[:, k].unsqueeze(1) - b[:, k].unsqueeze(0))
    return total.sqrt_()


def distances_expanded(a: Tensor, b: Tensor) -> Tensor:
    n, m, d = a.size(0), b.size(0), a.size(1)
    left = a.unsqueeze(1).expand(n, m, d).reshape(-1, d)
    right = b.repeat(n, 1)
    return cast(Tensor, torch.norm(left - right, p=2, dim=1).view(n, m))


def distances_by_vmap(a: Tensor, b: Tensor) -> Tensor:
    one_to_one = lambda x, y: (x - y).square().sum().sqrt()  # noqa: E731
    to_all = torch.vmap(one_to_one, in_dims=(None, 0))
    return cast(Tensor, torch.vmap(to_all, in_dims=(0, None))(a, b))


def distances_by_pairwise_distance(a: Tensor, b: Tensor) -> Tensor:
    return nn.functional.pairwise_distance(a[:, None, :], b[None, :, :], eps=0.0)


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    distances_by_broadcasting,
    distances_by_gram,
    distances_by_gram_in_double,
    distances_feature_by_feature,
    distances_expanded,
    distances_by_vmap,
    distances_by_pairwise_distance,
]
