"""The broadcasting explorer: two shapes lined up from the right, and their result."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from matplotlib.axes import Axes

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

Shape = tuple[int, ...]
MAX_AXES = 6
WIDTH, HEIGHT, LEFT = 6.0, 2.35, 1.0  # inches
ROW_A, ROW_B, ROW_RESULT = 1.88, 1.4, 0.82
SIDE, TALL, GAP = 0.66, 0.36, 0.12


@dataclass(frozen=True)
class Axis:
    """One aligned position: its size in each shape, None if that shape has no such axis."""

    a: int | None
    b: int | None

    @property
    def result(self) -> int | None:
        """The common size: a 1 or a missing axis takes the other's size; None if the sizes clash."""
        a, b = (1 if size is None else size for size in (self.a, self.b))
        if a == 1 or a == b:
            return b
        return a if b == 1 else None


def align(a: Shape, b: Shape) -> list[Axis]:
    """Line two shapes up from the right; return the axes from left to right."""
    pairs = zip_longest(reversed(a), reversed(b))
    return [Axis(x, y) for x, y in pairs][::-1]


def explain(axes: list[Axis]) -> str:
    """Name the shape of the result, or the first axis from the right at which the two shapes clash."""
    for place, axis in enumerate(reversed(axes), start=1):
        if axis.result is None:
            return f"axis -{place} clashes: {axis.a} against {axis.b}, and neither is 1"
    return f"result {tuple(axis.result for axis in axes)}"


def parse(text: str) -> Shape:
    """Parse a shape as people type it: '4, 1, 3', '(4,1,3)' or '4 1 3'."""
    words = text.strip().strip("()[]").replace(",", " ").split()
    if not all(word.isdecimal() for word in words) or len(words) > MAX_AXES:
        raise ValueError(f"a shape is up to {MAX_AXES} whole numbers such as 4, 1, 3; got {text!r}")
    return tuple(int(word) for word in words)


def draw(a: Shape, b: Shape) -> Picture:
    """Draw two shapes in columns: axes that stretch in orange, a clash in vermilion, the result beneath."""
    axes = align(tuple(a), tuple(b))
    figure, page = style.canvas(WIDTH, HEIGHT)
    for text, y in (("a", ROW_A), ("b", ROW_B), ("result", ROW_RESULT)):
        style.say(page, 0.15, y + TALL / 2, text, bold=True)
    for i, axis in enumerate(axes):
        x = LEFT + (i + max(4 - len(axes), 0)) * (SIDE + GAP)
        _size(page, x, ROW_A, axis.a, axis.result)
        _size(page, x, ROW_B, axis.b, axis.result)
        clash = axis.result is None
        text, fill = ("clash", style.VERMILION) if clash else (str(axis.result), style.BLUE)
        style.cell(page, x, ROW_RESULT, SIDE, TALL, text, fill=fill, size=10)
        place = f"axis {i - len(axes)}"
        style.say(page, x + SIDE / 2, ROW_RESULT - 0.14, place, size=7.5, colour=style.GREY, align="center")
    verdict = explain(axes)
    style.say(page, 0.15, 0.38, verdict, colour=style.VERMILION if "clash" in verdict else style.INK, size=9.5)
    style.say(
        page,
        0.15,
        0.14,
        "orange: stretched   dashed: missing, so it counts as 1",
        size=7.5,
        colour=style.GREY,
    )
    return style.finish(figure, f"Shapes {tuple(a)} and {tuple(b)} lined up from the right: {verdict}.")


def _size(page: Axes, x: float, y: float, size: int | None, result: int | None) -> None:
    """Draw one axis of one shape: plain, stretched (orange), or missing (dashed)."""
    own = 1 if size is None else size
    stretched = result is not None and own != result
    text = f"{own} → {result}" if stretched else str(own)
    fill = style.PAPER if size is None else style.ORANGE if stretched else style.FAINT
    style.cell(page, x, y, SIDE, TALL, text, fill=fill, dashed=size is None, size=10 if len(text) < 7 else 8)


def picture(a: str, b: str) -> Picture:
    """Draw two typed shapes, or a message if one of them is no shape."""
    try:
        return draw(parse(a), parse(b))
    except ValueError as error:
        figure, page = style.canvas(WIDTH, HEIGHT)
        style.say(page, 0.15, HEIGHT / 2, str(error), colour=style.VERMILION)
        return style.finish(figure, str(error))


def explorer() -> Live:
    """Return the explorer without showing it."""
    return Live(picture, a="4, 1, 3", b="2, 1")


def explore() -> None:
    """Type two shapes and see whether, and how, they broadcast."""
    explorer().show()
