"""The exercise `conv_output_size`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from autograde.source.mistakes import Mistake
from torchcourse.exercises.architectures.conv_output_size import sized
from torchcourse.model.exercise import Case, Draw

WHY = (
    "The room that is left beside the kernel, divided by the stride and rounded down, is how often it can move; the "
    "place where it starts comes on top. Room is computed first, because below zero the kernel does not fit, and "
    "`//` would turn -1 into an answer without complaint."
)
"""Why the reference is written as it is."""
REQUIRED = ("rounds-up", "ignores-dilation", "forgets-plus-one")
"""The mistakes that a check must always be able to name."""

SIZES = "Sizes of a convolution"


def refuse(size: int, kernel: int, padding: int = 0, dilation: int = 1) -> int:
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    if room < 0:
        raise ValueError(f"kernel {kernel} with dilation {dilation} is too long for {size}")
    return room


def rounds_up(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    return math.ceil(refuse(size, kernel, padding, dilation) / stride) + 1


def rounds(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    return round(refuse(size, kernel, padding, dilation) / stride + 1)


def ignores_dilation(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    return refuse(size, kernel, padding) // stride + 1


def forgets_plus_one(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    return refuse(size, kernel, padding, dilation) // stride


def pads_once(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    refuse(size, kernel, padding, dilation)
    return (size + padding - dilation * (kernel - 1) - 1) // stride + 1


def pads_once_throughout(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    room = size + padding - dilation * (kernel - 1) - 1
    if room < 0:
        raise ValueError(f"kernel {kernel} with dilation {dilation} is too long for {size}")
    return room // stride + 1


def ignores_padding(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    return refuse(size, kernel, 0, dilation) // stride + 1


def ignores_stride(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    return refuse(size, kernel, padding, dilation) + 1


def dilates_every_entry(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    room = size + 2 * padding - dilation * kernel
    if room < 0:
        raise ValueError(f"kernel {kernel} with dilation {dilation} is too long for {size}")
    return room // stride + 1


def dilates_every_entry_and_rounds_up(
    size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1
) -> int:
    room = size + 2 * padding - dilation * kernel
    if room < 0:
        raise ValueError(f"kernel {kernel} with dilation {dilation} is too long for {size}")
    return math.ceil(room / stride) + 1


def spans_one_less(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    room = size + 2 * padding - dilation * (kernel - 1)
    if room < 1:
        raise ValueError(f"kernel {kernel} with dilation {dilation} is too long for {size}")
    return room // stride + 1


def accepts_anything_and_spans_one_less(
    size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1
) -> int:
    return (size + 2 * padding - dilation * (kernel - 1)) // stride + 1


def spans_one_more(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    room = size + 2 * padding - dilation * kernel - 1
    if room < 0:
        raise ValueError(f"kernel {kernel} with dilation {dilation} is too long for {size}")
    return room // stride + 1


def true_division(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> float:
    return refuse(size, kernel, padding, dilation) / stride + 1


def adds_before_dividing(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    return (refuse(size, kernel, padding, dilation) + 1) // stride


def accepts_anything(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def at_least_zero(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    return max(accepts_anything(size, kernel, stride, padding, dilation), 0)


def says_little(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    length = accepts_anything(size, kernel, stride, padding, dilation)
    if length < 1:
        raise ValueError("does not fit")
    return length


def says_the_span(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    span = dilation * (kernel - 1) + 1
    if size + 2 * padding < span:
        raise ValueError(f"kernel of {span} is too large")
    return (size + 2 * padding - span) // stride + 1


def asserts(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    length = accepts_anything(size, kernel, stride, padding, dilation)
    assert length > 0, f"kernel {kernel} does not fit into size {size}"
    return length


def rounds_toward_zero(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    length = int((size + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1
    if length < 1:
        raise ValueError(f"kernel {kernel} does not fit into size {size}")
    return length


def compares_the_kernel_alone(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    if kernel > size + 2 * padding:
        raise ValueError(f"kernel {kernel} does not fit into size {size}")
    return accepts_anything(size, kernel, stride, padding, dilation)


def forgets_that_padding_makes_room(
    size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1
) -> int:
    if dilation * (kernel - 1) + 1 > size:
        raise ValueError(f"kernel {kernel} does not fit into size {size}")
    return accepts_anything(size, kernel, stride, padding, dilation)


def refuses_what_fills(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    room = refuse(size, kernel, padding, dilation)
    if room == 0:
        raise ValueError(f"kernel {kernel} does not fit into size {size}")
    return room // stride + 1


IS = 'In the case "{case}" (size {size}, kernel {kernel}, {options}) the result is {got} and should be {want}: '
REFUSED = "With size {size}, kernel {kernel} and {options} the outcome was {got}: "
MISTAKES = [
    Mistake("rounds-up", rounds_up, IS + "where the last stride does not fit whole, there is no further output.",
            SIZES),
    Mistake("rounds-up", rounds, IS + "a stride of which only a part fits does not count; round down.", SIZES),
    Mistake("ignores-dilation", ignores_dilation, IS + "a dilated kernel spans dilation * (kernel - 1) + 1 positions.",
            SIZES),
    Mistake("forgets-plus-one", forgets_plus_one, IS + "the strides that fit are moves, and before the first move "
            "there is an output already.", SIZES),
    Mistake("adds-before-dividing", adds_before_dividing, IS + "the 1 for the first place has to be added after the "
            "division, since that place costs no stride.", SIZES),
    Mistake("pads-once", pads_once, IS + "padding is added on both sides.", SIZES),
    Mistake("pads-once", pads_once_throughout, IS + "padding is added on both sides.", SIZES),
    Mistake("ignores-padding", ignores_padding, IS + "the padding is part of what the kernel slides over.", SIZES),
    Mistake("ignores-stride", ignores_stride, IS + "a stride of s uses only every s-th place.", SIZES),
    Mistake("dilates-every-entry", dilates_every_entry, IS + "between k entries there are k - 1 steps of the "
            "dilation, not k.", SIZES),
    Mistake("dilates-every-entry", dilates_every_entry_and_rounds_up, IS + "between k entries there are k - 1 steps of "
            "the dilation, not k. And a stride that does not fit whole gives no further output.", SIZES),
    Mistake("span-off-by-one", spans_one_less, IS + "a kernel spans dilation * (kernel - 1) + 1 positions, and that "
            "+ 1 is missing.", SIZES),
    Mistake("span-off-by-one", accepts_anything_and_spans_one_less, IS + "a kernel spans dilation * (kernel - 1) + 1 "
            "positions, and that + 1 is missing. A kernel longer than the padded input is not refused either.", SIZES),
    Mistake("span-off-by-one", spans_one_more, IS + "a kernel spans dilation * (kernel - 1) + 1 positions, and here it "
            "takes up dilation * kernel + 1.", SIZES),
    Mistake("not-an-int", true_division, IS + "a length is an int, and `/` gives a float.", SIZES),
    Mistake("accepts-what-does-not-fit", accepts_anything, REFUSED + "a kernel longer than the padded input has no "
            "place, and a ValueError should say so.", SIZES),
    Mistake("accepts-what-does-not-fit", at_least_zero, REFUSED + "a kernel longer than the padded input has no "
            "place, and a ValueError should say so.", SIZES),
    Mistake("accepts-what-does-not-fit", compares_the_kernel_alone, REFUSED + "what has to fit is the kernel with "
            "its holes, dilation * (kernel - 1) + 1 positions.", SIZES),
    Mistake("accepts-what-does-not-fit", rounds_toward_zero, REFUSED + "`int` rounds toward zero, so a kernel that is "
            "too long by less than a stride still seems to have a place. `//` rounds down.", SIZES),
    Mistake("refuses-what-padding-makes-fit", forgets_that_padding_makes_room, REFUSED + "with the padding there is "
            "room for it.", SIZES),
    Mistake("refuses-what-fills-the-row", refuses_what_fills, REFUSED + "a kernel exactly as long as the padded input "
            "has one place.", SIZES),
    Mistake("message-says-little", says_little, REFUSED + "the message should name kernel and say how long it is.",
            SIZES),
    Mistake("message-names-the-span", says_the_span, REFUSED + "the message should give the argument `kernel` as the "
            "caller gave it; they never saw the span.", SIZES),
    Mistake("not-a-value-error", asserts, REFUSED + "a wrong argument is a ValueError; assertions can be switched off.",
            SIZES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    drawn = [
        sized(f"drawn {n}", draw.size(30, 99), draw.size(1, 7), stride=draw.size(1, 5), padding=draw.size(0, 4),
              dilation=draw.size(1, 4))
        for n in range(6)
    ]  # fmt: skip
    return [
        *drawn,
        sized("padding makes room for dilation", 4, 3, padding=1, dilation=2),
        sized("a stride longer than the row", 6, 3, stride=9),
        sized("still too long with padding", 3, 9, fits=False, padding=2),
    ]


# Right answers unlike the reference


def by_counting(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    last = size + 2 * padding - (kernel - 1) * dilation
    if last < 1:
        raise ValueError(f"kernel has size {kernel}, too large for an input of {size}")
    return len(range(0, last, stride))


def by_ceiling(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    places = size + 2 * padding - dilation * (kernel - 1)
    if places <= 0:
        raise ValueError(f"kernel={kernel}, dilation={dilation}: more than {size + 2 * padding} positions")
    return math.ceil(places / stride)


def by_trying(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    try:
        row, weight = torch.zeros(1, 1, size), torch.zeros(1, 1, kernel)
        return F.conv1d(row, weight, None, stride, padding, dilation).shape[-1]
    except RuntimeError as error:
        raise ValueError(f"kernel {kernel} does not fit: {error}") from error


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_counting, by_ceiling, by_trying]
