"""The exercise `linear_mse_gradients`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import ERRORS, on_the_cpu
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The mean of the squares has the slope 2 (difference) / count with respect to each entry of the difference, and "
    "the count is of all entries, not of rows. From there the chain rule is a product with `x`, and for the bias, "
    "which every row shares, a sum."
)
"""Why the reference is written as it is."""
REQUIRED = ("sum-not-mean", "mean-over-batch-only", "missing-factor-two", "transposed")
"""The mistakes that a check must always be able to name."""

HAND = "Gradients by hand"


def slope(x: Tensor, w: Tensor, b: Tensor | float, y: Tensor) -> Tensor:
    """Return the derivative of the loss by the prediction, of shape (n, o)."""
    return 2 * (x @ w.T + b - y) / y.numel()


def linear(x: Tensor, w: Tensor, b: Tensor | float, y: Tensor) -> tuple[Tensor, Tensor]:
    return slope(x, w, b, y).T @ x, slope(x, w, b, y).sum(0)


def times(factor: Callable[[int, int], float]) -> Callable[..., Any]:
    """Return a program whose gradients are `factor(n, o)` times the right ones."""

    def scaled(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return tuple(gradient * factor(*y.shape) for gradient in linear(x, w, b, y))

    return scaled


def with_db(reduce: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """Return a program that gets db from the slope in another way than `sum(0)`."""

    def reduced(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return slope(x, w, b, y).T @ x, reduce(slope(x, w, b, y))

    return reduced


def transposed(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.T @ slope(x, w, b, y), slope(x, w, b, y).sum(0)


SHAPE_OF_B = (
    "The gradient db has shape {db_shape} where b has {b_shape}: b is added to each of the {n} examples, and its "
    "gradient is the sum over them."
)
MISTAKES = [
    Mistake("sum-not-mean", times(lambda n, o: n * o), "The gradient db is {ratio} times what it should be: the loss "
            "is a mean over {count} entries, and every gradient has to be divided by that number.", HAND),
    Mistake("sum-not-mean", times(lambda n, o: 0.5 * n * o), "The gradient db is {ratio} times what it should be: the "
            "mean divides by {count}, and the derivative of a square is twice what was squared.", HAND),
    Mistake("mean-over-batch-only", times(lambda _n, o: o), "The gradient db is {ratio} times what it should be: the "
            "mean is over all {count} entries, n times o, and not over the {n} examples alone.", HAND),
    Mistake("mean-over-batch-only", times(lambda _n, o: 0.5 * o), "The gradient db is {ratio} times what it should be: "
            "the mean is over all {count} entries and not over the {n} examples alone, and the derivative of a square "
            "is twice what was squared.", HAND),
    Mistake("mean-over-outputs-only", times(lambda n, _o: n), "The gradient db is {ratio} times what it should be: the "
            "mean is over all {count} entries, n times o, and not over the {o} outputs alone.", HAND),
    Mistake("missing-factor-two", times(lambda _n, _o: 0.5), "The gradient db is {ratio} times what it should be: the "
            "derivative of a square is twice what was squared.", HAND),
    Mistake("wrong-sign", times(lambda _n, _o: -1), "In the case \"{case}\" `{what}` is {got} where {want} is wanted: "
            "the sign is reversed, as it comes out with y minus the prediction.", HAND),
    Mistake("transposed", transposed, "In the case \"{case}\" dw has shape {dw_shape} and came out transposed: w has "
            "{w_shape}, and the gradient of a tensor has the tensor's own shape.", HAND),
    Mistake("bias-averaged", with_db(lambda slope: slope.mean(0)), "The gradient db is {ratio} times what it should "
            "be: the division by {count} was done already; over the examples the parts of db are added up, not "
            "averaged.", HAND),
    Mistake("bias-not-summed", with_db(lambda slope: slope), SHAPE_OF_B, HAND),
    Mistake("bias-not-summed", with_db(lambda slope: slope.sum(0, keepdim=True)), SHAPE_OF_B, HAND),
    Mistake("bias-summed-over-everything", with_db(lambda slope: slope.sum()), SHAPE_OF_B, HAND),
    Mistake("bias-summed-over-outputs", with_db(lambda slope: slope.sum(1)), SHAPE_OF_B, HAND),
    Mistake("bias-left-out", lambda x, w, _b, y: linear(x, w, 0.0, y), "In the case \"{case}\" `{what}` is {got} where "
            "{want} is wanted: the prediction was made without b.", HAND),
    Mistake("wrong-order", lambda x, w, b, y: linear(x, w, b, y)[::-1], "The first of the two results has shape "
            "{dw_shape}, and w has {w_shape}: dw comes first, db second.", HAND),
    Mistake("made-on-cpu", with_db(lambda slope: torch.ones(len(slope), dtype=slope.dtype) @ slope), "Everything "
            "works on the CPU; on the second device the call raised {error}: a tensor was made without saying where, "
            "and so it was made on the CPU.", ERRORS),
    Mistake("made-on-cpu", on_the_cpu(linear), "On the second device `{what}` is {got} where {want} is wanted: what is "
            "brought to the CPU stays there unless it is moved back.", ERRORS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, i, o = draw.size(8, 20), draw.size(1, 6), draw.size(2, 5)

    def drawn(name: str, n: int, i: int, o: int) -> Case:
        x, w = draw.normal(i, n).t(), draw.normal(i, o).t()
        return case(name, atol=1e-4, x=x, w=w, b=draw.normal(2 * o)[::2], y=draw.normal(n, o))

    return [drawn("strided inputs", n, i, o), drawn("one input", n, 1, o), drawn("all sizes equal", 4, 4, 4)]


# Right answers unlike the reference


def linear_by_einsum(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    r = torch.einsum("ni,oi->no", x, w) + b - y
    return torch.einsum("no,ni->oi", r, x) * 2 / r.numel(), 2 * r.sum(0) / r.numel()


def linear_by_loops(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> list[Tensor]:
    n, o = y.shape
    dw, db = torch.zeros_like(w), torch.zeros_like(b)
    for row in range(n):
        r = w @ x[row] + b - y[row]
        dw += 2 * torch.outer(r, x[row])
        db += 2 * r
    return [dw / (n * o), db / (n * o)]


def linear_with_ones(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    more = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
    both = torch.cat([w, b[:, None]], dim=1)
    d = more.T.mm(more @ both.T - y).div(y.numel() / 2).T
    return d[:, :-1], d[:, -1]


def linear_by_means(x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    r = nn.functional.linear(x, w, b) - y
    per_sample = r[:, :, None] * x[:, None, :]
    o = y.shape[1]
    return per_sample.mean(0) * 2 / o, r.mean(0) * 2 / o


RIGHT_ANSWERS: list[Callable[..., Any]] = [linear_by_einsum, linear_by_loops, linear_with_ones, linear_by_means]
