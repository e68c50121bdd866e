"""The exercise `derivative`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

from autograde.hidden.autograd.shared import Function
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.functions import coefficients

WHY = (
    "A leaf of its own makes the derivative land in its `.grad` and nowhere else. float64 from the start: a "
    "value that was rounded to float32 once does not get its digits back."
)
"""Why the reference is written as it is."""
REQUIRED = ("returns-value", "returns-tensor", "float32-precision")
"""The mistakes that a check must always be able to name."""

LEAVES = "Leaves, and the graph behind a result"


def value(f: Function, x: float) -> float:
    return f(torch.tensor(x, dtype=torch.float64)).item()


def slope(f: Function, x: float, dtype: torch.dtype = torch.float64) -> Tensor:
    leaf = torch.tensor(x, dtype=dtype, requires_grad=True)
    return torch.autograd.grad(f(leaf), leaf)[0]


def what_backward_returns(f: Function, x: float) -> Any:
    return f(torch.tensor(x, dtype=torch.float64, requires_grad=True)).backward()  # type: ignore[no-untyped-call]


def value_as_a_tensor(f: Function, x: float) -> Tensor:
    return f(torch.tensor(x, dtype=torch.float64, requires_grad=True))


def at_a_vector_of_one(f: Function, x: float) -> float:
    leaf = torch.tensor([x], dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(f(leaf).sum(), leaf)[0].item()


def central_difference(f: Function, x: float) -> float:
    return (value(f, x + 1e-6) - value(f, x - 1e-6)) / 2e-6


def forward_difference(f: Function, x: float) -> float:
    return (value(f, x + 1e-6) - value(f, x)) / 1e-6


def extrapolated_difference(f: Function, x: float) -> float:
    """Richardson's extrapolation: each column cancels one more term of the error."""
    steps = [0.05 * max(1.0, abs(x)) * 0.5**i for i in range(6)]
    column = [(value(f, x + h) - value(f, x - h)) / (2 * h) for h in steps]
    for order in range(1, len(steps)):
        column = [b + (b - a) / (4.0**order - 1) for a, b in pairwise(column)]
    return column[0]


VALUE = (
    "The result is {got} where {want} is wanted: {value} is the value f(x), and the derivative is its slope, which "
    "`backward()` leaves in the `.grad` of the input."
)
NUMBER = "What came back is {kind}, where a Python float is wanted: `item()` turns the one into the other."
DIFFERENCE = (
    "The result is {digits} where {want_digits} is wanted: a difference of two values has few right digits, and "
    "autograd has nearly all of them."
)
MISTAKES = [
    Mistake("returns-value", value, VALUE, LEAVES),
    Mistake("returns-value", value_as_a_tensor, VALUE, LEAVES),
    Mistake("returns-tensor", slope, NUMBER, LEAVES),
    Mistake("returns-tensor", lambda f, x: slope(f, x, torch.float32), NUMBER, LEAVES),
    Mistake("returns-nothing", what_backward_returns, "The result is {got} where {want} is wanted: `backward()` itself "
            "returns nothing, it writes into the `.grad` of the leaves.", LEAVES),
    Mistake("returns-value-and-slope", lambda f, x: (value(f, x), slope(f, x).item()), "The result is {got}, where "
            "{want} alone is wanted.", LEAVES),
    Mistake("vector-of-one", at_a_vector_of_one, "In the case \"{case}\" the call raised {error}: f wants a scalar "
            "tensor, but `torch.tensor([x])` has an axis, even if only of one entry.", LEAVES),
    Mistake("float32-precision", lambda f, x: slope(f, x, torch.float32).item(), "The result {digits} has only the "
            "digits of a float32, where {want_digits} is wanted: a tensor made of a Python float is float32 unless its "
            "dtype is given.", LEAVES),
    Mistake("float32-precision", lambda f, x: slope(f, torch.tensor(x).item()).item(), "The result {digits} has only "
            "the digits of a float32, where {want_digits} is wanted: x was rounded to float32 before it became a "
            "float64.",
            LEAVES),
    Mistake("differences-instead-of-autograd", central_difference, DIFFERENCE, LEAVES),
    Mistake("differences-instead-of-autograd", forward_difference, DIFFERENCE, LEAVES),
    Mistake("differences-instead-of-autograd", extrapolated_difference, "In the case \"{case}\" the result is {got} "
            "where {want} is wanted: a factor from `detach()` counts as fixed for autograd, and differences of two "
            "values do not know that.", LEAVES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    wide: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-13}
    return [
        case("at zero", **wide, form="wave", c=coefficients(draw), x=0.0),
        case("a product with itself", **wide, form="mean of squares", c=coefficients(draw), x=-1.25),
        case("far from zero", **wide, form="polynomial", c=coefficients(draw), x=1234.5),
    ]


# Right answers unlike the reference


def derivative_by_grad(f: Function, x: float) -> float:
    t = torch.tensor([x], dtype=torch.float64).squeeze().requires_grad_(True)
    return float(torch.autograd.grad(f(t), t)[0])


def derivative_by_func(f: Function, x: float) -> float:
    return torch.func.grad(f)(torch.tensor(x, dtype=torch.double)).tolist()  # type: ignore[no-any-return]


def derivative_forward(f: Function, x: float) -> Any:
    at, ahead = torch.tensor(x).double() * 0 + x, torch.ones((), dtype=torch.float64)
    with dual_level():
        return unpack_dual(f(make_dual(at, ahead))).tangent.item()  # type: ignore[no-untyped-call]


def derivative_by_jacobian(f: Function, x: float) -> Any:
    return np.float64(torch.autograd.functional.jacobian(f, torch.tensor(x, dtype=torch.float64)).numpy())  # type: ignore[no-untyped-call]


def derivative_with_a_default(f: Function, x: float) -> float:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        p = nn.Parameter(torch.tensor(x))
        f(p).backward()  # type: ignore[no-untyped-call]
        assert p.grad is not None
        return p.grad.item()
    finally:
        torch.set_default_dtype(before)


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    derivative_by_grad,
    derivative_by_func,
    derivative_forward,
    derivative_by_jacobian,
    derivative_with_a_default,
]
