"""Small tensors drawn as grids of numbers: stretched for broadcasting, or with chosen cells marked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from torch import Tensor

from torchcourse.demos import style
from torchcourse.demos.style import Picture

SIDE, GAP, TITLE = 0.36, 0.5, 0.34


def as_grid(tensor: Tensor) -> Tensor:
    """Return a tensor with two dimensions: a scalar becomes (1, 1), a vector (1, n); more are refused."""
    if tensor.ndim > 2:
        raise ValueError(f"tensor has {tensor.ndim} dimensions; a grid shows at most 2")
    return tensor.detach().cpu().reshape((1,) * (2 - tensor.ndim) + tuple(tensor.shape))


def texts(tensor: Tensor) -> list[list[str]]:
    """Return each entry as text: T and F for booleans, else at most three digits."""
    rows = as_grid(tensor).tolist()
    if tensor.dtype == torch.bool:
        return [["T" if value else "F" for value in row] for row in rows]
    return [[f"{value:.3g}" for value in row] for row in rows]


def stretched(tensor: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
    """Return the tensor as broadcasting sees it, and a mask of the entries that are repeated and not stored."""
    grid = as_grid(tensor)
    stored = torch.zeros(shape, dtype=torch.bool)
    stored[: grid.shape[0], : grid.shape[1]] = True
    return grid.expand(shape), ~stored


@dataclass(frozen=True)
class Panel:
    """One grid of a picture, of shape (rows, columns), with masks of its marked and its repeated cells."""

    name: str
    grid: Tensor
    marked: Tensor
    repeated: Tensor

    @property
    def cell_width(self) -> float:
        """The width of a cell in inches, enough for the longest entry."""
        longest = max((len(text) for row in texts(self.grid) for text in row), default=1)
        return max(SIDE, 0.085 * longest + 0.08)

    @property
    def width(self) -> float:
        """The width in inches, enough for the cells and for the name above them."""
        return max(self.cell_width * self.grid.shape[1], 0.09 * len(self.name))


def panel(name: str, tensor: Tensor, marked: Tensor | None = None) -> Panel:
    """Return a tensor of at most two dimensions as a panel with nothing repeated."""
    grid = as_grid(tensor)
    none = torch.zeros(grid.shape, dtype=torch.bool)
    return Panel(name, grid, none if marked is None else as_grid(marked), none)


def repeated(name: str, tensor: Tensor, shape: torch.Size) -> Panel:
    """Return a panel of a tensor that broadcasting repeats to `shape`."""
    grid, ghost = stretched(tensor, shape)
    return Panel(name, grid, torch.zeros_like(ghost), ghost)


def draw(marked: Mapping[str, Tensor] | None = None, /, **tensors: Tensor) -> Picture:
    """Draw tensors side by side under their names; `marked` has boolean masks of orange cells by name."""
    masks = marked or {}
    panels = [panel(name, tensor, masks.get(name)) for name, tensor in tensors.items()]
    return _side_by_side(panels, "; ".join(f"{one.name}: {texts(one.grid)}" for one in panels))


def add(a: Tensor, b: Tensor) -> Picture:
    """Draw a + b: what is stored with solid lines, what broadcasting repeats dashed."""
    total = as_grid(a + b)
    names = [f"a {tuple(a.shape)}", f"b {tuple(b.shape)}", f"a + b {tuple((a + b).shape)}"]
    panels = [
        repeated(names[0], a, total.shape),
        repeated(names[1], b, total.shape),
        panel(names[2], total),
    ]
    alt = f"{names[0]} plus {names[1]}: each is repeated to {tuple(total.shape)}, then added entry by entry."
    return _side_by_side(panels, alt, "+=")


def _side_by_side(panels: list[Panel], alt: str, signs: str = "") -> Picture:
    tallest = max(one.grid.shape[0] for one in panels)
    height = tallest * SIDE + TITLE + 0.16
    figure, page = style.canvas(sum(one.width + GAP for one in panels) - GAP + 0.4, height)
    x = 0.2
    for one, sign in zip(panels, signs.ljust(len(panels)), strict=True):
        style.say(page, x, height - 0.18, one.name, bold=True)
        _draw_cells(page, x, height - TITLE, one)
        middle = height - TITLE - tallest * SIDE / 2
        style.say(page, x + one.width + GAP / 2, middle, sign.strip(), size=13, align="center")
        x += one.width + GAP
    return style.finish(figure, alt)


def _draw_cells(page: Axes, left: float, top: float, one: Panel) -> None:
    width = one.cell_width
    for i, row in enumerate(texts(one.grid)):
        for j, text in enumerate(row):
            dashed = bool(one.repeated[i, j])
            fill = style.ORANGE if one.marked[i, j] else style.PAPER if dashed else style.FAINT
            x, y = left + j * width, top - (i + 1) * SIDE
            style.cell(page, x, y, width, SIDE, text, fill, dashed=dashed)
