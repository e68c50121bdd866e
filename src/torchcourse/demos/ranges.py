"""Gradients and the range of a format: which of them it can store, and the effect of a loss scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

DEPTH, UNITS, ROWS = 8, 48, 64
LOWEST, HIGHEST = -48, 32  # the powers of two that the picture spans
WIDTH, HEIGHT, LEFT, BASE, TALL = 6.6, 2.75, 0.3, 0.65, 1.25  # inches
COLOURS = {
    "vanish": style.VERMILION, "subnormal": style.ORANGE, "normal": style.BLUE, "overflow": style.PURPLE,
}  # fmt: skip
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Borders:
    """The limits of a format as powers of two.

    Below `zero` numbers vanish, from `normal` on they have full precision, from `infinite` on they overflow.
    """

    zero: float
    normal: float
    infinite: float

    def fate(self, power: float) -> str:
        """Return the fate of a number of about 2**power."""
        if power < self.zero:
            return "vanish"
        if power < self.normal:
            return "subnormal"
        return "normal" if power < self.infinite else "overflow"


def borders(name: str) -> Borders:
    """Return the limits of a format; half of its smallest number is rounded to zero."""
    info = torch.finfo(DTYPES[name])
    smallest = math.log2(info.smallest_normal) + math.log2(info.eps)
    return Borders(smallest - 1, math.log2(info.smallest_normal), math.log2(info.max))


@cache
def gradients() -> Tensor:
    """Return all gradients of a network's weights on one batch, from the last layer to the first."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(ROWS, UNITS, generator=generator)
    weights = [
        (0.35 / math.sqrt(UNITS) * torch.randn(UNITS, UNITS, generator=generator)).requires_grad_()
        for _ in range(DEPTH)
    ]
    for weight in weights:
        x = torch.tanh(x @ weight)
    (x - 0.01 * torch.randn(ROWS, UNITS, generator=generator)).square().mean().backward()  # type: ignore[no-untyped-call]
    return torch.cat([w.grad.flatten() for w in weights if w.grad is not None])


def powers(scale: int) -> Tensor:
    """Return the sizes of the gradients as powers of two, with the loss multiplied by 2**scale."""
    g = gradients()
    return g[g != 0].abs().log2() + scale


def shares(name: str, scale: int) -> dict[str, float]:
    """Return the share of the gradients with each fate."""
    sizes, ends = powers(scale), borders(name)
    vanish = (sizes < ends.zero).float().mean().item()
    below = (sizes < ends.normal).float().mean().item()
    fits = (sizes < ends.infinite).float().mean().item()
    return {"vanish": vanish, "subnormal": below - vanish, "normal": fits - below, "overflow": 1 - fits}


def in_words(name: str, scale: int) -> str:
    """Describe the picture."""
    found = ", ".join(f"{share:.1%} {_verb(fate)}" for fate, share in shares(name, scale).items())
    return f"{len(powers(0))} gradients, the loss times 2**{scale}, in {name}: {found}."


def _verb(fate: str) -> str:
    return f"are {fate}" if fate.endswith("normal") else fate


def draw(format: str, scale: int) -> Picture:
    """Draw a histogram of the gradients by power of two, each bar in the colour of its fate."""
    ends, found = borders(format), shares(format, scale)
    counts = torch.histc(powers(scale), HIGHEST - LOWEST, LOWEST, HIGHEST)
    heights = (TALL * counts / counts.max().clamp(min=1)).tolist()
    figure, axes = style.canvas(WIDTH, HEIGHT)
    step = (WIDTH - 2 * LEFT) / (HIGHEST - LOWEST)
    style.say(axes, LEFT, HEIGHT - 0.2, f"gradients in {format}, the loss times 2**{scale}", size=11, bold=True)
    x = LEFT
    for fate, share in found.items():
        style.say(axes, x, HEIGHT - 0.5, f"{share:.1%} {_verb(fate)}", size=8.5, colour=COLOURS[fate])
        x += 1.55
    for power in range(LOWEST, HIGHEST + 1, 8):
        style.say(axes, LEFT + step * (power - LOWEST), BASE - 0.2, f"2**{power}", size=7.5, colour=style.GREY,
                  align="center")  # fmt: skip
    for place, height in enumerate(heights):
        if height:
            fate = ends.fate(LOWEST + place + 0.5)
            style.cell(axes, LEFT + step * place, BASE, step, height, fill=COLOURS[fate], edge=style.PAPER)
    for border in (ends.zero, ends.normal, ends.infinite):
        if LOWEST < border < HIGHEST:
            across = LEFT + step * (border - LOWEST)
            axes.plot([across, across], [BASE, BASE + TALL + 0.1], color=style.INK, linewidth=1, linestyle="dotted")
    axes.plot([LEFT, WIDTH - LEFT], [BASE, BASE], color=style.GREY, linewidth=0.8)
    style.say(axes, LEFT, 0.18, "size of a gradient; dotted: where the format ends, and where its full digits begin",
              size=8, colour=style.GREY)  # fmt: skip
    return style.finish(figure, in_words(format, scale))


def explorer() -> Live:
    """Return the histogram with controls for format and scale, without showing it."""
    return Live(draw, format=tuple(DTYPES), scale=range(0, 49))


def explore() -> None:
    """Show the explorer."""
    explorer().show()
