"""The effect of an initialisation on a deep net: the sizes of activations and gradients, layer by layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from torch import Tensor

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

WIDTH, ROWS = 128, 64  # units in each layer, examples in the batch
LOWEST, HIGHEST, BINS = -9, 4, 52  # the powers of ten that the histograms span
LINE, TOP, LEFT, PANEL = 0.3, 0.75, 0.8, 2.55  # inches

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": torch.nn.functional.gelu,
}
STARTS: dict[str, float] = {
    "Kaiming: sqrt(2 / fan_in)": math.sqrt(2 / WIDTH),
    "Xavier: sqrt(1 / width)": math.sqrt(1 / WIDTH),
    "nn.Linear's default: sqrt(1 / (3 fan_in))": math.sqrt(1 / (3 * WIDTH)),
    "too small: 0.01": 0.01,
    "too large: 0.3": 0.3,
}
"""The standard deviation of the weights for each initialisation."""


@dataclass(frozen=True)
class Layer:
    """Statistics of one layer: standard deviations, and histograms of log10 of the absolute values (largest bar 1)."""

    activation: float
    gradient: float
    activations: list[float]
    gradients: list[float]


def histogram(values: Tensor) -> list[float]:
    """Return how often each power of ten occurs among the non-zero values; the largest share becomes 1."""
    sizes = values[values != 0].abs().log10().clamp(LOWEST, HIGHEST - 1e-3)
    counts = torch.histc(sizes, BINS, LOWEST, HIGHEST)
    return (counts / counts.max().clamp(min=1)).tolist()


def measure(start: str, activation: str, depth: int) -> list[Layer]:
    """Send one batch through a net of `depth` layers and a gradient back; return what each layer got."""
    generator = torch.Generator().manual_seed(3)
    act, size = ACTIVATIONS[activation], STARTS[start]
    x = torch.randn(ROWS, WIDTH, generator=generator)
    outputs: list[Tensor] = []
    for _ in range(depth):
        weight = size * torch.randn(WIDTH, WIDTH, generator=generator)
        x = act(x @ weight.T).requires_grad_() if not outputs else act(x @ weight.T)
        x.retain_grad()
        outputs.append(x)
    x.backward(torch.randn(x.shape, generator=generator))  # type: ignore[no-untyped-call]
    return [_layer(output.detach(), output.grad) for output in outputs]


def _layer(output: Tensor, gradient: Tensor | None) -> Layer:
    assert gradient is not None, "every output retains its gradient"
    return Layer(output.std().item(), gradient.std().item(), histogram(output), histogram(gradient))


def in_words(layers: list[Layer], start: str, activation: str) -> str:
    """Describe the picture."""
    first, last = layers[0], layers[-1]
    return (
        f"{len(layers)} layers with {activation}, weights {start}. Standard deviation of the activations: "
        f"{first.activation:.2g} in layer 1, {last.activation:.2g} in layer {len(layers)}. Of the gradients: "
        f"{last.gradient:.2g} in layer {len(layers)}, {first.gradient:.2g} in layer 1."
    )


def draw(start: str, activation: str, depth: int) -> Picture:
    """Draw histograms of activations (left) and gradients (right), a line for each layer."""
    layers = measure(start, activation, depth)
    height = TOP + LINE * depth + 0.5
    figure, axes = style.canvas(2 * PANEL + LEFT + 0.5, height)
    style.say(axes, 0.12, height - 0.2, f"{activation}, weights {start}", size=11, bold=True)
    panels = (("activations", style.BLUE, LEFT), ("gradients", style.VERMILION, LEFT + PANEL + 0.2))
    for title, colour, left in panels:
        style.say(axes, left, height - 0.5, f"size of the {title}, in powers of ten", colour=colour)
        for power in range(LOWEST + 1, HIGHEST, 4):
            x = left + PANEL * (power - LOWEST) / (HIGHEST - LOWEST)
            axes.plot([x, x], [0.35, height - TOP], color=style.FAINT, linewidth=1, zorder=0)
            style.say(axes, x, 0.2, f"1e{power}", size=7.5, colour=style.GREY, align="center")
    floors = [height - TOP - LINE * number for number in range(1, depth + 1)]
    for number, floor in enumerate(floors, 1):
        style.say(axes, 0.12, floor + 0.1, f"layer {number}", size=8)
    _bars(axes, [layer.activations for layer in layers], panels[0][2], floors, panels[0][1])
    _bars(axes, [layer.gradients for layer in layers], panels[1][2], floors, panels[1][1])
    return style.finish(figure, in_words(layers, start, activation))


def _bars(axes: Axes, histograms: list[list[float]], left: float, floors: list[float], colour: str) -> None:
    """Draw the histograms of one panel at once, which is several times as fast as one by one."""
    edges = torch.linspace(left, left + PANEL, BINS + 1).repeat_interleave(2).tolist()
    outlines = []
    for heights, floor in zip(histograms, floors, strict=True):
        tops = [floor + LINE * 0.85 * h for h in heights for _ in range(2)]
        outlines.append(list(zip(edges, [floor, *tops, floor], strict=True)))
    axes.add_collection(PolyCollection(outlines, facecolors=colour, linewidths=0))
    axes.hlines(floors, left, left + PANEL, colors=style.GREY, linewidths=0.4)


def explorer() -> Live:
    """Return the picture with controls for initialisation, activation and depth, without showing it."""
    return Live(draw, start=tuple(STARTS), activation=tuple(ACTIVATIONS), depth=range(4, 17, 4))


def explore() -> None:
    """Show the explorer."""
    explorer().show()
