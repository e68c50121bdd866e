"""The exercise `numerical_gradient`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograde.hidden.autograd.shared import Function
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.functions import FUNCTIONS, coefficients

WHY = (
    "The error of a central difference shrinks with eps squared, that of a one-sided one with eps. In "
    "float64, rounding then leaves some nine digits; in float32 a step of 1e-6 drowns in it. `zeros_like` "
    "puts each step where `x` is."
)
"""Why the reference is written as it is."""
REQUIRED = ("forward-difference", "modifies-input", "float32-precision")
"""The mistakes that a check must always be able to name."""

CHECKING = "Checking a gradient"


def walk(f: Function, x: Tensor, eps: float) -> Tensor:
    """Return the central differences, moving the entries of `x` itself and putting each back to the digit."""
    result = torch.zeros(x.shape, dtype=x.dtype)
    for index in itertools.product(*map(range, x.shape)):
        old = x[index].item()
        x[index] = old + eps
        up = f(x).item()
        x[index] -= 2 * eps
        result[index] = (up - f(x).item()) / (2 * eps)
        x[index] = old
    return result


def numerical_gradient(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    return walk(f, x.double().clone(), eps)


def one_sided(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    x = x.double().clone()
    here, result = f(x).item(), torch.zeros(x.shape, dtype=torch.float64)
    for index in itertools.product(*map(range, x.shape)):
        old = x[index].item()
        x[index] += eps
        result[index] = (f(x).item() - here) / eps
        x[index] = old
    return result


def put_back_by_adding(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    x, result = x.double(), torch.zeros(x.shape, dtype=torch.float64)
    for index in itertools.product(*map(range, x.shape)):
        x[index] += eps
        up = f(x).item()
        x[index] -= 2 * eps
        result[index] = (up - f(x).item()) / (2 * eps)
        x[index] += eps
    return result


def not_put_back(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    x, result = x.double(), torch.zeros(x.shape, dtype=torch.float64)
    for index in itertools.product(*map(range, x.shape)):
        x[index] += eps
        up = f(x).item()
        x[index] -= 2 * eps
        result[index] = (up - f(x).item()) / (2 * eps)
    return result


def all_at_once(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    return (f(x.double() + eps) - f(x.double() - eps)) / (2 * eps)


def moving_a_copy(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    x = x.double().clone()
    flat, result = x.reshape(-1), torch.zeros(x.numel(), dtype=torch.float64)
    for i, old in enumerate(flat.tolist()):
        flat[i] = old + eps
        up = f(x).item()
        flat[i] = old - eps
        result[i] = (up - f(x).item()) / (2 * eps)
        flat[i] = old
    return result.reshape(x.shape)


def value_read_late(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    x = x.double().clone()
    result = torch.zeros(x.shape, dtype=torch.float64)
    for index in itertools.product(*map(range, x.shape)):
        old = x[index].item()
        x[index] = old + eps
        up = f(x)
        x[index] = old - eps
        result[index] = (up - f(x)) / (2 * eps)
        x[index] = old
    return result


def two_copies(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    """Return differences between points in the dtype of x, where a float32 is rounded."""
    result = torch.zeros(x.shape, dtype=torch.float64)
    for index in itertools.product(*map(range, x.shape)):
        up, down = x.clone(), x.clone()
        up[index] += eps
        down[index] -= eps
        result[index] = (f(up) - f(down)) / (2 * eps)
    return result


def in_numpy(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    return numerical_gradient(f, torch.from_numpy(x.detach().numpy().astype(np.float64)), eps)


def by_autograd(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    leaf = x.double().clone().requires_grad_()
    return torch.autograd.grad(f(leaf), leaf)[0]


def by_autograd_where_it_can(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    try:
        return by_autograd(f, x)
    except RuntimeError:
        return numerical_gradient(f, x, eps)


FORWARD = (
    "The gradient is off by up to {off}, where 1e-7 is allowed: a step to one side only is wrong by eps/2 times the "
    "curvature; with a step to each side these errors cancel."
)
MODIFIES = (
    "After the call the entries of x have {x_now}: they were moved in the caller's own tensor, which has to end as it "
    "was, to the last digit."
)
NARROW = (
    "The gradient is off by up to {off}: a float32 near 1 moves in steps of about 1e-7, so rounding spoils a step of "
    "1e-6. Differences need float64."
)
MISTAKES = [
    Mistake("forward-difference", one_sided, FORWARD, CHECKING),
    Mistake("forward-difference", lambda f, x, eps=1e-6: one_sided(f, x, -eps), FORWARD, CHECKING),
    Mistake("modifies-input", not_put_back, MODIFIES, CHECKING),
    Mistake("modifies-input", put_back_by_adding, MODIFIES, CHECKING),
    Mistake("float32-precision", lambda f, x, eps=1e-6: walk(f, x.clone(), eps), NARROW, CHECKING),
    Mistake("float32-precision", lambda f, x, eps=1e-6: walk(f, x.float().clone(), eps).double(), NARROW, CHECKING),
    Mistake("float32-precision", two_copies, NARROW, CHECKING),
    Mistake("float32-precision", lambda f, x, eps=1e-6: two_copies(lambda p: f(p).item(), x, eps), NARROW, CHECKING),
    Mistake("float32-precision", lambda f, x, eps=1e-6: two_copies(lambda p: f(p.double()), x, eps), NARROW, CHECKING),
    Mistake("ignores-eps", lambda f, x, eps=1e-6: numerical_gradient(f, x), "In the case \"{case}\" f was called at "
            "{asked}: the caller chooses the step, but `eps` was not used.", CHECKING),
    Mistake("divides-by-eps", lambda f, x, eps=1e-6: 2 * numerical_gradient(f, x, eps), "The gradient is off by up to "
            "{off}: the two points are 2·eps apart, but the difference was divided by eps.", CHECKING),
    Mistake("returns-float32", lambda f, x, eps=1e-6: numerical_gradient(f, x, eps).float(), "The result is "
            "{got_dtype} where {want_dtype} is wanted.", CHECKING),
    Mistake("flattened", lambda f, x, eps=1e-6: numerical_gradient(f, x, eps).flatten(), "The result has shape "
            "{got_shape} where {want_shape} is wanted: the gradient has the shape of x.", CHECKING),
    Mistake("moves-all-entries-at-once", all_at_once, "The result is {got} where {want} is wanted: all entries were "
            "moved together, so the result is the sum of the slopes.", CHECKING),
    Mistake("moves-a-copy", moving_a_copy, "In the case \"{case}\" the slope at {at} is {got_at} where {want_at} is "
            "wanted: for such strides `reshape`, `flatten` or `contiguous` makes a copy, and what is written into that "
            "does not reach the tensor it was made of.", CHECKING),
    Mistake("value-read-late", value_read_late, "In the case \"{case}\" the slope at {at} is {got_at} where {want_at} "
            "is wanted: f may return a view of its input, and such a view changes when the entry is moved again. "
            "Take the number out first.", CHECKING),
    Mistake("through-numpy", in_numpy, "In the case \"{case}\" the call raised {error}: NumPy has no bfloat16, and x "
            "may be of any dtype; torch makes a float64 tensor of it without NumPy.", CHECKING),
    Mistake("uses-autograd", by_autograd, "In the case \"{case}\" the call raised {error}: differences need nothing "
            "but the values of f, and autograd needs a graph.", CHECKING),
    Mistake("uses-autograd", by_autograd_where_it_can, "In the case \"{case}\" the result is {got} where {want} is "
            "wanted: that is what autograd says where f detaches a factor, but differences see how f really moves.",
            CHECKING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 5)
    wide = torch.float64

    def drawn(name: str, form: str, x: Tensor, eps: float | None = None) -> Case:
        c = coefficients(draw)
        atol = 1e-7 * max(1.0, abs(FUNCTIONS[form](x.double(), c).item()))
        return case(name, rtol=0.0, atol=atol, form=form, c=c, x=x, eps=eps)

    return [
        drawn("three dimensions", "wave", draw.uniform(-1, 1, 2, n, 2, dtype=wide)),
        drawn("every second entry", "neighbours", draw.normal(2 * n, dtype=wide)[::2]),
        drawn("one entry", "polynomial", draw.uniform(0.5, 1, 1, dtype=wide)),
        drawn("larger values", "polynomial", draw.uniform(3, 5, n, dtype=wide)),
        drawn("a smaller step", "neighbours", draw.normal(n, dtype=wide), 3e-7),
    ]


# Right answers unlike the reference


def numerical_flat(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    flat = x.detach().double().reshape(-1).clone()
    slopes = []
    for i in range(flat.numel()):
        old = flat[i].item()
        flat[i] = old + eps
        up = float(f(flat.view(x.shape)))
        flat[i] = old - eps
        down = float(f(flat.view(x.shape)))
        flat[i] = old
        slopes.append((up - down) / (2 * eps))
    return torch.tensor(slopes, dtype=torch.float64).reshape(x.shape)


def numerical_with_an_identity(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    start = x.to(torch.float64)
    steps = (eps * torch.eye(x.numel(), dtype=torch.float64)).view(-1, *x.shape)
    found = [(f(start + s) - f(start - s)) / (2 * eps) for s in steps]
    return torch.stack(found).view(x.shape)


def numerical_by_numpy(f: Function, x: Tensor, eps: float = 1e-6) -> Tensor:
    values = np.array(x.detach().tolist(), dtype=np.float64)
    result = np.zeros_like(values)
    for index in np.ndindex(values.shape):
        ends = []
        for sign in (1, -1):
            moved = values.copy()
            moved[index] += sign * eps
            ends.append(f(torch.from_numpy(moved)).item())
        result[index] = (ends[0] - ends[1]) / (2 * eps)
    return torch.tensor(result, dtype=torch.float64)


RIGHT_ANSWERS: list[Callable[..., Any]] = [numerical_flat, numerical_with_an_identity, numerical_by_numpy]
