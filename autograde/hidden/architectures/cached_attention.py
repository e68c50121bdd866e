"""The exercise `cached_attention`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograde.hidden.common import MIXED, ROUNDED
from autograde.source.mistakes import Mistake
from torchcourse.exercises.architectures.cached_attention import split_case
from torchcourse.model.exercise import Case, Draw

WHY = (
    "`cat` makes new tensors, so the caller's cache stays as it was. The queries are the newest positions, so the "
    "triangle is counted from the bottom right: `tril(known - new)`. For one query that forbids nothing, for a whole "
    "sequence it is the usual triangle, so no case needs a branch of its own."
)
"""Why the reference is written as it is."""
REQUIRED = ("is-causal-with-cache", "overwrites-cache", "no-mask-inside-chunk", "mutates-cache")
"""The mistakes that a check must always be able to name."""

CACHE = "Decoding with a cache"
Answer = tuple[Tensor, Any]


def join(k: Tensor, v: Tensor, cache: Any) -> tuple[Tensor, Tensor]:
    if cache is None:
        return k, v
    return torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)


def triangle(q: Tensor, k: Tensor, shift: int = 0) -> Tensor:
    new, known = q.shape[2], k.shape[2]
    return torch.ones(new, known, dtype=torch.bool, device=q.device).tril(known - new + shift)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def is_causal(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    k, v = join(k, v, cache)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True), (k, v)


def is_causal_by_hand(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    k, v = join(k, v, cache)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    past = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
    return scores.masked_fill(~past, -torch.inf).softmax(-1) @ v, (k, v)


def keeps_only_the_new(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    all_k, all_v = join(k, v, cache)
    return attend(q, all_k, all_v, triangle(q, all_k)), (k, v)


def ignores_the_cache(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    return attend(q, k, v, triangle(q, k)), (k, v)


def keeps_the_first(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    all_k, all_v = join(k, v, cache)
    return attend(q, all_k, all_v, triangle(q, all_k)), cache or (k, v)


def unmasked_with_a_cache(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    if cache is None:
        return attend(q, k, v, triangle(q, k)), (k, v)
    k, v = join(k, v, cache)
    return attend(q, k, v, None), (k, v)


def never_masked(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    k, v = join(k, v, cache)
    return attend(q, k, v, None), (k, v)


def list_changed(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    cache = [] if cache is None else cache
    cache.append((k, v))
    k, v = (torch.cat(parts, 2) for parts in zip(*cache, strict=True))
    return attend(q, k, v, triangle(q, k)), cache


def dict_changed(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    cache = {} if cache is None else cache
    cache["k"] = torch.cat([cache["k"], k], 2) if "k" in cache else k
    cache["v"] = torch.cat([cache["v"], v], 2) if "v" in cache else v
    return attend(q, cache["k"], cache["v"], triangle(q, cache["k"])), cache


def dict_changed_one_ahead(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    _, cache = dict_changed(q, k, v, cache)
    return attend(q, cache["k"], cache["v"], triangle(q, cache["k"], 1)), cache


class Buffer:
    """Room for keys and values, and how many positions of it are taken."""

    def __init__(self, k: Tensor, v: Tensor, taken: int) -> None:
        self.k, self.v, self.taken = k, v, taken


def one_buffer_for_all(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    if cache is None:
        b, h, _, d = k.shape
        cache = Buffer(k.new_zeros(b, h, 256, d), v.new_zeros(b, h, 256, d), 0)
    taken = cache.taken + k.shape[2]
    cache.k[:, :, cache.taken : taken] = k
    cache.v[:, :, cache.taken : taken] = v
    k, v = cache.k[:, :, :taken], cache.v[:, :, :taken]
    return attend(q, k, v, triangle(q, k)), Buffer(cache.k, cache.v, taken)


def new_ones_in_front(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    if cache is not None:
        k, v = torch.cat([k, cache[0]], 2), torch.cat([v, cache[1]], 2)
    return attend(q, k, v, triangle(q, k)), (k, v)


def keys_and_values_exchanged(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    if cache is not None:
        v_old, k_old = cache
        k, v = torch.cat([k_old, k], 2), torch.cat([v_old, v], 2)
    return attend(q, k, v, triangle(q, k)), (k, v)


def joined_along_heads(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    if cache is not None:
        k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
    return attend(q, k, v, triangle(q, k)), (k, v)


def values_not_kept(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    old = cache
    k, v = (k, v) if old is None else (torch.cat([old[0], k], 2), torch.cat([old[0], v], 2))
    return attend(q, k, v, triangle(q, k)), (k, v)


def without_itself(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    k, v = join(k, v, cache)
    return attend(q, k, v, triangle(q, k, -1)), (k, v)


def one_ahead(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    k, v = join(k, v, cache)
    return attend(q, k, v, triangle(q, k, 1)), (k, v)


def cannot_see_the_cache(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    k, v = join(k, v, cache)
    return attend(q, k, v, triangle(q, k) & triangle(q, k).flip(0, 1)), (k, v)


def not_scaled(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    k, v = join(k, v, cache)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=triangle(q, k), scale=1.0), (k, v)


def keeps_only_the_new_not_scaled(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    all_k, all_v = join(k, v, cache)
    out = F.scaled_dot_product_attention(q, all_k, all_v, attn_mask=triangle(q, all_k), scale=1.0)
    return out, (k, v)


def new_ones_in_front_not_scaled(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    if cache is not None:
        k, v = torch.cat([k, cache[0]], 2), torch.cat([v, cache[1]], 2)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=triangle(q, k), scale=1.0), (k, v)


def is_causal_not_scaled(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    k, v = join(k, v, cache)
    past = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
    return (q @ k.mT).masked_fill(~past, -torch.inf).softmax(-1) @ v, (k, v)


def mask_inverted(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    k, v = join(k, v, cache)
    return attend(q, k, v, ~triangle(q, k)), (k, v)


def output_only(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Any:
    k, v = join(k, v, cache)
    return attend(q, k, v, triangle(q, k))


def mask_on_the_cpu(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    k, v = join(k, v, cache)
    new, known = q.shape[2], k.shape[2]
    mask = torch.ones(new, known, dtype=torch.bool).tril(known - new)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v, (k, v)


def without_the_largest(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    k, v = join(k, v, cache)
    sizes = (q @ k.mT / q.shape[-1] ** 0.5).exp() * triangle(q, k)
    return torch.matmul(sizes / sizes.sum(-1, keepdim=True), v), (k, v)


def in_float32(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    all_k, all_v = join(k, v, cache)
    out = attend(q.float(), all_k.float(), all_v.float(), triangle(q, all_k))
    return out.to(q.dtype), (all_k, all_v)


WRONG = 'In the case "{case}", with calls of {split} tokens, the outputs at positions {wrong} are wrong: '
IS = 'In the case "{case}", with calls of {split} tokens, `{what}` is {got} where {want} is wanted: '
TOP_LEFT = (
    "`is_causal=True` and `tril()` count the triangle from the top left, so the first query of a call sees only key 0."
)
STILL = 'In the case "{case}" `{what}` is {got} and should be {want}: a second try finds the keys of the first, since '
SCALED = "the scores have to be divided by the root of d. And with a cache, "
MISTAKES = [
    Mistake("is-causal-with-cache", is_causal, WRONG + TOP_LEFT, CACHE),
    Mistake("is-causal-with-cache", is_causal_by_hand, WRONG + TOP_LEFT, CACHE),
    Mistake("overwrites-cache", keeps_only_the_new, WRONG + "the cache that comes back holds the new keys only, so the "
            "call after next has lost the older ones.", CACHE),
    Mistake("overwrites-cache", ignores_the_cache, WRONG + "the keys in the cache are not attended to.", CACHE),
    Mistake("overwrites-cache", keeps_only_the_new_not_scaled, IS + "the scores have to be divided by the root of d. "
            "And the cache that comes back holds the new keys only.", CACHE),
    Mistake("cache-not-extended", keeps_the_first, WRONG + "the cache that comes back is the one that was given, "
            "without the new keys.", CACHE),
    Mistake("no-mask-inside-chunk", unmasked_with_a_cache, WRONG + "with a cache nothing is masked, so a token also "
            "sees those that come later in its call.", CACHE),
    Mistake("never-masked", never_masked, WRONG + "nothing is masked, so every token sees those that come later in its "
            "call.", CACHE),
    Mistake("mutates-cache", list_changed, STILL + "the caller's cache was changed, or one is kept outside the call.",
            CACHE),
    Mistake("mutates-cache", dict_changed, STILL + "the caller's cache was changed, or one is kept outside the call.",
            CACHE),
    Mistake("mutates-cache", one_buffer_for_all, 'In the case "{case}" `{what}` is {got} and should be {want}: both '
            "caches share one buffer, and a try from the older one wrote over the keys of the newer one.", CACHE),
    Mistake("new-keys-in-front", new_ones_in_front, WRONG + "the new keys belong behind the old ones; with them in "
            "front, the triangle hides the wrong keys.", CACHE),
    Mistake("new-keys-in-front", new_ones_in_front_not_scaled, WRONG + SCALED + "the new keys belong behind the old "
            "ones.", CACHE),
    Mistake("is-causal-with-cache", is_causal_not_scaled, WRONG + SCALED + "the triangle has to be counted from "
            "the bottom right.", CACHE),
    Mistake("keys-and-values-exchanged", keys_and_values_exchanged, WRONG + "the cache was packed as (k, v) and "
            "unpacked as (v, k).", CACHE),
    Mistake("values-not-kept", values_not_kept, WRONG + "the cached keys were put in front of the values too.", CACHE),
    Mistake("joined-along-heads", joined_along_heads, 'In the case "{case}", with calls of {split} tokens, the call '
            "raised {error}: join along the positions, dimension 2 of (b, h, t, d); dimension 1 is the heads.",
            CACHE),
    Mistake("diagonal-masked", without_itself, WRONG + "a token may look at itself, but the mask forbids it.", CACHE),
    Mistake("looks-one-ahead", one_ahead, WRONG + "the triangle is one too wide, so each token sees the next.", CACHE),
    Mistake("looks-one-ahead", dict_changed_one_ahead, WRONG + "the triangle is one too wide, so each token sees the "
            "next. And the caller's cache was changed.", CACHE),
    Mistake("cannot-see-the-cache", cannot_see_the_cache, WRONG + "the mask also hides keys that come before the "
            "query.", CACHE),
    Mistake("not-scaled", not_scaled, IS + "the scores have to be divided by the root of d.", CACHE),
    Mistake("mask-inverted", mask_inverted, IS + "True in SDPA's mask means may attend.", "Attention, and its masks"),
    Mistake("output-only", output_only, "The call returned {got}, and `(out, cache)` is wanted, since the next call "
            "needs the cache.", CACHE),
    Mistake("exponential-overflows", without_the_largest, IS + "the exponential of a large score is infinite. "
            "`softmax` subtracts the largest one first.", "Attention, and its masks"),
    Mistake("computes-in-float32", in_float32, ROUNDED, CACHE),
    Mistake("made-on-cpu", mask_on_the_cpu, MIXED, CACHE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    drawn = [draw.size(1, 3) for _ in range(draw.size(2, 5))]
    return [
        split_case(draw, "a drawn split", drawn),
        split_case(draw, "another drawn split", [draw.size(60, 90), draw.size(5, 20)]),
        split_case(draw, "a single token", [1]),
        split_case(draw, "a drawn split in float64", drawn[::-1], torch.float64),
    ]


# Right answers unlike the reference


def by_positions(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    keys = [*(cache["keys"] if cache else []), k]
    values = [*(cache["values"] if cache else []), v]
    k, v = torch.cat(keys, dim=2), torch.cat(values, dim=2)
    total = k.size(2)
    key_at = torch.arange(total, device=q.device)
    query_at = key_at[total - q.size(2) :]
    scores = torch.matmul(q, k.transpose(-2, -1)) / q.size(-1) ** 0.5
    scores = scores.masked_fill(key_at > query_at[:, None], float("-inf"))
    return torch.softmax(scores, -1) @ v, {"keys": keys, "values": values}


def token_by_token(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    joined = torch.stack([k, v])
    joined = joined if cache is None else torch.cat([cache, joined], dim=3)
    before = joined.shape[3] - q.shape[2]
    outputs = []
    for i, one in enumerate(q.chunk(q.shape[2], dim=2)):
        past = joined[:, :, :, : before + i + 1]
        outputs.append(F.scaled_dot_product_attention(one, past[0], past[1]))
    return torch.cat(outputs, dim=2), joined


def with_an_additive_mask(q: Tensor, k: Tensor, v: Tensor, cache: Any = None) -> Answer:
    old = 0
    if cache is not None:
        k, v, old = torch.cat((cache.k, k), -2), torch.cat((cache.v, v), -2), cache.length
    new = q.shape[-2]
    mask = torch.full((new, old + new), -torch.inf, device=q.device, dtype=q.dtype).triu(old + 1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask), Kept(k, v, old + new)


class Kept:
    """Keys, values and their number."""

    def __init__(self, k: Tensor, v: Tensor, length: int) -> None:
        self.k, self.v, self.length = k, v, length


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_positions, token_by_token, with_an_additive_mask]
