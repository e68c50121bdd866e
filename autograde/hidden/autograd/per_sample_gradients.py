"""The exercise `per_sample_gradients`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.autograd.shared import DTYPE
from autograde.hidden.common import ERRORS, LEFT, MIXED, with_a_cpu_tensor
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`grad` turns the loss into the function that gives its gradient with respect to `w`; `vmap` runs that over "
    "samples at once, with the same `w` for all. A loop over samples gives the same numbers with n passes."
)
"""Why the reference is written as it is."""
REQUIRED = ("mean-gradient", "python-loop")
"""The mistakes that a check must always be able to name."""

FUNC = "torch.func: gradients as functions"
ADD = "Gradients accumulate"
Loss = Callable[..., Tensor]


def samples(loss_fn: Loss, w: Tensor, xs: Tensor, ys: Tensor) -> Any:
    return torch.func.vmap(torch.func.grad(loss_fn), in_dims=(None, 0, 0))(w, xs, ys)


def losses(loss_fn: Loss, w: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    each: Tensor = torch.func.vmap(loss_fn, in_dims=(None, 0, 0))(w, xs, ys)
    return each


def of_the_mean(loss_fn: Loss, w: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    leaf = w.detach().clone().requires_grad_()
    return torch.autograd.grad(losses(loss_fn, leaf, xs, ys).mean(), leaf)[0]


def of_the_sum(loss_fn: Loss, w: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    leaf = w.detach().clone().requires_grad_()
    return torch.autograd.grad(losses(loss_fn, leaf, xs, ys).sum(), leaf)[0]


def loop(loss_fn: Loss, w: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    leaf = w.detach().clone().requires_grad_()
    return torch.stack([torch.autograd.grad(loss_fn(leaf, x, y), leaf)[0] for x, y in zip(xs, ys, strict=True)])


def adding_up(loss_fn: Loss, w: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    leaf, found = w.detach().clone().requires_grad_(), []
    for x, y in zip(xs, ys, strict=True):
        loss_fn(leaf, x, y).backward()  # type: ignore[no-untyped-call]
        assert leaf.grad is not None
        found.append(leaf.grad.clone())
    return torch.stack(found)


def mean_over_copies(loss_fn: Loss, w: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    copies = w.detach().expand(len(xs), *w.shape).clone().requires_grad_()
    return torch.autograd.grad(torch.func.vmap(loss_fn)(copies, xs, ys).mean(), copies)[0]


def of_vectors(loss_fn: Loss, w: Tensor, xs: Tensor, ys: Tensor) -> Any:
    n, _features = xs.shape
    copies = w.detach().expand(n, *w.shape).clone().requires_grad_()
    return torch.autograd.grad(torch.func.vmap(loss_fn)(copies, xs, ys).sum(), copies)[0]


def by_x(loss_fn: Loss, w: Tensor, xs: Tensor, ys: Tensor) -> Any:
    return torch.func.vmap(torch.func.grad(loss_fn, argnums=1), in_dims=(None, 0, 0))(w, xs, ys)


MEAN = "The result has shape {got_shape} where {want_shape} is wanted: "
ROWS = 'In the case "{case}" the result is {got} where {want} is wanted: '
LOOP = (
    "The number of torch calls is {calls}: a loop over the samples runs at Python's pace, one backward after the "
    "other. `vmap` runs them all at once."
)
MISTAKES = [
    Mistake("mean-gradient", of_the_mean, MEAN + "one backward of the mean loss gives the mean of the {n} gradients, "
            "and what each sample contributed is lost.", FUNC),
    Mistake("mean-gradient", lambda f, w, xs, ys: of_the_mean(f, w, xs, ys).expand(len(xs), *w.shape),
            ROWS + "every row holds the mean of the {n} gradients.", FUNC),
    Mistake("sum-gradient", of_the_sum, MEAN + "one backward of the summed loss adds the {n} gradients up.", FUNC),
    Mistake("sum-gradient", lambda f, w, xs, ys: of_the_sum(f, w, xs, ys).expand(len(xs), *w.shape),
            ROWS + "every row holds the sum of the {n} gradients.", FUNC),
    Mistake("python-loop", loop, LOOP, FUNC),
    Mistake("gradients-add-up", adding_up, ROWS + "`.grad` was not cleared between the samples, so each row holds the "
            "sum of all rows up to it.", ADD),
    Mistake("divided-by-n", mean_over_copies, "The gradients are {ratio} times what they should be: a mean over the "
            "{n} losses divides each of them by {n}.", FUNC),
    Mistake("returns-losses", losses, MEAN + "these are the losses, not their gradients.", FUNC),
    Mistake("samples-come-last", lambda f, w, xs, ys: samples(f, w, xs, ys).movedim(0, -1), "In the case \"{case}\" "
            "the result has shape {got_shape} where {want_shape} is wanted: the samples come first, as in xs.", FUNC),
    Mistake("only-for-vectors", of_vectors, "In the case \"{case}\" {what} raised {error}: a sample is what `xs` "
            "holds at one place of its first dimension, whatever its shape; `len(xs)` is n.", FUNC),
    Mistake("flattened", lambda f, w, xs, ys: samples(f, w, xs, ys).flatten(1), "In the case \"{case}\" the result has "
            "shape {got_shape} where {want_shape} is wanted: each sample's gradient has the shape of w.", FUNC),
    Mistake("gradient-by-x", by_x, ROWS + "this is the gradient with respect to "
            "x, the second argument of the loss.", FUNC),
    Mistake("made-on-cpu", with_a_cpu_tensor(samples), MIXED, ERRORS),
    Mistake("made-on-cpu", lambda f, w, xs, ys: samples(f, w.cpu(), xs.cpu(), ys.cpu()), LEFT, ERRORS),
    Mistake("dtype-not-kept", lambda f, w, xs, ys: samples(f, w.float(), xs.float(), ys.float()), DTYPE, FUNC),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, i = draw.size(7, 20), draw.size(2, 6)
    return [
        case("many samples", loss="one output", w=draw.normal(i), xs=draw.normal(n, i), ys=draw.normal(n)),
        case("strided samples", loss="several outputs", w=draw.normal(i, 3).t(), xs=draw.normal(i, n).t(),
             ys=draw.normal(2 * n, 3)[::2]),
        case("float64", loss="several outputs", w=draw.normal(2, i, dtype=torch.float64),
             xs=draw.normal(n, i, dtype=torch.float64), ys=draw.normal(n, 2, dtype=torch.float64)),
    ]  # fmt: skip


# Right answers unlike the reference


def samples_by_copies(loss_fn: Callable[..., Tensor], w: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    many = w.detach().expand(len(xs), *w.shape).clone().requires_grad_()
    losses = torch.func.vmap(loss_fn)(many, xs, ys)
    return torch.autograd.grad(losses.sum(), many)[0]


def samples_by_jacrev(loss_fn: Callable[..., Tensor], w: Tensor, xs: Tensor, ys: Tensor) -> Any:
    return torch.func.jacrev(lambda v: torch.vmap(loss_fn, (None, 0, 0))(v, xs, ys))(w)


def samples_by_closure(loss_fn: Callable[..., Tensor], w: Tensor, xs: Tensor, ys: Tensor) -> Any:
    def one(x: Tensor, y: Tensor) -> Any:
        return torch.func.grad(lambda v: loss_fn(v, x, y))(w)

    return torch.vmap(one)(xs, ys)


def samples_by_batched_grad(loss_fn: Callable[..., Tensor], w: Tensor, xs: Tensor, ys: Tensor) -> Tensor:
    leaf = w.detach().requires_grad_()
    losses = torch.vmap(loss_fn, in_dims=(None, 0, 0))(leaf, xs, ys)
    basis = torch.eye(len(xs), dtype=losses.dtype, device=losses.device)
    return torch.autograd.grad(losses, leaf, basis, is_grads_batched=True)[0]


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    samples_by_copies,
    samples_by_jacrev,
    samples_by_closure,
    samples_by_batched_grad,
]
