"""The exercise `hessian_vector_product`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.autograd.shared import DTYPE, Function
from autograde.hidden.common import ERRORS, LEFT, MIXED, with_a_cpu_tensor
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.functions import coefficients

WHY = (
    "The first gradient is kept with its graph, and the gradient of its product with `v` is the Hessian times "
    "`v`: the cost of two passes, for any size. A linear `f` has a slope without a graph, and a Hessian of "
    "zeros."
)
"""Why the reference is written as it is."""
REQUIRED = ("first-order-only", "builds-hessian")
"""The mistakes that a check must always be able to name."""

TWICE = "Derivatives of derivatives"


def slope(f: Function, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return a leaf of the values of `x`, and the gradient of `f` there, with its graph."""
    leaf = x.detach().clone().requires_grad_()
    return leaf, torch.autograd.grad(f(leaf), leaf, create_graph=True)[0]


def hvp(f: Function, x: Tensor, v: Tensor) -> Tensor:
    leaf, g = slope(f, x)
    return torch.autograd.grad(g, leaf, v)[0]


def hessian_flattened(f: Function, x: Tensor, v: Tensor) -> Any:
    whole: Any = torch.autograd.functional.hessian(f, x)  # type: ignore[no-untyped-call]
    return (whole.reshape(x.numel(), x.numel()) @ v.flatten()).reshape(x.shape)


def hessian_at_v(f: Function, x: Tensor, v: Tensor) -> Any:
    return torch.autograd.functional.hessian(f, x) @ v  # type: ignore[no-untyped-call]


def rows(f: Function, x: Tensor) -> Tensor:
    leaf, g = slope(f, x)
    return torch.stack([torch.autograd.grad(e, leaf, retain_graph=True)[0].flatten() for e in g.flatten()])


def dot_of_vectors(f: Function, x: Tensor, v: Tensor) -> Tensor:
    leaf, g = slope(f, x)
    return torch.autograd.grad(g @ v, leaf)[0]


def row_sums(f: Function, x: Tensor) -> Tensor:
    leaf, g = slope(f, x)
    return torch.autograd.grad(g.sum(), leaf)[0]


def differences(f: Function, x: Tensor, v: Tensor) -> Tensor:
    return (slope(f, x + 1e-3 * v)[1] - slope(f, x - 1e-3 * v)[1]).detach() / 2e-3


def rows_in_lists(f: Function, x: Tensor, v: Tensor) -> Tensor:
    leaf, g = slope(f, x)
    listed = [torch.autograd.grad(e, leaf, retain_graph=True)[0].flatten().tolist() for e in g.flatten()]
    other = v.flatten().tolist()
    sums = [sum(a * b for a, b in zip(row, other, strict=True)) for row in listed]
    return torch.tensor(sums, dtype=x.dtype, device=x.device).reshape(x.shape)


def hessian_of_few(f: Function, x: Tensor, v: Tensor) -> Any:
    return hessian_flattened(f, x, v) if x.numel() <= 64 else hvp_functional(f, x, v)


def hessian_of_fewer(f: Function, x: Tensor, v: Tensor) -> Any:
    return hessian_flattened(f, x, v) if x.numel() < 24 else hvp_functional(f, x, v)


