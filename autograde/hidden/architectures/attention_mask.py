"""The exercise `attention_mask`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.architectures.shared import reading
from autograde.hidden.common import MIXED, anywhere
from autograde.source.mistakes import Mistake
from torchcourse.exercises.architectures.attention_mask import masked
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`real` lies along the keys, the last dimension, and is the same for every query; so padded queries keep theirs, "
    "and no row is empty that need not be. The triangle is made on the device of `real`, and `&` joins the two."
)
"""Why the reference is written as it is."""
REQUIRED = ("mask-inverted", "masks-queries-not-keys", "diagonal-masked", "made-on-cpu")
"""The mistakes that a check must always be able to name."""

MASKS = "Attention, and its masks"


def square(real: Tensor) -> Tensor:
    return torch.ones(real.shape[1], real.shape[1], dtype=torch.bool, device=real.device)


def keys_of(real: Tensor) -> Tensor:
    b, t = real.shape
    return real[:, None, None, :].expand(b, 1, t, t)


def queries_of(real: Tensor) -> Tensor:
    b, t = real.shape
    return real[:, None, :, None].expand(b, 1, t, t)


def right(real: Tensor, causal: bool = False) -> Tensor:
    return keys_of(real) & square(real).tril() if causal else keys_of(real)


def inverted(real: Tensor, causal: bool = False) -> Tensor:
    return ~right(real, causal)


def inverts_the_padding(real: Tensor, causal: bool = False) -> Tensor:
    return right(~real, causal)


def forbids_the_past(real: Tensor, causal: bool = False) -> Tensor:
    return keys_of(real) & square(real).triu() if causal else keys_of(real)


def allows_the_future(real: Tensor, causal: bool = False) -> Tensor:
    return keys_of(real) & square(real).triu(1) if causal else keys_of(real)


def masks_queries(real: Tensor, causal: bool = False) -> Tensor:
    return queries_of(real) & square(real).tril() if causal else queries_of(real)


def masks_both(real: Tensor, causal: bool = False) -> Tensor:
    return right(real, causal) & queries_of(real)


def masks_the_diagonal(real: Tensor, causal: bool = False) -> Tensor:
    return keys_of(real) & square(real).tril(-1) if causal else keys_of(real)


def made_on_the_cpu(real: Tensor, causal: bool = False) -> Tensor:
    t = real.shape[1]
    return keys_of(real) & torch.ones(t, t, dtype=torch.bool).tril() if causal else keys_of(real)


def triangle_on_the_cpu(mask: Tensor, causal: bool, diagonal: int = 0) -> Tensor:
    return mask & torch.ones(mask.shape[-2:], dtype=torch.bool).tril(diagonal) if causal else mask


def masks_queries_on_the_cpu(real: Tensor, causal: bool = False) -> Tensor:
    return triangle_on_the_cpu(queries_of(real), causal)


def masks_both_on_the_cpu(real: Tensor, causal: bool = False) -> Tensor:
    return triangle_on_the_cpu(queries_of(real) & keys_of(real), causal)


def masks_the_diagonal_on_the_cpu(real: Tensor, causal: bool = False) -> Tensor:
    return triangle_on_the_cpu(keys_of(real), causal, -1)


def ignores_causal(real: Tensor, causal: bool = False) -> Tensor:
    return keys_of(real)


def always_causal(real: Tensor, causal: bool = False) -> Tensor:
    return right(real, True)


def masks_queries_and_is_always_causal(real: Tensor, causal: bool = False) -> Tensor:
    return masks_queries(real, True)


def forgets_padding(real: Tensor, causal: bool = False) -> Tensor:
    return square(real).tril().expand(len(real), 1, -1, -1) if causal else keys_of(real)


def joins_by_or(real: Tensor, causal: bool = False) -> Tensor:
    return keys_of(real) | square(real).tril() if causal else keys_of(real)


def opens_empty_rows(real: Tensor, causal: bool = False) -> Tensor:
    mask = right(real, causal)
    return mask | ~mask.any(-1, keepdim=True)


def opens_the_diagonal_of_empty_rows(real: Tensor, causal: bool = False) -> Tensor:
    mask = right(real, causal)
    return mask | ~mask.any(-1, keepdim=True) & torch.eye(real.shape[1], dtype=torch.bool, device=real.device)


def no_dimension_for_heads(real: Tensor, causal: bool = False) -> Tensor:
    return right(real, causal)[:, 0]


def not_expanded(real: Tensor, causal: bool = False) -> Tensor:
    return real[:, None, None, :] & square(real).tril() if causal else real[:, None, None, :]


def additive(real: Tensor, causal: bool = False) -> Tensor:
    mask = right(real, causal)
    return torch.zeros(mask.shape, device=real.device).masked_fill(~mask, -torch.inf)


def floats(real: Tensor, causal: bool = False) -> Tensor:
    return right(real, causal).float()


def keeps_the_diagonal_of_padding(real: Tensor, causal: bool = False) -> Tensor:
    return right(real, causal) | torch.eye(real.shape[1], dtype=torch.bool, device=real.device)


IN = 'In the case "{case}" '
SHAPE = IN + "the mask has shape {got_shape} where {want_shape} is wanted: "
FUTURE = IN + (
    "{ahead} pairs may look ahead: the columns to the right of the diagonal, which `triu` keeps and `tril` drops, are "
    "the future."
)
CPU = "And the triangle was made on the CPU, whatever the device of `real`."
BOOL = "The mask is {got_dtype} where {want_dtype} is wanted: True and False say who may attend."
MISTAKES = [
    Mistake("mask-inverted", inverted, IN + "{at_padding} pairs may attend to padding: in this convention True means "
            "may attend, not forbidden.", MASKS),
    Mistake("mask-inverted", inverts_the_padding, IN + "{at_padding} pairs may attend to padding: `real` was inverted. "
            "It is True where a key is real, and the mask is True there too.", MASKS),
    Mistake("masks-queries-not-keys", masks_queries, IN + "{at_padding} pairs may attend to padding, since the rows "
            "were masked: a row is a query, a column a key.", MASKS),
    Mistake("masks-queries-not-keys", masks_queries_and_is_always_causal, IN + "{rows} padded queries may look "
            "anywhere and {want_rows} should: the rows were masked, but a row is a query and a column a key. And the "
            "triangle was applied without `causal`.", MASKS),
    Mistake("masks-queries-too", masks_both, IN + "{rows} padded queries may look anywhere and {want_rows} should: "
            "padded queries keep their keys, or their rows are empty.", MASKS),
    Mistake("diagonal-masked", masks_the_diagonal, IN + "{own} positions may look at themselves and {want_own} should: "
            "a position is not ahead of itself.", MASKS),
    Mistake("looks-ahead", forbids_the_past, FUTURE, MASKS),
    Mistake("looks-ahead", allows_the_future, FUTURE, MASKS),
    Mistake("made-on-cpu", made_on_the_cpu, MIXED, MASKS),
    Mistake("masks-queries-not-keys", masks_queries_on_the_cpu, IN + "{at_padding} pairs may attend to padding, since "
            "the rows were masked: a row is a query, a column a key. " + CPU, MASKS),
    Mistake("masks-queries-too", masks_both_on_the_cpu, IN + "{rows} padded queries may look anywhere and {want_rows} "
            "should: padded queries keep their keys. " + CPU, MASKS),
    Mistake("diagonal-masked", masks_the_diagonal_on_the_cpu, IN + "{own} positions may look at themselves and "
            "{want_own} should. " + CPU, MASKS),
    Mistake("causal-ignored", ignores_causal, IN + "{ahead} pairs may look ahead: `causal` has no effect.", MASKS),
    Mistake("always-causal", always_causal, IN + "{allowed} pairs may attend and {want_allowed} should: without "
            "`causal` a query may look ahead.", MASKS),
    Mistake("forgets-padding-if-causal", forgets_padding, IN + "{at_padding} pairs may attend to padding: the triangle "
            "took the place of the padding mask; both have to hold.", MASKS),
    Mistake("joined-by-or", joins_by_or, IN + "{allowed} pairs may attend and {want_allowed} should: a key has to be "
            "real *and* not ahead.", MASKS),
    Mistake("no-dimension-for-heads", no_dimension_for_heads, SHAPE + "the heads need a dimension of size 1.", MASKS),
    Mistake("not-expanded", not_expanded, SHAPE + "the mask needs a row for each query.", MASKS),
    Mistake("not-bool", additive, BOOL, MASKS),
    Mistake("not-bool", floats, BOOL, MASKS),
    Mistake("diagonal-always-allowed", keeps_the_diagonal_of_padding, IN + "{at_padding} pairs may attend to padding: "
            "a padded key stays forbidden for its own query too.", MASKS),
    *(Mistake("opens-empty-rows", program, IN + "{at_padding} pairs may attend to padding: a query without any key was "
              "given some. Its row stays empty; what to do about it is up to the attention.", MASKS)
      for program in (opens_empty_rows, opens_the_diagonal_of_empty_rows)),
    *reading(MASKS, anywhere(right)),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    b, t = draw.size(1, 4), draw.size(2, 7)
    return [
        case("drawn", real=draw.flags(b, t), options={}),
        case("drawn, causal", real=draw.flags(b, draw.size(40, 70), share=0.7), options={"causal": True}),
        case("a transposed mask", real=draw.flags(t, b).T, options={"causal": True}),
        masked("no sequence", [], t, causal=True),
    ]


# Right answers unlike the reference


def by_comparing(real: Tensor, causal: bool = False) -> Tensor:
    b, t = real.shape
    places = torch.arange(t, device=real.device)
    reach = places[:, None] if causal else torch.full((t, 1), t, device=real.device)
    return (real[:, None, :] & (places <= reach)).view(b, 1, t, t)


def by_repeating(real: Tensor, causal: bool = False) -> Tensor:
    t = real.size(1)
    mask = real.unsqueeze(1).unsqueeze(1).repeat(1, 1, t, 1)
    return mask.tril() if causal else mask


def by_forbidding(real: Tensor, causal: bool = False) -> Tensor:
    b, t = real.shape
    forbidden = ~real[:, None, None].expand(b, 1, t, t)
    if causal:
        forbidden = forbidden.logical_or(real.new_ones(t, t).triu(diagonal=1))
    return forbidden.logical_not()


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_comparing, by_repeating, by_forbidding]
