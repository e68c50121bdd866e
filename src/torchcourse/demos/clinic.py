"""A clinic of trainings: the same small problem with one fault at a time, and what shows of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.resuming import one_thread
from torchcourse.demos.style import Picture

STEPS, CLASSES, WIDTH, ROWS = 80, 4, 24, 200
LAYERS = ("layer 1", "layer 2", "layer 3", "layer 4")
LETTERS = "ABCDEFGHIJ"
HIGHEST = 6.0  # losses above it leave the picture


@dataclass(frozen=True)
class TrainingCurve:
    """What a training shows: its losses, the accuracy at the end, and gradient norms by layer at the first step."""

    losses: list[float] = field(repr=False)
    accuracy: float
    gradients: list[float]


@cache
def problem() -> tuple[Tensor, Tensor]:
    """Return points in the plane, whose class is the quarter of a spiral in which they lie."""
    generator = torch.Generator().manual_seed(4)
    labels = torch.randint(CLASSES, (ROWS,), generator=generator)
    radius = 0.2 + 1.8 * torch.rand(ROWS, generator=generator)
    angle = 1.571 * (labels + torch.rand(ROWS, generator=generator)) + radius
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), labels


class Patient(nn.Module):
    """Four linear layers with an activation between them."""

    def __init__(self, activation: Callable[[Tensor], Tensor] = torch.relu) -> None:
        super().__init__()
        widths = [2, WIDTH, WIDTH, WIDTH, CLASSES]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        out: Tensor = self.layers[-1](x)
        return out


@dataclass(frozen=True)
class Fault:
    """One way to train, with what it is called and where it shows."""

    shows: str
    lr: float = 0.01
    activation: Callable[[Tensor], Tensor] = torch.relu
    change: Callable[[Patient], object] = lambda model: None
    trains: slice = field(default_factory=lambda: slice(None))
    zero: bool = True
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy
    labels: Callable[[Tensor], Tensor] = lambda y: y


def scaled(factor: float) -> Callable[[Patient], None]:
    """Return a change that multiplies all weights."""

    def change(model: Patient) -> None:
        for layer in model.layers:
            layer.weight.data.mul_(factor)  # type: ignore[operator]

    return change


def silenced(model: Patient) -> None:
    """Push the second layer's units below zero for every input."""
    model.layers[1].bias.data.fill_(-20.0)  # type: ignore[operator]


def shuffled(y: Tensor) -> Tensor:
    """Return the labels in another order."""
    return y[torch.randperm(len(y), generator=torch.Generator().manual_seed(1))]


FAULTS = {
    "nothing": Fault("the loss begins at ln 4 = 1.39 and falls"),
    "gradients never cleared": Fault("it swings, since each step uses the sum of all gradients so far", zero=False),
    "learning rate 50 times too high": Fault("the first steps leap far above the start", lr=0.5),
    "learning rate 1000 times too low": Fault("a right start, and hardly any way down", lr=1e-5),
    "no activation": Fault("it settles early: no straight line parts a spiral", activation=lambda x: x),
    "weights far too large": Fault("the first loss is far above ln 4: sure of itself, and wrong", change=scaled(6.0)),
    "weights far too small": Fault("the first layers get hardly any gradient", change=scaled(0.05)),
    "softmax before the loss": Fault("a floor far above zero", loss=lambda z, y: F.cross_entropy(z.softmax(1), y)),
    "labels that belong to other inputs": Fault("it stays near ln 4, which is what a guess costs", labels=shuffled),
    "a layer of dead units": Fault("no gradient before the dead layer; what is after it learns a constant",
                                   change=silenced),
    "only the last layer in the optimizer": Fault("gradients everywhere, and it falls slowly: look at the updates",
                                                  trains=slice(-1, None)),
}  # fmt: skip
"""The faults by name."""
HIDDEN = [name for name in FAULTS if name != "nothing"]


@cache
def train_with(name: str) -> TrainingCurve:
    """Train with a fault, always from the same weights, on one thread: such small nets only wait for a second."""
    with one_thread():
        return _trained(name)


