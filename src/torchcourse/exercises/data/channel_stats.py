"""The exercise `channel_stats`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.differences import brief
from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind


class Batches:
    """Batches that can be gone through as often as one likes, as a DataLoader's can."""

    def __init__(self, images: list[Tensor]) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[tuple[Tensor, None]]:
        for x in self.images:
            yield x, None  # as in the example: it takes no labels to describe images


def probe(answer: Watched, images: list[Tensor]) -> dict[str, Any]:
    """Hand out the images in batches, and see whether they are left as they were."""
    before = [x.clone() for x in images]
    returned = answer(Batches(images))
    if not (isinstance(returned, tuple | list) and len(returned) == 2):
        return {"returned": f"{kind(returned)}, where a pair of mean and std is wanted"}
    mean, std = (r if isinstance(r, Tensor) else f"{kind(r)}" for r in returned)
    same = all(torch.equal(a, b) for a, b in zip(before, images, strict=True))
    return {"mean": mean, "std": std, "batches afterwards": "as before" if same else "changed"}


def cases(draw: Draw) -> list[Case]:
    height, width = draw.size(3, 4), draw.size(5, 6)

    def images(*sizes: int, mean: float = 0.0, channels: int = 3) -> list[Tensor]:
        scale = torch.arange(1.0, channels + 1)[:, None, None]
        return [mean + scale * draw.normal(size, channels, height, width) + scale for size in sizes]

    drifting = [x + 3.0 * i for i, x in enumerate(images(4, 4, 4))]
    return [
        case("batches of one size", images=images(4, 4, 4)),
        case("a small last batch", images=[*images(6, 6), 5 + images(1)[0]]),
        case("batches that differ in mean", images=drifting),
        case("one channel", images=images(3, 2, channels=1)),
        case("few pixels", images=[draw.normal(2, 2, 1, 1), draw.normal(1, 2, 1, 1)]),
        case("half precision", rtol=2e-3, atol=2e-3, images=[x.half() for x in images(3, 5)]),
        case("a mean of 10000", rtol=1e-6, atol=5e-3, images=images(8, 8, 5, mean=1e4)),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"sizes": [len(x) for x in inputs["images"]]}
    for name in ("mean", "std"):
        fields |= {name: seen.get(name), f"wanted_{name}": wanted.get(name)}
    texts = [(name, brief(seen.get(name)), brief(wanted.get(name))) for name in ("mean", "std")]
    parts = [f", the {name} is {got} and should be {want}" if got != want else "" for name, got, want in texts]
    return {**fields, "and_mean": parts[0], "and_std": parts[1]}


EXERCISE = Exercise(
    "channel_stats",
    probe,
    cases,
    hints=(
        "The mean of all pixels is the sum of all pixels divided by their number. What do you have to add up from "
        "batch to batch, so that a small last batch counts for less?",
        "The overall standard deviation is not the average of the batches' standard deviations: batches may differ in "
        "mean. Which sums give the variance?",
        "E[x²] - E[x]² subtracts two nearly equal numbers when the mean is large. How many digits can float32 spare "
        "for that, and how many can float64? Going through the loader a second time is allowed as well.",
    ),
    any_device=False,
    quotes=quotes,
)
