"""The exercise `lost_updates`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import CHANGED, LEFT, on_the_cpu
from autograde.source.mistakes import Mistake
from torchcourse.exercises.precision.underflow_fraction import spread
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The sum is made in the dtype in question, so it is rounded as in training; comparing it with the weight "
    "says whether anything was left. Both are converted first: adding in float32 and rounding afterwards may "
    "come out differently."
)
"""Why the reference is written as it is."""
REQUIRED = ("compares-in-float32", "counts-zero-updates")
"""The mistakes that a check must always be able to name."""


def right(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    weight, step = w.to(dtype), update.to(dtype)
    return (update != 0) & (weight + step == weight)


def compares_in_float32(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    return (update != 0) & (w + update == w)


def counts_zero_updates(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    return w.to(dtype) + update.to(dtype) == w.to(dtype)


def answers_the_opposite(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    return (update != 0) & (w.to(dtype) + update.to(dtype) != w.to(dtype))


def misses_underflowed_updates(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    weight, step = w.to(dtype), update.to(dtype)
    return (step != 0) & (weight + step == weight)


def adds_in_float32(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    return (update != 0) & ((w + update).to(dtype) == w.to(dtype))


def compares_with_the_uncast_weight(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    return (update != 0) & ((w.to(dtype) + update.to(dtype)).float() == w)


def asks_whether_they_are_close(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    weight = w.to(dtype)
    return torch.isclose(weight + update.to(dtype), weight) & (update != 0)


def asks_eps(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    return (update != 0) & (update.abs() < torch.finfo(dtype).eps * w.abs())


def asks_half_eps(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    return asks_eps(w / 2, update, dtype)


def subtracts_the_weight(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    weight = w.to(dtype)
    return (update != 0) & ((weight + update.to(dtype)) - weight == 0)


def underflow_only(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    return (update != 0) & (update.to(dtype) == 0)


def asks_in_float32_what_is_zero(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    return right(w, update.where(update.float() != 0, 0), dtype)


def one_for_all(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    return right(w, update, dtype).any()


def makes_a_mask_on_the_cpu(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    return right(w, update, dtype) & torch.ones(w.shape, dtype=torch.bool)


def adds_in_place(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    result = right(w, update, dtype)
    w.add_(update)
    return result


UPDATES = "Updates that vanish"
PLACE = 'In the case "{case}", a weight of {weight} gets an update of {step}, and the result says {got} where {want} '
MIXED = (
    "Everything works on the CPU; on the second device the call raised {error}: something was made, or left, on the "
    "CPU while the rest lives elsewhere."
)
MISTAKES = [
    Mistake("compares-in-float32", compares_in_float32, PLACE + "is right: the sum was made in float32, where nearly "
            "nothing is lost. The weights live in {dtype}.", UPDATES),
    Mistake("counts-zero-updates", counts_zero_updates, PLACE + "is right: an update that is zero was counted as lost. "
            "Where nothing is to be added, nothing can be lost.", UPDATES),
    Mistake("answers-the-opposite", answers_the_opposite, PLACE + "is right: True stands for an update that changes "
            "nothing.", UPDATES),
    Mistake("misses-underflowed-updates", misses_underflowed_updates, PLACE + "is right: the update became zero when "
            "it was cast to {dtype}, and that is a way to be lost. Ask whether it is zero before casting.", UPDATES),
    Mistake("adds-in-float32", adds_in_float32, PLACE + "is right: the sum was made in float32 and cast afterwards, so "
            "the part of the weight that {dtype} cannot hold helped the update.", UPDATES),
    Mistake("compares-with-the-uncast-weight", compares_with_the_uncast_weight, PLACE + "is right: the sum was "
            "compared with the weight before it was cast to {dtype}, so the mere rounding of the weight looks like a "
            "change.", UPDATES),
    *(Mistake("threshold-not-addition", asks, PLACE + "is right: `eps` times the weight is only a rough threshold; the "
              "sum itself rounds at half a step, and the step depends on the power of two below the weight.", UPDATES)
      for asks in (asks_eps, asks_half_eps)),
    Mistake("close-is-not-equal", asks_whether_they_are_close, PLACE + "is right: `isclose` takes a small change for "
            "none at all; only an update after which the weight is the very same number is lost.", UPDATES),
    Mistake("subtracts-the-weight", subtracts_the_weight, PLACE + "is right: the weight was subtracted from the sum, "
            "and inf minus inf is NaN. Compare the sum with the weight.", UPDATES),
    Mistake("underflow-only", underflow_only, PLACE + "is right: an update need not be zero in {dtype} to be lost; "
            "beside a large weight it is rounded away.", UPDATES),
    Mistake("asks-in-float32-what-is-zero", asks_in_float32_what_is_zero, PLACE + "is right: in float32 the update is "
            "zero, but it came in float64, where it is not. Ask before any cast.", UPDATES),
    Mistake("one-for-all", one_for_all, "The result is of shape {got_shape} where {want_shape} is wanted: one answer "
            "for each weight.", UPDATES),
    Mistake("made-on-cpu", makes_a_mask_on_the_cpu, MIXED, UPDATES),
    Mistake("made-on-cpu", on_the_cpu(right), LEFT, UPDATES),
    Mistake("changes-its-input", adds_in_place, CHANGED, UPDATES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(30, 60)
    return [
        case("many, bfloat16", w=draw.normal(n), update=spread(draw, -14, 2, n), dtype=torch.bfloat16),
        case("many, float16", w=draw.normal(n), update=spread(draw, -30, 0, n), dtype=torch.float16),
        case("transposed", w=draw.normal(4, 3).t(), update=spread(draw, -12, 0, 4, 3).t(), dtype=torch.bfloat16),
        case("already in bfloat16", w=draw.normal(n, dtype=torch.bfloat16), update=spread(draw, -14, 2, n).bfloat16(),
             dtype=torch.bfloat16),
        case("float64 to float32", w=draw.normal(n, dtype=torch.float64), update=spread(draw, -34, 2, n).double(),
             dtype=torch.float32),
        case("nothing to update", w=torch.zeros(0), update=torch.zeros(0), dtype=torch.float16),
        case("all zero", w=draw.normal(5), update=torch.zeros(5), dtype=torch.float16),
    ]  # fmt: skip


# Right answers unlike the reference


def lost_by_difference(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    before = w.to(dtype)
    after = before + update.to(dtype)
    return torch.logical_and(update.ne(0), after.eq(before))


def right_lost_in_place(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    weights = w.detach().to(dtype, copy=True)
    kept = weights.clone()
    weights += update.to(dtype)
    return ~(weights != kept) & update.bool()


def lost_one_by_one(w: Tensor, update: Tensor, dtype: torch.dtype) -> Tensor:
    flags = []
    for a, b in zip(w.to(dtype).flatten(), update.flatten(), strict=True):
        flags.append(bool(b != 0) and bool(a + b.to(dtype) == a))
    return torch.tensor(flags, dtype=torch.bool, device=w.device).reshape(w.shape)


RIGHT_ANSWERS: list[Callable[..., Any]] = [lost_by_difference, right_lost_in_place, lost_one_by_one]
