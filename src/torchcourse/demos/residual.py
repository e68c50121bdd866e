"""A residual block as boxes, with the way around them and the shapes on both ways."""

from __future__ import annotations

import torch
from matplotlib.axes import Axes
from torch import nn

from torchcourse.demos import style
from torchcourse.demos.style import Picture

WIDTH, HEIGHT, GAP = 0.66, 0.34, 0.26
"""Of a box and of the space between two boxes, in inches."""


def shapes(in_channels: int, out_channels: int, stride: int, side: int) -> list[str]:
    """Return the shape of one image before the block, after its first convolution, and after the skip's."""
    x = torch.empty(1, in_channels, side, side, device="meta")
    conv = nn.Conv2d(in_channels, out_channels, 3, stride=stride, padding=1, device="meta")
    skip = nn.Conv2d(in_channels, out_channels, 1, stride=stride, device="meta")
    plain = stride == 1 and in_channels == out_channels
    return [str(tuple(t.shape[1:])) for t in (x, conv(x), x if plain else skip(x))]


def draw(in_channels: int, out_channels: int, stride: int = 1, side: int = 32) -> Picture:
    """Draw the block that turns `in_channels` of side by side pixels into `out_channels`."""
    before, inside, around = shapes(in_channels, out_channels, stride, side)
    names = ("x", "conv1", "bn1", "relu", "conv2", "bn2", "+", "relu")
    figure, page = style.canvas(0.4 + len(names) * (WIDTH + GAP) - GAP, 1.75)
    low, high = 0.5, 1.25
    left = {number: 0.2 + number * (WIDTH + GAP) for number in range(len(names))}
    for number, name in enumerate(names):
        fill = style.ORANGE if name == "+" else style.FAINT
        style.cell(page, left[number], low, WIDTH, HEIGHT, name, fill)
        if number:
            _arrow(page, left[number] - GAP, low + HEIGHT / 2, left[number], low + HEIGHT / 2)
    skip = "identity" if before == around else "1x1 conv, bn"
    first, last, level = left[0] + WIDTH / 2, left[6] + WIDTH / 2, high + HEIGHT / 2
    page.plot([first, first, last], [low + HEIGHT, level, level], color=style.GREY, linewidth=1, zorder=0)
    _arrow(page, last, level, last, low + HEIGHT)
    style.cell(page, left[3] - WIDTH / 2, high, 2 * WIDTH, HEIGHT, skip, style.FAINT)
    for number, shape in ((0, before), (1, inside), (5, inside)):
        style.say(page, left[number] + WIDTH / 2, low - 0.2, shape, size=8, colour=style.GREY, align="center")
    style.say(page, left[5] + WIDTH / 2, level + 0.14, around, size=8, colour=style.GREY, align="center")
    alt = f"x, {before}, goes through conv1, bn1, relu, conv2, bn2 to {inside}, and around through {skip} to {around}."
    return style.finish(figure, alt + " The sum of both goes through relu.")


def _arrow(page: Axes, x: float, y: float, to_x: float, to_y: float) -> None:
    look = {"arrowstyle": "-|>", "color": style.GREY, "shrinkA": 0, "shrinkB": 0}
    page.annotate("", (to_x, to_y), (x, y), arrowprops=look)
