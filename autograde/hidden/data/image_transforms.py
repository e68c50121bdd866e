"""The exercise `image_transforms`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "What is random belongs to training; for evaluation everybody should get the same numbers each time. The "
    "conversion comes before normalising, because mean and spread are given for values in [0, 1]."
)
"""Why the reference is written as it is."""
REQUIRED = ("augments-evaluation", "normalizes-unscaled")
"""The mistakes that a check must always be able to name."""


def at_random(size: int, flip: float = 0.5) -> list[Any]:
    from torchvision.transforms import v2

    return [v2.RandomResizedCrop(size, scale=(0.5, 1.0)), v2.RandomHorizontalFlip(flip)]


def the_middle(size: int) -> list[Any]:
    from torchvision.transforms import v2

    return [v2.Resize(size), v2.CenterCrop(size)]


def normalised(mean: list[float], std: list[float], scale: bool = True) -> list[Any]:
    from torchvision.transforms import v2

    return [v2.ToDtype(torch.float32, scale=scale), v2.Normalize(mean, std)]


def compose(cut: list[Any], numbers: list[Any]) -> Any:
    from torchvision.transforms import v2

    return v2.Compose([*cut, *numbers])


def right(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return compose(at_random(size) if train else the_middle(size), normalised(mean, std))


# Mistakes in what is done at random


def augments_always(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return right(True, mean, std, size)


def augments_never(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return right(False, mean, std, size)


def augments_evaluation_only(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return right(not train, mean, std, size)


def flips_in_evaluation_too(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    from torchvision.transforms import v2

    return compose(at_random(size) if train else [*the_middle(size), v2.RandomHorizontalFlip()], normalised(mean, std))


def flips_never(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return compose(at_random(size, flip=0.0) if train else the_middle(size), normalised(mean, std))


def flips_always(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return compose(at_random(size, flip=1.0) if train else the_middle(size), normalised(mean, std))


def does_not_crop(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    from torchvision.transforms import v2

    cut = [v2.Resize((size, size)), v2.RandomHorizontalFlip()] if train else the_middle(size)
    return compose(cut, normalised(mean, std))


def crops_at_a_corner(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    from torchvision.transforms import v2

    def one_of_two(image: Tensor) -> Tensor:
        if torch.rand(()) < 0.5:
            return image[:, :size, :size]
        return image[:, -size:, -size:].flip(-1)

    return compose([v2.Lambda(one_of_two)] if train else the_middle(size), normalised(mean, std))


# Mistakes in the size


def sets_the_short_side(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return compose(at_random(size) if train else the_middle(size)[:1], normalised(mean, std))


def does_not_resize(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return compose(at_random(size) if train else [], normalised(mean, std))


# Mistakes in the numbers


def normalises_unscaled(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return compose(at_random(size) if train else the_middle(size), normalised(mean, std, scale=False))


def scales_afterwards(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    from torchvision.transforms import v2

    cut = at_random(size) if train else the_middle(size)
    return v2.Compose([*cut, *normalised(mean, std, scale=False), v2.Lambda(lambda x: x / 255)])


def does_not_normalise(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return compose(at_random(size) if train else the_middle(size), normalised(mean, std)[:1])


def normalises_training_only(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return (right if train else does_not_normalise)(train, mean, std, size)


def divides_by_the_variance(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return right(train, mean, [s * s for s in std], size)


def leaves_bytes(train: bool, mean: list[float], std: list[float], size: int) -> Any:
    return compose(at_random(size) if train else the_middle(size), [])


IMAGES = "Images, and what may be done to them"
DRAWS = 'In the case "{case}" the results of repeated calls are {draws}: '
GREY = (
    'In the case "{case}" a grey of {level} came out as {middle} in the first channel and should be {wanted_middle}: '
)
SHAPE = 'In the case "{case}" the result has shape {shape_got} where {shape_wanted} is wanted'
MISTAKES = [
    Mistake("augments-evaluation", augments_always, DRAWS + "an evaluation that crops and flips at random gives "
            "another result each time.", IMAGES),
    Mistake("normalizes-unscaled", normalises_unscaled, GREY + "mean and std are those of values in 0..1, but the "
            "values were still 0..255.", IMAGES),
    Mistake("normalizes-unscaled", scales_afterwards, GREY + "the values were scaled to 0..1 only after normalising, "
            "but mean and std are those of scaled values.", IMAGES),
    Mistake("augments-evaluation", flips_in_evaluation_too, 'In the case "{case}" the image was flipped {flipped}: in '
            "evaluation nothing is random.", IMAGES),
    Mistake("does-not-flip", flips_never, "In the case \"{case}\" the image was {flipped} flipped in 40 draws: "
            "training wants a random flip.", IMAGES),
    Mistake("does-not-normalise", does_not_normalise, GREY + "the mean was not subtracted, and nothing was divided by "
            "the std.",
            IMAGES),
    Mistake("never-augments", augments_never, DRAWS + "training wants a random crop and a random flip.", IMAGES),
    Mistake("augments-evaluation-only", augments_evaluation_only, DRAWS + "`train` is used the wrong way round.",
            IMAGES),
    Mistake("does-not-crop", does_not_crop, "In the case \"{case}\" the crop is {cropped}: training wants a random "
            "crop.", IMAGES),
    Mistake("crops-at-two-places", crops_at_a_corner, DRAWS + "a random crop may lie anywhere in the image, and "
            "whether the image is flipped is drawn separately.", IMAGES),
    Mistake("always-flips", flips_always, "In the case \"{case}\" the image is {flipped} flipped: a random flip leaves "
            "half of the images as they are.", IMAGES),
    Mistake("size-of-the-short-side", sets_the_short_side, SHAPE + ": `Resize` with one int sets the shorter side.",
            IMAGES),
    Mistake("evaluation-not-resized", does_not_resize, SHAPE + ": every image gets this size, in evaluation too.",
            IMAGES),
    Mistake("normalises-training-only", normalises_training_only, GREY + "what the model saw in training it has to see "
            "in evaluation too.", IMAGES),
    Mistake("divides-by-the-variance", divides_by_the_variance, GREY + "divide by the standard deviation, not by its "
            "square.", IMAGES),
    Mistake("left-as-bytes", leaves_bytes, "In the case \"{case}\" the result is {kind_got} where {kind_wanted} is "
            "wanted.", IMAGES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    mean, std = [0.1, 0.9], [0.5, 0.25]
    common: dict[str, Any] = {"mean": mean, "std": std, "size": draw.size(8, 20), "rtol": 1e-3, "atol": 2e-3}
    return [
        case("two channels, training", **common, train=True, shape=[50, 30], level=0, draws=40),
        case("two channels, evaluation", **common, train=False, shape=[30, 50], level=draw.size(1, 255), draws=5),
    ]


# Right answers unlike the reference


def transforms_from_padding(train: bool, mean: Any, std: Any, size: int) -> Any:
    from torchvision.transforms import v2

    common = [v2.ToImage(), v2.Resize((size, size))]
    random_ones = [v2.RandomCrop(size, padding=max(1, size // 8)), v2.RandomHorizontalFlip(p=0.3)] if train else []
    return v2.Compose([*common, *random_ones, v2.ConvertImageDtype(torch.float32), v2.Normalize(mean, std)])


def transforms_as_a_function(train: bool, mean: Any, std: Any, size: int) -> Any:
    from torchvision.transforms.v2 import functional as TF

    def transform(image: Tensor) -> Tensor:
        x = TF.to_dtype(image, torch.float32, scale=True)
        x = TF.resize(x, [size + 4, size + 4] if train else [size, size], antialias=True)
        if train:
            top, left = torch.randint(0, 5, (2,)).tolist()
            x = x[:, top : top + size, left : left + size]
            x = x.flip(-1) if torch.rand(()) < 0.5 else x
        result: Tensor = (x - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]
        return result

    return transform


class TransformsInAModule(nn.Module):
    def __init__(self, train: bool, mean: Any, std: Any, size: int) -> None:
        super().__init__()
        from torchvision.transforms import v2

        cut = v2.RandomResizedCrop((size, size)) if train else v2.Resize((size, size))
        flip = v2.RandomHorizontalFlip() if train else v2.Identity()
        self.steps = nn.Sequential(cut, flip, v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean=mean, std=std))

    def forward(self, image: Tensor) -> Tensor:
        out: Tensor = self.steps(image)
        return out


RIGHT_ANSWERS: list[Callable[..., Any]] = [transforms_from_padding, transforms_as_a_function, TransformsInAModule]
