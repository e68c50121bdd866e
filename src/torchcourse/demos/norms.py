"""The entries that share a mean and a variance, drawn for four kinds of normalisation."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from torchcourse.demos import style
from torchcourse.demos.style import Picture

EXAMPLES, CHANNELS, POSITIONS = 2, 4, 4
SIDE, GAP, NEXT = 0.18, 0.1, 0.32
"""In inches: a cell, the space between two examples, and the space between two kinds."""

NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "layer norm": lambda x: F.layer_norm(x.mT, (CHANNELS,)).mT,
    "group norm": lambda x: F.group_norm(x, 2),
    "instance norm": F.instance_norm,
}
"""From a name to the normalisation of a tensor (examples, channels, positions)."""


def shared(norm: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a mask (examples, channels, positions) of the entries that the first entry of the result depends on."""
    x = torch.randn(EXAMPLES, CHANNELS, POSITIONS, generator=torch.Generator().manual_seed(0)).requires_grad_()
    (gradient,) = torch.autograd.grad(norm(x)[0, 0, 0], x)
    return gradient != 0


def draw() -> Picture:
    """Draw two examples for each kind, channels down and positions to the right, with the shared entries orange."""
    block = EXAMPLES * POSITIONS * SIDE + (EXAMPLES - 1) * GAP
    height = CHANNELS * SIDE + 0.55
    figure, page = style.canvas(len(NORMS) * (block + NEXT) + 0.1, height)
    said = []
    for number, (name, norm) in enumerate(NORMS.items()):
        left, mask = 0.2 + number * (block + NEXT), shared(norm)
        style.say(page, left, height - 0.2, name, bold=True)
        for example, channel, position in torch.cartesian_prod(*map(torch.arange, mask.shape)).tolist():
            x = left + example * (POSITIONS * SIDE + GAP) + position * SIDE
            y = height - 0.4 - (channel + 1) * SIDE
            fill = style.ORANGE if mask[example, channel, position] else style.FAINT
            style.cell(page, x, y, SIDE, SIDE, fill=fill)
        reach = [len(set(column)) for column in mask.nonzero().T.tolist()]
        said.append(f"{name}: examples {reach[0]}, channels {reach[1]}, positions {reach[2]}")
    return style.finish(figure, "What is averaged over for the first entry. " + "; ".join(said) + ".")
