"""The exercise `masked_mean`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import CHANGED, ERRORS, LEFT, rounding, with_floats
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`masked_fill` and not a product: NaN times 0 is NaN, so padding that holds NaN would come through. The "
    "count is of real steps, and at least 1, which makes the mean of nothing 0 instead of NaN. Divided before they are "
    "added, large numbers in half precision do not overflow."
)
"""Why the reference is written as it is."""
REQUIRED = ("divides-by-length", "nan-on-empty", "masked-values-leak")
"""The mistakes that a check must always be able to name."""

MASKS = "Masks"


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    return real_sum(x, mask) / real_count(mask)


def real_sum(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_fill(~mask[..., None], 0).sum(1)


def real_count(mask: Tensor) -> Tensor:
    return mask.sum(1, keepdim=True).clamp(min=1)


def changes_its_input(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_fill_(~mask[..., None], 0).sum(1) / real_count(mask)


def over_count_and_eps(eps: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a mean that avoids 0 / 0 by a small number."""
    return lambda x, mask: real_sum(x, mask) / (mask.sum(1, keepdim=True) + eps)


def over_entries_that_are_not_zero(x: Tensor, mask: Tensor) -> Tensor:
    return real_sum(x, mask) / (x.masked_fill(~mask[..., None], 0) != 0).sum(1).clamp(min=1)


def nan_replaced_afterwards(x: Tensor, mask: Tensor) -> Tensor:
    return ((x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)).nan_to_num(0.0)


