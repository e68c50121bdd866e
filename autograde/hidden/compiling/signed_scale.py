"""The exercise `signed_scale`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import MIXED, anywhere, writing_into
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A Python `if` on a tensor needs its value, so Dynamo has to break the graph there, and on a GPU the host waits. "
    "`where` computes both sides and chooses on the device. The price is the other side's work."
)
"""Why the reference is written as it is."""
REQUIRED = ("python-branch", "elementwise-sign")
"""The mistakes that a check must always be able to name."""


def right(x: Tensor) -> Tensor:
    return torch.where(x.sum() > 0, x * 2, x - 1)


def branches(x: Tensor) -> Tensor:
    return x * 2 if x.sum() > 0 else x - 1


def branches_on_item(x: Tensor) -> Tensor:
    return x * 2 if x.sum().item() > 0 else x - 1


def prints_the_sum(x: Tensor) -> Tensor:
    print(x.shape, file=io.StringIO())
    return right(x)


def judges_each_element(x: Tensor) -> Tensor:
    return torch.where(x > 0, x * 2, x - 1)


def writes_each_element(x: Tensor) -> Tensor:
    result = x.clone()
    result[x > 0] *= 2
    result[x <= 0] -= 1
    return result


def sums_each_row(x: Tensor) -> Tensor:
    return torch.where(x.sum(-1, keepdim=True) > 0, x * 2, x - 1)


def sums_each_column(x: Tensor) -> Tensor:
    return torch.where(x.sum(0) > 0, x * 2, x - 1)


def takes_zero_for_positive(x: Tensor) -> Tensor:
    return torch.where(x.sum() >= 0, x * 2, x - 1)


def asks_for_any_positive(x: Tensor) -> Tensor:
    return torch.where((x > 0).any(), x * 2, x - 1)


def takes_the_sum_for_truth(x: Tensor) -> Tensor:
    return torch.where(x.sum().bool(), x * 2, x - 1)


def multiplies_by_truth(x: Tensor) -> Tensor:
    positive = x.sum() > 0
    return positive * (x * 2) + ~positive * (x - 1)


def swaps_branches(x: Tensor) -> Tensor:
    return torch.where(x.sum() > 0, x - 1, x * 2)


MENDING = "Mending a break"
CHANGED = (
    'In the case "{case}" the caller\'s own tensor was {got} by the call, and should be {want}: something was written '
    "into it."
)
BRANCH = (
    "It does not fit in one graph: {why}. Python asks for the value of a tensor, as an `if` does, and there the graph "
    "has to end; the choice has to be made by an operation."
)
PRINTS = (
    "It does not fit in one graph: {why}. Something in it is for Python alone, as a `print` is, and there the graph "
    "has to end."
)
SUM = 'In the case "{case}" the sum is {total}, and {what} came out as {got} where {want} is wanted: '
ELEMENTS = SUM + "each element was judged by its own sign, but a single sum decides for all of them."
MISTAKES = [
    Mistake("python-branch", branches, BRANCH, MENDING),
    Mistake("python-branch", branches_on_item, BRANCH, MENDING),
    Mistake("prints", prints_the_sum, PRINTS, MENDING),
    Mistake("elementwise-sign", judges_each_element, ELEMENTS, MENDING),
    Mistake("elementwise-sign", writes_each_element, ELEMENTS, MENDING),
    Mistake("sum-per-row", sums_each_row, SUM + "each row was judged by a sum of its own, but a single sum decides for "
            "the whole tensor.", MENDING),
    Mistake("sum-per-column", sums_each_column, SUM + "each column was judged by a sum of its own, but a single sum "
            "decides for the whole tensor.", MENDING),
    Mistake("zero-counts-as-positive", takes_zero_for_positive, SUM + "a sum of zero is not positive.", MENDING),
    Mistake("any-positive-element", asks_for_any_positive, SUM + "either it was asked whether some element is "
            "positive, or signs were lost before the sum; what counts is the sign of the plain sum.", MENDING),
    Mistake("truth-of-the-sum", takes_the_sum_for_truth, SUM + "as a condition, a sum is true wherever it is not zero, "
            "even where it is negative.", MENDING),
    Mistake("chooses-by-multiplying", multiplies_by_truth, SUM + "the result that is not wanted was multiplied by 0, "
            "and infinity times 0 is not a number. `torch.where` chooses without multiplying.", MENDING),
    Mistake("branches-swapped", swaps_branches, SUM + "the two results were swapped.", MENDING),
    Mistake("changes-its-input", writing_into(0, right), CHANGED, MENDING),
    Mistake("made-on-cpu", anywhere(right)[0].program, MIXED, MENDING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        case("drawn", x=draw.normal(draw.size(1, 4), draw.size(1, 4), 2), captured=True),
        case("an empty tensor", x=torch.zeros(0, 3), captured=False),
        case("a transposed table", x=draw.normal(3, 5).t(), captured=False),
        case("one number", x=draw.normal(), captured=False),
        case("bfloat16", rtol=1e-2, x=torch.tensor([1.5, -3.0, 0.25], dtype=torch.bfloat16), captured=False),
    ]


# Right answers unlike the reference


def signed_by_cond(x: Tensor) -> Tensor:
    result: Tensor = torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))
    return result


def signed_by_arithmetic(x: Tensor) -> Tensor:
    positive = (torch.sum(x) > 0).to(x.dtype)
    return x * (1 + positive) - (1 - positive)


def signed_by_masking(x: Tensor) -> Tensor:
    return (x - 1).masked_fill(x.sum() > 0, 0) + (x * 2).masked_fill(~(x.sum() > 0), 0)


RIGHT_ANSWERS: list[Callable[..., Any]] = [signed_by_cond, signed_by_arithmetic, signed_by_masking]
