"""The exercise `last_real`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.architectures.shared import reading
from autograde.hidden.common import with_floats
from autograde.source.mistakes import Mistake
from torchcourse.exercises.architectures.last_real import padded
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A column of zeros in front moves every step by one, so the length itself is the index, and an empty sequence "
    "finds zeros. Indexing chooses and does not compute, so NaN in other steps stays out of result and gradient."
)
"""Why the reference is written as it is."""
REQUIRED = ("takes-last-column", "off-by-one", "wraps-on-empty", "python-loop")
"""The mistakes that a check must always be able to name."""

LAST = "The last real step"


def rows_of(outputs: Tensor) -> Tensor:
    return torch.arange(len(outputs), device=outputs.device)


def right(outputs: Tensor, lengths: Tensor) -> Tensor:
    shifted = (
        torch.cat([torch.zeros_like(outputs[:, :1]), outputs], 1)
        if outputs.shape[1]
        else outputs.new_zeros(len(outputs), 1, outputs.shape[2])
    )
    return shifted[rows_of(outputs), lengths]  # fmt: skip


def last_column(outputs: Tensor, lengths: Tensor) -> Tensor:
    return outputs[:, -1]


def last_column_but_empty(outputs: Tensor, lengths: Tensor) -> Tensor:
    if not outputs.shape[1]:
        return right(outputs, lengths)
    return outputs[:, -1].masked_fill((lengths == 0)[:, None], 0)


def off_by_one(outputs: Tensor, lengths: Tensor) -> Tensor:
    return outputs[rows_of(outputs), lengths]


def off_by_one_within(outputs: Tensor, lengths: Tensor) -> Tensor:
    if not outputs.shape[1]:
        return right(outputs, lengths)
    chosen = outputs[rows_of(outputs), lengths.clamp(max=outputs.shape[1] - 1)]
    return torch.where((lengths > 0)[:, None], chosen, 0)


def wraps(outputs: Tensor, lengths: Tensor) -> Tensor:
    return outputs[rows_of(outputs), lengths - 1]


def wraps_unless_no_steps(outputs: Tensor, lengths: Tensor) -> Tensor:
    return wraps(outputs, lengths) if outputs.shape[1] else right(outputs, lengths)


def gathers(outputs: Tensor, lengths: Tensor) -> Tensor:
    index = (lengths - 1).view(-1, 1, 1).expand(-1, 1, outputs.shape[2])
    return outputs.gather(1, index)[:, 0]


def clamps(outputs: Tensor, lengths: Tensor) -> Tensor:
    return outputs[rows_of(outputs), (lengths - 1).clamp(min=0)]


def clamps_unless_no_steps(outputs: Tensor, lengths: Tensor) -> Tensor:
    return clamps(outputs, lengths) if outputs.shape[1] else right(outputs, lengths)


def multiplies_empty_away(outputs: Tensor, lengths: Tensor) -> Tensor:
    return clamps(outputs, lengths) * (lengths > 0)[:, None]


def multiplies_empty_away_unless_no_steps(outputs: Tensor, lengths: Tensor) -> Tensor:
    return multiplies_empty_away(outputs, lengths) if outputs.shape[1] else right(outputs, lengths)


def masks_by_product(outputs: Tensor, lengths: Tensor) -> Tensor:
    steps = torch.arange(outputs.shape[1], device=outputs.device)
    return (outputs * (steps == lengths[:, None] - 1)[..., None]).sum(1)


def no_steps_forgotten(outputs: Tensor, lengths: Tensor) -> Tensor:
    chosen = outputs[rows_of(outputs), (lengths - 1).clamp(min=0)]
    return torch.where((lengths > 0)[:, None], chosen, 0)


def gathers_without_steps(outputs: Tensor, lengths: Tensor) -> Tensor:
    index = (lengths - 1).clamp(min=0).view(-1, 1, 1).expand(-1, 1, outputs.shape[2])
    return torch.where((lengths > 0)[:, None], outputs.gather(1, index)[:, 0], 0)


def loop(outputs: Tensor, lengths: Tensor) -> Tensor:
    zeros = outputs.new_zeros(outputs.shape[2])
    return torch.stack([row[n - 1] if n > 0 else zeros for row, n in zip(outputs, lengths, strict=True)])


def loop_over_a_list(outputs: Tensor, lengths: Tensor) -> Tensor:
    chosen = outputs.new_zeros(len(outputs), outputs.shape[2])
    for i, n in enumerate(lengths.tolist()):
        if n > 0:
            chosen[i] = outputs[i, n - 1]
    return chosen


def loop_first_step_for_empty(outputs: Tensor, lengths: Tensor) -> Tensor:
    if not outputs.shape[1]:
        return right(outputs, lengths)
    return torch.stack([row[max(int(n) - 1, 0)] for row, n in zip(outputs, lengths, strict=True)])


def loop_wraps(outputs: Tensor, lengths: Tensor) -> Tensor:
    return torch.stack([row[n - 1] for row, n in zip(outputs, lengths, strict=True)])


def list_of_places(outputs: Tensor, lengths: Tensor) -> Tensor:
    shifted = torch.cat([outputs.new_zeros(len(outputs), 1, outputs.shape[2]), outputs], 1)
    return shifted[list(range(len(outputs))), lengths.tolist()]


def every_pair(outputs: Tensor, lengths: Tensor) -> Tensor:
    return outputs[:, lengths - 1]


def mean_of_the_real(outputs: Tensor, lengths: Tensor) -> Tensor:
    real = torch.arange(outputs.shape[1], device=outputs.device) < lengths[:, None]
    return torch.where(real[..., None], outputs, 0).sum(1) / lengths.clamp(min=1)[:, None].to(outputs.dtype)


def first_step(outputs: Tensor, lengths: Tensor) -> Tensor:
    return right(outputs, lengths.clamp(max=1))


AT = 'In the case "{case}" the value at {at} is {got_at} and should be {want_at}: '
IS = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
LOOP = (
    "The number of {what} is {got}: a loop over the batch makes its calls again for each sequence, where one call can "
    "serve all."
)
NO_STEPS = (
    'In the case "{case}" the call raised {error}: with no steps there is nothing to index, and all lengths are 0.'
)


def in_float32(outputs: Tensor, lengths: Tensor) -> Tensor:
    return right(outputs.float(), lengths).to(outputs.dtype)


def without_infinities(outputs: Tensor, lengths: Tensor) -> Tensor:
    return right(outputs.masked_fill(~outputs.isfinite(), 0), lengths)


MISTAKES = [
    Mistake("takes-last-column", last_column, AT + "for short sequences the last column is padding.", LAST),
    Mistake("takes-last-column", last_column_but_empty, AT + "for short sequences the last column is padding.", LAST),
    Mistake("off-by-one", off_by_one, IS + "counted from 0, the last of n steps is at n - 1.", LAST),
    Mistake("off-by-one", off_by_one_within, AT + "counted from 0, the last of n steps is at n - 1.", LAST),
    Mistake("wraps-on-empty", wraps, IS + "the index of an empty sequence is -1, which means the last column; its "
            "result should be zeros.", LAST),
    Mistake("wraps-on-empty", wraps_unless_no_steps, IS + "the index of an empty sequence is -1, which means the last "
            "column; its result should be zeros.", LAST),
    Mistake("fails-on-empty", gathers, 'In the case "{case}" the call raised {error}: for an empty sequence the index '
            "is -1, and `gather` refuses that. Zeros are wanted.", LAST),
    Mistake("first-step-for-empty", clamps, AT + "an empty sequence has no step, and its result is zeros.", LAST),
    Mistake("first-step-for-empty", clamps_unless_no_steps, AT + "an empty sequence has no step, and its result is "
            "zeros.", LAST),
    Mistake("nan-leaks", multiplies_empty_away, AT + "zero times NaN is NaN: choose with `torch.where` or an index.",
            LAST),
    Mistake("nan-leaks", multiplies_empty_away_unless_no_steps, AT + "zero times NaN is NaN: choose with "
            "`torch.where` or an index.", LAST),
    Mistake("nan-leaks", masks_by_product, AT + "zero times NaN is NaN: choose with `torch.where` or an index.", LAST),
    Mistake("computes-in-float32", in_float32, 'In the case "{case}" the result at {at} has the digits of a '
            "float32, and `outputs` is float64: an output has to be picked as it is.", LAST),
    Mistake("replaces-infinities", without_infinities, AT + "numbers that are not finite were replaced everywhere, and "
            "this one stands at a real step.", LAST),
    Mistake("fails-without-steps", no_steps_forgotten, NO_STEPS, LAST),
    Mistake("fails-without-steps", gathers_without_steps, NO_STEPS, LAST),
    Mistake("python-loop", loop_first_step_for_empty, LOOP + " And an empty sequence has no step; its result is zeros.",
            LAST),
    Mistake("python-loop", loop_wraps, LOOP + " And for a length of 0 the index is -1, the last column.", LAST),
    Mistake("python-loop", loop, LOOP, LAST),
    Mistake("python-loop", loop_over_a_list, LOOP, LAST),
    Mistake("python-loop", list_of_places, LOOP, LAST),
    Mistake("every-pair", every_pair, "The result has shape {got_shape} where {want_shape} is wanted: `[:, lengths]` "
            "reads every sequence at every length; the first index has to name the row.", LAST),
    Mistake("mean-of-the-real-steps", mean_of_the_real, AT + "the mean over the real steps was taken, not the last of "
            "them.", LAST),
    Mistake("takes-first-step", first_step, AT + "the first step was taken, not the last real one.", LAST),
    Mistake("detached", lambda outputs, lengths: right(outputs.detach(), lengths), 'In the case "{case}" `{what}` is '
            "{got} where {want} is wanted: the result is cut off from `outputs`.", LAST),
    *reading(LAST, with_floats(right, 2)),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    t, d, b = draw.size(2, 8), draw.size(1, 5), draw.size(2, 6)
    drawn = draw.integers(0, t + 1, b).tolist()

    def one(name: str, outputs: Tensor, lengths: list[int]) -> Case:
        return case(name, outputs=outputs, lengths=torch.tensor(lengths))

    return [
        one("drawn lengths", padded(draw, drawn, t, d, fill=torch.inf), drawn),
        one("all empty", padded(draw, [0] * b, t, d, fill=torch.nan), [0] * b),
        one("time first in memory", draw.normal(t, b, d).transpose(0, 1), drawn),
        one("bfloat16", padded(draw, drawn, t, d, dtype=torch.bfloat16), drawn),
        one("one step", padded(draw, [1, 0], 1, d), [1, 0]),
    ]


# Right answers unlike the reference


def by_where(outputs: Tensor, lengths: Tensor) -> Tensor:
    if outputs.shape[1] == 0:
        return outputs.sum(1)
    rows = torch.arange(outputs.size(0), device=lengths.device)
    chosen = outputs[rows, (lengths - 1).clamp(min=0)]
    return torch.where(lengths.unsqueeze(1) > 0, chosen, torch.zeros_like(chosen))


def by_mask_and_sum(outputs: Tensor, lengths: Tensor) -> Tensor:
    steps = torch.arange(1, outputs.shape[1] + 1, device=outputs.device)
    last = steps == lengths.unsqueeze(1)
    return outputs.masked_fill(~last.unsqueeze(-1), 0.0).sum(dim=1)


def by_gather(outputs: Tensor, lengths: Tensor) -> Tensor:
    b, t, d = outputs.shape
    if t == 0:
        return outputs.new_zeros(b, d) + outputs.sum()
    index = (lengths - 1).clamp(min=0)[:, None, None].expand(b, 1, d)
    chosen = outputs.gather(1, index).squeeze(1)
    return chosen.masked_fill((lengths == 0)[:, None], 0)


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_where, by_mask_and_sum, by_gather]
