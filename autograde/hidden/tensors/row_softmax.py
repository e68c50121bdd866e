"""The exercise `row_softmax`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from autograde.hidden.common import with_floats
from autograde.hidden.tensors.shared import widening
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Subtracting the row's own maximum changes no ratio, and the largest exponent becomes 0: nothing overflows,"
    " and no row sums to 0. The maximum of the whole tensor would let a row that lies far below it underflow to"
    " 0 / 0."
)
"""Why the reference is written as it is."""
REQUIRED = ("overflow", "wrong-dim")
"""The mistakes that a check must always be able to name."""

REDUCE = "Reductions"


def row_softmax(x: Tensor) -> Tensor:
    return softmax_unshifted(x - x.amax(-1, keepdim=True))


def softmax_unshifted(x: Tensor, dim: int = -1) -> Tensor:
    return x.exp() / x.exp().sum(dim, keepdim=True)


def over_dim(x: Tensor, dim: int) -> Tensor:
    return softmax_unshifted(x - x.amax(dim, keepdim=True), dim)


def unshifted_over_one(x: Tensor) -> Tensor:
    return softmax_unshifted(x, 1)


def divided_by_the_sum_of_all(x: Tensor) -> Tensor:
    weights = (x - x.amax(-1, keepdim=True)).exp()
    return weights / weights.sum()


def everything_over_all(x: Tensor) -> Tensor:
    weights = (x - x.max()).exp()
    return weights / weights.sum()


def sum_without_keepdim(x: Tensor) -> Tensor:
    weights = (x - x.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1)


def both_without_keepdim(x: Tensor) -> Tensor:
    weights = (x - x.amax(-1)).exp()
    return weights / weights.sum(-1)


def by_logarithm(x: Tensor) -> Tensor:
    return (x - x.exp().sum(-1, keepdim=True).log()).exp()


def unshifted_with_eps(x: Tensor) -> Tensor:
    return x.exp() / (x.exp().sum(-1, keepdim=True) + 1e-9)


def divided_with_eps(eps: float) -> Callable[[Tensor], Tensor]:
    """Return a softmax whose sums have a small number added to them."""

    def program(x: Tensor) -> Tensor:
        weights = (x - x.amax(-1, keepdim=True)).exp()
        return weights / (weights.sum(-1, keepdim=True) + eps)

    return program


def global_maximum_with_eps(x: Tensor) -> Tensor:
    return unshifted_with_eps(x - x.max())


def row_after_row_of_a_matrix(x: Tensor) -> Tensor:
    return torch.stack([(row - row.max()).exp() / (row - row.max()).exp().sum() for row in x])


OVERFLOW = (
    "{nans} of {count} results are NaN: the largest entry is {largest}, exp of it is {exp_largest} in this dtype, and "
    "inf / inf is NaN."
)
UNDERFLOW = (
    "Row {row} sums to {row_sum} and not to 1: the largest entry of the whole tensor was subtracted, so that in a row "
    "far below it every exp is 0, and nothing is left to divide."
)
OVERFLOW_LATER = (
    "Row {row} sums to {row_sum} and not to 1 where the largest entry is {largest}: exp of that is inf, and a "
    "logarithm taken afterwards does not make it finite again."
)
TOO_HIGH = (
    "{nans} of {count} results are NaN: even after the subtraction the row holds numbers far above zero; their exp is "
    "inf, and inf / inf is NaN."
)
WRONG_DIM = (
    'In the case "{case}" row {row} sums to {row_sum} and not to 1: softmax ran over a dimension other than the last.'
)
WHOLE = "Row {row} sums to {row_sum} and not to 1: the weights were divided by the sum of the whole tensor."
KEEPDIM = (
    'In the case "{case}" the value at {at} is {got_at} and should be {want_at}: a statistic of the rows lost its '
    "dimension, so broadcasting lined it up with the columns."
)
LOGARITHMS = "The value at {at} is {got_at} and should be {want_at}: the first is the logarithm of the second."
BY_MAXIMUM = (
    "The value at {at} is {got_at} and should be {want_at}: dividing a row by its maximum changes its softmax; "
    "subtracting it does not."
)
MISTAKES = [
    Mistake("overflow", softmax_unshifted, OVERFLOW, REDUCE),
    Mistake("overflow", lambda x: softmax_unshifted(x.double()).to(x.dtype), OVERFLOW, REDUCE),
    Mistake("overflow", unshifted_with_eps, OVERFLOW, REDUCE),
    Mistake("overflow", by_logarithm, OVERFLOW_LATER, REDUCE),
    Mistake("wrong-dim", lambda x: over_dim(x, 0), WRONG_DIM, REDUCE),
    Mistake("wrong-dim", lambda x: over_dim(x, -2), WRONG_DIM, REDUCE),
    Mistake("wrong-dim", lambda x: over_dim(x, 1), WRONG_DIM, REDUCE),
    Mistake("wrong-dim", unshifted_over_one, WRONG_DIM, REDUCE),
    Mistake("wrong-dim", lambda x: x.exp() / x.exp().sum(0, keepdim=True), WRONG_DIM, REDUCE),
    Mistake("whole-tensor", divided_by_the_sum_of_all, WHOLE, REDUCE),
    Mistake("whole-tensor", everything_over_all, WHOLE, REDUCE),
    Mistake("not-normalised", lambda x: (x - x.amax(-1, keepdim=True)).exp(), "Row {row} sums to {row_sum} and not to "
            "1: the weights were not divided by their sum.", REDUCE),
    Mistake("missing-keepdim", sum_without_keepdim, KEEPDIM, REDUCE),
    Mistake("missing-keepdim", lambda x: softmax_unshifted(x - x.amax(-1)), KEEPDIM, REDUCE),
    Mistake("missing-keepdim", both_without_keepdim, KEEPDIM, REDUCE),
    Mistake("missing-keepdim", lambda x: x.exp() / x.exp().sum(-1), KEEPDIM, REDUCE),
    Mistake("global-maximum", lambda x: softmax_unshifted(x - x.max()), "{nans} of {count} results are NaN: the "
            "largest entry of the whole tensor was subtracted, so that in a row far below it every exp is 0, and 0 / 0 "
            "is NaN.", REDUCE),
    Mistake("global-maximum", global_maximum_with_eps, UNDERFLOW, REDUCE),
    Mistake("mean-subtracted", lambda x: softmax_unshifted(x - x.mean(-1, keepdim=True)), TOO_HIGH, REDUCE),
    Mistake("minimum-subtracted", lambda x: softmax_unshifted(x - x.amin(-1, keepdim=True)), TOO_HIGH, REDUCE),
    Mistake("largest-magnitude-subtracted", lambda x: softmax_unshifted(x - x.abs().amax(-1, keepdim=True)),
            "{nans} of {count} results are NaN: the largest absolute value was subtracted, so that in a row far below "
            "zero every exp is 0, and 0 / 0 is NaN.", REDUCE),
    Mistake("returns-logarithms", lambda x: row_softmax(x).log(), LOGARITHMS, REDUCE),
    Mistake("returns-logarithms", lambda x: x - x.logsumexp(-1, keepdim=True), LOGARITHMS, REDUCE),
    Mistake("clamps-the-scores", lambda x: softmax_unshifted(x.clamp(-80, 80)), "In the case \"{case}\" the value at "
            "{at} is {got_at} and should be {want_at}: entries that were clamped to the same bound look equal but are "
            "not.", REDUCE),
    Mistake("nan-replaced", lambda x: softmax_unshifted(x).nan_to_num(nan=0.0), "In the case \"{case}\" row {row} "
            "sums to {row_sum} and not to 1: replacing a NaN does not bring back the number that it swallowed.",
            REDUCE),
    Mistake("no-exponential", lambda x: x / x.sum(-1, keepdim=True), "The value at {at} is {got_at} and should be "
            "{want_at}: the entries themselves were divided by their sum, not exp of them.", REDUCE),
    Mistake("divided-by-maximum", lambda x: softmax_unshifted(x / x.amax(-1, keepdim=True)), BY_MAXIMUM, REDUCE),
    Mistake("divided-by-maximum", lambda x: softmax_unshifted(x / x.abs().amax(-1, keepdim=True)), BY_MAXIMUM, REDUCE),
    Mistake("only-for-matrices", row_after_row_of_a_matrix, "In the case \"{case}\" row {row} sums to {row_sum} and "
            "not to 1: what lies along the first dimension was taken for the rows, and that is right only where x has "
            "two dimensions.", REDUCE),
    *(Mistake("eps-in-the-sum", divided_with_eps(eps), "In the case \"{case}\" the value at {at} is {got_at} and "
              "should be {want_at}: a small number was added to the sum, which is at least 1 and needs none.", REDUCE)
      for eps in (1e-5, 1e-6, 1e-7, 1e-8)),
    *with_floats(row_softmax),
    widening(row_softmax),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, d = draw.size(2, 5), draw.size(2, 9)
    ordinary = {"rtol": 0.0, "atol": 1e-5}
    return [
        case("four dimensions", **ordinary, x=3 * draw.normal(2, n, 3, d)),
        case("seven dimensions", **ordinary, x=3 * draw.normal(1, 2, n, 1, 3, 2, d)),
        case("many columns", rtol=0.0, atol=1e-3, x=draw.uniform(-1e4, 1e4, 8, draw.size(100, 200))),
        case("one column", **ordinary, x=draw.normal(n, 1)),
        case("equal entries", **ordinary, x=torch.full((n, d), draw.uniform(-5, 5).item())),
        case("all far below zero", rtol=0.0, atol=1e-3, x=-9000 - draw.uniform(0, 10, n, d)),
        case("all far above zero", rtol=0.0, atol=1e-3, x=9000 + draw.uniform(0, 10, n, d)),
        case("every second column", **ordinary, x=draw.normal(n, 2 * d)[:, ::2]),
        case("no rows", **ordinary, x=torch.empty(0, d)),
    ]


# Right answers unlike the reference


def softmax_by_logsumexp(x: Tensor) -> Tensor:
    return torch.exp(x - torch.logsumexp(x, dim=-1, keepdim=True))


def softmax_by_max_values(x: Tensor) -> Tensor:
    top, _ = x.max(dim=x.dim() - 1, keepdim=True)
    e = torch.exp(x - top)
    return e / torch.einsum("...d->...", e).unsqueeze(-1)


def softmax_in_place(x: Tensor) -> Tensor:
    e = x.clone()
    e.sub_(e.max(-1).values[..., None]).exp_()
    return e.div_(e.sum(-1, keepdim=True))


def softmax_by_matrix_product(x: Tensor) -> Tensor:
    flat = x.reshape(-1, x.shape[-1]).T
    weights = torch.exp(flat - torch.amax(flat, 0))
    ones = torch.ones(1, weights.shape[0], dtype=x.dtype, device=x.device)
    return (weights / (ones @ weights)).T.reshape(x.shape)


def softmax_row_by_row(x: Tensor) -> Tensor:
    if x.dim() > 1:
        return torch.stack([softmax_row_by_row(row) for row in x]) if len(x) else x.clone()
    weights = (x - max(x)).exp()
    return cast(Tensor, weights / sum(weights))


def softmax_of_differences(x: Tensor) -> Tensor:
    return 1 / (x[..., None, :] - x[..., :, None]).exp().sum(-1)


def softmax_by_normalize(x: Tensor) -> Tensor:
    return nn.functional.normalize((x - x.amax(-1, True)).exp(), p=1.0, dim=-1)


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    softmax_by_logsumexp,
    softmax_by_max_values,
    softmax_in_place,
    softmax_by_matrix_product,
    softmax_row_by_row,
    softmax_of_differences,
    softmax_by_normalize,
]
