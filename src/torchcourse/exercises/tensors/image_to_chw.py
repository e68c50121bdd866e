"""The exercise `image_to_chw`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.probes.observe import kept, look


def probe(answer: Watched, image: Tensor) -> dict[str, Any]:
    """Observe the result, whether it is contiguous, and that the image stays as it was."""
    before = image.clone()
    result = answer(image)
    contiguous = result.is_contiguous() if isinstance(result, Tensor) else "no tensor"
    return {**look(result, image), "contiguous": contiguous, **kept(image=(image, before))}


def cases(draw: Draw) -> list[Case]:
    height, width = draw.size(3, 5), draw.size(6, 8)

    def pixels(*shape: int) -> Tensor:
        return draw.integers(0, 256, *shape, dtype=torch.uint8)

    return [
        case("one image", image=pixels(height, width, 3)),
        case("a batch", image=pixels(2, height, width, 3)),
        case("a batch of one", image=pixels(1, height, width, 3)),
        case("one channel", image=pixels(height, width, 1)),
        case("a square image", image=pixels(height, height, 3)),
        case("every second pixel, five channels", image=pixels(2 * height, 2 * width, 5)[::2, ::2]),
    ]


EXERCISE = Exercise(
    "image_to_chw",
    probe,
    cases,
    hints=(
        "Reordering dimensions and regrouping elements are two operations. Which of the two moves the channels "
        "without mixing pixels?",
        "Counted from the end, the channels sit at the same place with and without a batch. Which function moves one "
        "dimension to a place, counted from the end?",
        "After the channels moved, in which order do the elements lie in memory? The result should lie in the order of "
        "its own shape, as float32, with 255 as 1.",
    ),
)
