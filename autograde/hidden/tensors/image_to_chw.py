"""The exercise `image_to_chw`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import anywhere
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`movedim` keeps the pixels together, where `reshape` would regroup them. Counting from the end covers one "
    "image and a batch with the same line. The division comes after the conversion, so that it is a division of"
    " floats."
)
"""Why the reference is written as it is."""
REQUIRED = ("reshaped-not-permuted", "not-scaled", "batch-ignored")
"""The mistakes that a check must always be able to name."""

IMAGES = "Images: channels first"
ONES = "Axes of size one: unsqueeze, squeeze, expand"


def image_to_chw(image: Tensor) -> Tensor:
    return image.movedim(-1, -3).contiguous() / 255


def scaled(image: Tensor) -> Tensor:
    return image.contiguous() / 255


def reshaped(image: Tensor) -> Tensor:
    *batch, height, width, channels = image.shape
    return scaled(image.reshape(*batch, channels, height, width))


def viewed(image: Tensor) -> Tensor:
    *batch, height, width, channels = image.shape
    return scaled(image.view(*batch, channels, height, width))


def reshaped_as_if_one(image: Tensor) -> Tensor:
    return scaled(image.reshape(image.shape[2], image.shape[0], image.shape[1]))


def scaled_by_own_range(image: Tensor) -> Tensor:
    moved = image.movedim(-1, -3)
    return (moved - moved.min()).float().contiguous() / (moved.max() - moved.min())


def batch_axis_added(image: Tensor) -> Tensor:
    result = image_to_chw(image)
    return result.unsqueeze(0) if result.ndim == 3 else result


def only_grey_and_colour(image: Tensor) -> Tensor:
    if image.shape[-1] not in (1, 3, 4):
        raise ValueError(f"an image of {image.shape[-1]} channels")
    return image_to_chw(image)


BATCH = (
    "For a batch the outcome was {got}: the dimensions were counted from the front, where a batch adds one; counted "
    "from the end they stay the same."
)
REGROUPED = (
    'In the case "{case}" the value at {at} is {got_at} and should be {want_at}, though the shape is right: reshaping '
    "deals the values out anew, whereas permuting moves the channels."
)
OWN_RANGE = (
    "The value at {at} is {got_at} and should be {want_at}: 0 has to stay 0 and 255 has to become 1, whatever the "
    "smallest and largest values of this image are."
)
OTHER_DTYPE = "The result is {got_dtype} where {want_dtype} is wanted."
MISTAKES = [
    Mistake("reshaped-not-permuted", reshaped, REGROUPED, IMAGES),
    Mistake("reshaped-not-permuted", viewed, REGROUPED, IMAGES),
    Mistake("reshaped-not-permuted", reshaped_as_if_one, REGROUPED, IMAGES),
    Mistake("height-and-width-swapped", lambda image: scaled(image.transpose(-3, -1)), "The result has shape "
            "{got_shape} where {want_shape} is wanted: swapping two dimensions exchanged height and width as well.",
            IMAGES),
    Mistake("channels-in-the-middle", lambda image: scaled(image.transpose(-2, -1)), "The result has shape {got_shape} "
            "where {want_shape} is wanted: the channels changed places with the width, and so stand between height and "
            "width.", IMAGES),
    Mistake("batch-ignored", lambda image: scaled(image.permute(2, 0, 1)), BATCH, IMAGES),
    Mistake("batch-ignored", lambda image: scaled(image.movedim(2, 0)), BATCH, IMAGES),
    Mistake("batch-ignored", lambda image: scaled(image.movedim(-1, 0)), BATCH, IMAGES),
    Mistake("batch-axis-added", batch_axis_added, "In the case \"{case}\" the result has shape {got_shape} where "
            "{want_shape} is wanted: a batch axis was added that the input does not have.", IMAGES),
    Mistake("squeezes-batch-of-one", lambda image: image_to_chw(image).squeeze(), "In the case \"{case}\" the result "
            "has shape {got_shape} where {want_shape} is wanted: `squeeze` removed a dimension of size one that "
            "belongs to the shape.", ONES),
    Mistake("not-scaled", lambda image: image.movedim(-1, -3).contiguous().float(), "The value at {at} is {got_at} and "
            "should be {want_at}: the bytes became floats, but were not brought from 0..255 to 0..1.", IMAGES),
    Mistake("left-as-bytes", lambda image: image.movedim(-1, -3).contiguous(), "The result is {got_dtype} where "
            "{want_dtype} is wanted: the channels were moved, but the bytes stayed bytes.", IMAGES),
    Mistake("scaled-by-256", lambda image: image.movedim(-1, -3).contiguous() / 256, "The value at {at} is {got_at} "
            "and should be {want_at}: the largest byte is 255, so 255 has to become 1.", IMAGES),
    Mistake("divided-as-integers", lambda image: (image.movedim(-1, -3).contiguous() // 255).float(), "The value at "
            "{at} is {got_at} and should be {want_at}: the fraction was cut off, as by `//`, which rounds down, or by "
            "a dtype of integers.", IMAGES),
    Mistake("scaled-by-own-range", lambda image: image.movedim(-1, -3).contiguous() / image.max(), OWN_RANGE, IMAGES),
    Mistake("scaled-by-own-range", scaled_by_own_range, OWN_RANGE, IMAGES),
    Mistake("scaled-to-minus-one", lambda image: image.movedim(-1, -3).contiguous() / 127.5 - 1, "The value at {at} is "
            "{got_at} and should be {want_at}: the values were brought to -1..1, where 0..1 is wanted.", IMAGES),
    Mistake("not-contiguous", lambda image: image.movedim(-1, -3) / 255, "`is_contiguous()` of the result is {got}: a "
            "permuted view keeps the old order in memory until it is copied.", IMAGES),
    Mistake("other-channels-refused", only_grey_and_colour, "In the case \"{case}\" the call raised {error}: how many "
            "channels there are is up to the image; moving them does not depend on it.", IMAGES),
    Mistake("returns-float64", lambda image: image_to_chw(image.double()), OTHER_DTYPE, IMAGES),
    Mistake("returns-float16", lambda image: image_to_chw(image.half()), OTHER_DTYPE, IMAGES),
    *anywhere(image_to_chw),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    height, width = draw.size(2, 9), draw.size(2, 9)
    pixels = draw.integers(0, 256, 3, width, height, 4, dtype=torch.uint8)
    return [
        case("four channels, transposed", image=pixels.transpose(1, 2)),
        case("black and white", image=255 * draw.integers(0, 2, height, width, 3, dtype=torch.uint8)),
        case("one pixel", image=draw.integers(0, 256, 1, 1, 3, dtype=torch.uint8)),
        case("an empty batch", image=torch.empty(0, height, width, 3, dtype=torch.uint8)),
    ]


# Right answers unlike the reference


def image_by_rank(image: Tensor) -> Tensor:
    order = (2, 0, 1) if image.ndim == 3 else (0, 3, 1, 2)
    return image.permute(order).float().div(255).contiguous()


def image_by_einsum(image: Tensor) -> Tensor:
    return torch.einsum("...hwc->...chw", image / 255.0).contiguous()


def image_channel_by_channel(image: Tensor) -> Tensor:
    return torch.stack([c.to(torch.float32) for c in image.unbind(-1)], dim=-3) * (1 / 255)


def image_filled(image: Tensor) -> Tensor:
    *batch, height, width, channels = image.shape
    result = torch.empty(*batch, channels, height, width, device=image.device)
    result.copy_(image.transpose(-1, -2).transpose(-2, -3))
    return result.div_(255)


def image_recursive(image: Tensor) -> Tensor:
    if image.dim() == 4:
        singles = [image_recursive(single) for single in image]
        shape = (0, image.shape[3], *image.shape[1:3])
        return torch.stack(singles) if singles else torch.empty(shape, device=image.device)
    columns, rows = image.swapaxes(0, 2).double(), (0, 2, 1)
    return (columns.permute(rows) / 255).to(torch.float32, memory_format=torch.contiguous_format)


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    image_by_rank,
    image_by_einsum,
    image_channel_by_channel,
    image_filled,
    image_recursive,
]