def _trained(name: str) -> TrainingCurve:
    fault, (x, y) = FAULTS[name], problem()
    torch.manual_seed(2)
    model = Patient(fault.activation)
    fault.change(model)
    optimizer = torch.optim.Adam([p for layer in model.layers[fault.trains] for p in layer.parameters()], fault.lr)
    labels, losses, gradients = fault.labels(y), list[float](), list[float]()
    for step in range(STEPS):
        if fault.zero:
            model.zero_grad()
        loss = fault.loss(model(x), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        if step == 0:
            gradients = [float(layer.weight.grad.norm()) for layer in model.layers]  # type: ignore[operator, union-attr]
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        right = (model(x).argmax(1) == labels).float().mean().item()
    return TrainingCurve(losses, right, gradients)


def page() -> Picture:
    """Draw the curves of all faults without their names."""
    figure, axes = style.canvas(7.2, 4.6)
    axes.set_axis_off()
    healthy, words = train_with("nothing"), []
    for place, name in enumerate(HIDDEN):
        row, column = divmod(place, 4)
        found = train_with(name)
        panel = figure.add_axes((0.06 + 0.24 * column, 0.71 - 0.325 * row, 0.2, 0.2))
        panel.plot(healthy.losses, color=style.SKY, linewidth=1)
        panel.plot([min(v, HIGHEST) for v in found.losses], color=style.VERMILION, linewidth=1.3)
        panel.set(xlim=(0, STEPS - 1), ylim=(0, max(2.0, min(HIGHEST, 1.05 * max(found.losses)))), xticks=(0, 40))
        style.style_axes(panel)
        panel.set_title(f"{LETTERS[place]}: starts at {found.losses[0]:.2f}", fontsize=8.5, loc="left", color=style.INK)
        words.append(f"{LETTERS[place]} from {found.losses[0]:.2f} to {found.losses[-1]:.2f}")
    style.say(axes, 3.8, 0.75, "the loss by step; orange: one fault, blue: none", size=9)
    return style.finish(figure, f"Ten training curves, each with one fault: {'; '.join(words)}.")


def draw(fault: str) -> Picture:
    """Draw the curve of a fault beside the healthy one, and the gradient norms by layer at the first step."""
    found, healthy = train_with(fault), train_with("nothing")
    figure, axes = style.chart(7.2, 2.9, place=(0.09, 0.16, 0.49, 0.6), xlabel="step", ylabel="loss")
    axes.plot(healthy.losses, color=style.SKY, linewidth=3, label="no fault")
    axes.plot([min(v, HIGHEST) for v in found.losses], color=style.VERMILION, linewidth=1.5, label=fault)
    axes.axhline(math.log(CLASSES), color=style.GREY, linewidth=0.8, linestyle="dashed")
    axes.set(xlim=(0, STEPS - 1), ylim=(0, None), xticks=(0, 20, 40, 60))
    bars = figure.add_axes((0.7, 0.16, 0.27, 0.6))
    powers = [math.log10(max(size, 1e-6)) + 6 for size in found.gradients]  # a log scale's ticks take half the time
    bars.hlines(range(len(LAYERS)), 0, powers, colors=style.BLUE, linewidth=14)
    bars.set(xlim=(0, 9), xticks=(0, 3, 6, 9), xticklabels=("1e-6", "1e-3", "1", "1e3"))
    bars.set(ylim=(3.6, -0.6), yticks=range(len(LAYERS)), yticklabels=LAYERS)
    style.style_axes(bars)
    style.name_axes(bars, "gradient norm, first step", "")
    outcome = f"first loss {found.losses[0]:.2f}, last {found.losses[-1]:.2f}, accuracy {found.accuracy:.0%}"
    letter = f"{LETTERS[HIDDEN.index(fault)]}: " if fault in HIDDEN else ""
    axes.set_title(f"{letter}{fault}: {outcome}\n{FAULTS[fault].shows}", fontsize=9, loc="left", color=style.INK)
    norms = ", ".join(f"{name} {size:.1e}" for name, size in zip(LAYERS, found.gradients, strict=True))
    return style.finish(figure, f"{letter}{fault}. {outcome}; {FAULTS[fault].shows}. Gradient norms: {norms}.")


def explorer() -> Live:
    """Train with every fault, so that the menu reacts at once, and return the picture without showing it."""
    for name in FAULTS:
        train_with(name)
    return Live(draw, fault=list(FAULTS))


def explore() -> None:
    """Choose a fault from the list, and see its training."""
    explorer().show()
