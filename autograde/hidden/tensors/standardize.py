"""The exercise `standardize`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import rounding, with_floats
from autograde.hidden.tensors.shared import widening
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`keepdim` leaves an axis of size one where the mean was taken, so that broadcasting lines up whatever "
    "`dim` is. `correction=0` divides by n, as layer norm and batch norm do. `eps` is added under the root, "
    "where it keeps a constant row finite."
)
"""Why the reference is written as it is."""
REQUIRED = ("missing-keepdim", "sample-variance", "eps-outside-root", "whole-tensor-statistics")
"""The mistakes that a check must always be able to name."""

REDUCE = "Reductions"


def standardize(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5) -> Tensor:
    return (x - x.mean(dim, keepdim=True)) / (variance(x, dim) + eps).sqrt()


def centred(x: Tensor, dim: Any) -> Tensor:
    return x - x.mean(dim, keepdim=True)


def variance(x: Tensor, dim: Any) -> Tensor:
    return x.var(dim, correction=0, keepdim=True)


def without_keepdim(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    return (x - x.mean(dim)) / (x.var(dim, correction=0) + eps).sqrt()


def mean_without_keepdim(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    return (x - x.mean(dim)) / (variance(x, dim) + eps).sqrt()


def variance_without_keepdim(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    return centred(x, dim) / (x.var(dim, correction=0) + eps).sqrt()


def sample_variance(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    return centred(x, dim) / (x.var(dim, keepdim=True) + eps).sqrt()


def eps_outside_root(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    return centred(x, dim) / (variance(x, dim).sqrt() + eps)


def eps_forgotten(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    return centred(x, dim) / variance(x, dim).sqrt()


def divided_by_variance(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    return centred(x, dim) / (variance(x, dim) + eps)


def parentheses_missing(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    return x - x.mean(dim, keepdim=True) / (variance(x, dim) + eps).sqrt()


def over_the_first(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    return standardize(x, dim if isinstance(dim, int) else dim[0], eps)


def over_the_rest(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    named = [d % x.ndim for d in ((dim,) if isinstance(dim, int) else dim)]
    return standardize(x, tuple(d for d in range(x.ndim) if d not in named) or dim, eps)


def only_one_dimension(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    mean, var = x.mean(dim).unsqueeze(dim), x.var(dim, correction=0).unsqueeze(dim)
    return (x - mean) / (var + eps).sqrt()


def one_dimension_after_another(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    for d in (dim,) if isinstance(dim, int) else dim:
        x = standardize(x, d, eps)
    return x


def only_all_or_none_negative(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    dims = [dim] if isinstance(dim, int) else list(dim)
    if dims[0] < 0:
        dims = [x.ndim + d for d in dims]
    rest = [d for d in range(x.ndim) if d not in dims]
    order = rest + dims
    flat = standardize(x.permute(order).flatten(len(rest)), -1, eps)
    return flat.reshape([x.shape[d] for d in order]).permute([order.index(d) for d in range(x.ndim)])


NO_KEEPDIM = (
    'In the case "{case}" the value at {at} is {got_at} and should be {want_at}: without keepdim a statistic lost '
    "its dimension and was lined up with the wrong axis."
)
WHOLE_TENSOR = (
    'In the case "{case}" the value at {at} is {got_at} and should be {want_at}: mean and variance were taken over '
    "the whole tensor, not over dim = {dim}."
)
OTHER_DIM = (
    'In the case "{case}" the value at {at} is {got_at} and should be {want_at}: the statistics were taken over '
    "dimensions other than dim = {dim}."
)
OTHER_DEFAULT = (
    'In the case "{case}" the variance of the result is {var} and should be {wanted_var}: this case passes no eps, so '
    "the default counts, which should be 1e-5."
)
MISTAKES = [
    Mistake("missing-keepdim", without_keepdim, NO_KEEPDIM, REDUCE),
    Mistake("missing-keepdim", mean_without_keepdim, NO_KEEPDIM, REDUCE),
    Mistake("missing-keepdim", variance_without_keepdim, NO_KEEPDIM, REDUCE),
    Mistake("missing-keepdim", lambda x, dim, eps=1e-5: (x - x.mean(dim)) / (x.var(dim) + eps).sqrt(), NO_KEEPDIM,
            REDUCE),
    Mistake("sample-variance", lambda x, dim, eps=1e-5: centred(x, dim) / (x.std(dim, keepdim=True) + eps), "With eps "
            "= {eps} the variance of the result is {var} and should be {wanted_var}: the sum of squares was divided by "
            "{count} - 1, as for a sample, and eps was added to the root and not under it.", REDUCE),
    Mistake("sample-variance", sample_variance, "The variance of the result is {var} and should be {wanted_var}: the "
            "sum of squares was divided by {count} - 1, as for a sample, and not by {count}.", REDUCE),
    Mistake("eps-outside-root", eps_outside_root, "With eps = {eps} the variance of the result is {var} and should be "
            "{wanted_var}: eps was added to the root, but belongs under it.", REDUCE),
    Mistake("eps-forgotten", eps_forgotten, "With eps = {eps} the variance of the result is {var} and should be "
            "{wanted_var}: eps was not added to the variance.", REDUCE),
    Mistake("eps-argument-ignored", lambda x, dim, eps=1e-5: standardize(x, dim), "With eps = {eps} the variance of "
            "the result is {var} and should be {wanted_var}: a fixed number was added to the variance, not the "
            "argument.", REDUCE),
    Mistake("other-default", lambda x, dim, eps=1e-8: standardize(x, dim, eps), OTHER_DEFAULT, REDUCE),
    Mistake("other-default", lambda x, dim, eps=1e-6: standardize(x, dim, eps), OTHER_DEFAULT, REDUCE),
    Mistake("zero-eps-replaced", lambda x, dim, eps=1e-5: standardize(x, dim, eps or 1e-5), "With eps = {eps} the "
            "variance of the result is {var} and should be {wanted_var}: `eps or ...` and `if eps` take 0 for missing, "
            "but here it is what was asked for.", REDUCE),
    Mistake("negative-among-positive", only_all_or_none_negative, "In the case \"{case}\" with dim = {dim} the call "
            "raised {error}: each entry of the tuple may be negative, whatever the first one is.", REDUCE),
    Mistake("whole-tensor-statistics", lambda x, dim, eps=1e-5: standardize(x, tuple(range(x.ndim)), eps),
            WHOLE_TENSOR, REDUCE),
    Mistake("whole-tensor-statistics", lambda x, dim, eps=1e-5: (x - x.mean()) / x.std(), WHOLE_TENSOR, REDUCE),
    Mistake("other-dimensions", over_the_rest, OTHER_DIM, REDUCE),
    Mistake("other-dimensions", over_the_first, OTHER_DIM, REDUCE),
    Mistake("other-dimensions", lambda x, dim, eps=1e-5: standardize(x, -1, eps), OTHER_DIM, REDUCE),
    Mistake("divided-by-variance", divided_by_variance, "The value at {at} is {got_at} and should be {want_at}: the "
            "difference was divided by the variance, not by its root.", REDUCE),
    Mistake("parentheses-missing", parentheses_missing, "The value at {at} is {got_at} and should be {want_at}: only "
            "the mean was divided, since a division goes before a subtraction.", REDUCE),
    Mistake("mean-not-subtracted", lambda x, dim, eps=1e-5: x / (variance(x, dim) + eps).sqrt(), "The mean of the "
            "result is {mean} and should be 0: the values were divided, but their mean was not subtracted first.",
            REDUCE),
    Mistake("not-divided", lambda x, dim, eps=1e-5: centred(x, dim), "The variance of the result is {var} and should "
            "be {wanted_var}: the mean was subtracted, but nothing was divided.", REDUCE),
    Mistake("only-one-dimension", only_one_dimension, "In the case \"{case}\" with dim = {dim} the call raised "
            "{error}: `dim` may be a tuple, and keepdim=True puts back all of its dimensions at once.", REDUCE),
    Mistake("one-dimension-after-another", one_dimension_after_another, "In the case \"{case}\" the value at {at} is "
            "{got_at} and should be {want_at}: mean and variance belong to all dimensions of dim = {dim} "
            "together.", REDUCE),
    *with_floats(standardize),
    rounding(standardize),
    widening(standardize),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 6), draw.size(3, 6)
    return [
        case("a vector", x=draw.normal(n), dim=0, eps=None),
        case("the middle dimension", x=draw.normal(n, d, 4), dim=-2, eps=1e-3),
        case("all dimensions", x=draw.normal(n, d), dim=(0, 1), eps=None),
        case("far from zero", rtol=1e-2, atol=1e-2, x=100 + draw.normal(n, d), dim=-1, eps=None),
        case("a transposed matrix", x=draw.normal(n, d).t(), dim=1, eps=0.1),
        case("very small values", x=1e-3 * draw.normal(n, d), dim=0, eps=None),
    ]


# Right answers unlike the reference


def standardize_by_hand(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5) -> Tensor:
    centered = x - torch.mean(x, dim, keepdim=True)
    return centered * torch.rsqrt((centered**2).mean(dim, keepdim=True) + eps)


def standardize_by_var_mean(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5) -> Tensor:
    var, mean = torch.var_mean(x, dim=dim, unbiased=False, keepdim=True)
    return (x - mean).div((var + eps).sqrt())


def standardize_flattened(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5) -> Tensor:
    dims = sorted(d % x.ndim for d in ((dim,) if isinstance(dim, int) else dim))
    rest = [d for d in range(x.ndim) if d not in dims]
    order = rest + dims
    flat = x.permute(order).reshape(*[x.shape[d] for d in rest], -1)
    mean = flat.mean(-1).unsqueeze(-1)
    var = torch.sum((flat - mean) ** 2, dim=-1).unsqueeze(-1) / flat.shape[-1]
    done = (flat - mean) / torch.sqrt(var + eps)
    back = sorted(range(x.ndim), key=order.__getitem__)
    return done.reshape([x.shape[d] for d in order]).permute(back)


@torch.no_grad()
def standardize_with_a_loop_over_dims(x: Tensor, dim: Any, eps: float = 1e-5) -> Tensor:
    def mean(values: Tensor) -> Tensor:
        for d in (dim,) if isinstance(dim, int) else dim:
            values = values.sum(d, keepdim=True) / values.size(d)
        return values

    centered = x - mean(x)
    return torch.div(centered, torch.pow(mean(centered * centered) + eps, 0.5))


def standardize_by_std(x: Tensor, dim: int | tuple[int, ...], eps: float = 1e-5) -> Tensor:
    std, mean = torch.std_mean(x, dim=dim, correction=0, keepdim=True)
    return (x - mean) / (std.pow(2) + eps).sqrt()


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    standardize_by_hand,
    standardize_by_var_mean,
    standardize_flattened,
    standardize_with_a_loop_over_dims,
    standardize_by_std,
]
