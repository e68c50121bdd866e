"""The stride explorer: a view drawn over its storage, row by row, in the order in which it reads cells."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from torch import Tensor

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

MAX_CELLS, MAX_ROWS = 24, 9
WIDTH, LEFT, MARGIN, ROW = 6.2, 0.95, 0.12, 0.3  # inches


@dataclass(frozen=True)
class Layout:
    """The positions of a view's elements in memory.

    `storage` is the text of each cell; `rows` names each row of the view's last dimension and gives the cells
    that it reads, in order; `facts` is the line that says shape, stride and offset.
    """

    storage: list[str]
    rows: list[tuple[str, list[int]]]
    facts: str


def cells_read(shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> list[int]:
    """Return the storage cell of each element in row-major order: offset + sum of index times stride."""
    cells = [offset]
    for size, step in zip(shape, stride, strict=True):
        cells = [cell + i * step for cell in cells for i in range(size)]
    return cells


def row_names(shape: tuple[int, ...]) -> list[str]:
    """Return a name for each row along the last dimension: `view[0]`, `view[1]`, ... or just `view`."""
    names = [""]
    for size in shape[:-1]:
        names = [f"{name}, {i}" if name else str(i) for name in names for i in range(size)]
    return [f"view[{name}]" if name else "view" for name in names]


def layout(view: Tensor) -> Layout:
    """Compute the layout of a small view."""
    view = view.detach()
    shape, stride = tuple(view.shape), tuple(int(step) for step in view.stride())
    offset = int(view.storage_offset())
    length = view.untyped_storage().nbytes() // view.element_size()
    cells, names = cells_read(shape, stride, offset), row_names(shape)
    if length > MAX_CELLS or len(names) > MAX_ROWS:
        raise ValueError(
            f"view has {len(names)} rows over {length} stored elements; "
            f"the picture has room for {MAX_ROWS} rows over {MAX_CELLS}"
        )
    width = len(cells) // max(len(names), 1)
    rows = [(name, cells[i * width : (i + 1) * width]) for i, name in enumerate(names)]
    values = view.as_strided((length,), (1,), 0).tolist()
    whole = "yes" if view.is_contiguous() else "no"
    facts = f"shape {shape}   stride {stride}   offset {offset}   contiguous: {whole}"
    return Layout([f"{value:g}" for value in values], rows, facts)


def in_words(plan: Layout, title: str) -> str:
    """Describe the picture."""
    rows = "; ".join(f"{name} reads cells {', '.join(map(str, cells)) or 'none'}" for name, cells in plan.rows)
    return f"{title + ': ' if title else ''}{plan.facts}. Storage of {len(plan.storage)} cells; {rows}."


def draw(view: Tensor, title: str = "", note: str = "") -> Picture:
    """Draw a view over its storage; `note` is a line to print under it."""
    plan = layout(view)
    side = min(0.42, (WIDTH - LEFT - 0.15) / max(len(plan.storage), 1))
    base = ROW * len(plan.rows) + (0.4 if note else 0.2)
    height = base + side + 0.72
    figure, axes = style.canvas(WIDTH, height)
    style.say(axes, MARGIN, height - 0.2, title, size=11, mono=True, bold=True)
    style.say(axes, MARGIN, height - 0.47, plan.facts)
    style.say(axes, MARGIN, base + side / 2, "storage")
    colours: dict[int, str] = {}
    position = 0
    for i, (name, cells) in enumerate(plan.rows):
        colour = style.CYCLE[i % len(style.CYCLE)]
        colours = dict.fromkeys(cells, colour) | colours
        _draw_row(axes, name, cells, position, colour, side, base - 0.22 - ROW * i)
        position += len(cells)
    for i, text in enumerate(plan.storage):
        fill, size = colours.get(i, style.PAPER), 9 if side > 0.3 else 7
        style.cell(axes, LEFT + i * side, base, side, side, text, fill=fill, size=size)
    style.say(axes, MARGIN, 0.17, note, colour=style.VERMILION, size=8.5)
    return style.finish(figure, in_words(plan, title) + (f" {note}" if note else ""))


def _draw_row(axes: Axes, name: str, cells: list[int], position: int, colour: str, side: float, y: float) -> None:
    """Draw one row of the view: a dot under each cell it reads, with the element's index in the view."""
    style.say(axes, MARGIN, y, name, mono=True, size=8.5)
    across = [LEFT + (cell + 0.5) * side for cell in cells]
    axes.plot(across, [y] * len(cells), color=colour, marker="o", markersize=12, linewidth=1.5)
    for place, cell in enumerate(cells):
        if cells.index(cell) == place:
            text = str(position + place)
            style.say(axes, across[place], y, text, size=7, colour=style.ink_on(colour), align="center")
            if cells.count(cell) > 1:
                style.say(axes, across[place] + 0.13, y, f"{cells.count(cell)} times", size=8)


VIEWS = (
    "x",
    "x.t()",
    "x[start]",
    "x[start:]",
    "x[:, start::step]",
    "x[start].expand(3, 4)",
    "x.as_strided((3, 4), (row, step), start)",
)


def view_of(x: Tensor, view: str, start: int, step: int, row: int) -> Tensor:
    """Return the view of x that `view`, one of VIEWS, stands for."""
    match view:
        case "x.t()":
            return x.t()
        case "x[start]":
            return x[start]
        case "x[start:]":
            return x[start:]
        case "x[:, start::step]":
            return x[:, start::step]
        case "x[start].expand(3, 4)":
            return x[start].expand(3, 4)
        case "x.as_strided((3, 4), (row, step), start)":
            return x.as_strided((3, 4), (row, step), start)
    return x


def picture(view: str, start: int, step: int, row: int) -> Picture:
    """Draw one of VIEWS of x = arange(12).view(3, 4); if torch refuses it, x itself with the reason."""
    x = torch.arange(12).view(3, 4)
    title = view.replace("start", str(start)).replace("step", str(step)).replace("row", str(row))
    try:
        return draw(view_of(x, view, start, step, row), title)
    except RuntimeError:
        last = start + 2 * row + 3 * step
        return draw(x, "x", note=f"{title} is refused: it would read cell {last}, and the last one is 11")


def explorer() -> Live:
    """Return the explorer without showing it."""
    return Live(picture, view=VIEWS, start=range(3), step=range(1, 5), row=range(5))


def explore() -> None:
    """Choose a view of a 3 by 4 tensor and see which cells of its storage it reads."""
    explorer().show()
