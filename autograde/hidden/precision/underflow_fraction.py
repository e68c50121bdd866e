"""The exercise `underflow_fraction`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.exercises.precision.underflow_fraction import spread
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Only what was not zero can be lost, so zeros are left out of both counts. The share is of entries over all"
    " tensors, not a mean of shares, in which a bias would weigh as much as a matrix."
)
"""Why the reference is written as it is."""
REQUIRED = ("counts-zeros", "counts-subnormals")
"""The mistakes that a check must always be able to name."""


def listed(grads: Any) -> list[Tensor]:
    return [grads] if isinstance(grads, Tensor) else list(grads)


def share(gone: list[Tensor], counted: list[Tensor], empty: float = 0.0) -> float:
    """The share of entries that are gone among those that count, over all tensors."""
    total = sum(int(c.sum()) for c in counted)
    return sum(int(g.sum()) for g in gone) / total if total else empty


def share_where(grads: Any, small: Callable[[Tensor], Tensor]) -> float:
    """The share of gradients other than zero that are small in this sense."""
    some = [g != 0 for g in listed(grads)]
    return share([s & small(g) for s, g in zip(some, listed(grads), strict=True)], some)


def right(grads: Any, dtype: torch.dtype) -> float:
    return share_where(grads, lambda g: g.to(dtype) == 0)


def divides_by_all(grads: Any, dtype: torch.dtype) -> float:
    gone = [(g != 0) & (g.to(dtype) == 0) for g in listed(grads)]
    return share(gone, [torch.ones_like(g) for g in gone])


def counts_zeros(grads: Any, dtype: torch.dtype) -> float:
    return share([g.to(dtype) == 0 for g in listed(grads)], [g != 0 for g in listed(grads)])


def counts_zeros_and_divides_by_all(grads: Any, dtype: torch.dtype) -> float:
    gone = [g.to(dtype) == 0 for g in listed(grads)]
    return share(gone, [torch.ones_like(g) for g in gone])


def counts_subnormals(grads: Any, dtype: torch.dtype) -> float:
    return share_where(grads, lambda g: g.abs() < torch.finfo(dtype).tiny)


def takes_eps_for_the_smallest(grads: Any, dtype: torch.dtype) -> float:
    return share_where(grads, lambda g: g.abs() < torch.finfo(dtype).eps)


def compares_with_the_smallest(grads: Any, dtype: torch.dtype) -> float:
    info = torch.finfo(dtype)
    return share_where(grads, lambda g: g.abs() < info.smallest_normal * info.eps)


def counts_in_float32(grads: Any, dtype: torch.dtype) -> float:
    return right([g.float() for g in listed(grads)], dtype)


def forgets_the_sign(grads: Any, dtype: torch.dtype) -> float:
    return share_where(grads, lambda g: g < 2.0**-25)


def mean_of_shares(grads: Any, dtype: torch.dtype) -> float:
    return sum(right(g, dtype) for g in listed(grads)) / len(listed(grads))


def first_tensor_only(grads: Any, dtype: torch.dtype) -> float:
    return right(listed(grads)[0], dtype)


def on_all_zero(value: float) -> Callable[..., float]:
    """An answer that gives this value where no gradient is other than zero."""

    def answer(grads: Any, dtype: torch.dtype) -> float:
        return right(grads, dtype) if any(g.any() for g in listed(grads)) else value

    return answer


def counts_only(grads: Any, dtype: torch.dtype) -> float:
    return float(sum(int(((g != 0) & (g.to(dtype) == 0)).sum()) for g in listed(grads)))


GONE = "Gradients that vanish"
SHARE = (
    'In the case "{case}" the result is {got} where {want} is wanted: {gone} of the {some} gradients that are not '
    "zero become zero in {dtype}; "
)
ZEROS = SHARE + "those that were zero before were counted as well."
ALL_ZERO = 'In the case "{case}" the result is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("counts-zeros", divides_by_all, SHARE + "the share was taken of all {all} of them. A gradient that was "
            "zero before cannot vanish.", GONE),
    Mistake("counts-subnormals", counts_subnormals, SHARE + "those below the smallest normal number were counted too, "
            "but there are subnormal numbers below it, coarse as they are.", GONE),
    Mistake("counts-zeros", counts_zeros, ZEROS, GONE),
    Mistake("counts-zeros", counts_zeros_and_divides_by_all, ZEROS, GONE),
    Mistake("eps-is-not-the-smallest-number", takes_eps_for_the_smallest, SHARE + "`eps` is the step above 1, not the "
            "smallest number that there is.", GONE),
    Mistake("threshold-not-cast", compares_with_the_smallest, SHARE + "those below the smallest number were counted, "
            "but a cast rounds to the nearest number, so what is above half of the smallest one does not become zero.",
            GONE),
    Mistake("sign-forgotten", forgets_the_sign, SHARE + "negative gradients were taken for small ones; the size of a "
            "number is its absolute value.", GONE),
    Mistake("counts-in-float32", counts_in_float32, SHARE + "some of these are zero in float32 already and were left "
            "out, but they came in float64, where they are not zero.", GONE),
    Mistake("mean-of-shares", mean_of_shares, SHARE + "the share of each of the {pieces} tensors counted the same, "
            "whatever its size.", GONE),
    Mistake("first-tensor-only", first_tensor_only, SHARE + "only the first of the {pieces} tensors was looked at.",
            GONE),
    Mistake("nan-on-all-zero", on_all_zero(math.nan), ALL_ZERO + "no gradient differs from zero, so there is nothing "
            "to divide by.", GONE),
    Mistake("returns-int", on_all_zero(0), "In the case \"{case}\" what came back is {got} where {want} is wanted as a "
            "float.", GONE),
    Mistake("one-on-all-zero", on_all_zero(1.0), ALL_ZERO + "there was nothing to lose, so the share is 0.", GONE),
    Mistake("count-not-share", counts_only, SHARE + "that is a count, not a share.", GONE),
    Mistake("percent-not-fraction", lambda grads, dtype: 100 * right(grads, dtype), SHARE + "a fraction is wanted, "
            "from 0 to 1.", GONE),
    Mistake("returns-tensor", lambda grads, dtype: torch.tensor(right(grads, dtype)), "What came back is {got} where "
            "{want} is wanted, a Python float.", GONE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(60, 99)
    return [
        case("many", grads=spread(draw, -44, -2, n, 3), dtype=torch.float16),
        case("bfloat16 gradients to float16", grads=spread(draw, -44, -2, n).bfloat16(), dtype=torch.float16),
        case("a list of one", grads=[spread(draw, -30, -20, 2, 2)], dtype=torch.float16),
        case("a list in which one is zero", grads=[torch.zeros(9), spread(draw, -30, -20, 7)], dtype=torch.float16),
        case("transposed", grads=spread(draw, -30, -20, 4, 6).t(), dtype=torch.float16),
        case("all of them vanish", grads=spread(draw, -60, -30, 8), dtype=torch.float16),
        case("float32 keeps what float64 holds", grads=spread(draw, -160, -130, n).double(), dtype=torch.float32),
    ]


# Right answers unlike the reference


def underflow_of_one_vector(grads: Any, dtype: torch.dtype) -> float:
    flat = torch.cat([g.reshape(-1) for g in ([grads] if torch.is_tensor(grads) else grads)])
    flat = flat[flat != 0]
    return float((flat.to(dtype) == 0).double().mean()) if flat.numel() else 0.0


def underflow_by_counting(grads: Any, dtype: torch.dtype) -> float:
    if isinstance(grads, Tensor):
        return underflow_by_counting([grads], dtype)
    before = sum(int(torch.count_nonzero(g)) for g in grads)
    after = sum(int(torch.count_nonzero(g.to(dtype))) for g in grads)
    return (before - after) / max(before, 1)


RIGHT_ANSWERS: list[Callable[..., Any]] = [underflow_of_one_vector, underflow_by_counting]
