"""The exercise `gradient`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.autograd.shared import DTYPE, Function
from autograde.hidden.common import ERRORS, LEFT, MIXED, with_a_cpu_tensor
from autograde.source.mistakes import Mistake
from torchcourse.exercises.autograd.gradient import INSIDE, LEAF, PLAIN, USED
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.functions import coefficients

WHY = (
    "`detach` makes a leaf that shares memory with `x` but has a flag of its own, so `x` stays as it was. "
    "`torch.autograd.grad` returns the gradient and leaves no `.grad` behind, neither on `x` nor on parameters "
    "that `f` uses."
)
"""Why the reference is written as it is."""
REQUIRED = ("pollutes-grad", "changes-requires-grad", "attached-to-graph")
"""The mistakes that a check must always be able to name."""

ASK = "Asking for a gradient without side effects"


def gradient(f: Function, x: Tensor) -> Tensor:
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(f(leaf), leaf)[0]


def backward(f: Function, leaf: Tensor) -> Any:
    f(leaf).backward()  # type: ignore[no-untyped-call]
    return leaf.grad


def x_if_it_is_followed(x: Tensor) -> Tensor:
    return x if x.requires_grad else x.detach().clone().requires_grad_()


def backward_from_a_clone(f: Function, x: Tensor) -> Any:
    leaf = x.clone() if x.requires_grad else x.clone().requires_grad_()
    leaf.retain_grad()
    return backward(f, leaf)


def asked_of_x(f: Function, x: Tensor) -> Tensor:
    x.requires_grad_()
    return torch.autograd.grad(f(x), x)[0]


def flag_switched_off(f: Function, x: Tensor) -> Tensor:
    slope = asked_of_x(f, x)
    x.requires_grad_(False)
    return slope


def keeps_the_graph(f: Function, x: Tensor) -> Tensor:
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(f(leaf), leaf, create_graph=True)[0]


def cleared_afterwards(f: Function, x: Tensor) -> Any:
    leaf = x_if_it_is_followed(x)
    slope = backward(f, leaf)
    leaf.grad = None
    return slope


def cleared_afterwards_on_x(f: Function, x: Tensor) -> Any:
    slope = backward(f, x.requires_grad_())
    x.grad = None
    return slope


def cleared_first(f: Function, x: Tensor) -> Any:
    leaf = x_if_it_is_followed(x)
    leaf.grad = None
    return backward(f, leaf)


def cleared_around_it(f: Function, x: Tensor) -> Any:
    if not x.is_leaf:
        return gradient(f, x)
    was_followed, x.grad = x.requires_grad, None
    slope = backward(f, x.requires_grad_())
    x.grad = None
    x.requires_grad_(was_followed)
    return slope


POLLUTES = (
    'In the case "{case}", `x.grad` was {grad} afterwards, or what x was made from had a gradient: `backward()` adds '
    "to the `.grad` of every leaf that it reaches, and the caller will find it there."
)
FLAG = 'In the case "{case}", `x.requires_grad` is {requires} afterwards: the flag was changed on the caller\'s tensor.'
CLEARS = (
    'In the case "{case}", `x.grad` is {grad} afterwards: the call cleared it, and whatever the caller had gathered '
    "there is lost."
)
MISTAKES = [
    Mistake("pollutes-grad", lambda f, x: backward(f, x_if_it_is_followed(x)), POLLUTES, ASK),
    Mistake("pollutes-grad", lambda f, x: backward(f, x.requires_grad_()), POLLUTES, ASK),
    Mistake("pollutes-grad", backward_from_a_clone, POLLUTES, ASK),
    Mistake("pollutes-grad", lambda f, x: backward(f, x.clone().requires_grad_()), POLLUTES, ASK),
    Mistake("changes-requires-grad", asked_of_x, FLAG, ASK),
    Mistake("changes-requires-grad", flag_switched_off, FLAG, ASK),
    Mistake("attached-to-graph", keeps_the_graph, "The result's `requires_grad` is {attached}: with "
            "`create_graph=True` it has a history of its own, and keeps the whole graph alive.", ASK),
    Mistake("attached-to-graph", lambda f, x: torch.func.grad(f)(x), "In the case \"{case}\" the result's "
            "`requires_grad` is {attached}: autograd follows x itself there, and so everything that is made from it; "
            "detach x first.",
            ASK),
    Mistake("clears-old-gradient", cleared_afterwards, CLEARS, ASK),
    Mistake("clears-old-gradient", cleared_afterwards_on_x, CLEARS, ASK),
    Mistake("clears-old-gradient", cleared_around_it, CLEARS, ASK),
    Mistake("replaces-old-gradient", cleared_first, "In the case \"{case}\", `x.grad` is {grad} afterwards: the call "
            "left its own gradient there, in place of whatever the caller had gathered.", ASK),
    Mistake("returns-value", lambda f, x: f(x.detach()), "The result has the value {got} where {want} is wanted: that "
            "is f(x), not its gradient.", ASK),
    Mistake("made-on-cpu", with_a_cpu_tensor(gradient), MIXED, ERRORS),
    Mistake("made-on-cpu", lambda f, x: gradient(f, x.detach().cpu()), LEFT, ERRORS),
    Mistake("dtype-not-kept", lambda f, x: gradient(f, x.detach().float()), DTYPE, ASK),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    wide = torch.float64
    return [
        case("transposed", form="product of rows", c=coefficients(draw), values=draw.normal(n, 3).t(), role=LEAF,
             weights=draw.uniform(1, 2, n, 3).t()),
        case("a matrix inside a graph", form="wave", c=coefficients(draw), values=draw.normal(2, n, dtype=wide),
             role=INSIDE, weights=draw.uniform(1, 2, 2, n, dtype=wide)),
        case("a matrix with a gradient", form="mean of squares", c=coefficients(draw), values=draw.normal(n, 2),
             role=USED, weights=draw.uniform(1, 2, n, 2)),
        case("every second entry", form="neighbours", c=coefficients(draw), values=draw.normal(2 * n)[::2],
             role=PLAIN, weights=draw.uniform(1, 2, n)),
    ]  # fmt: skip


# Right answers unlike the reference


def gradient_by_func(f: Function, x: Tensor) -> Any:
    return torch.func.grad(f)(x.detach())


def gradient_by_backward(f: Function, x: Tensor) -> Any:
    own = x.detach().clone().requires_grad_()
    f(own).backward()  # type: ignore[no-untyped-call]
    return own.grad


def gradient_through_a_clone(f: Function, x: Tensor) -> Tensor:
    with torch.enable_grad():
        inner = x.clone() if x.requires_grad else x.clone().requires_grad_(True)
        return torch.autograd.grad(f(inner), inner)[0].detach()


def gradient_by_jacobian(f: Function, x: Tensor) -> Any:
    return torch.autograd.functional.jacobian(f, x.detach())  # type: ignore[no-untyped-call]


def gradient_of_a_parameter(f: Function, x: Tensor) -> Tensor:
    p = nn.Parameter(x.data.clone())
    f(p).sum().backward()  # type: ignore[no-untyped-call]
    assert p.grad is not None
    return p.grad.data


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    gradient_by_func,
    gradient_by_backward,
    gradient_through_a_clone,
    gradient_by_jacobian,
    gradient_of_a_parameter,
]
