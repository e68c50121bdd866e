"""The exercise `blockwise_attention`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import reading, rounding, with_floats
from autograde.source.mistakes import Mistake
from torchcourse.exercises.efficiency.blockwise_attention import attention_case, large
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The sums of a softmax can be built block by block, if they are all relative to the same maximum. When a block "
    "brings a larger one, what was summed shrinks by exp(old - new). The first shrink is exp(-inf), which is 0. This "
    "is the online softmax inside FlashAttention."
)
"""Why the reference is written as it is."""
REQUIRED = ("no-rescaling", "materializes-scores", "drops-last-block", "overflow")
"""The mistakes that a check must always be able to name."""

READ = "Attention without the score matrix"


class Running:
    """A right answer; a mistake overrides one of its methods."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Any:
        like = self.state(q)
        top = like.new_full((*q.shape[:-1], 1), self.start())
        total, mixed = torch.zeros_like(top), like.new_zeros(*q.shape[:-1], v.shape[-1])
        for keys, values in self.blocks(k, v, block):
            scores = self.scores(q, keys)
            new = self.maximum(top, scores)
            weights, shrink = (scores - new).exp(), self.shrink(top, new)
            total = self.add_up(total, shrink, weights)
            mixed = self.mix(mixed, shrink, weights, values)
            top = new
        return self.finish(mixed, total)

    def state(self, q: Tensor) -> Tensor:
        """Return a tensor whose dtype and device those of the sums are."""
        return q

    def start(self) -> float:
        return -math.inf

    def blocks(self, k: Tensor, v: Tensor, block: int) -> Any:
        return zip(k.split(block, -2), v.split(block, -2), strict=True)  # type: ignore[no-untyped-call]

    def scores(self, q: Tensor, keys: Tensor) -> Tensor:
        scores: Tensor = q @ keys.mT / q.shape[-1] ** 0.5
        return scores

    def maximum(self, top: Tensor, scores: Tensor) -> Tensor:
        return torch.maximum(top, scores.amax(-1, keepdim=True))

    def shrink(self, top: Tensor, new: Tensor) -> Tensor:
        return (top - new).exp()

    def add_up(self, total: Tensor, shrink: Tensor, weights: Tensor) -> Tensor:
        return total * shrink + weights.sum(-1, keepdim=True)

    def mix(self, mixed: Tensor, shrink: Tensor, weights: Tensor, values: Tensor) -> Tensor:
        return mixed * shrink + weights @ values

    def finish(self, mixed: Tensor, total: Tensor) -> Tensor:
        return mixed / total


class NoRescaling(Running):
    def shrink(self, top: Tensor, new: Tensor) -> Tensor:
        return torch.ones_like(top)


class RescalesOnlyValues(Running):
    def add_up(self, total: Tensor, shrink: Tensor, weights: Tensor) -> Tensor:
        return total + weights.sum(-1, keepdim=True)


class RescalesOnlySum(Running):
    def mix(self, mixed: Tensor, shrink: Tensor, weights: Tensor, values: Tensor) -> Tensor:
        return mixed + weights @ values


class DetachedMaximum(Running):
    """Right too: the maximum has no part in the gradient, unless something else is wrong."""

    def maximum(self, top: Tensor, scores: Tensor) -> Tensor:
        return super().maximum(top, scores).detach()


class NoRescalingDetached(DetachedMaximum, NoRescaling):
    pass


class RescalesOnlyValuesDetached(DetachedMaximum, RescalesOnlyValues):
    pass


class RescalesOnlySumDetached(DetachedMaximum, RescalesOnlySum):
    pass


class RescalesUpwards(Running):
    def shrink(self, top: Tensor, new: Tensor) -> Tensor:
        return torch.where(top.isinf(), 0.0, (new - top).exp())


class MaximumOfBlock(Running):
    def maximum(self, top: Tensor, scores: Tensor) -> Tensor:
        return scores.amax(-1, keepdim=True)

    def shrink(self, top: Tensor, new: Tensor) -> Tensor:
        return torch.ones_like(top)


class OneMaximumForAll(Running):
    def maximum(self, top: Tensor, scores: Tensor) -> Tensor:
        return torch.maximum(top, scores.max())


