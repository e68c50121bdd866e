"""Seven-segment digits: pictures whose label a flip can change."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.demos import images
from torchcourse.demos.style import Picture

SEGMENTS = {0: "abcdef", 1: "bc", 2: "abged", 3: "abgcd", 4: "fgbc", 5: "afgcd", 6: "afgedc", 7: "abc", 8: "abcdefg",
            9: "abcdfg"}  # fmt: skip
HEIGHT, WIDTH, BAR = 24, 16, 3


def seven_segment(number: int) -> Tensor:
    """Return a digit as a uint8 picture (1, 24, 16), light on dark; 2 and 5 are mirror images."""
    if number not in SEGMENTS:
        raise ValueError(f"number is {number}, but must be a digit from 0 to 9")
    picture = torch.full((1, HEIGHT, WIDTH), 20, dtype=torch.uint8)
    top, left, bottom, right = 3, 3, HEIGHT - 3, WIDTH - 3
    middle = HEIGHT // 2
    where = {
        "a": (slice(top, top + BAR), slice(left, right)),
        "g": (slice(middle - 1, middle + 2), slice(left, right)),
        "d": (slice(bottom - BAR, bottom), slice(left, right)),
        "f": (slice(top, middle), slice(left, left + BAR)),
        "b": (slice(top, middle), slice(right - BAR, right)),
        "e": (slice(middle, bottom), slice(left, left + BAR)),
        "c": (slice(middle, bottom), slice(right - BAR, right)),
    }
    for segment in SEGMENTS[number]:
        picture[(0, *where[segment])] = 230
    return picture


def draw(pictures: dict[str, Tensor], alt: str = "") -> Picture:
    """Draw pictures (1, H, W) or (3, H, W) side by side; floats must be in [0, 1]."""
    shown = {}
    for name, picture in pictures.items():
        bytes_ = picture if picture.dtype == torch.uint8 else (picture.clamp(0, 1) * 255).round().to(torch.uint8)
        shown[name] = bytes_.expand(3, -1, -1).permute(1, 2, 0)
    return images.draw(shown, alt)