FIRST = (
    'In the case "{case}" the result is {got} where {want} is wanted: that is made of first derivatives only, and H '
    "holds the second ones; differentiate the gradient once more."
)
BUILDS = (
    "The memory of the call is {got}, and should only grow like x: somewhere all of H was held. For a million weights "
    "it would have 10^12 entries."
)
MISTAKES = [
    Mistake("first-order-only", lambda f, x, v: (slope(f, x)[1] * v).detach(), FIRST, TWICE),
    Mistake("first-order-only", lambda f, x, _v: slope(f, x)[1].detach(), FIRST, TWICE),
    Mistake("first-order-only", lambda f, x, v: (slope(f, x)[1] * v).sum().detach(), "The result has shape {got_shape} "
            "where {want_shape} is wanted: g·v is a single number, the slope along v, and still has to be "
            "differentiated.", TWICE),
    Mistake("builds-hessian", hessian_flattened, BUILDS, TWICE),
    Mistake("builds-hessian", hessian_at_v, BUILDS, TWICE),
    Mistake("builds-hessian", rows_in_lists, "The memory of the call is {got}, and should only grow like x: all rows "
            "of H were held at once, though not as tensors.", TWICE),
    Mistake("builds-hessian", hessian_of_fewer, "The memory of the call is {got}, and should only grow like x: all of "
            "H was held where x is short, but the product of H and v needs no H at any length.", TWICE),
    Mistake("builds-hessian", hessian_of_few, "The memory of the call is {got}, and should only grow like x: all of H "
            "was held where x is short, but the product of H and v needs no H at any length.", TWICE),
    Mistake("linear-function-raises", hvp, "In the case \"{case}\" the call raised {error}: the slope of a linear f "
            "is the same for every x, so it has no graph to differentiate; H is all zeros.", TWICE),
    Mistake("only-for-vectors", dot_of_vectors, "In the case \"{case}\" {what} raised {error}: `g @ v` is g·v only "
            "where both have one dimension; `(g * v).sum()` is right for any shape.", TWICE),
    Mistake("row-sums-not-product", lambda f, x, v: row_sums(f, x) * v, "In the case \"{case}\" the result is {got} "
            "where {want} is wanted: the gradient of the summed gradient holds the row sums of H, and multiplying "
            "these by v entry by entry is right only where H is diagonal.", TWICE),
    Mistake("v-not-used", lambda f, x, _v: row_sums(f, x), "In the case \"{case}\" the result is {got} where {want} is "
            "wanted: these are the row sums of H, as if v were all ones.", TWICE),
    Mistake("multiplies-by-the-gradient", lambda f, x, _v: hvp(f, x, slope(f, x)[1].detach()), "In the case \"{case}\" "
            "the result is {got} where {want} is wanted: that is H times the gradient, where H times v is wanted.",
            TWICE),
    Mistake("diagonal-only", lambda f, x, v: rows(f, x).diagonal().reshape(x.shape) * v, "In the case \"{case}\" the "
            "result is {got_at} at {at} where {want_at} is wanted: only the diagonal of H was multiplied by v, as if "
            "no entry depended on another.", TWICE),
    Mistake("differences-of-gradients", differences, "In the case \"{case}\" the result is {got} and should be {want}: "
            "a difference of two gradients only comes close to Hv, and rounding takes its last digits.", TWICE),
    Mistake("made-on-cpu", with_a_cpu_tensor(hvp), MIXED, ERRORS),
    Mistake("made-on-cpu", lambda f, x, v: hvp(f, x.cpu(), v.cpu()), LEFT, ERRORS),
    Mistake("dtype-not-kept", lambda f, x, v: hvp(f, x.float(), v.float()), DTYPE, TWICE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    wide = torch.float64
    return [
        case("three dimensions", measured=False, form="neighbours", c=coefficients(draw),
             x=draw.normal(2, n, 2), v=draw.normal(2, n, 2)),
        case("v is zero", measured=False, form="neighbours", c=coefficients(draw), x=draw.normal(n), v=torch.zeros(n)),
        case("transposed, float64", rtol=1e-7, atol=1e-9, measured=False, form="neighbours", c=coefficients(draw),
             x=draw.normal(n, 3, dtype=wide).t(), v=draw.normal(n, 3, dtype=wide).t()),
        case("one entry", measured=False, form="wave", c=coefficients(draw), x=draw.normal(1), v=draw.normal(1)),
    ]  # fmt: skip


# Right answers unlike the reference


def hvp_of_a_product(f: Function, x: Tensor, v: Tensor) -> Tensor:
    leaf = x.clone().detach().requires_grad_(True)
    g = torch.autograd.grad(f(leaf), leaf, create_graph=True)[0]
    if g.grad_fn is None:
        return 0 * v
    (g * v).sum().backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    return leaf.grad


def hvp_forward_over_reverse(f: Function, x: Tensor, v: Tensor) -> Any:
    return torch.func.jvp(torch.func.grad(f), (x,), (v,))[1]


def hvp_reverse_over_reverse(f: Function, x: Tensor, v: Tensor) -> Any:
    return torch.func.grad(lambda at: (torch.func.grad(f)(at) * v).sum())(x)


def hvp_by_vjp(f: Function, x: Tensor, v: Tensor) -> Any:
    pull = torch.func.vjp(torch.func.grad(f), x)[1]
    return pull(v)[0]


def hvp_functional(f: Function, x: Tensor, v: Tensor) -> Any:
    return torch.autograd.functional.vhp(f, x, v)[1]  # type: ignore[no-untyped-call]


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    hvp_of_a_product,
    hvp_forward_over_reverse,
    hvp_reverse_over_reverse,
    hvp_by_vjp,
    hvp_functional,
]
