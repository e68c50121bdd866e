"""The exercise `TinyUNet`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograde.hidden.architectures.right_unets import PadsFirst, WithTransposed
from autograde.hidden.architectures.shared import UNBEGUN
from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.exercises.architectures.tiny_unet import images
from torchcourse.model.exercise import Case, Draw

WHY = (
    "Each size's features are kept before they are pooled, where they are still sharp, and the way up is brought to "
    "*their* size, so no size needs a case of its own. Concatenated, both sides keep their channels, and the next "
    "convolution weighs them. Without a batch norm, one small image works too."
)
"""Why the reference is written as it is."""
REQUIRED = ("adds-not-concatenates", "skip-after-pooling", "odd-size-fails")
"""The mistakes that a check must always be able to name."""

SKIPS = "Skips: ResNet and U-Net"


class UNet(nn.Module):
    """A right one; a mistake overrides one of its methods."""

    wide = (4, 6, 8)

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        a, b, c = self.wide
        self.large, self.medium, self.bottom = self.stage(channels, a), self.stage(a, b), self.stage(b, c)
        self.medium_again, self.large_again = self.joining(b, c, b), self.joining(a, b, a)
        self.head = nn.Conv2d(a, classes, 1)

    def stage(self, inside: int, outside: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.ReLU())

    def joining(self, skip: int, below: int, outside: int) -> nn.Module:
        return self.stage(skip + below, outside)

    def pool(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, 2)

    def up(self, x: Tensor, like: Tensor) -> Tensor:
        return F.interpolate(x, size=like.shape[-2:])

    def join(self, skip: Tensor, below: Tensor) -> Tensor:
        return torch.cat([skip, below], 1)

    def forward(self, x: Tensor) -> Any:
        full = self.large(x)
        half = self.medium(self.pool(full))
        y = self.bottom(self.pool(half))
        y = self.medium_again(self.join(half, self.up(y, half)))
        y = self.large_again(self.join(full, self.up(y, full)))
        return self.end(self.head(y))

    def end(self, y: Tensor) -> Any:
        return y


class PartCalledHalf(UNet):
    def forward(self, x: Tensor) -> Any:
        half: Any = self.half  # the method, whatever `self.half = nn.Conv2d(...)` has registered
        return half(self.pool(self.large(x)))


class Adds(UNet):
    wide = (4, 4, 4)

    def joining(self, skip: int, below: int, outside: int) -> nn.Module:
        return self.stage(skip, outside)

    def join(self, skip: Tensor, below: Tensor) -> Tensor:
        return skip + below


class NoSkips(UNet):
    def joining(self, skip: int, below: int, outside: int) -> nn.Module:
        return self.stage(below, outside)

    def join(self, skip: Tensor, below: Tensor) -> Tensor:
        return below


class OneSkip(UNet):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes)
        self.large_again = self.stage(self.wide[1], self.wide[0])

    def forward(self, x: Tensor) -> Any:
        full = self.large(x)
        half = self.medium(self.pool(full))
        y = self.medium_again(self.join(half, self.up(self.bottom(self.pool(half)), half)))
        return self.head(self.large_again(self.up(y, full)))


class FullSizeOnly(UNet):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes)
        self.medium_again = self.stage(self.wide[2], self.wide[1])

    def forward(self, x: Tensor) -> Any:
        full = self.large(x)
        half = self.medium(self.pool(full))
        y = self.medium_again(self.up(self.bottom(self.pool(half)), half))
        return self.head(self.large_again(self.join(full, self.up(y, full))))


class JoinsTheImage(UNet):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes)
        self.large_again = self.joining(channels, self.wide[1], self.wide[0])

    def forward(self, x: Tensor) -> Any:
        half = self.medium(self.pool(self.large(x)))
        y = self.medium_again(self.join(half, self.up(self.bottom(self.pool(half)), half)))
        return self.head(self.large_again(self.join(x, self.up(y, x))))


class AfterPooling(UNet):
    def forward(self, x: Tensor) -> Any:
        half = self.pool(self.large(x))
        quarter = self.pool(self.medium(half))
        y = self.medium_again(self.join(quarter, self.bottom(quarter)))
        y = self.large_again(self.join(half, self.up(y, half)))
        return self.head(self.up(y, x))


class AfterPoolingStretched(UNet):
    def forward(self, x: Tensor) -> Any:
        first = self.pool(self.large(x))
        second = self.pool(self.medium(first))
        y = self.up(self.bottom(second), first)
        y = self.medium_again(self.join(self.up(second, first), y))
        y = self.large_again(self.join(first, y))
        return self.head(self.up(y, x))


class BlownUp(UNet):
    def forward(self, x: Tensor) -> Any:
        half = self.pool(self.large(x))
        quarter = self.pool(self.medium(half))
        y = self.medium_again(self.join(self.up(quarter, half), self.up(self.bottom(quarter), half)))
        return self.head(self.large_again(self.join(self.up(half, x), self.up(y, x))))


class BlownUpToFullSize(UNet):
    def forward(self, x: Tensor) -> Any:
        half = self.pool(self.large(x))
        inner = self.medium(half)
        y = self.medium_again(self.join(inner, self.up(self.bottom(self.pool(inner)), inner)))
        return self.head(self.large_again(self.join(self.up(half, x), self.up(y, x))))


class AfterPoolingAndFails(UNet):
    def forward(self, x: Tensor) -> Any:
        first = self.pool(self.large(x))
        second = self.pool(self.medium(first))
        y = F.interpolate(self.bottom(second), scale_factor=2)
        y = self.medium_again(self.join(second, y))
        y = self.large_again(self.join(first, F.interpolate(y, scale_factor=2)))
        return self.head(y)


class Doubles(UNet):
    def up(self, x: Tensor, like: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2)


class TransposedConvolutions(UNet):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes)
        _, b, c = self.wide
        self.first_up, self.second_up = nn.ConvTranspose2d(c, c, 2, stride=2), nn.ConvTranspose2d(b, b, 2, stride=2)

    def forward(self, x: Tensor) -> Any:
        full = self.large(x)
        half = self.medium(self.pool(full))
        y = self.medium_again(self.join(half, self.first_up(self.bottom(self.pool(half)))))
        return self.head(self.large_again(self.join(full, self.second_up(y))))


class CropsTheSkip(UNet):
    def up(self, x: Tensor, like: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2)

    def join(self, skip: Tensor, below: Tensor) -> Tensor:
        return torch.cat([skip[:, :, : below.shape[2], : below.shape[3]], below], 1)


class OneLevel(UNet):
    def forward(self, x: Tensor) -> Any:
        full = self.large(x)
        half = self.medium(self.pool(full))
        y = self.medium_again(self.join(half, self.bottom(half)))
        return self.head(self.large_again(self.join(full, self.up(y, full))))


class NoPadding(UNet):
    def stage(self, inside: int, outside: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inside, outside, 3), nn.ReLU())


class WithBatchNorm(UNet):
    def stage(self, inside: int, outside: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())


class WithInstanceNorm(UNet):
    def stage(self, inside: int, outside: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.InstanceNorm2d(outside), nn.ReLU())


class AtHalfSize(UNet):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes)
        self.head = nn.Conv2d(self.wide[1], classes, 1)
        del self.large_again

    def forward(self, x: Tensor) -> Any:
        full = self.large(x)
        half = self.medium(self.pool(full))
        return self.head(self.medium_again(self.join(half, self.up(self.bottom(self.pool(half)), half))))


class IgnoresTheBottom(UNet):
    def up(self, x: Tensor, like: Tensor) -> Tensor:
        return super().up(x, like) * (x.shape[1] != self.wide[2])


class ChannelsForClasses(UNet):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, channels)


class ThreeChannels(UNet):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(3, classes)


class IdleLayer(UNet):
    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, classes)
        self.spare = nn.Conv2d(4, 4, 3)


class ForgottenChannels(UNet):
    def joining(self, skip: int, below: int, outside: int) -> nn.Module:
        return self.stage(below, outside)


class Unbegun(nn.Module):
    def __init__(self, channels: int, classes: int) -> None:
        self.head = nn.Conv2d(channels, classes, 1)


JOINED = "Features are joined along the channels at {joins} sizes where 2 are wanted: "
ODD = "For images of {height} by {width} the call ended with {outcome}: "
SHAPE = "For images of shape {x_shape} the result has shape {shape} where {want_shape} is wanted: "
AFTER = (
    "Features are joined at {joined} of the size where full and half size are wanted: they were remembered after "
    "the pooling, when they were no longer sharp."
)
ONE_VALUE = (
    "For one image of {height} by {width} the call ended with {outcome}: at the bottom, the norm gets a single value "
    "for each channel."
)
BLOWN_UP = (
    "Sharp features are joined at {sharp} sizes where 2 are wanted: they were remembered after the pooling and blown "
    "up again, which does not bring back what the pooling has lost."
)
MISTAKES = [
    Mistake("missing-super-init", Unbegun, UNBEGUN, SKIPS),
    Mistake("part-called-half", PartCalledHalf, "The call ended with {outcome}: every module has a method "
            "`half`, which was called in place of your part; give the part another name.", SKIPS),
    Mistake("adds-not-concatenates", Adds, JOINED + "added, both sides are mixed one to one for good; beside each "
            "other, the next convolution can weigh them.", SKIPS),
    Mistake("no-skips", NoSkips, JOINED + "what the way down has seen is not used again, so everything sharp is lost.",
            SKIPS),
    Mistake("one-skip-only", OneSkip, JOINED + "both the half and the full size have features to join.", SKIPS),
    Mistake("one-skip-only", FullSizeOnly, JOINED + "both the half and the full size have features to join.", SKIPS),
    Mistake("joins-the-image", JoinsTheImage, "At the full size, what comes from below is joined with {sharpest}: join "
            "the features that the first convolutions made of it instead.", SKIPS),
    Mistake("skip-after-pooling", BlownUp, BLOWN_UP, SKIPS),
    Mistake("skip-after-pooling", BlownUpToFullSize, BLOWN_UP, SKIPS),
    Mistake("skip-after-pooling", AfterPooling, AFTER, SKIPS),
    Mistake("skip-after-pooling", AfterPoolingStretched, AFTER, SKIPS),
    Mistake("skip-after-pooling", AfterPoolingAndFails, ODD + "what is joined differs in size. Either "
            "features were remembered after the pooling, or what comes from below was not brought to their size.",
            SKIPS),
    Mistake("odd-size-fails", Doubles, ODD + "an odd size is not twice its pooled half; interpolate to the size of the "
            "features that you join.", SKIPS),
    Mistake("odd-size-fails", TransposedConvolutions, ODD + "a transposed convolution with stride 2 doubles, and an "
            "odd size is not twice its pooled half.", SKIPS),
    Mistake("odd-size-cropped", CropsTheSkip, SHAPE + "the sharp features were cut to the size of what came from "
            "below; bring that to their size instead.", SKIPS),
    Mistake("one-level", OneLevel, "The smallest size that a convolution sees is {smallest}, where {want_smallest} is "
            "wanted: two levels down means two poolings.", SKIPS),
    Mistake("no-padding", NoPadding, ODD + "a convolution of k by k keeps the size with a padding of k // 2, and loses "
            "pixels on every side with less.", SKIPS),
    Mistake("one-image-fails", WithBatchNorm, ONE_VALUE, SKIPS),
    Mistake("one-image-fails", WithInstanceNorm, ONE_VALUE, SKIPS),
    Mistake("ends-at-half-size", AtHalfSize, SHAPE + "one level up is missing.", SKIPS),
    Mistake("one-score-an-image", override(UNet, end=lambda self, y: y.mean((2, 3))), SHAPE + "each "
            "pixel gets scores, so nothing is averaged.", SKIPS),
    Mistake("picks-a-class", override(UNet, end=lambda self, y: y.argmax(1)), SHAPE + "the scores of "
            "all classes are wanted; `argmax` also has no gradient.", SKIPS),
    Mistake("softmax-at-the-end", override(UNet, end=lambda self, y: y.softmax(1)), "After the last layer "
            "there is {ending} where nothing is wanted: losses take plain scores.", SKIPS),
    Mistake("softmax-at-the-end", override(UNet, end=lambda self, y: y if self.training else y.softmax(1)), "After the "
            "last layer there is {judged} in evaluation mode, where nothing is wanted: scores are wanted there too.",
            SKIPS),
    Mistake("relu-at-the-end", override(UNet, end=lambda self, y: (y - y.mean()).relu()), "After the last layer there "
            "is {ending} where nothing is wanted: scores may be negative.", SKIPS),
    Mistake("channels-for-classes", ChannelsForClasses, SHAPE + "the last convolution makes one channel for each "
            "class.", SKIPS),
    Mistake("three-channels-assumed", ThreeChannels, ODD + "`channels` says how many channels the images have.", SKIPS),
    Mistake("idle-layer", IdleLayer, "A backward does not reach {idle} of the parameters: either `forward` never "
            "uses them, or their results were cut out of the graph.", SKIPS),
    Mistake("bottom-changes-nothing", IgnoresTheBottom, "Weights that change nothing in the result: {muted}. What the "
            "way up begins with has no effect, as if multiplied by zero, so nothing is learned at the smallest size.",
            SKIPS),
    *(Mistake("skips-change-nothing", override(UNet, join=join), "There are {got} {what} where {want} are wanted: they "
            "have to go into the next convolution as they are, neither multiplied by zero nor detached.",
              SKIPS) for join in (lambda self, skip, below: torch.cat([0 * skip, below], 1),
                                  lambda self, skip, below: torch.cat([skip.detach(), below], 1))),
    Mistake("joined-along-height", override(UNet, join=lambda self, *two: torch.cat(two, 2)), ODD + "features are "
            "joined along the channels, dimension 1.", SKIPS),
    Mistake("channels-not-counted", ForgottenChannels, ODD + "a layer gets a number of channels that it was not made "
            "for. After a concatenation there are the channels of both sides.", SKIPS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    drawn = [
        images(
            draw, f"drawn {i}", draw.size(1, 4), draw.size(2, 4), draw.size(1, 3), draw.size(4, 17), draw.size(4, 17)
        )
        for i in range(4)
    ]
    return [*drawn, images(draw, "wide and flat", 1, 2, 1, 4, 21), images(draw, "one class", 2, 1, 1, 12, 8)]


RIGHT_ANSWERS: list[Callable[..., Any]] = [WithTransposed, PadsFirst]