def nan_replaced_before(x: Tensor, mask: Tensor) -> Tensor:
    return (x.nan_to_num(0.0, 0.0, 0.0) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def unused_nan(x: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask.any(1, keepdim=True), nan_replaced_before(x, mask), 0.0)


def nan_and_inf_replaced(x: Tensor, mask: Tensor) -> Tensor:
    return (x.nan_to_num(0.0, 0.0, 0.0) * mask[..., None]).sum(1) / real_count(mask)


def inf_made_finite(x: Tensor, mask: Tensor) -> Tensor:
    return (x.nan_to_num() * mask[..., None]).sum(1) / real_count(mask)


def nan_left_out(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_fill(~mask[..., None], torch.nan).nanmean(1).nan_to_num()


def nan_skipped(x: Tensor, mask: Tensor) -> Tensor:
    means = x.masked_fill(~mask[..., None], torch.nan).nanmean(1)
    return torch.where(mask.any(1, keepdim=True), means, 0.0)


def nan_at_real_steps_replaced(x: Tensor, mask: Tensor) -> Tensor:
    return masked_mean(torch.where(x.isnan(), 0.0, x), mask)


def first_steps(x: Tensor, mask: Tensor) -> Tensor:
    counts = mask.sum(1, keepdim=True)
    return masked_mean(x, torch.arange(mask.shape[1], device=mask.device) < counts)


def loop_on_the_cpu(x: Tensor, mask: Tensor) -> Tensor:
    result = torch.zeros(x.shape[0], x.shape[2])
    for i in range(len(x)):
        if mask[i].any():
            result[i] = x[i][mask[i]].mean(0)
    return result


ON_EMPTY = "Row {row} has {real} real steps and came out as {got_row}: 0 / 0 is NaN, but zeros are wanted."
REPLACED = (
    'In the case "{case}" a value in row {row} came out as {got_row} and should be {want_row}: `nan_to_num` does not '
    "ask where a NaN or an inf stands. At a real step it means that something went wrong earlier, and it has to show."
)
SKIPPED = (
    'In the case "{case}" a value in row {row} came out as {got_row} and should be {want_row}: a NaN at a real step '
    "was skipped, as by `nanmean`. There it means that something went wrong earlier, and it has to show."
)
INVERTED = (
    "A value in row {row} came out as {got_row} and should be {want_row}: the mask was read the wrong way round; True "
    "marks the real steps."
)
MISTAKES = [
    Mistake("divides-by-length", lambda x, mask: real_sum(x, mask) / x.shape[1], "A value in row {row} came out as "
            "{got_row} and should be {want_row}: its sum was divided by all {length} steps, of which only {real} are "
            "real.", MASKS),
    Mistake("nan-on-empty", lambda x, mask: real_sum(x, mask) / mask.sum(1, keepdim=True), ON_EMPTY, MASKS),
    Mistake("masked-values-leak", lambda x, mask: (x * mask[..., None]).sum(1) / real_count(mask), "A value in row "
            "{row} came out as {got_row} and should be {want_row}: padding held NaN or inf, and NaN * 0 and inf * 0 "
            "are NaN, not 0.",
            MASKS),
    Mistake("divides-by-length", lambda x, mask: (x * mask[..., None]).mean(1), "A value in row {row} came out as "
            "{got_row} and should be {want_row}: its sum was divided by all {length} steps, of which only {real} are "
            "real. Besides, NaN * 0 is NaN, so what is masked can still show.", MASKS),
    Mistake("nan-on-empty", lambda x, mask: (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), ON_EMPTY, MASKS),
    Mistake("mask-inverted", lambda x, mask: masked_mean(x, ~mask), INVERTED, MASKS),
    Mistake("mask-inverted", lambda x, mask: real_sum(x, ~mask) / real_count(mask), INVERTED, MASKS),
    Mistake("mask-inverted", lambda x, mask: real_sum(x, mask) / real_count(~mask), INVERTED, MASKS),
    Mistake("changes-its-input", changes_its_input, CHANGED, MASKS),
    Mistake("not-divided", real_sum, "A value in row {row} came out as {got_row} and should be {want_row}: that is the "
            "sum over the {real} real steps, not their mean.", MASKS),
    Mistake("divides-by-total-count", lambda x, mask: real_sum(x, mask) / mask.sum().clamp(min=1), "A value in row "
            "{row} came out as {got_row} and should be {want_row}: it was divided by the number of real steps in the "
            "whole batch, of which only {real} belong to this row.", MASKS),
    Mistake("divides-by-one-too-many", lambda x, mask: real_sum(x, mask) / (real_count(mask) + 1), "A value in row "
            "{row} came out as {got_row} and should be {want_row}: the row has {real} real steps, but the sum was "
            "divided by one more.", MASKS),
    Mistake("zeros-not-counted", over_entries_that_are_not_zero, "In the case \"{case}\" a value in row {row} came out "
            "as {got_row} and should be {want_row}: entries that are 0 were not counted, but a real step may hold a 0. "
            "Only the mask says how many steps are real.", MASKS),
    *(Mistake("eps-in-the-count", over_count_and_eps(eps), "In the case \"{case}\" the value at {at} is {got_at} and "
              "should be {want_at}: a small number was added to the count, so the mean is a little too close to 0. "
              "`clamp(min=1)` changes nothing but a count of 0.", MASKS) for eps in (1e-5, 1e-6)),
    Mistake("count-along-the-wrong-axis", lambda x, mask: real_sum(x, mask) / mask.sum(1).clamp(min=1), "In the case "
            "\"{case}\" a value in row {row} came out as {got_row} and should be {want_row}: counts of shape (b,) line "
            "up with the features, those of shape (b, 1) with the examples.", MASKS),
    Mistake("dimension-left-over", lambda x, mask: masked_mean(x, mask).unsqueeze(1), "The result has shape "
            "{got_shape} where {want_shape} is wanted: the dimension of the steps is still there, with size one, as "
            "keepdim or a product of matrices leaves it.", MASKS),
    Mistake("mask-unused", lambda x, _mask: x.mean(1), "A value in row {row} came out as {got_row} and should be "
            "{want_row}: all {length} steps were averaged, of which only {real} are real.", MASKS),
    Mistake("examples-mixed", lambda x, mask: x[mask].mean(0), "The result has shape {got_shape} where "
            "{want_shape} is wanted: indexing with a mask forgets which step belongs to which example.", MASKS),
    Mistake("masked-values-leak", nan_replaced_afterwards, "A value in row {row} came out as {got_row} and should be "
            "{want_row}: replacing a NaN in the result does not bring back the sum that it swallowed.",
            MASKS),
    Mistake("first-steps-assumed", first_steps, "In the case \"{case}\" a value in row {row} came out as {got_row} and "
            "should be {want_row}: the first {real} steps were averaged, where the mask picks others.", MASKS),
    Mistake("real-inf-replaced", nan_and_inf_replaced, REPLACED, MASKS),
    Mistake("real-inf-replaced", inf_made_finite, REPLACED, MASKS),
    Mistake("real-inf-replaced", nan_left_out, REPLACED, MASKS),
    Mistake("real-nan-skipped", nan_skipped, SKIPPED, MASKS),
    Mistake("real-nan-skipped", nan_at_real_steps_replaced, SKIPPED, MASKS),
    Mistake("gradient-not-finite", unused_nan, "In the case \"{case}\" the values are right, but the {what} is {got}: "
            "`where` drops the 0 / 0 of a row, but backward still computes its gradient, 0 times inf, which is NaN.",
            MASKS),
    Mistake("detached", lambda x, mask: masked_mean(x.detach(), mask), "The values are right, but the {what} is "
            "missing: the result was worked out outside the graph, as by `x.data`, `detach()` or under `no_grad`.",
            MASKS),
    Mistake("made-on-cpu", loop_on_the_cpu, LEFT, ERRORS),
    Mistake("nan-on-empty", nan_replaced_before, ON_EMPTY, MASKS),
    *(m for m in with_floats(masked_mean) if m.name != "changes-its-input"),
    rounding(masked_mean),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    b, t, d = draw.size(2, 5), draw.size(2, 7), draw.size(1, 5)
    mask = draw.flags(b, t)
    return [
        case("a drawn mask", x=draw.normal(b, t, d), mask=mask),
        case("-inf in the padding", x=draw.normal(b, t, d).masked_fill(~mask[..., None], -torch.inf), mask=mask),
        case("nothing is real", x=torch.full((b, t, d), torch.nan), mask=torch.zeros(b, t, dtype=torch.bool)),
        case("one step", x=draw.normal(b, 1, d), mask=draw.flags(b, 1)),
        case("a transposed batch", x=draw.normal(t, b, d).transpose(0, 1), mask=mask),
    ]


# Right answers unlike the reference


def mean_by_where(x: Tensor, mask: Tensor) -> Tensor:
    kept = torch.where(mask[:, :, None], x, torch.zeros_like(x))
    return kept.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)


def mean_by_einsum(x: Tensor, mask: Tensor) -> Tensor:
    clean = x.clone()
    clean[~mask] = 0
    weights = mask.to(x.dtype)
    total = torch.einsum("btd,bt->bd", clean, weights)
    count = weights.sum(dim=1, keepdim=True)
    return torch.where(count > 0, total / count, torch.zeros((), dtype=x.dtype, device=x.device))


def mean_example_by_example(x: Tensor, mask: Tensor) -> Tensor:
    rows = []
    for steps, real in zip(x, mask, strict=True):
        picked = steps[real]
        rows.append(picked.mean(dim=0) if len(picked) else x.new_zeros(x.shape[-1]))
    return torch.stack(rows)


def mean_by_index_add(x: Tensor, mask: Tensor) -> Tensor:
    owner, _ = mask.nonzero(as_tuple=True)
    total = torch.zeros(x.size(0), x.size(2), dtype=x.dtype, device=x.device).index_add(0, owner, x[mask])
    count = torch.bincount(owner, minlength=x.size(0))
    return total / torch.maximum(count, torch.ones_like(count))[:, None]


def mean_by_matrix_product(x: Tensor, mask: Tensor) -> Tensor:
    real = mask.type_as(x).unsqueeze(1)
    count = real.sum(-1)
    total = torch.bmm(real, torch.masked_fill(x, ~mask[..., None], 0.0)).squeeze(1)
    return total / (count + (count == 0))


def mean_without_empty_rows(x: Tensor, mask: Tensor) -> Tensor:
    mean = x.masked_fill(~mask[..., None], 0).sum(1) / mask.sum(1)[:, None]
    mean[~mask.any(dim=1)] = 0
    return mean


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    mean_by_where,
    mean_by_einsum,
    mean_example_by_example,
    mean_by_index_add,
    mean_by_matrix_product,
    mean_without_empty_rows,
]
