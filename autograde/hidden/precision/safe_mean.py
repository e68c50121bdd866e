"""The exercise `safe_mean`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import CHANGED, LEFT, on_the_cpu, writing_into
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The sum is what overflows in float16, at 65504, and what stops growing in bfloat16. With "
    "`dtype=torch.float32` it is gathered in a wider dtype, and only the mean, which fits again, is brought "
    "back."
)
"""Why the reference is written as it is."""
REQUIRED = ("accumulates-in-half", "returns-float32")
"""The mistakes that a check must always be able to name."""


def right(x: Tensor) -> Tensor:
    return (x.double().sum() / x.numel()).to(x.dtype)


def sums_in_half(x: Tensor) -> Tensor:
    return x.sum() / x.numel()


def casts_the_sum(x: Tensor) -> Tensor:
    return x.float().sum().to(x.dtype) / x.numel()


def adds_up_in_a_loop(x: Tensor) -> Tensor:
    """Number by number, as one writes it first; of long tensors only until the sum stands still."""
    total = torch.zeros((), dtype=x.dtype, device=x.device)
    for value in x.flatten()[:3000]:
        total = total + value
    return total / x.numel()


def divides_first(x: Tensor) -> Tensor:
    return (x / x.numel()).sum()


def replaces_the_overflow(x: Tensor) -> Tensor:
    return x.sum().nan_to_num() / x.numel()


def cuts_off_the_overflow(x: Tensor) -> Tensor:
    return (x.sum() / x.numel()).clamp(max=torch.finfo(x.dtype).max)


def over_the_last_dimension(x: Tensor) -> Tensor:
    return x.float().mean(-1).to(x.dtype)


def over_the_first_dimension(x: Tensor) -> Tensor:
    return x.float().mean(0).to(x.dtype)


def counts_in_half(x: Tensor) -> Tensor:
    return (x.float().sum() / torch.tensor(x.numel(), dtype=x.dtype, device=x.device)).to(x.dtype)


def divides_by_rows(x: Tensor) -> Tensor:
    return (x.float().sum() / len(x)).to(x.dtype)


def divides_by_the_first_size(x: Tensor) -> Tensor:
    return (x.float().sum() / x.shape[0]).to(x.dtype)


SUMS = "Sums that do not fit"
CAME_OUT = 'In the case "{case}" the mean came out as {got} where {want} is wanted: '
HALF_SUM = CAME_OUT + (
    "the sum of the {count} numbers is about {sum}, and was made in, or cast to, a format that ends at {limit}, or "
    "has too few digits for it. Add up in float32, and cast the mean."
)
HIDDEN = CAME_OUT + "the sum was inf already, and cutting it off at {limit} only makes it look like a number."
ROWS = CAME_OUT + (
    "there are {count} elements, and the sum was divided by the size of one dimension, as `len(x)`, `x.shape[0]` and "
    "`x.shape[-1]` are. `x.numel()` counts the elements."
)
DIMENSION = "The result is of shape {got_shape} where {want_shape} is wanted: the mean of all numbers."
MISTAKES = [
    Mistake("accumulates-in-half", sums_in_half, HALF_SUM, SUMS),
    Mistake("accumulates-in-half", casts_the_sum, HALF_SUM, SUMS),
    Mistake("accumulates-in-half", adds_up_in_a_loop, HALF_SUM, SUMS),
    Mistake("returns-float32", lambda x: x.float().mean(), "The result is {got_dtype} where {want_dtype} is wanted: "
            "the mean fits into x's dtype again, so cast it back.", SUMS),
    Mistake("always-float16", lambda x: x.float().mean().half(), "The result is {got_dtype} where {want_dtype} is "
            "wanted: `half()` gives float16, whatever x was.", SUMS),
    Mistake("divides-first", divides_first, CAME_OUT + "each number was divided by {count} before adding, and the "
            "quotients are so small that the format loses their digits.", SUMS),
    Mistake("hides-the-overflow", replaces_the_overflow, HIDDEN, SUMS),
    Mistake("hides-the-overflow", cuts_off_the_overflow, HIDDEN, SUMS),
    Mistake("mean-over-one-dimension", over_the_last_dimension, DIMENSION, SUMS),
    Mistake("mean-over-one-dimension", over_the_first_dimension, DIMENSION, SUMS),
    Mistake("counts-in-half", counts_in_half, CAME_OUT + "the number of elements, {count}, was put into a format that "
            "ends at {limit}.", SUMS),
    Mistake("divides-by-rows", divides_by_rows, ROWS, SUMS),
    Mistake("divides-by-rows", divides_by_the_first_size, ROWS, SUMS),
    Mistake("median-not-mean", lambda x: x.median(), "In the case \"{case}\" the result is {got} where {want} is "
            "wanted: that is the median.", SUMS),
    Mistake("returns-python-number", lambda x: right(x).item(), "What came back is not a tensor. One that holds "
            "{want}, without dimensions, is wanted.", SUMS),
    Mistake("made-on-cpu", lambda x: torch.tensor(right(x).item(), dtype=x.dtype), LEFT, SUMS),
    Mistake("made-on-cpu", on_the_cpu(right), LEFT, SUMS),
    Mistake("changes-its-input", writing_into(0, right), CHANGED, SUMS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(500, 900)
    near = {"rtol": 2e-3, "atol": 1e-7}
    return [
        case("many, large", **near, x=draw.uniform(2e4, 6.5e4, n, dtype=torch.float16)),
        case("many, tiny", **near, x=draw.uniform(1e-5, 2e-5, 9 * n, dtype=torch.float16)),
        case("negative, large", **near, x=-draw.uniform(2e4, 6e4, 7, 9, dtype=torch.float16)),
        case("transposed", **near, x=draw.uniform(1e3, 6e4, 8, 30, dtype=torch.float16).t()),
        case("without dimensions", **near, x=draw.uniform(1, 2, dtype=torch.float16)),
        case("many, bfloat16", rtol=1e-2, atol=1e-6, x=draw.uniform(100, 200, 3 * n, dtype=torch.bfloat16)),
    ]


# Right answers unlike the reference


def mean_in_float32(x: Tensor) -> Tensor:
    return x.float().mean().to(x.dtype)


def mean_told_its_dtype(x: Tensor) -> Tensor:
    return x.mean(dtype=torch.float32).type_as(x)


def mean_by_sum(x: Tensor) -> Tensor:
    return (torch.sum(x, dtype=torch.float32) / x.numel()).to(x)


def mean_scaled_down(x: Tensor) -> Tensor:
    largest = x.abs().max().float()
    return ((x.float() / largest).mean() * largest).to(x.dtype)


def mean_as_it_comes(x: Tensor) -> Tensor:
    """torch's own: it adds up in float32 inside."""
    return x.mean()


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    mean_in_float32,
    mean_told_its_dtype,
    mean_by_sum,
    mean_scaled_down,
    mean_as_it_comes,
]
