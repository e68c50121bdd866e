"""Gradient descent on a surface: the steps from a starting point, for a learning rate to choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from torch import Tensor

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

STEPS = 30
SPAN = (-2.5, 2.5, -2.0, 2.0)  # left, right, bottom, top
PLACE = (0.65, 0.5, 4.2, 2.45)  # of the picture in its page, in inches
START = (-2.0, 1.5)


def valley(p: Tensor) -> Tensor:
    """A surface with curvatures 10 and 1 and its minimum at the origin."""
    return 0.5 * p[..., 0] ** 2 + 5 * p[..., 1] ** 2


def round_bowl(p: Tensor) -> Tensor:
    """A surface with the same curvature in every direction."""
    return 2 * (p**2).sum(-1)


def two_pits(p: Tensor) -> Tensor:
    """A surface with two minima, the right one deeper."""
    return (p[..., 0] ** 2 - 1.5) ** 2 - 0.5 * p[..., 0] + 2 * p[..., 1] ** 2


SURFACES: dict[str, Callable[[Tensor], Tensor]] = {
    "a valley, 10 times as steep across": valley,
    "a round bowl": round_bowl,
    "two pits": two_pits,
}


def path(surface: Callable[[Tensor], Tensor], rate: float, steps: int = STEPS) -> Tensor:
    """Return the points that gradient descent visits, with the start: shape (points, 2). Stop early if it diverges."""
    point = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    visited = [point.detach().clone()]
    for _ in range(steps):
        (slope,) = torch.autograd.grad(surface(point), point)
        with torch.no_grad():
            point -= rate * slope
        visited.append(point.detach().clone())
        if visited[-1].abs().max() > 1e3:
            break
    return torch.stack(visited)


def outcome(surface: Callable[[Tensor], Tensor], points: Tensor) -> str:
    """Describe in a few words how it went."""
    losses = surface(points)
    end = f"after {len(points) - 1} steps the loss is {losses[-1].item():.3g}"
    if losses[-1] > losses[0]:
        return f"runs away: {end}, from {losses[0].item():.3g}"
    return f"{end}, from {losses[0].item():.3g}"


@cache
def contours(name: str) -> list[Any]:
    """Return the contour lines of a surface, each an array of shape (points, 2)."""
    left, right, bottom, top = SPAN
    across, up = torch.linspace(left, right, 80), torch.linspace(bottom, top, 60)
    heights = SURFACES[name](torch.stack(torch.meshgrid(across, up, indexing="xy"), dim=-1))
    levels = torch.linspace(heights.min().clamp(min=0).item() ** 0.5, heights.max().item() ** 0.5, 14) ** 2
    levels += heights.min().clamp(max=0)
    drawn = Figure().add_subplot().contour(across.numpy(), up.numpy(), heights.numpy(), levels=levels.numpy())
    return [line for lines in drawn.allsegs for line in lines if len(line)]


def draw(name: str, rate: float) -> Picture:
    """Draw the surface as contours with the path of gradient descent on it."""
    surface = SURFACES[name]
    points = path(surface, rate)
    figure, page = style.canvas(5.2, 3.6)
    text = f"learning rate {rate:g}: {outcome(surface, points)}"
    style.say(page, 0.12, 3.4, name, size=10, bold=True)
    style.say(page, 0.12, 3.16, text, size=8.5)
    x, y, wide, tall = PLACE
    axes = figure.add_axes((x / 5.2, y / 3.6, wide / 5.2, tall / 3.6))
    axes.add_collection(LineCollection(contours(name), colors=style.GREY, linewidths=0.6))
    axes.plot(points[:, 0].numpy(), points[:, 1].numpy(), color=style.BLUE, marker="o", markersize=3.5, linewidth=1)
    axes.plot([points[0, 0].item()], [points[0, 1].item()], color=style.VERMILION, marker="o", markersize=6)
    axes.set(xlim=SPAN[:2], ylim=SPAN[2:], xticks=(-2, 0, 2), yticks=(-1, 0, 1))  # each tick costs a few milliseconds
    style.style_axes(axes)
    style.name_axes(axes, "first parameter", "second parameter")
    return style.finish(figure, f"Gradient descent on {name}, {text}.")


def visited(make: Callable[[list[Tensor]], torch.optim.Optimizer], steps: int = STEPS) -> Tensor:
    """Return the points that an optimizer visits in the valley, with the start: shape (steps + 1, 2)."""
    point = torch.tensor(START, requires_grad=True)
    optimizer, points = make([point]), [point.detach().clone()]
    for _ in range(steps):
        optimizer.zero_grad()
        valley(point).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        points.append(point.detach().clone())
    return torch.stack(points)


def race(makers: Mapping[str, Callable[[list[Tensor]], torch.optim.Optimizer]], steps: int = STEPS) -> Picture:
    """Draw the paths of several optimizers through the valley, each made from a list with the point to move."""
    name = next(name for name, surface in SURFACES.items() if surface is valley)
    figure, axes = style.chart(6.6, 3.4, place=(0.09, 0.17, 0.64, 0.71), title=f"{steps} steps in {name}")
    axes.add_collection(LineCollection(contours(name), colors=style.GREY, linewidths=0.6))
    words = []
    for (label, make), colour in zip(makers.items(), style.CYCLE, strict=False):
        points = visited(make, steps)
        axes.plot(points[:, 0].numpy(), points[:, 1].numpy(), color=colour, marker="o", markersize=2.5, label=label)
        words.append(f"{label} ends at height {valley(points[-1]).item():.2g}")
    axes.set(xlim=SPAN[:2], ylim=SPAN[2:], xticks=(-2, 0, 2), yticks=(-1, 0, 1), xlabel="first parameter",
             ylabel="second parameter")  # fmt: skip
    style.legend(axes)
    return style.finish(figure, f"Paths of optimizers in {name}: {'; '.join(words)}.")


def picture(surface: str, hundredths: int) -> Picture:
    """Draw the picture of the explorer, with the learning rate in hundredths."""
    return draw(surface, hundredths / 100)


def explorer() -> Live:
    """Return the explorer without showing it."""
    return Live(picture, surface=tuple(SURFACES), hundredths=range(2, 61, 1))


def explore() -> None:
    """Choose a surface and move the learning rate (in hundredths)."""
    explorer().show()
