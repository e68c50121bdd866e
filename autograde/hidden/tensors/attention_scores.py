"""The exercise `attention_scores`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from autograde.hidden.common import rounding, with_floats
from autograde.hidden.tensors.shared import widening
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The products of d entries have a variance of about d, so the root of d brings the scores back to a size at"
    " which softmax has a slope. Scaling `q` before the product does it on a tensor that is usually smaller, "
    "and keeps half precision from overflowing."
)
"""Why the reference is written as it is."""
REQUIRED = ("not-scaled", "scaled-by-d", "wrong-transpose")
"""The mistakes that a check must always be able to name."""

EINSUM = "einsum"


def attention_scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


def keys_reshaped(q: Tensor, k: Tensor) -> Tensor:
    b, h, s, d = k.shape
    return q @ k.reshape(b, h, d, s) / math.sqrt(d)


def scaled_by_all_features(q: Tensor, k: Tensor) -> Tensor:
    _, h, _, d = q.shape
    return q @ k.transpose(-2, -1) / math.sqrt(h * d)


WRONG_TRANSPOSE = (
    "In the case \"{case}\", the scores came out as {got} where {want} is wanted: every query should get a row with "
    "one score for every key. For that the last two dimensions of k change places, and no others."
)  # fmt: skip
WRONG_SIZE = (
    "The scores are {ratio} times as large as wanted: they should be divided by the root of the number of features, "
    "{d}, but were divided by something else, such as the root of another size."
)
MISTAKES = [
    Mistake("not-scaled", lambda q, k: q @ k.mT, "The scores are {ratio} times as large as wanted, and that is the "
            "root of d = {d}: the division by it is missing.", EINSUM),
    Mistake("scaled-by-d", lambda q, k: q @ k.mT / q.shape[-1], "The scores are {ratio} times as large as wanted: "
            "altogether they were divided by d = {d}, not by its root, {root}.", EINSUM),
    Mistake("multiplied-by-root", lambda q, k: q @ k.mT * q.shape[-1] ** 0.5, "The scores are {ratio} times as large "
            "as wanted: they were multiplied by the root of d = {d} where they should be divided by it.", EINSUM),
    Mistake("scaled-by-another-size", lambda q, k: q @ k.mT / k.shape[-2] ** 0.5, WRONG_SIZE, EINSUM),
    Mistake("scaled-by-another-size", lambda q, k: q @ k.mT / q.shape[-2] ** 0.5, WRONG_SIZE, EINSUM),
    Mistake("scaled-by-another-size", lambda q, k: q @ k.mT / q.shape[1] ** 0.5, WRONG_SIZE, EINSUM),
    Mistake("scaled-by-another-size", scaled_by_all_features, WRONG_SIZE, EINSUM),
    Mistake("softmax-applied", lambda q, k: attention_scores(q, k).softmax(-1), "The value at {at} is {got_at} and "
            "should be {want_at}: a softmax was applied, but the scores before it are wanted.", EINSUM),
    Mistake("keys-reshaped", keys_reshaped, "The value at {at} is {got_at} and should be {want_at}, though the shape "
            "is right: reshaping k deals its elements out anew, whereas transposing it swaps two of its axes.", EINSUM),
    Mistake("wrong-transpose", lambda q, k: attention_scores(q, k).mT, WRONG_TRANSPOSE, EINSUM),
    Mistake("wrong-transpose", lambda q, k: q @ k / q.shape[-1] ** 0.5, WRONG_TRANSPOSE, EINSUM),
    Mistake("wrong-transpose", lambda q, k: torch.einsum("bhtd,bhds->bhts", q, k) / q.shape[-1] ** 0.5, WRONG_TRANSPOSE,
            EINSUM),
    Mistake("wrong-transpose", lambda q, k: q @ k.permute(3, 2, 1, 0) / q.shape[-1] ** 0.5, WRONG_TRANSPOSE, EINSUM),
    Mistake("wrong-transpose", lambda q, k: q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, WRONG_TRANSPOSE, EINSUM),
    Mistake("wrong-transpose", lambda q, k: q @ k.transpose(1, 3) / q.shape[-1] ** 0.5, WRONG_TRANSPOSE, EINSUM),
    Mistake("wrong-transpose", lambda q, k: q.mT @ k / q.shape[-1] ** 0.5, WRONG_TRANSPOSE, EINSUM),
    Mistake("each-with-its-own", lambda q, k: (q * k).sum(-1) / q.shape[-1] ** 0.5, "In the case \"{case}\" the result "
            "has shape {got_shape} where {want_shape} is wanted: query i only met key i, and not every key.", EINSUM),
    Mistake("heads-summed", lambda q, k: attention_scores(q, k).sum(1), "The result has shape {got_shape} where "
            "{want_shape} is wanted: the scores of all heads were added up, but each head keeps its own.", EINSUM),
    *with_floats(attention_scores, 2),
    rounding(attention_scores),
    widening(attention_scores),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    b, h, t, s, d = (draw.size(1, 5) for _ in range(5))
    return [
        case("drawn sizes", q=draw.normal(b, h, t, d), k=draw.normal(b, h, s, d)),
        case("one feature", q=draw.normal(b, h, t, 1), k=draw.normal(b, h, s, 1)),
        case("one key", q=draw.normal(b, h, t, d), k=draw.normal(b, h, 1, d)),
        case("the same tensor twice, with a stride", q=draw.normal(b, h, t, 2 * d)[..., ::2],
             k=draw.normal(b, h, s, 2 * d)[..., ::2]),
    ]  # fmt: skip


# Right answers unlike the reference


def attention_by_einsum(q: Tensor, k: Tensor) -> Tensor:
    return torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.size(-1))


def attention_by_broadcasting(q: Tensor, k: Tensor) -> Tensor:
    return (q[:, :, :, None] * k[:, :, None]).sum(-1) * math.pow(q.shape[3], -0.5)


def attention_by_bmm(q: Tensor, k: Tensor) -> Tensor:
    b, h, t, d = q.shape
    scores = torch.bmm(q.reshape(b * h, t, d), k.reshape(b * h, -1, d).mT)
    return scores.view(b, h, t, -1) / float(np.sqrt(d))


def attention_head_by_head(q: Tensor, k: Tensor) -> Tensor:
    heads = [
        torch.stack([torch.mm(qh, kh.t()) for qh, kh in zip(qb, kb, strict=True)])
        for qb, kb in zip(q, k, strict=True)
    ]  # fmt: skip
    return torch.stack(heads).div(float(q.shape[-1]) ** 0.5)


def attention_scaled_on_both_sides(q: Tensor, k: Tensor) -> Tensor:
    scale = torch.tensor(q.shape[-1], dtype=q.dtype, device=q.device) ** 0.25
    return torch.matmul(q / scale, (k / scale).permute(0, 1, 3, 2))


class _Scores(nn.Module):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.matmul(q, k.transpose(2, 3)) / torch.sqrt(torch.tensor(float(q.shape[-1])))


class _Shape(NamedTuple):
    batch: int
    heads: int
    queries: int
    features: int


def attention_with_named_shape(q: Tensor, k: Tensor) -> Tensor:
    shape = _Shape(*q.shape)
    return (q @ k.swapdims(-1, -2)).mul(1 / math.sqrt(shape.features))


def _scaled(scale: Callable[[int], float], q: Tensor, k: Tensor) -> Tensor:
    return torch.inner(q, k).diagonal(0, 0, 3).diagonal(0, 0, 2).permute(2, 3, 0, 1) / scale(q.shape[-1])


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    attention_by_einsum,
    attention_by_broadcasting,
    attention_by_bmm,
    attention_head_by_head,
    attention_scaled_on_both_sides,
    _Scores(),
    attention_with_named_shape,
    functools.partial(_scaled, math.sqrt),
]
