"""The exercise `ResidualBlock`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograde.hidden.common import override
from autograde.hidden.modules.shared import UNBEGUN
from autograde.source.mistakes import Mistake
from torchcourse.exercises.modules.residual_block import block_weights
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The sum needs two tensors of one shape, so the way around gets a 1x1 convolution where stride or channels "
    "change, and is the identity otherwise. The last ReLU comes after the sum: a ReLU on the branch alone would"
    " only ever let it add."
)
"""Why the reference is written as it is."""
REQUIRED = ("missing-projection", "relu-before-add")
"""The mistakes that a check must always be able to name."""

REGISTER = "What a module remembers"
CONV = "Convolutions and shapes"


class Block(nn.Module):
    """A right block; a mistake overrides one of its methods, or changes one of its layers."""

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.relu = nn.ReLU()
        changes = self.projects(in_channels, out_channels, stride)
        self.skip = self.projection(in_channels, out_channels, stride) if changes else nn.Identity()

    def projects(self, i: int, o: int, stride: int) -> bool:
        return stride != 1 or i != o

    def projection(self, i: int, o: int, stride: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def branch(self, x: Tensor) -> Tensor:
        y: Tensor = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return y

    def forward(self, x: Tensor) -> Any:
        return (self.branch(x) + self.skip(x)).relu()


class WithBias(Block):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__(in_channels, out_channels, stride)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, 1)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1)


class BiasEverywhere(WithBias):
    def projection(self, i: int, o: int, stride: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(i, o, 1, stride), nn.BatchNorm2d(o))


class StrideInTheSecond(Block):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__(in_channels, out_channels, stride)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, 1, 1, bias=False)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, stride, 1, bias=False)


class StrideInBoth(Block):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__(in_channels, out_channels, stride)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, stride, 1, bias=False)


class NoStride(Block):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__(in_channels, out_channels, stride)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, 1, 1, bias=False)


class NoPaddingInTheFirst(Block):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__(in_channels, out_channels, stride)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, bias=False)


class NoPaddingInTheSecond(Block):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__(in_channels, out_channels, stride)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, bias=False)


class NoPadding(NoPaddingInTheSecond):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__(in_channels, out_channels, stride)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, bias=False)


class OneNorm(Block):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__(in_channels, out_channels, stride)
        self.bn2 = self.bn1


class NotNamed(Block):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__(in_channels, out_channels, stride)
        del self.relu


class Unbegun(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)


SKIP = "For ResidualBlock{sizes} the parameters of skip are {skip} where {want_skip} are wanted: "
NO_PROJECTION = SKIP + "the two paths have different shapes, so their sum ended with {outcome}."
SUM = "For ResidualBlock{sizes} the sum ended with {outcome}: "
BEFORE_ADD = (
    'In the case "{case}" the value at {at} is {got_at} and should be {want_at}: the last relu comes after the sum, '
    "not before it."
)
AT = "The value at {at} is {got_at} and should be {want_at}: "
MISTAKES = [
    Mistake("missing-super-init", Unbegun, UNBEGUN, REGISTER),
    Mistake("missing-projection", override(Block, projects=lambda self, i, o, stride: False), NO_PROJECTION, CONV),
    Mistake("missing-projection", override(Block, projects=lambda self, i, o, stride: i != o), NO_PROJECTION, CONV),
    Mistake("missing-projection", override(Block, projects=lambda self, i, o, stride: stride != 1), NO_PROJECTION,
            CONV),
    Mistake("always-projects", override(Block, projects=lambda self, i, o, stride: True), SKIP + "where the shape "
            "stays, x goes past the block untouched.", CONV),
    Mistake("projection-without-norm",
            override(Block, projection=lambda self, i, o, s: nn.Sequential(nn.Conv2d(i, o, 1, s, bias=False))), SKIP
            + "the 1x1 convolution has a norm of its own.", CONV),
    Mistake("skip-with-bias",
            override(Block, projection=lambda self, i, o, s: nn.Sequential(nn.Conv2d(i, o, 1, s), nn.BatchNorm2d(o))),
            SKIP + "the 1x1 convolution needs no bias either.", CONV),
    Mistake("relu-before-add", override(Block, forward=lambda self, x: self.branch(x).relu() + self.skip(x)),
            BEFORE_ADD, CONV),
    Mistake("relu-before-add", override(Block, forward=lambda self, x: self.branch(x).relu() + self.skip(x).relu()),
            BEFORE_ADD, CONV),
    Mistake("no-last-relu", override(Block, forward=lambda self, x: self.branch(x) + self.skip(x)), "In the case "
            "\"{case}\" the smallest output is {smallest}: the relu after the sum is missing.", CONV),
    Mistake("no-relu-between", override(Block, branch=lambda self, x: self.bn2(self.conv2(self.bn1(self.conv1(x))))),
            AT + "between the first norm and the second convolution a relu is missing.", CONV),
    Mistake("nothing-added", override(Block, forward=lambda self, x: self.branch(x).relu()), AT + "`skip(x)` is not "
            "added.", CONV),
    *(Mistake("convolutions-with-bias", program, "The block has the parameters {biases}: batch norm takes away any "
              "constant at once, so a convolution before it needs no bias.", CONV)
      for program in (WithBias, BiasEverywhere)),
    Mistake("stride-in-the-second", StrideInTheSecond, "In the case \"{case}\" the value at {at} is {got_at} and "
            "should be {want_at}: the first convolution has the stride.", CONV),
    Mistake("stride-in-both", StrideInBoth, SUM + "of the two 3x3 convolutions, only the first has the stride.", CONV),
    Mistake("stride-missing-in-skip",
            override(Block, projection=lambda self, i, o, s: nn.Sequential(nn.Conv2d(i, o, 1, bias=False),
                                                                           nn.BatchNorm2d(o))),
            SUM + "the 1x1 convolution in `skip` has the same stride as the block.", CONV),
    Mistake("stride-missing-in-the-first", NoStride, SUM + "the first convolution has the stride, as `skip` does.",
            CONV),
    Mistake("padding-in-skip",
            override(Block, projection=lambda self, i, o, s: nn.Sequential(nn.Conv2d(i, o, 1, s, 1, bias=False),
                                                                           nn.BatchNorm2d(o))),
            SUM + "padding makes a convolution of size 1 larger, and it needs none.", CONV),
    Mistake("x-added-without-skip", override(Block, forward=lambda self, x: (self.branch(x) + x).relu()), SUM + "x "
            "was added as it is, and has to go through `skip` first.", CONV),
    *(Mistake("no-padding", program, SUM + "without padding, a convolution of size 3 takes a pixel off every side.",
              CONV) for program in (NoPadding, NoPaddingInTheFirst, NoPaddingInTheSecond)),
    Mistake("attributes-not-named", NotNamed, "The attributes {got} are missing: the parts should have the names that "
            "the exercise gives.", CONV),
    Mistake("one-norm-for-both", OneNorm, "`parameters` came out as {got} where {want} is wanted: the two norms are "
            "two layers.", CONV),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    i, o, stride = draw.size(1, 4), draw.size(1, 4), draw.size(1, 3)
    height, width = draw.size(4, 9), draw.size(4, 9)
    loose: dict[str, Any] = {"rtol": 1e-3, "atol": 2e-3}
    return [
        case("drawn sizes", **loose, sizes=(i, o, stride), weights=block_weights(draw, i, o),
             x=draw.normal(3, i, height, width)),
        case("stride 3", **loose, sizes=(i, i, 3), weights=block_weights(draw, i, i), x=draw.normal(2, i, 8, 7)),
    ]  # fmt: skip


# Right answers unlike the reference


class Projection(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(outside)
        self.conv = nn.Conv2d(inside, outside, kernel_size=1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Any:
        return self.norm(self.conv(x))


class BlockInPlace(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.skip: nn.Module = nn.Sequential()
        if (in_channels, 1) != (out_channels, stride):
            self.skip = Projection(in_channels, out_channels, stride)
        self.bn2, self.bn1 = nn.BatchNorm2d(out_channels), nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, "same", bias=False)
        self.conv1 = nn.Conv2d(in_channels, out_channels, (3, 3), (stride, stride), (1, 1), bias=False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Any:
        identity = self.skip(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class BlockOfDict(nn.Module):
    relu = staticmethod(F.relu)

    def __init__(self, in_channels: int, out_channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        same = stride == 1 and in_channels == out_channels
        conv = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)
        layers = OrderedDict(conv=conv, bn=nn.BatchNorm2d(out_channels))
        self.skip = nn.Identity() if same else nn.Sequential(layers)

    def forward(self, x: Tensor) -> Any:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(torch.add(self.skip(x), out))


RIGHT_ANSWERS: list[Callable[..., Any]] = [BlockInPlace, BlockOfDict]