class OneMaximumForAllDetached(Running):
    def maximum(self, top: Tensor, scores: Tensor) -> Tensor:
        return torch.maximum(top, scores.max().detach())


class Overflow(Running):
    def start(self) -> float:
        return 0.0

    def maximum(self, top: Tensor, scores: Tensor) -> Tensor:
        return torch.zeros_like(top)


class StartsAtZero(Running):
    def start(self) -> float:
        return 0.0


class StartsAtMinus10000(Running):
    def start(self) -> float:
        return -1e4


class StateInFloat32(Running):
    def state(self, q: Tensor) -> Tensor:
        return torch.empty(0, device=q.device)


class ResultInFloat32(StateInFloat32):
    def mix(self, mixed: Tensor, shrink: Tensor, weights: Tensor, values: Tensor) -> Tensor:
        return super().mix(mixed, shrink, weights.to(values.dtype), values)


class DropsLast(Running):
    def blocks(self, k: Tensor, v: Tensor, block: int) -> Any:
        count = max(k.shape[-2] // block, 1)
        return list(super().blocks(k, v, block))[:count]


class FullBlocksOnly(Running):
    def blocks(self, k: Tensor, v: Tensor, block: int) -> Any:
        return list(super().blocks(k, v, block))[: k.shape[-2] // block]


class NotScaled(Running):
    def scores(self, q: Tensor, keys: Tensor) -> Tensor:
        return q @ keys.mT


class FullBlocksNotScaled(FullBlocksOnly, NotScaled):
    pass


class ScaledByBlock(Running):
    def scores(self, q: Tensor, keys: Tensor) -> Tensor:
        scores: Tensor = q @ keys.mT / keys.shape[-2] ** 0.5
        return scores


class ScaledByWidth(Running):
    def scores(self, q: Tensor, keys: Tensor) -> Tensor:
        return q @ keys.mT / q.shape[-1]


def list_of_scores_by_values(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Any:
    return list_of_scores(q * (q.shape[-1] / v.shape[-1]) ** 0.5, k, v, block)


class NotDivided(Running):
    def finish(self, mixed: Tensor, total: Tensor) -> Tensor:
        return mixed


class Detached(Running):
    def scores(self, q: Tensor, keys: Tensor) -> Tensor:
        return super().scores(q, keys).detach()


right = Running()


def averages_blocks(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Tensor:
    parts = [right(q, keys, values, block) for keys, values in right.blocks(k, v, block)]
    return torch.stack(parts).mean(0)


def whole_scores(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Tensor:
    scores = right.scores(q, k)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return weights @ v / weights.sum(-1, keepdim=True)


def list_of_scores(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Any:
    scores = [right.scores(q, keys) for keys in k.split(block, -2)]  # type: ignore[no-untyped-call]
    top = torch.stack([s.amax(-1, keepdim=True) for s in scores]).amax(0)
    weights = [(s - top).exp() for s in scores]
    mixed = sum(w @ values for w, values in zip(weights, v.split(block, -2), strict=True))  # type: ignore[no-untyped-call]
    return mixed / sum(w.sum(-1, keepdim=True) for w in weights)


def lists_of_numbers(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Any:
    """Keeps all scores as lists; the gradients come from a second run that keeps nothing."""
    if torch.is_grad_enabled():
        return right(q, k, v, block)
    listed = [right.scores(q, keys).tolist() for keys in k.split(block, -2)]  # type: ignore[no-untyped-call]
    top = q.new_full((*q.shape[:-1], 1), -math.inf)
    for part in listed:
        top = torch.maximum(top, q.new_tensor(part).amax(-1, keepdim=True))
    total, mixed = torch.zeros_like(top), q.new_zeros(*q.shape[:-1], v.shape[-1])
    for part, values in zip(listed, v.split(block, -2), strict=True):  # type: ignore[no-untyped-call]
        weights = (q.new_tensor(part) - top).exp()
        total, mixed = total + weights.sum(-1, keepdim=True), mixed + weights @ values
    return mixed / total


def blocks_of_queries(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Tensor:
    return whole_scores(q, k, v) if q.shape[-2] <= block else torch.cat(
        [whole_scores(part, k, v) for part in q.split(4 * block, -2)], -2  # type: ignore[no-untyped-call]
    )  # fmt: skip


def few_queries(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Tensor:
    return torch.cat([whole_scores(part, k, v) for part in q.split(8, -2)], -2)  # type: ignore[no-untyped-call]


def sixteen_keys(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Any:
    return DetachedMaximum()(q, k, v, 16)


def whole_with_a_graph(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Any:
    return whole_scores(q, k, v) if torch.is_grad_enabled() else right(q, k, v, block)


AT = 'In the case "{case}", with {keys} keys in blocks of {block}, `{what}` is {got} where {want} is wanted: '
PEAK = "The call held {peak}: "
HELD = (
    "scores with all keys were held at once, either made by one product, or block by block and kept. A block's scores "
    "are not needed any more when the next one begins."
)
FIXED = "The call held {larger}: how many keys are taken at a time does not follow `block`."
CUT = 'In the case "{case}", `{what}` is {got} where {want} is wanted: the scores are cut off from q and k.'
NO_RESCALING = (
    (NoRescaling, NoRescalingDetached, "when a block brings a larger maximum, the sums so far have to shrink by "
     "exp(old - new); they were left as they were."),
    (RescalesOnlyValues, RescalesOnlyValuesDetached, "the weighted values shrink when the maximum grows, and so must "
     "the sum of the weights."),
    (RescalesOnlySum, RescalesOnlySumDetached, "the sum of the weights shrinks when the maximum grows, and so must the "
     "weighted values."),
)  # fmt: skip
MISTAKES = [
    *(Mistake("no-rescaling", program(), AT + why, READ) for *programs, why in NO_RESCALING for program in programs),
    Mistake("rescales-upwards", RescalesUpwards(), AT + "the factor is exp(old - new), at most 1; here it is the "
            "inverse.", READ),
    Mistake("maximum-of-the-block", MaximumOfBlock(), AT + "each block was taken relative to its own maximum, so "
            "weights of different blocks do not add up.", READ),
    Mistake("materializes-scores", whole_scores, PEAK + HELD, READ),
    Mistake("materializes-scores", list_of_scores, PEAK + HELD, READ),
    Mistake("materializes-scores", lists_of_numbers, PEAK + HELD, READ),
    Mistake("materializes-scores", blocks_of_queries, PEAK + HELD, READ),
    Mistake("materializes-scores", whole_with_a_graph, "Where gradients are on, a tensor was made that is {largest}: "
            "keys have to be taken in blocks there, too.", READ),
    Mistake("ignores-block", few_queries, FIXED, READ),
    Mistake("ignores-block", sixteen_keys, FIXED, READ),
    Mistake("drops-last-block", DropsLast(), AT + "the last keys, which do not fill a block, were left out.", READ),
    Mistake("drops-last-block", FullBlocksOnly(), AT + "keys that do not fill a block were left out, which may be all "
            "of them.", READ),
    Mistake("drops-last-block", FullBlocksNotScaled(), AT + "keys that do not fill a block were left out; also, the "
            "scores were not divided by the root of d.", READ),
    *(Mistake("one-maximum-for-all-rows", program, AT + "one maximum was taken for all queries; where a row's scores "
              "are far below it, all of its weights vanish.", READ)
      for program in (OneMaximumForAll(), OneMaximumForAllDetached())),
    Mistake("overflow", Overflow(), AT + "the maximum was not subtracted first, so exp overflows.", READ),
    *(Mistake("starts-at-a-number", program, AT + "where all scores are far below 0, their weights vanish, unless the "
            "largest score is subtracted. Before the first block the maximum is -inf, not a number that is larger than "
            "all of them.", READ)
      for program in (StartsAtZero(), StartsAtMinus10000())),
    Mistake("averages-blocks", averages_blocks, AT + "the blocks' results were averaged, whatever weight their keys "
            "have.", READ),
    Mistake("not-scaled", NotScaled(), AT + "the scores have to be divided by the root of d.", READ),
    Mistake("scaled-by-d", ScaledByWidth(), AT + "the scores were divided by d, not by its root.", READ),
    Mistake("scaled-by-block", ScaledByBlock(), AT + "the scores were divided by the root of the number of keys in the "
            "block, not of d.", READ),
    Mistake("scaled-by-values", list_of_scores_by_values, AT + "the scores were divided by the root of the width of v, "
            "not of q. And the blocks of scores were all kept.", READ),
    Mistake("not-divided", NotDivided(), AT + "in the end the weighted values have to be divided by the sum of the "
            "weights.",
            READ),
    Mistake("detached", Detached(), CUT, READ),
    Mistake("state-in-float32", StateInFloat32(), 'In the case "{case}" the call raised {error}: the sums were begun '
            "in float32, which made all that follows float32; begin them in the dtype of q.", READ),
    Mistake("state-in-float32", ResultInFloat32(), "The result is {got_dtype} where {want_dtype} is wanted: the sums "
            "were begun in float32; begin them in the dtype of q.", READ),
    *reading(READ, [rounding(right), *with_floats(right, 0)]),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    t, n = draw.size(1, 4), draw.size(5, 40)
    q, k, v = (draw.normal(2, rows, 4) for rows in (t, n, n))
    return [
        attention_case(draw, "drawn sizes", t, n, block=draw.size(2, 9)),
        attention_case(draw, "a block larger than the keys", t, 7, block=100),
        attention_case(draw, "more than 64 keys", 2, 70),
        case("three dimensions", rtol=1e-3, q=q, k=k, v=v, block=4),
        attention_case(draw, "larger scores yet", t, n, block=5, size=14.0),
        attention_case(draw, "drawn sizes of a large call", t, n, block=draw.size(2, 9), measured=large(draw)),
    ]


# Right answers unlike the reference


def in_the_log(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Tensor:
    """Keeps the result so far, already divided, and the log of the sum."""
    mixed, log = None, None
    for i in range(0, k.shape[-2], block):
        scores = torch.matmul(q, k[..., i : i + block, :].transpose(-2, -1)).mul(q.shape[-1] ** -0.5)
        own = torch.logsumexp(scores, dim=-1, keepdim=True)
        part = torch.matmul((scores - own).exp(), v[..., i : i + block, :])
        if mixed is None or log is None:
            mixed, log = part, own
        else:
            both = torch.logaddexp(log, own)
            mixed, log = mixed * (log - both).exp() + part * (own - both).exp(), both
    assert mixed is not None
    return mixed


def in_two_passes(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Tensor:
    """Finds the maximum first, and computes the scores a second time."""
    scaled = q / math.sqrt(q.size(-1))
    parts = [(k.narrow(-2, i, min(block, k.size(-2) - i)), v.narrow(-2, i, min(block, k.size(-2) - i)))
             for i in range(0, k.size(-2), block)]  # fmt: skip
    with torch.no_grad():
        top = torch.stack([torch.einsum("...qd,...kd->...qk", scaled, a).max(-1).values for a, _ in parts]).amax(0)
    total: Any = 0
    mixed: Any = 0
    for a, b in parts:
        weights = torch.exp(torch.einsum("...qd,...kd->...qk", scaled, a) - top.unsqueeze(-1))
        total, mixed = total + weights.sum(-1), mixed + torch.einsum("...qk,...ke->...qe", weights, b)
    result: Tensor = mixed / total.unsqueeze(-1)
    return result


class Recomputed(torch.autograd.Function):
    """Keeps nothing but q, k and v for backward, which computes all again."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, block: int) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.block = block
        return in_the_log(q, k, v, block)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        q, k, v = (t.detach().requires_grad_() for t in ctx.saved_tensors)
        with torch.enable_grad():
            result = in_the_log(q, k, v, ctx.block)
        return *torch.autograd.grad(result, (q, k, v), gradients[0]), None


def by_an_operator_of_its_own(q: Tensor, k: Tensor, v: Tensor, block: int = 64) -> Any:
    return Recomputed.apply(q, k, v, block)


RIGHT_ANSWERS: list[Callable[..., Any]] = [in_the_log, in_two_passes, by_an_operator_of_its_own]
