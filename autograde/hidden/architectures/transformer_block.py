"""The exercise `TransformerBlock`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograde.hidden.architectures.shared import UNBEGUN, Attention
from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.exercises.architectures.transformer_block import block_case
from torchcourse.model.exercise import Case, Draw

WHY = (
    "Each branch reads a normalised copy, and its result is added to x as it was: so a path of nothing but sums leads "
    "through the whole model, on which gradients pass at any depth. The two norms see different things, "
    "hence two layers."
)
"""Why the reference is written as it is."""
REQUIRED = ("post-norm", "missing-residual", "same-norm-twice")
"""The mistakes that a check must always be able to name."""

BLOCK = "The transformer block"


class Block(nn.Module):
    """A right block; a mistake overrides one of its methods."""

    def __init__(self, dim: int, heads: int, mlp_ratio: int = 4) -> None:
        super().__init__()
        self.ln1, self.ln2 = self.norms(dim)
        self.attn: Any = Attention(dim, heads)
        self.mlp = self.layers(dim, mlp_ratio * dim)

    def norms(self, dim: int) -> tuple[nn.Module, nn.Module]:
        return nn.LayerNorm(dim), nn.LayerNorm(dim)

    def layers(self, dim: int, wide: int) -> nn.Module:
        return nn.Sequential(nn.Linear(dim, wide), self.between(), nn.Linear(wide, dim))

    def between(self) -> nn.Module:
        return nn.GELU()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return self.second(self.first(x, mask))

    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        return x + self.attn(self.ln1(x), mask)

    def second(self, x: Tensor) -> Any:
        return x + self.mlp(self.ln2(x))


class AddsInPlace(Block):
    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        x += self.attn(self.ln1(x), mask)
        return x


class AddsInPlaceSecond(Block):
    def second(self, x: Tensor) -> Any:
        x += self.mlp(self.ln2(x))
        return x


MADE: dict[tuple[int, ...], nn.Module] = {}


def detached(part: nn.Module) -> Callable[..., Any]:
    """Return what a part computes, with weights that no gradient reaches."""
    weights = {name: p.detach() for name, p in part.named_parameters()}
    return lambda x: torch.func.functional_call(part, weights, (x,))


class PostNorm(Block):
    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        return self.ln1(x + self.attn(x, mask))

    def second(self, x: Tensor) -> Any:
        return self.ln2(x + self.mlp(x))


class NormAfterTheBranch(Block):
    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        return x + self.ln1(self.attn(x, mask))

    def second(self, x: Tensor) -> Any:
        return x + self.ln2(self.mlp(x))


class PostNormInTheEnd(Block):
    def second(self, x: Tensor) -> Any:
        return self.ln2(x + self.mlp(x))


class NothingAddedFirst(Block):
    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        return self.attn(self.ln1(x), mask)


class NothingAddedSecond(Block):
    def second(self, x: Tensor) -> Any:
        return self.mlp(self.ln2(x))


class NothingAdded(NothingAddedFirst, NothingAddedSecond):
    pass


class AddsTheNormalisedSecond(Block):
    def second(self, x: Tensor) -> Any:
        x = self.ln2(x)
        return x + self.mlp(x)


class AddsTheNormalisedFirst(Block):
    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        x = self.ln1(x)
        return x + self.attn(x, mask)


class AddsTheNormalised(AddsTheNormalisedFirst, AddsTheNormalisedSecond):
    pass


class AddsTheFirstX(Block):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        y = self.first(x, mask)
        return x + self.mlp(self.ln2(y))


class Parallel(Block):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return x + self.attn(self.ln1(x), mask) + self.mlp(self.ln2(x))


class UsesTheFirstNormTwice(Block):
    def second(self, x: Tensor) -> Any:
        return x + self.mlp(self.ln1(x))


class OneNormForBoth(Block):
    def norms(self, dim: int) -> tuple[nn.Module, nn.Module]:
        norm = nn.LayerNorm(dim)
        return norm, norm


class NormsExchanged(Block):
    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        return x + self.attn(self.ln2(x), mask)

    def second(self, x: Tensor) -> Any:
        return x + self.mlp(self.ln1(x))


class NoNorms(Block):
    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        return x + self.attn(x, mask)

    def second(self, x: Tensor) -> Any:
        return x + self.mlp(x)


class MlpFirst(Block):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        x = x + self.mlp(self.ln1(x))
        return x + self.attn(self.ln2(x), mask)


class ForgetsTheMask(Block):
    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        return x + self.attn(self.ln1(x))


class PostNormForgetsTheMask(PostNorm):
    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        return super().first(x, None)


class PostNormWithRelu(PostNorm):
    def between(self) -> nn.Module:
        return nn.ReLU()


class WithRelu(Block):
    def between(self) -> nn.Module:
        return nn.ReLU()


class WithTanhGelu(Block):
    def between(self) -> nn.Module:
        return nn.GELU(approximate="tanh")


class GeluAtTheEnd(Block):
    def layers(self, dim: int, wide: int) -> nn.Module:
        return nn.Sequential(nn.Linear(dim, wide), nn.GELU(), nn.Linear(wide, dim), nn.GELU())


class NotWider(Block):
    def layers(self, dim: int, wide: int) -> nn.Module:
        return nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim))


class AlwaysFourTimes(Block):
    def layers(self, dim: int, wide: int) -> nn.Module:
        return super().layers(dim, 4 * dim)


class OneLayer(Block):
    def layers(self, dim: int, wide: int) -> nn.Module:
        return nn.Sequential(nn.Linear(dim, dim), nn.GELU())


class WithoutBias(Block):
    def layers(self, dim: int, wide: int) -> nn.Module:
        return nn.Sequential(nn.Linear(dim, wide, bias=False), nn.GELU(), nn.Linear(wide, dim, bias=False))


class BatchNorms(Block):
    def norms(self, dim: int) -> tuple[nn.Module, nn.Module]:
        return nn.BatchNorm1d(dim), nn.BatchNorm1d(dim)

    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        return x + self.attn(self.ln1(x.mT).mT, mask)

    def second(self, x: Tensor) -> Any:
        return x + self.mlp(self.ln2(x.mT).mT)


class TorchsAttention(Block):
    def __init__(self, dim: int, heads: int, mlp_ratio: int = 4) -> None:
        super().__init__(dim, heads, mlp_ratio)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)

    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        y = self.ln1(x)
        return x + self.attn(y, y, y, attn_mask=None if mask is None else ~mask[0, 0])[0]


class OtherNames(Block):
    def __init__(self, dim: int, heads: int, mlp_ratio: int = 4) -> None:
        super().__init__(dim, heads, mlp_ratio)
        self.norm1, self.norm2 = self.ln1, self.ln2
        del self.ln1, self.ln2

    def first(self, x: Tensor, mask: Tensor | None) -> Any:
        return x + self.attn(self.norm1(x), mask)

    def second(self, x: Tensor) -> Any:
        return x + self.mlp(self.norm2(x))


class Unbegun(nn.Module):
    def __init__(self, dim: int, heads: int, mlp_ratio: int = 4) -> None:
        self.ln1 = nn.LayerNorm(dim)


AT = 'In the case "{case}" the value of `{what}` at {at} is {got_at} and should be {want_at}: '
MLP = "For TransformerBlock{sizes} the parameters of `mlp` are {mlp_has} where {mlp_wants} are wanted: "
POST = AT + "the norm stands inside the branch, before attention or MLP, and not after the sum."
ADDED = AT + "what a branch makes is added to x; without the sum, it replaces it."
IS_GOT = 'In the case "{case}" the {what} is {got} where {want} is wanted: '
DIGITS = AT + "only the digits of a float32 are right, and x is float64."
MISTAKES = [
    Mistake("missing-super-init", Unbegun, UNBEGUN, BLOCK),
    Mistake("post-norm", PostNorm, POST, BLOCK),
    Mistake("post-norm", PostNormInTheEnd, POST, BLOCK),
    Mistake("post-norm", PostNormForgetsTheMask, POST + " And the mask does not reach the attention.", BLOCK),
    Mistake("post-norm", PostNormWithRelu, POST + " And a GELU is wanted, not a ReLU.", BLOCK),
    Mistake("norm-after-the-branch", NormAfterTheBranch, AT + "the norm comes before attention or MLP, not between "
            "its result and the sum.", BLOCK),
    *(Mistake("missing-residual", program, ADDED, BLOCK)
      for program in (NothingAddedFirst, NothingAddedSecond, NothingAdded)),
    Mistake("adds-the-normalised", AddsTheNormalised, AT + "the sum takes x as it was; only the branch reads the "
            "normalised one.", BLOCK),
    Mistake("adds-the-normalised", AddsTheNormalisedFirst, AT + "the first sum takes x as it was; only the branch "
            "reads the normalised one.", BLOCK),
    Mistake("adds-the-normalised", AddsTheNormalisedSecond, AT + "the second sum takes x as it was; only the branch "
            "reads the normalised one.", BLOCK),
    Mistake("adds-the-first-x", AddsTheFirstX, AT + "the second sum adds to what the first has made, not to the "
            "block's input.", BLOCK),
    Mistake("branches-in-parallel", Parallel, AT + "the MLP reads what came out of the first sum, not the block's "
            "input.", BLOCK),
    Mistake("same-norm-twice", UsesTheFirstNormTwice, AT + "`ln1` was used in both branches; the second has its own, "
            "`ln2`.", BLOCK),
    Mistake("same-norm-twice", OneNormForBoth, AT + "`ln1` and `ln2` are one layer under two names.", BLOCK),
    Mistake("norms-exchanged", NormsExchanged, AT + "`ln1` belongs to the attention, `ln2` to the MLP.", BLOCK),
    Mistake("norms-not-used", NoNorms, AT + "the norms are there, but nothing goes through them.", BLOCK),
    Mistake("computes-in-float32", override(Block, second=lambda self, x: Block.second(self, x).float().to(x)), DIGITS,
            BLOCK),
    Mistake("mlp-cut-off", override(Block, second=lambda self, x: x + detached(self.mlp)(self.ln2(x))), IS_GOT + "its "
            "weights were detached, so they would never learn.", BLOCK),
    Mistake("mlp-of-the-class", override(Block, layers=lambda self, *sizes: MADE.setdefault(sizes, Block.layers(
            self, *sizes))), "The number of {what} is {got}: each block has layers of its own.", BLOCK),
    Mistake("adds-in-place", AddsInPlace, "The call ended with {outcome}: `+=` and `add_` write the sum into the "
            "caller's x; `x = x + ...` makes a new tensor.", BLOCK),
    Mistake("adds-in-place", AddsInPlaceSecond, "The backward pass ended with {backward}: `+=` and `add_` write into a "
            "tensor that a norm keeps for its gradients; `x = x + ...` makes a new one.", BLOCK),
    Mistake("mlp-first", MlpFirst, AT + "attention comes first, then the MLP.", BLOCK),
    Mistake("mask-forgotten", ForgetsTheMask, "In the case \"{case}\" `attn` was called with {got} instead of {want}: "
            "the mask has to reach the attention.", BLOCK),
    Mistake("relu-for-gelu", WithRelu, AT + "between the two layers stands a GELU, not a ReLU.", BLOCK),
    Mistake("approximate-gelu", WithTanhGelu, "In the case \"{case}\" `{what}` is slightly off, as it is with the tanh "
            "approximation of GELU; the exact GELU is wanted.", BLOCK),
    Mistake("nothing-between", override(Block, between=lambda self: nn.Identity()), AT + "between the two layers of "
            "the MLP a GELU is missing; without it they are one linear layer.", BLOCK),
    Mistake("dropout-added", override(Block, between=lambda self: nn.Sequential(nn.GELU(), nn.Dropout(0.1))), "There "
            "are {got} {what} something: in training they disturb the result, and none are wanted.", BLOCK),
    Mistake("gelu-at-the-end", GeluAtTheEnd, AT + "after the second layer of the MLP nothing follows: a GELU there "
            "would hardly let it subtract.", BLOCK),
    Mistake("mlp-not-wider", NotWider, MLP + "in the middle it is `mlp_ratio` times as wide.", BLOCK),
    Mistake("mlp-ratio-ignored", AlwaysFourTimes, MLP + "`mlp_ratio` has no effect.", BLOCK),
    Mistake("mlp-of-one-layer", OneLayer, MLP + "the MLP has two layers.", BLOCK),
    Mistake("mlp-without-bias", WithoutBias, MLP + "both layers have a bias.", BLOCK),
    Mistake("batch-norm", BatchNorms, AT + "a layer norm is wanted, which looks at one position alone.", BLOCK),
    Mistake("attention-takes-three", TorchsAttention, "`attn(x, mask)` {attn}: it should return one tensor, as your "
            "`MultiHeadAttention` does; `nn.MultiheadAttention` is called differently.", BLOCK),
    Mistake("attributes-not-named", OtherNames, "The attributes {missing} are missing: the parts are called ln1, attn, "
            "ln2 and mlp.", BLOCK),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    heads, size, b, t = draw.size(1, 3), draw.size(2, 4), draw.size(1, 3), draw.size(2, 6)
    mask = draw.flags(b, 1, t, t, share=0.7)
    return [
        block_case(draw, "drawn sizes", (heads * size, heads, draw.size(2, 5)), b, t),
        block_case(draw, "drawn, with a mask", (heads * size, heads), b, t, mask),
    ]


# Right answers unlike the reference


class WideMlp(nn.Module):
    def __init__(self, dim: int, wide: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(wide, dim), nn.Linear(dim, wide)

    def forward(self, x: Tensor) -> Any:
        return self.down(F.gelu(self.up(x)))


class BlockInOneLine(nn.Module):
    def __init__(self, dim: int, heads: int, mlp_ratio: int = 4) -> None:
        super().__init__()
        self.mlp = WideMlp(dim, int(dim * mlp_ratio))
        self.attn = Attention(dim, heads)
        self.ln2, self.ln1 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = x + self.attn(self.ln1(x), mask=mask)
        out: Tensor = y + self.mlp(self.ln2(y))
        return out


class WrappedAttention(nn.Module):
    """torch's own attention, called with x and the mask."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.inner, self.heads = nn.MultiheadAttention(dim, heads, batch_first=True), heads

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        forbidden = None
        if mask is not None:
            b, t, _ = x.shape
            forbidden = ~mask.expand(b, self.heads, t, t).flatten(0, 1)
        out: Tensor = self.inner(x, x, x, attn_mask=forbidden, need_weights=False)[0]
        return out


class BlockByBranches(nn.Module):
    def __init__(self, dim: int, heads: int, mlp_ratio: int = 4) -> None:
        super().__init__()
        for name, part in {
            "ln1": nn.LayerNorm(dim),
            "attn": WrappedAttention(dim, heads),
            "ln2": nn.LayerNorm(dim),
            "mlp": nn.Sequential(nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim)),
        }.items():
            self.add_module(name, part)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        parts = dict(self.named_children())
        branch = parts["attn"](parts["ln1"](x)) if mask is None else parts["attn"](parts["ln1"](x), mask)
        total = torch.add(x, branch)
        out: Tensor = parts["mlp"](parts["ln2"](total)).add(total)
        return out


RIGHT_ANSWERS: list[Callable[..., Any]] = [BlockInOneLine, BlockByBranches]
