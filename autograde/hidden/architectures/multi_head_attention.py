"""The exercise `MultiHeadAttention`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograde.hidden.architectures.shared import UNBEGUN, Attention
from autograde.hidden.common import combined, override
from autograde.source.mistakes import Mistake
from torchcourse.exercises.architectures.multi_head_attention import attention_case
from torchcourse.model.exercise import Case, Draw

WHY = (
    "The last dimension is cut into heads before the heads move forward, so each head keeps features of one position "
    "together. The scale, the mask and empty rows are left to `F.scaled_dot_product_attention`, which gives zeros "
    "where a query may look nowhere and never stores the scores on a GPU."
)
"""Why the reference is written as it is."""
REQUIRED = ("heads-not-transposed", "scaled-by-dim", "softmax-over-queries", "nan-on-empty-row")
"""The mistakes that a check must always be able to name."""

HEADS, MASKS = "Attention with heads", "Attention, and its masks"


class ViewedWrong(Attention):
    def split(self, part: Tensor) -> Tensor:
        b, t, _ = part.shape
        return part.reshape(b, self.heads, t, -1)

    def merge(self, mixed: Tensor) -> Tensor:
        b, _, t, _ = mixed.shape
        return mixed.reshape(b, t, -1)


class ViewedWrongMergedRight(Attention):
    def split(self, part: Tensor) -> Tensor:
        b, t, _ = part.shape
        return part.reshape(b, self.heads, t, -1)


class MergedWithoutTranspose(Attention):
    def merge(self, mixed: Tensor) -> Tensor:
        b, _, t, _ = mixed.shape
        return mixed.reshape(b, t, -1)


class BetweenHeads(Attention):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, t, d = x.shape
        q, k, v = (part.reshape(b, t, self.heads, -1) for part in self.qkv(x).chunk(3, -1))
        return self.out((self.softmax(q @ k.mT * self.scale()) @ v).reshape(b, t, d))


class PerHeadRows(Attention):
    def parts(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b, t, _ = qkv.shape
        q, k, v = qkv.reshape(b, t, self.heads, 3, -1).permute(3, 0, 2, 1, 4)
        return q, k, v


class QueriesOverKeys(Attention):
    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(-2)


class PlainSoftmax(Attention):
    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, -torch.inf)


class ZerosOnEmptyRows(PlainSoftmax):
    def shares(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().shares(scores, mask).nan_to_num()


class AllOnEmptyRows(Attention):
    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return super().masked(scores, mask | ~mask.any(-1, keepdim=True))


class ScaledByDimEmptyNan(PlainSoftmax):
    def scale(self) -> float:
        return float(self.dim**-0.5)


class NotScaledEmptyNan(PlainSoftmax):
    def scale(self) -> float:
        return 1.0


class NanToNum(PlainSoftmax):
    def out(self, mixed: Tensor) -> Tensor:
        return super().out(mixed).nan_to_num()


class NanToNumBeforeProjection(PlainSoftmax):
    def out(self, mixed: Tensor) -> Tensor:
        return super().out(mixed.nan_to_num())


class AddsInfinity(Attention):
    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores + torch.zeros_like(scores).masked_fill(~mask, -torch.inf)


class AddsInfinityPaintsOver(AddsInfinity):
    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1).nan_to_num()


class MaskAfterSoftmax(Attention):
    def shares(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.softmax(scores) if mask is None else self.softmax(scores) * mask


class ZeroForForbidden(Attention):
    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores * mask


class NotLowEnough(Attention):
    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, -1e4)


class HeadsForBatch(Attention):
    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return super().masked(scores, mask[:, None] if mask.ndim == 3 else mask)


class Inverted(Attention):
    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask, torch.finfo(scores.dtype).min)


class InvertedEmptyNan(Attention):
    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask, -torch.inf)


class InvertedEmptyZero(InvertedEmptyNan):
    def shares(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().shares(scores, mask).nan_to_num()


class InvertedEmptyAll(Attention):
    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return super().masked(scores, ~mask | mask.all(-1, keepdim=True))


class AddsTheMask(Attention):
    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores + mask


class OneHead(Attention):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__(dim, 1)


class ThreeLayers(Attention):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__(dim, heads)
        del self.qkv
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        return self.out(self.merge(self.shares(q @ k.mT * self.scale(), mask) @ v))


class NoBias(Attention):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__(dim, heads)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)


class NoBiases(NoBias):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__(dim, heads)
        self.proj = nn.Linear(dim, dim, bias=False)


class KeysFirst(Attention):
    def parts(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, q, v = (self.split(part) for part in qkv.chunk(3, -1))
        return q, k, v


class ValuesFirst(Attention):
    def parts(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        v, k, q = (self.split(part) for part in qkv.chunk(3, -1))
        return q, k, v


class DropsDropout(Attention):
    def softmax(self, scores: Tensor) -> Tensor:
        return F.dropout(scores.softmax(-1), 0.1)


class ReturnsShares(Attention):
    def out(self, mixed: Tensor) -> Any:
        return self.proj(mixed), None


class AlwaysCausal(Attention):
    def shares(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        t = scores.shape[-1]
        past = torch.ones(t, t, dtype=torch.bool, device=scores.device).tril()
        return super().shares(scores.masked_fill(~past, torch.finfo(scores.dtype).min), mask)


class ScaledTwice(Attention):
    def scale(self) -> float:
        return super().scale() ** 2


class Unbegun(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        self.qkv = nn.Linear(dim, 3 * dim)


AT = 'In the case "{case}" the value at {at} is {got_at} and should be {want_at}: '
IS = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
REGISTERED = "`parameters()` finds {registered}: "
ROWS = AT + "the rows of `qkv` are all of q, then all of k, then all of v."
MERGED = AT + "before the heads are put side by side, their dimension has to go back behind the positions."
VIEWED = AT + "`view(b, heads, t, -1)` mixes positions: view the last dimension as (heads, size), then transpose."
EMPTY = (
    'In the case "{case}" the output of queries that may look nowhere is not finite: a softmax over nothing but minus '
    "infinity is "
    "NaN, and so are shares of zero that are divided by their sum."
)
INVERTED = " And in a mask, True means may attend."
NAN = " And a softmax over nothing but minus infinity is NaN."
MISTAKES = [
    Mistake("missing-super-init", Unbegun, UNBEGUN, HEADS),
    Mistake("heads-not-transposed", ViewedWrong, AT + "`view(b, heads, t, -1)` has the right shape and mixes "
            "positions: view the last dimension as (heads, size) first, then transpose.", HEADS),
    Mistake("heads-not-transposed", ViewedWrongMergedRight, AT + "`view(b, heads, t, -1)` has the right shape and "
            "mixes positions: view the last dimension as (heads, size) first, then transpose.", HEADS),
    Mistake("heads-not-transposed", MergedWithoutTranspose, AT + "before the heads are put side by side, their "
            "dimension has to go back behind the positions.", HEADS),
    Mistake("heads-not-transposed", combined(ZerosOnEmptyRows, MergedWithoutTranspose), MERGED, HEADS),
    Mistake("heads-not-transposed", combined(ZerosOnEmptyRows, ViewedWrong), VIEWED, HEADS),
    Mistake("heads-not-transposed", combined(AllOnEmptyRows, ViewedWrong), VIEWED, HEADS),
    Mistake("heads-not-transposed", combined(AllOnEmptyRows, MergedWithoutTranspose), MERGED, HEADS),
    Mistake("heads-not-transposed", combined(PlainSoftmax, ViewedWrong), VIEWED + NAN, HEADS),
    Mistake("heads-not-transposed", combined(PlainSoftmax, MergedWithoutTranspose), MERGED + NAN, HEADS),
    Mistake("heads-not-transposed", combined(Inverted, MergedWithoutTranspose), MERGED + INVERTED, HEADS),
    Mistake("heads-not-transposed", combined(InvertedEmptyNan, MergedWithoutTranspose), MERGED + INVERTED, HEADS),
    Mistake("heads-not-transposed", combined(Inverted, ViewedWrong), VIEWED + INVERTED, HEADS),
    Mistake("attends-between-heads", BetweenHeads, AT + "without the transpose, the heads of one position attend to "
            "each other, and no position sees another.", HEADS),
    Mistake("rows-by-head", PerHeadRows, ROWS, HEADS),
    Mistake("keys-taken-for-queries", KeysFirst, ROWS, HEADS),
    Mistake("keys-taken-for-queries", ValuesFirst, ROWS, HEADS),
    Mistake("scaled-by-dim", override(Attention, scale=lambda self: self.dim**-0.5), AT + "the scores of a head are "
            "sums of {size} products, so they have to be divided by the root of {size}, not of {dim}.", HEADS),
    Mistake("not-scaled", override(Attention, scale=lambda self: 1.0), AT + "the scores have to be divided by the root "
            "of the size of a head, here {size}.", HEADS),
    Mistake("scaled-twice", ScaledTwice, AT + "either the scores were divided twice (`F.scaled_dot_product_attention` "
            "divides them by itself), or they were divided by {size} instead of its root.",
            HEADS),
    Mistake("softmax-over-queries", QueriesOverKeys, AT + "the softmax has to run over the keys, the last dimension, "
            "so that the shares of one query add up to 1.", HEADS),
    Mistake("scaled-by-dim", ScaledByDimEmptyNan, AT + "the scores of a head have to be divided by the root of {size}, "
            "not of {dim}." + NAN, HEADS),
    Mistake("not-scaled", NotScaledEmptyNan, AT + "the scores have to be divided by the root of the size of a head, "
            "here {size}." + NAN, HEADS),
    Mistake("softmax-over-queries", combined(PlainSoftmax, QueriesOverKeys), AT + "the softmax has to run over the "
            "keys, the last dimension, so that the shares of one query add up to 1." + NAN, HEADS),
    Mistake("nan-on-empty-row", PlainSoftmax, EMPTY, MASKS),
    Mistake("nan-on-empty-row", AddsInfinity, EMPTY, MASKS),
    Mistake("nan-gradient-on-empty-row", AddsInfinityPaintsOver, 'In the case "{case}" the gradients are not finite: '
            "the shares were mended after the softmax, but on the way back its gradient is still NaN, and adding a "
            "mask passes that on to the scores. Fill with `masked_fill` or `torch.where`, which stop it.", MASKS),
    Mistake("nan-gradient-on-empty-row", NanToNum, 'In the case "{case}" the gradients are not finite: '
            "the output was mended at the end, but the way back still goes through the NaN.", MASKS),
    Mistake("nan-gradient-on-empty-row", NanToNumBeforeProjection, 'In the case "{case}" the gradients are not finite: '
            "the mixed values were mended, but on the way back the gradient still meets the NaN "
            "shares; mend the shares instead.", MASKS),
    Mistake("mask-after-softmax", MaskAfterSoftmax, AT + "the mask was applied after the softmax, so the shares that "
            "are left do not add up to 1.", MASKS),
    Mistake("forbidden-scores-zero", ZeroForForbidden, AT + "a score of 0 is an ordinary score: exp(0) is 1. Forbidden "
            "ones have to be very negative.", MASKS),
    Mistake("forbidden-scores-zero", AddsTheMask, AT + "a bool mask that is added changes a score by 0 or 1; forbidden "
            "ones have to be very negative.", MASKS),
    Mistake("forbidden-not-low-enough", NotLowEnough, AT + "allowed scores may lie below a number such as -10 000, and "
            "then a forbidden key wins. Minus infinity, or the lowest number of the dtype, is below all.", MASKS),
    Mistake("heads-taken-for-the-batch", HeadsForBatch, AT + "a mask of three dimensions broadcasts to (b, heads, t, "
            "t) from the right, so it is (heads, t, t).", MASKS),
    Mistake("mask-inverted", Inverted, AT + "here True means may attend.", MASKS),
    Mistake("mask-inverted", InvertedEmptyAll, AT + "here True means may attend.", MASKS),
    Mistake("mask-inverted", InvertedEmptyZero, AT + "here True means may attend.", MASKS),
    Mistake("mask-inverted", InvertedEmptyNan, AT + "here True means may attend. And a row without any key must not "
            "become NaN.", MASKS),
    Mistake("mask-ignored", override(Attention, shares=lambda self, scores, mask: scores.softmax(-1)), AT + "the mask "
            "has no effect.", MASKS),
    Mistake("always-causal", AlwaysCausal, AT + "only the given mask may forbid looking ahead.", MASKS),
    Mistake("heads-ignored", OneHead, AT + "with {heads} heads there are {heads} softmaxes, each over {size} features.",
            HEADS),
    Mistake("no-projection", override(Attention, out=lambda self, mixed: mixed), AT + "after the heads, `proj` is "
            "missing.", HEADS),
    Mistake("three-layers", ThreeLayers, REGISTERED + "one Linear called `qkv` is wanted, and one called `proj`.",
            HEADS),
    Mistake("no-bias", NoBias, REGISTERED + "`qkv` and `proj` both have a bias.", HEADS),
    Mistake("no-bias", NoBiases, REGISTERED + "`qkv` and `proj` both have a bias.", HEADS),
    Mistake("returns-a-tuple", ReturnsShares, "The call returned {gave}, and one tensor is wanted; a "
            "pair is what `nn.MultiheadAttention` returns.", HEADS),
    Mistake("dropout-added", DropsDropout, IS + "a dropout was added; none is wanted, and it changes the result at "
            "each call.", HEADS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    heads, size, b, t = draw.size(2, 4), draw.size(2, 4), draw.size(1, 3), draw.size(2, 6)
    dim, ones = heads * size, torch.ones(t, t, dtype=torch.bool)
    return [
        attention_case(draw, "drawn sizes", dim, heads, b, t),
        attention_case(
            draw, "drawn, with a mask", dim, heads, b, t, draw.flags(b, 1, t, t, share=0.7) | torch.eye(t).bool()
        ),
        attention_case(draw, "one mask for each query row", dim, heads, b, t, ones.tril()[None, None]),
        attention_case(draw, "keys for each head (1, heads, 1, t)", dim, heads, b, t,
                       draw.flags(1, heads, 1, t) | (torch.arange(t) == 0)),
        attention_case(draw, "nobody may look anywhere", dim, heads, b, t, ~ones),
        attention_case(draw, "everybody may look everywhere", dim, heads, b, t, ones),
        attention_case(draw, "float64 with empty rows", dim, heads, b, t, ones.triu(1), torch.float64),
    ]  # fmt: skip


# Right answers unlike the reference


class ByPermuting(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.heads = heads

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, t, dim = x.size()
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, mask)
        joined: Tensor = self.proj(out.permute(0, 2, 1, 3).contiguous().view(b, t, dim))
        return joined


class ByEinsum(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.heads, self.size = heads, dim // heads

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = torch.unbind(self.qkv(x).unflatten(-1, (3, self.heads, self.size)), dim=2)
        scores = torch.einsum("bthd,bshd->bhts", q / self.size**0.5, k)
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), -1e9)
        mixed = torch.einsum("bhts,bshd->bthd", F.softmax(scores, dim=3), v)
        joined: Tensor = self.proj(mixed.flatten(start_dim=2))
        return joined


class HeadByHead(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.heads = heads

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, t, _ = x.shape
        mask = None if mask is None else mask.expand(b, self.heads, t, t)
        outputs = []
        thirds = [part.chunk(self.heads, -1) for part in self.qkv(x).chunk(3, -1)]
        for head, (q, k, v) in enumerate(zip(*thirds, strict=True)):
            scores = torch.bmm(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5
            if mask is None:
                outputs.append(scores.softmax(2) @ v)
                continue
            allowed = mask[:, head]
            dead = ~allowed.any(-1, keepdim=True)
            shares = scores.masked_fill(~(allowed | dead), float("-inf")).softmax(2)
            outputs.append(shares.masked_fill(dead, 0) @ v)
        joined: Tensor = self.proj(torch.cat(outputs, -1))
        return joined


RIGHT_ANSWERS: list[Callable[..., Any]] = [ByPermuting, ByEinsum, HeadByHead]
