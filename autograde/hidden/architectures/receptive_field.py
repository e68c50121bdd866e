"""The exercise `receptive_field`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.exercises.architectures.receptive_field import Layers, drawn_layers
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Two numbers are carried up: what is seen, and how far apart two neighbours lie in the input. A layer adds its "
    "`kernel - 1` steps in that distance, and only then makes the distance longer by its stride: its own window is "
    "no wider for it, the windows above it are."
)
"""Why the reference is written as it is."""
REQUIRED = ("ignores-stride", "own-stride-counts-too-early", "ignores-dilation")
"""The mistakes that a check must always be able to name."""

SEEN = "What one output sees"


def ignores_stride(layers: Layers) -> int:
    return 1 + sum(dilation * (kernel - 1) for kernel, _, dilation in layers)


def own_stride_too_early(layers: Layers) -> int:
    seen, apart = 1, 1
    for kernel, stride, dilation in layers:
        apart *= stride
        seen += dilation * (kernel - 1) * apart
    return seen


def only_its_own_stride(layers: Layers) -> int:
    return 1 + sum(dilation * (kernel - 1) * stride for kernel, stride, dilation in layers)


def ignores_dilation(layers: Layers) -> int:
    seen, apart = 1, 1
    for kernel, stride, _ in layers:
        seen += (kernel - 1) * apart
        apart *= stride
    return seen


def counts_positions_read(layers: Layers) -> int:
    read = {0}
    for kernel, stride, dilation in reversed(layers):
        read = {place * stride + entry * dilation for place in read for entry in range(kernel)}
    return len(read)


def neither_stride_nor_dilation(layers: Layers) -> int:
    return 1 + sum(kernel - 1 for kernel, _, _ in layers)


def too_early_without_dilation(layers: Layers) -> int:
    seen, apart = 1, 1
    for kernel, stride, _ in layers:
        apart *= stride
        seen += (kernel - 1) * apart
    return seen


def stride_times_seen(layers: Layers) -> int:
    seen = 1
    for kernel, stride, dilation in layers:
        seen = seen * stride + dilation * (kernel - 1)
    return seen


def last_stride_only(layers: Layers) -> int:
    seen, apart = 1, 1
    for kernel, stride, dilation in layers:
        seen += dilation * (kernel - 1) * apart
        apart = stride
    return seen


def adds_strides(layers: Layers) -> int:
    seen, apart = 1, 1
    for kernel, stride, dilation in layers:
        seen += dilation * (kernel - 1) * apart
        apart += stride - 1
    return seen


def adds_strides_from_zero(layers: Layers) -> int:
    return adds_strides(layers) - 1


def dilation_counts_above(layers: Layers) -> int:
    seen, apart = 1, 1
    for kernel, stride, dilation in layers:
        seen += dilation * (kernel - 1) * apart
        apart *= stride * dilation
    return seen


def whole_kernels(layers: Layers) -> int:
    seen, apart = 1, 1
    for kernel, stride, dilation in layers:
        seen += dilation * kernel * apart
        apart *= stride
    return seen


def kernels_times_dilation(layers: Layers) -> int:
    seen, apart = 1, 1
    for kernel, stride, dilation in layers:
        seen += (dilation * kernel - 1) * apart
        apart *= stride
    return seen


def starts_at_zero(layers: Layers) -> int:
    seen, apart = 0, 1
    for kernel, stride, dilation in layers:
        seen += dilation * (kernel - 1) * apart
        apart *= stride
    return seen


def from_the_top(layers: Layers) -> int:
    seen, apart = 1, 1
    for kernel, stride, dilation in reversed(layers):
        seen += dilation * (kernel - 1) * apart
        apart *= stride
    return seen


def from_the_top_without_dilation(layers: Layers) -> int:
    return from_the_top([(kernel, stride, 1) for kernel, stride, _ in layers])


def from_the_top_by_outputs(layers: Layers) -> int:
    seen = 1
    for kernel, stride, dilation in layers:
        seen = (seen - 1) * stride + dilation * (kernel - 1) + 1
    return seen


def from_the_top_by_outputs_whole_kernels(layers: Layers) -> int:
    seen = 1
    for kernel, stride, dilation in layers:
        seen = (seen - 1) * stride + dilation * kernel
    return seen


def dilates_the_rest(layers: Layers) -> int:
    seen = 1
    for kernel, stride, dilation in reversed(layers):
        seen = seen * stride + dilation * (kernel - stride)
    return seen


def multiplies(layers: Layers) -> int:
    return math.prod(dilation * (kernel - 1) + 1 for kernel, _, dilation in layers)


def fails_on_none(layers: Layers) -> int:
    seen, apart = layers[0][0] * 0 + 1, 1
    for kernel, stride, dilation in layers:
        seen += dilation * (kernel - 1) * apart
        apart *= stride
    return seen


def measures_in_floats(layers: Layers) -> float:
    kernels, strides, dilations = torch.tensor(layers, dtype=torch.float32).view(-1, 3).unbind(1)
    apart = torch.cat([torch.ones(1), strides.cumprod(0)])[: len(layers)]
    return 1 + ((kernels - 1) * dilations * apart).sum().item()


IS = "For the layers {layers} the result is {got} and should be {want}: "
MISTAKES = [
    Mistake("ignores-stride", ignores_stride, IS + "after a stride, neighbours lie further apart in the input, and the "
            "windows above reach further.", SEEN),
    Mistake("own-stride-counts-too-early", own_stride_too_early, IS + "a layer's own stride moves its window but does "
            "not widen it; only the layers above it reach further.", SEEN),
    Mistake("own-stride-counts-too-early", only_its_own_stride, IS + "a layer's reach is stretched by the strides "
            "below it, all multiplied, and not by its own.", SEEN),
    Mistake("ignores-dilation", ignores_dilation, IS + "between the entries of a dilated kernel lie holes, so it "
            "spans more.", SEEN),
    Mistake("counts-positions-read", counts_positions_read, IS + "that many positions are read; the span also counts "
            "the holes between them.", SEEN),
    Mistake("ignores-stride", neither_stride_nor_dilation, IS + "neither strides nor dilation have an effect; both "
            "make windows reach further.", SEEN),
    Mistake("own-stride-counts-too-early", too_early_without_dilation, IS + "a layer's own stride makes its window no "
            "wider; its dilation does, and has no effect here.", SEEN),
    Mistake("stride-times-seen", stride_times_seen, IS + "what is seen so far was multiplied by the stride, but a "
            "stride stretches only the steps of the layers above.", SEEN),
    Mistake("last-stride-only", last_stride_only, IS + "the strides of all layers below count, multiplied, not just "
            "the last one.", SEEN),
    Mistake("adds-strides", adds_strides, IS + "strides of 3 and 2 put neighbours 6 apart: they multiply.", SEEN),
    Mistake("adds-strides", adds_strides_from_zero, IS + "without any layer, one position sees itself, so count from "
            "1. And strides multiply: 3 and 2 put neighbours 6 apart.", SEEN),
    Mistake("dilation-counts-above", dilation_counts_above, IS + "dilation spreads one layer's own kernel; the outputs "
            "of that layer lie no further apart.", SEEN),
    Mistake("forgets-minus-one", whole_kernels, IS + "the windows of two neighbouring layers overlap: a kernel of k "
            "adds k - 1 steps, not k.", SEEN),
    Mistake("spans-kernel-times-dilation", kernels_times_dilation, IS + "a dilated kernel spans dilation * (kernel "
            "- 1) + 1, not dilation * kernel: after its last entry there is no hole.", SEEN),
    Mistake("starts-at-zero", starts_at_zero, IS + "without any layer, one position sees itself.", SEEN),
    Mistake("counts-from-the-top", from_the_top, IS + "the strides that stretch a layer's reach are those between it "
            "and the input.", SEEN),
    Mistake("counts-from-the-top", from_the_top_by_outputs, IS + "this recursion starts at the output, so it has to "
            "go through the list from its end.", SEEN),
    Mistake("counts-from-the-top", from_the_top_by_outputs_whole_kernels, IS + "a dilated kernel spans dilation * "
            "(kernel - 1) + 1. And this recursion starts at the output, so it has to go through the list from its end.",
            SEEN),
    Mistake("counts-from-the-top", from_the_top_without_dilation, IS + "between the entries of a dilated kernel lie "
            "holes, so it spans more. And the strides that stretch a layer's reach are those between it and the "
            "input.", SEEN),
    Mistake("dilation-of-the-rest", dilates_the_rest, IS + "the dilation was multiplied by kernel - stride, right only "
            "where stride or dilation is 1; a dilated kernel spans dilation * (kernel - 1) + 1.", SEEN),
    Mistake("multiplies-kernels", multiplies, IS + "windows overlap, so what the layers add is summed up, not "
            "multiplied.", SEEN),
    Mistake("not-an-int", measures_in_floats, IS + "a number of positions is an int; a sum of floats, or a quotient "
            "by `/`, is a float.", SEEN),
    Mistake("fails-without-layers", fails_on_none, "Without any layer the call raised {error}: one position sees only "
            "itself, so the result is 1.", SEEN),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        *(case(f"drawn {n} layers", layers=drawn_layers(draw, n, stride=3, dilation=3)) for n in (2, 3, 4, 12)),
        case("a kernel of one with a stride", layers=[(1, 2, 1), *drawn_layers(draw, 2)]),
        case("a stride longer than the kernel", layers=[(2, 4, 1), (3, 1, 1)]),
        case("dilation of a kernel of one", layers=[(1, 1, 5), (3, 1, 1)]),
    ]


# Right answers unlike the reference


def from_the_output_down(layers: Layers) -> int:
    span = 1
    for kernel, stride, dilation in reversed(layers):
        span = (span - 1) * stride + dilation * (kernel - 1) + 1
    return span


def with_products(layers: Layers) -> int:
    strides = [stride for _, stride, _ in layers]
    return 1 + sum((k - 1) * d * math.prod(strides[:i]) for i, (k, _, d) in enumerate(layers))


def by_recursion(layers: Layers) -> int:
    if not layers:
        return 1
    (kernel, stride, dilation), *above = layers
    return (by_recursion(above) - 1) * stride + (kernel - 1) * dilation + 1


RIGHT_ANSWERS: list[Callable[..., Any]] = [from_the_output_down, with_products, by_recursion]
