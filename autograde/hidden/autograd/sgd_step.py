"""The exercise `sgd_step`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`no_grad`, because the step is no part of the function: with the graph on, writing to a leaf is an error. "
    "In place, so that whoever else holds the parameter sees the new values. `None` for a gradient says that "
    "there was none, where zero would not."
)
"""Why the reference is written as it is."""
REQUIRED = ("no-no-grad", "rebinds-parameter", "grads-not-cleared", "fails-on-none")
"""The mistakes that a check must always be able to name."""

OFF = "Switching the recording off"


def not_switched_off(params: list[Tensor], lr: float) -> None:
    for p in params:
        if p.grad is not None:
            p -= lr * p.grad
            p.grad = None


sgd_step = torch.no_grad()(not_switched_off)


@torch.no_grad()
def rebinds_parameter(params: list[Tensor], lr: float) -> None:
    for p in params:
        if p.grad is not None:
            p = p - lr * p.grad
            p.grad = None


@torch.no_grad()
def drops_the_new_one(params: list[Tensor], lr: float) -> None:
    for p in params:
        if p.grad is not None:
            p.sub(lr * p.grad)
            p.grad = None


@torch.no_grad()
def rebinds_in_the_list(params: list[Tensor], lr: float) -> None:
    for i, p in enumerate(params):
        if p.grad is not None:
            params[i] = (p - lr * p.grad).requires_grad_()
            params[i].grad = None


@torch.no_grad()
def not_cleared(params: list[Tensor], lr: float) -> None:
    for p in params:
        if p.grad is not None:
            p -= lr * p.grad


@torch.no_grad()
def fails_on_none(params: list[Tensor], lr: float) -> None:
    for p in params:
        p -= lr * p.grad  # type: ignore[operator]
        p.grad = None


@torch.no_grad()
def stops_at_none(params: list[Tensor], lr: float) -> None:
    for p in params:
        if p.grad is None:
            return
        p -= lr * p.grad
        p.grad = None


@torch.no_grad()
def gives_a_gradient_of_zero(params: list[Tensor], lr: float) -> None:
    sgd_step([p for p in params if p.grad is not None], lr)
    for p in params:
        p.grad = torch.zeros_like(p) if p.grad is None else None


@torch.no_grad()
def replaces_data(params: list[Tensor], lr: float) -> None:
    for p in params:
        if p.grad is not None:
            p.data = p.data - lr * p.grad
            p.grad = None


def stops_requiring_grad(params: list[Tensor], lr: float) -> None:
    for p in params:
        if p.grad is not None:
            p.detach_()
            p -= lr * p.grad
            p.grad = None


REBINDS = (
    "Parameter {which} should go from {start} to {right}, but {place}: `p - ...` makes a new tensor, and whoever holds "
    "the old one, the model first of all, sees nothing of the step."
)
MISTAKES = [
    Mistake("no-no-grad", not_switched_off, "The call raised {error}: outside `torch.no_grad()` autograd wants to "
            "record the step, and a leaf that is overwritten has lost the value at which the gradient is wanted.",
            OFF),
    Mistake("rebinds-parameter", rebinds_parameter, REBINDS, OFF),
    Mistake("rebinds-parameter", drops_the_new_one, REBINDS, OFF),
    Mistake("rebinds-parameter", rebinds_in_the_list, REBINDS, OFF),
    Mistake("grads-not-cleared", not_cleared, "After the step a gradient still holds {left}: the next backward adds to "
            "it, and the next step goes in the direction of both.", OFF),
    Mistake("fails-on-none", fails_on_none, "The call raised {error}: a parameter that took no part in the loss has "
            "`None` for a gradient, and is left alone.", OFF),
    Mistake("climbs", lambda params, lr: sgd_step(params, -lr), "Parameter {which} went from {start} to {now} where "
            "{right} is wanted, with a gradient of {slope}: the gradient points uphill, so it has to be subtracted.",
            OFF),
    Mistake("stops-at-none", stops_at_none, "In the case \"{case}\" parameter {which} is still {now} where {right} is "
            "wanted: the loop ended at the first parameter without a gradient, but others come after it.", OFF),
    Mistake("gives-a-gradient-of-zero", gives_a_gradient_of_zero, "In the case \"{case}\" the gradients afterwards are "
            "{got} where {want} is wanted: a parameter that had none was given one.", OFF),
    Mistake("replaces-data", replaces_data, "A view made before the step still sees the old values, {got}: assigning "
            "`.data` gives the parameter new memory, where the step should write into the old.", OFF),
    Mistake("stops-requiring-grad", stops_requiring_grad, "After the step `requires_grad` of parameter {which} is "
            "{requires}: it was taken out of training, by `detach_()` or by its flag, and not put back.", OFF),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    shapes: list[tuple[int, ...]] = [(n,), (2, n), (1,), (n, 1)]
    values, grads = [draw.normal(*s) for s in shapes], [draw.normal(*s) for s in shapes]
    return [
        case("the last has no gradient", values=values, grads=[*grads[:-1], None], lr=0.05),
        case("no parameters at all", values=[], grads=[], lr=0.1),
        case("a step of size 0", values=values, grads=grads, lr=0.0),
        case("a transposed parameter", values=[draw.normal(n, 3).t()], grads=[draw.normal(n, 3).t()], lr=0.5),
        case("gradients of zero", values=values, grads=[torch.zeros(s) for s in shapes], lr=0.5),
    ]


# Right answers unlike the reference


def sgd_with_sub(params: list[Tensor], lr: float) -> None:
    with torch.no_grad():
        for p in params:
            if p.grad is None:
                continue
            p.sub_(p.grad, alpha=lr)
            p.grad.zero_()


def sgd_through_data(params: list[Tensor], lr: float) -> None:
    for p in params:
        g = p.grad
        if g is not None:
            p.data.add_(g, alpha=-lr)
            p.grad = torch.zeros_like(g)


def sgd_by_copy(params: list[Tensor], lr: float) -> None:
    moved = [(p, p.detach() - lr * p.grad) for p in params if p.grad is not None]
    for p, new in moved:
        p.detach().copy_(new)
        p.grad = None


@torch.no_grad()
def sgd_decorated(params: list[Tensor], lr: float) -> list[Tensor]:
    for i in range(len(params)):
        if params[i].grad is not None:
            params[i] -= lr * params[i].grad  # type: ignore[operator]
            params[i].grad = None
    return params


def sgd_by_optimizer(params: list[Tensor], lr: float) -> None:
    if params:
        optimizer = torch.optim.SGD(params, lr=lr)
        optimizer.step()
        optimizer.zero_grad()


RIGHT_ANSWERS: list[Callable[..., Any]] = [sgd_with_sub, sgd_through_data, sgd_by_copy, sgd_decorated, sgd_by_optimizer]
