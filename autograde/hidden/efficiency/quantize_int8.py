"""The exercise `quantize_int8`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import CHANGED, LEFT, MIXED, NUMPY_ONLY
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The scale of a row is its largest absolute value over 127, so -128 stays unused and the levels lie evenly around "
    "zero. Rounding before the cast keeps the error within half a step. Where a row is zero any scale will do, and 1 "
    "avoids 0 / 0."
)
"""Why the reference is written as it is."""
REQUIRED = ("per-tensor", "truncates-not-rounds", "wraps-at-128", "nan-on-zero-row")
"""The mistakes that a check must always be able to name."""

READ = "Numbers in eight bits"
Pair = tuple[Tensor, Tensor]


def scales(w: Tensor, top: float = 127) -> Tensor:
    largest = w.abs().amax(1, keepdim=True)
    return torch.where(largest == 0, torch.ones_like(largest), largest / top)


def levels(w: Tensor, scale: Tensor) -> Tensor:
    return (w / scale).round().clamp(-127, 127).to(torch.int8)


def right(w: Tensor) -> Pair:
    scale = scales(w)
    return levels(w, scale), scale


def per_tensor(w: Tensor) -> Pair:
    scale = (w.abs().max() / 127).expand(len(w), 1).clone()
    scale[scale == 0] = 1
    return levels(w, scale), scale


def one_scale(w: Tensor) -> Pair:
    scale = w.abs().max() / 127
    return levels(w, scale), scale


def per_column(w: Tensor) -> Pair:
    scale = scales(w.T).T
    return levels(w, scale), scale


def truncates(w: Tensor) -> Pair:
    scale = scales(w)
    return (w / scale).to(torch.int8), scale


def floors(w: Tensor) -> Pair:
    scale = scales(w)
    return (w / scale).floor().clamp(-127, 127).to(torch.int8), scale


def wraps(w: Tensor) -> Pair:
    scale = scales(w, 128)
    return (w / scale).round().to(torch.int32).to(torch.int8), scale


def clamps_at_128(w: Tensor) -> Pair:
    scale = scales(w, 128)
    return (w / scale).round().clamp(-128, 127).to(torch.int8), scale


def nan_on_zero(w: Tensor) -> Pair:
    scale = w.abs().amax(1, keepdim=True) / 127
    return levels((w / scale).nan_to_num(0), torch.ones_like(scale)), scale


def nan_scale(w: Tensor) -> Pair:
    largest = w.abs().amax(1, keepdim=True)
    scale = largest / 127 * (largest / largest)
    return levels((w / scale).nan_to_num(0), torch.ones_like(scale)), scale


def epsilon(w: Tensor) -> Pair:
    scale = w.abs().amax(1, keepdim=True).clamp_min(1e-8) / 127
    return levels(w, scale), scale


def without_abs(w: Tensor) -> Pair:
    largest = w.amax(1, keepdim=True)
    scale = torch.where(largest == 0, torch.ones_like(largest), largest / 127)
    return levels(w, scale), scale


def abs_of_the_largest(w: Tensor) -> Pair:
    largest = w.amax(1, keepdim=True).abs()
    scale = torch.where(largest == 0, torch.ones_like(largest), largest / 127)
    return levels(w, scale), scale


def unsigned_range(w: Tensor) -> Pair:
    scale = scales(w, 255)
    return levels(w, scale), scale


def from_range(w: Tensor) -> Pair:
    span = w.amax(1, keepdim=True) - w.amin(1, keepdim=True)
    scale = torch.where(span == 0, torch.ones_like(span), span / 255)
    return levels(w, scale), scale


def flat_scale(w: Tensor) -> Pair:
    q, scale = right(w)
    return q, scale.squeeze(1)


def float_levels(w: Tensor) -> Pair:
    scale = scales(w)
    return (w / scale).round(), scale


def inverse(w: Tensor) -> Pair:
    q, scale = right(w)
    return q, 1 / scale


def float32_scale(w: Tensor) -> Pair:
    q, scale = right(w)
    return q, scale.float()


def in_place(w: Tensor) -> Pair:
    scale = scales(w)
    return w.div_(scale).round_().clamp_(-127, 127).to(torch.int8), scale


def mixed(w: Tensor) -> Pair:
    largest = w.abs().amax(1, keepdim=True)
    scale = largest / 127 + torch.where(largest == 0, 1.0, 0.0).cpu() * torch.ones(len(w), 1, dtype=w.dtype)
    return levels(w, scale), scale


def through_numpy(w: Tensor) -> Pair:
    return right(torch.from_numpy(w.numpy()))


def on_cpu(w: Tensor) -> Pair:
    return right(w.cpu())


ERROR = (
    'In the case "{case}" the '
    "{what} is {got}. A cast to int8 drops the fraction, and `floor` and `ceil` go one way only; round first."
)
SCALE = 'In the case "{case}" {what} came out as {got} where {want} is wanted: '
MISTAKES = [
    Mistake("per-tensor", per_tensor, SCALE + "the scale was taken from the whole matrix, so that rows of small "
            "numbers get few levels.", READ),
    Mistake("per-tensor", one_scale, "The scale has shape {scale_shape} where {want_scale_shape} is wanted: one number "
            "for the whole matrix, so that rows of small numbers get few levels.", READ),
    Mistake("per-column", per_column, "The scale has shape {scale_shape} where {want_scale_shape} is wanted: there is "
            "one for each column instead of one for each row.", READ),
    Mistake("truncates-not-rounds", truncates, ERROR, READ),
    Mistake("truncates-not-rounds", floors, ERROR, READ),
    Mistake("scale-from-range", from_range, SCALE + "it was made from the distance between the smallest entry and the "
            "largest; with no zero point, it is the largest absolute value that counts.", READ),
    Mistake("wraps-at-128", wraps, 'In the case "{case}", with levels {levels}, {what} is {got}, not {want}: '
            "a scale of largest / 128 makes the largest entry 128, which int8 does not have; it wraps to -128.", READ),
    Mistake("uses-minus-128", clamps_at_128, 'In the case "{case}", with levels {levels}, {what} is {got} where {want} '
            "is wanted: dividing by 128 uses -128, so the levels are not symmetric, and the largest positive entry is "
            "cut.", READ),
    Mistake("nan-on-zero-row", nan_on_zero, SCALE + "a row of zeros was given the scale 0, and dividing by it gives "
            "NaN.", READ),
    Mistake("nan-on-zero-row", nan_scale, SCALE + "for a row of zeros the scale is 0 / 0, which is NaN.", READ),
    Mistake("zero-row-not-one", epsilon, SCALE + "a row of zeros gets the scale 1, not a tiny one.", READ),
    Mistake("without-abs", without_abs, SCALE + "the largest entry is not the largest absolute value; rows whose "
            "largest entry is negative are cut.", READ),
    Mistake("without-abs", abs_of_the_largest, SCALE + "that is the absolute value of the largest entry, not the "
            "largest absolute value; rows whose largest one is negative are cut.", READ),
    Mistake("scale-over-255", unsigned_range, SCALE + "255 levels lie between -127 and 127, but the largest entry is "
            "127 steps from zero, not 255.", READ),
    Mistake("scale-without-dimension", flat_scale, "The scale has shape {scale_shape} where {want_scale_shape} is "
            "wanted: without the second dimension it lines up with columns, not with rows.", READ),
    Mistake("levels-not-int8", float_levels, 'In the case "{case}" {what} is {got} where {want} is wanted: rounded '
            "floats still take four bytes each.", READ),
    Mistake("scale-inverted", inverse, SCALE + "what was returned is 1 / scale: `q * scale` should give w back.", READ),
    Mistake("dtype-not-kept", float32_scale, "The scale is {got_dtype} where {want_dtype} is wanted: it keeps the "
            "dtype of w.", READ),
    Mistake("changes-its-input", in_place, CHANGED, READ),
    Mistake("made-on-cpu", mixed, MIXED, READ),
    Mistake("made-on-cpu", through_numpy, NUMPY_ONLY, READ),
    Mistake("made-on-cpu", on_cpu, LEFT.replace("{device}", "{got}"), READ),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, m = draw.size(2, 6), draw.size(3, 12)
    ties = torch.tensor([[127.0, 0.5, -1.5, 2.5, -63.5]]) * 2.0 ** draw.size(-3, 3)
    return [
        case("drawn sizes", rtol=1e-5, atol=1e-8, w=draw.normal(n, m)),
        case("a transposed matrix", rtol=1e-5, atol=1e-8, w=draw.normal(m, n).T),
        case("one column", rtol=1e-5, atol=1e-8, w=draw.normal(n, 1)),
        case("halves", rtol=1e-5, atol=1e-8, w=ties),
        case("all zeros", rtol=1e-5, atol=1e-8, w=torch.zeros(2, m)),
        case(
            "very large and very small rows", rtol=1e-5, atol=0.0, w=draw.normal(2, m) * torch.tensor([[1e30], [1e-30]])
        ),
    ]


# Right answers unlike the reference


def row_by_row(w: Tensor) -> Pair:
    q, scale = torch.empty_like(w, dtype=torch.int8), torch.ones(len(w), 1, dtype=w.dtype, device=w.device)
    for i, row in enumerate(w):
        if row.any():
            scale[i] = row.abs().max() / 127
        q[i] = torch.clip(torch.round(row / scale[i]), -127, 127)
    return q, scale


def stacked(w: Tensor) -> Pair:
    scales = [row.abs().max() / 127 if row.any() else row.new_ones(()) for row in w]
    levels = [(row / scale).round().to(torch.int8) for row, scale in zip(w, scales, strict=True)]
    return torch.stack(levels), torch.stack(scales)[:, None]


def half_away_from_zero(w: Tensor) -> Pair:
    largest = torch.maximum(w.amax(-1), -w.amin(-1))
    scale = (largest / 127).masked_fill(largest == 0, 1).unsqueeze(-1)
    scaled = w / scale
    return (scaled.sign() * (scaled.abs() + 0.5).floor()).clamp(-127, 127).char(), scale


def by_norm(w: Tensor) -> Pair:
    largest = torch.linalg.vector_norm(w, float("inf"), dim=1, keepdim=True)
    scale = largest / 127 + (largest == 0)
    return torch.round(w / scale).type(torch.int8), scale


RIGHT_ANSWERS: list[Callable[..., Any]] = [row_by_row, stacked, half_away_from_zero, by_norm]
