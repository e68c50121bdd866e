"""The exercise `grouped_query_attention`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograde.hidden.architectures.shared import reading
from autograde.hidden.common import rounding, with_floats
from autograde.source.mistakes import Mistake
from torchcourse.exercises.architectures.grouped_query_attention import grouped
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`repeat_interleave` repeats each key head in its place: 0, 0, 0, 1, 1, 1, which is `i // (h // g)`. The copies "
    "are made only for the product; the cache, which is what costs memory, holds g heads. The rest is plain attention."
)
"""Why the reference is written as it is."""
REQUIRED = ("repeats-not-interleaves", "averages-queries", "divides-reversed")
"""The mistakes that a check must always be able to name."""

GROUPS = "Grouped queries"


def in_groups(q: Tensor, k: Tensor) -> Tensor:
    b, h, t, d = q.shape
    return q.reshape(b, k.shape[1], h // k.shape[1], t, d)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def right(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    return attend(q, k.repeat_interleave(share, 1), v.repeat_interleave(share, 1))


def repeats(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    return attend(q, k.repeat(1, share, 1, 1), v.repeat(1, share, 1, 1))


def scaled_twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return right(q / q.shape[-1] ** 0.5, k, v)


def scaled_twice_and_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return causal(q / q.shape[-1] ** 0.5, k, v)


def groups_in_turns(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    b, h, t, d = q.shape
    g = k.shape[1]
    turns = q.reshape(b, h // g, g, t, d)
    return attend(turns, k[:, None], v[:, None]).reshape(b, h, t, d)


def repeats_keys_interleaves_values(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    return attend(q, k.repeat(1, share, 1, 1), v.repeat_interleave(share, 1))


def repeats_values_interleaves_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    return attend(q, k.repeat_interleave(share, 1), v.repeat(1, share, 1, 1))


def out_of_step_and_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(share, 1), v.repeat(1, share, 1, 1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def averages(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    mean = in_groups(q, k).mean(2)
    return attend(mean, k, v).repeat_interleave(share, 1)


def averages_and_leaves(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attend(in_groups(q, k).mean(2), k, v)


def averages_outputs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return in_groups(right(q, k, v), k).mean(2)


def divides_by_groups(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    heads = torch.arange(q.shape[1], device=q.device) // k.shape[1]
    return attend(q, k[:, heads], v[:, heads])


def divides_reversed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = k.shape[1] // q.shape[1]
    return attend(q, k.repeat_interleave(share, 1), v.repeat_interleave(share, 1))


def repeats_g_times(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    g = k.shape[1]
    return attend(q, k.repeat_interleave(g, 1), v.repeat_interleave(g, 1))


def first_head_for_all(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attend(q, k[:, :1].expand(-1, q.shape[1], -1, -1), v[:, :1].expand(-1, q.shape[1], -1, -1))


def mean_head_for_all(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    k, v = k.mean(1, keepdim=True), v.mean(1, keepdim=True)
    return attend(q, k.expand(-1, q.shape[1], -1, -1), v.expand(-1, q.shape[1], -1, -1))


def broadcasts(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.matmul((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1), v)


def enables(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def values_not_repeated(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    return torch.matmul((q @ k.repeat_interleave(share, 1).mT / q.shape[-1] ** 0.5).softmax(-1), v)


def repeats_positions(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    return attend(q, k.repeat_interleave(share, 2), v.repeat_interleave(share, 2))


def not_scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    return (q @ k.repeat_interleave(share, 1).mT).softmax(-1) @ v.repeat_interleave(share, 1)


def repeats_not_scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    return (q @ k.repeat(1, share, 1, 1).mT).softmax(-1) @ v.repeat(1, share, 1, 1)


def out_of_step_not_scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    return (q @ k.repeat_interleave(share, 1).mT).softmax(-1) @ v.repeat(1, share, 1, 1)


def out_of_step_the_other_way_not_scaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    return (q @ k.repeat(1, share, 1, 1).mT).softmax(-1) @ v.repeat_interleave(share, 1)


def expands_by_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    b, h, t, d = q.shape
    g = k.shape[1]
    k, v = (part[:, :, None].expand(b, g, h // g, t, d).reshape(b, h, t, d) for part in (k, v))
    return attend(q, k, v)


def scaled_by_number_of_keys(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(share, 1).mT / k.shape[2] ** 0.5
    return torch.matmul(scores.softmax(-1), v.repeat_interleave(share, 1))


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    return F.scaled_dot_product_attention(
        q, k.repeat_interleave(share, 1), v.repeat_interleave(share, 1), is_causal=True
    )


def over_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(share, 1).mT / q.shape[-1] ** 0.5
    return torch.matmul(scores.softmax(-2), v.repeat_interleave(share, 1))


def groups_left(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    grouped_queries = in_groups(q, k)
    return attend(grouped_queries, k[:, :, None], v[:, :, None])


def cuts_the_gradient(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return right(q, k, v).detach()


def without_the_largest(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    share = q.shape[1] // k.shape[1]
    sizes = (q @ k.repeat_interleave(share, 1).mT / q.shape[-1] ** 0.5).exp()
    return torch.matmul(sizes / sizes.sum(-1, keepdim=True), v.repeat_interleave(share, 1))


AT = 'In the case "{case}" the value at {at} is {got_at} and should be {want_at}: '
IS = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
SHAPE = 'In the case "{case}" the result has shape {got_shape} where {want_shape} is wanted: '
TURNS = (
    AT
    + "the query heads took turns on the key heads; with {h} of them and {g} key heads, {share} neighbours share one."
)
SCALE = " And the scores have to be divided by the root of d."
TWICE = (
    "the scores were divided by d, or twice by its root. `scaled_dot_product_attention` divides them by the root of d "
    "by itself."
)
OUT_OF_STEP = AT + "keys were repeated in one order and values in the other."
DIFFERENT = (
    'In the case "{case}" the call raised {error}: {h} query heads met {g} heads. Keys and values both have to be '
    "repeated, along dimension 1."
)
MISTAKES = [
    Mistake("repeats-not-interleaves", repeats, TURNS, GROUPS),
    Mistake("repeats-not-interleaves", groups_in_turns, TURNS, GROUPS),
    Mistake("keys-and-values-out-of-step", repeats_keys_interleaves_values, OUT_OF_STEP, GROUPS),
    Mistake("keys-and-values-out-of-step", repeats_values_interleaves_keys, OUT_OF_STEP, GROUPS),
    Mistake("keys-and-values-out-of-step", out_of_step_and_causal, OUT_OF_STEP + " And a causal mask was applied; none "
            "is wanted.",
            GROUPS),
    Mistake("repeats-not-interleaves", repeats_not_scaled, TURNS + SCALE, GROUPS),
    Mistake("keys-and-values-out-of-step", out_of_step_not_scaled, OUT_OF_STEP + SCALE, GROUPS),
    Mistake("keys-and-values-out-of-step", out_of_step_the_other_way_not_scaled, OUT_OF_STEP + SCALE, GROUPS),
    Mistake("as-many-keys-as-queries", expands_by_queries, 'In the case "{case}" the call raised {error}: there are '
            "{keys} keys and values for {queries} queries; the two numbers may differ.", GROUPS),
    Mistake("averages-queries", averages, AT + "the query heads of a group were averaged; only keys and values are "
            "shared.", GROUPS),
    Mistake("averages-queries", averages_and_leaves, SHAPE + "the query heads of a group were averaged; each keeps an "
            "output of its own.", GROUPS),
    Mistake("averages-queries", averages_outputs, SHAPE + "the outputs of a group were averaged; each query head keeps "
            "its own.", GROUPS),
    Mistake("divides-reversed", divides_by_groups, IS + "i was divided by {g}, the number of key heads; {share} query "
            "heads share one, so divide by {share}.", GROUPS),
    Mistake("divides-reversed", divides_reversed, IS + "{g} // {h} was computed; how many share a key head is "
            "{h} // {g}.", GROUPS),
    Mistake("repeats-g-times", repeats_g_times, 'In the case "{case}" the call raised {error}: each key head '
            "was repeated {g} times, as often as there are key heads; repeat it {share} times instead.", GROUPS),
    Mistake("first-head-for-all", first_head_for_all, AT + "all query heads used key head 0.", GROUPS),
    Mistake("mean-head-for-all", mean_head_for_all, AT + "the key heads were averaged; each group has its own.",
            GROUPS),
    Mistake("uses-enable-gqa", enables, 'In the case "{case}" `enable_gqa=True` was used: here you arrange the heads '
            'yourself.', GROUPS),
    Mistake("heads-left-different", broadcasts, DIFFERENT, GROUPS),
    Mistake("heads-left-different", values_not_repeated, DIFFERENT, GROUPS),
    Mistake("heads-left-different", repeats_positions, DIFFERENT, GROUPS),
    Mistake("not-scaled", not_scaled, AT + "the scores have to be divided by the root of d.", "Attention with heads"),
    Mistake("scaled-twice", scaled_twice, AT + TWICE, "Attention with heads"),
    Mistake("scaled-twice", scaled_twice_and_causal, AT + TWICE + " And a causal mask was applied; none is wanted.",
            "Attention with heads"),
    Mistake("scaled-by-number-of-keys", scaled_by_number_of_keys, AT + "the scores were divided by the root of the "
            "number of keys; they have to be divided by the root of d, the size of a head.", "Attention with heads"),
    Mistake("causal", causal, AT + "a causal mask was applied; none is wanted.", GROUPS),
    Mistake("softmax-over-queries", over_queries, AT + "the softmax has to run over the keys, so that the shares of "
            "one query add up to 1.",
            "Attention with heads"),
    Mistake("groups-left-apart", groups_left, SHAPE + "join the two dimensions of the heads again: (b, h, t, d).",
            GROUPS),
    Mistake("cuts-the-gradient", cuts_the_gradient, 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
            "something on the way cuts the gradient, such as `detach()` or `torch.no_grad()`.", GROUPS),
    Mistake("exponential-overflows", without_the_largest, 'In the case "{case}" `{what}` is {got} where {want} is '
            "wanted: the exponential of a large score is infinite. `softmax` subtracts the largest one first.",
            "Attention with heads"),
    *reading(GROUPS, [*with_floats(right, 3), rounding(right)]),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    g, share = draw.size(2, 4), draw.size(2, 4)
    t, d = draw.size(16, 40), draw.size(2, 6)
    split = draw.normal(2, t, g * share * d).view(2, t, g * share, d).transpose(1, 2)
    return [
        grouped(draw, "drawn sizes", g * share, g, t, draw.size(70, 120), b=draw.size(1, 3)),
        case("heads split from one tensor", rtol=1e-3, q=split, k=draw.normal(2, g, t, d), v=draw.normal(2, g, t, d)),
        grouped(draw, "an empty batch", 4, 2, t, t, b=0),
    ]


# Right answers unlike the reference


def by_broadcasting(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    b, h, t, d = q.shape
    groups = q.reshape(b, k.shape[1], h // k.shape[1], t, d)
    scores = groups @ k.unsqueeze(2).transpose(-2, -1) * d**-0.5
    mixed = torch.softmax(scores, dim=-1) @ v.unsqueeze(2)
    return mixed.reshape(b, h, t, d)


def by_index(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    h, g = q.size(1), k.size(1)
    heads = torch.tensor([i // (h // g) for i in range(h)], device=q.device)
    return F.scaled_dot_product_attention(q, k.index_select(1, heads), v.index_select(1, heads))


def by_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    groups = in_groups(q, k)
    weights = torch.einsum("bgrtd,bgsd->bgrts", groups, k).div(q.size(-1) ** 0.5).softmax(-1)
    return torch.einsum("bgrts,bgsd->bgrtd", weights, v).flatten(1, 2)


def group_by_group(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    parts = q.chunk(k.shape[1], dim=1)
    outputs = []
    for part, key, value in zip(parts, k.chunk(k.shape[1], 1), v.chunk(k.shape[1], 1), strict=True):
        outputs.append(attend(part, *(one.repeat(1, part.shape[1], 1, 1) for one in (key, value))))
    return torch.cat(outputs, dim=1)


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_broadcasting, by_index, by_einsum, group_by_group]
