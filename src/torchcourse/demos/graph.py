"""The graph of a small expression: each box shows a value and the gradient of the result with respect to it."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

VALUES = {"a": 2.0, "b": -3.0, "c": 0.5}
SIGNS: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", lambda a, b: a + b),
    ast.Sub: ("-", lambda a, b: a - b),
    ast.Mult: ("*", lambda a, b: a * b),
    ast.Div: ("/", lambda a, b: a / b),
    ast.Pow: ("**", lambda a, b: a**b),
}
CALLS = {name: getattr(torch, name) for name in ("sin", "cos", "exp", "log", "tanh", "relu", "sqrt", "sigmoid", "abs")}
WIDTH, BOX, TALL, MOST = 6.6, 0.86, 0.5, 24
MARGIN = 0.07  # between a line and the boxes that it passes, in inches


class UnreadableError(ValueError):
    """Raised for an expression that cannot be drawn; the message says why."""


@dataclass
class Node:
    """One box: an operation or a leaf, its value, its inputs, and its column."""

    label: str
    value: Tensor
    parents: list[Node] = field(default_factory=list)

    @property
    def column(self) -> int:
        return 1 + max((p.column for p in self.parents), default=-1)

    @property
    def slope(self) -> float | None:
        """The gradient of the result with respect to this box; None for a number."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # reading .grad where none was kept
            return None if self.value.grad is None else self.value.grad.item()


class _Reader:
    """Turn an expression into boxes; a name is one box, however often it is used."""

    def __init__(self, values: dict[str, float]) -> None:
        self.values = values
        self.nodes: list[Node] = []
        self.names: dict[str, Node] = {}

    def read(self, tree: ast.expr) -> Node:
        match tree:
            case ast.Name(id=name) if name in self.values:
                if name not in self.names:
                    leaf = torch.tensor(self.values[name], dtype=torch.float64, requires_grad=True)
                    self.names[name] = self.add(name, leaf)
                return self.names[name]
            case ast.Constant(value=int() | float() as number):
                return self.add("", torch.tensor(float(number), dtype=torch.float64))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.read(operand)
                return self.add("-", -inner.value, inner)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in SIGNS:
                sign, operation = SIGNS[type(op)]
                one, other = self.read(left), self.read(right)
                return self.add(sign, operation(one.value, other.value), one, other)
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in CALLS:
                inner = self.read(argument)
                return self.add(name, CALLS[name](inner.value), inner)
        known = f"{', '.join(self.values)}, numbers, + - * / ** and {', '.join(CALLS)}"
        raise UnreadableError(f"{ast.unparse(tree)} is not one of {known}")

    def add(self, label: str, value: Tensor, *parents: Node) -> Node:
        if value.requires_grad:
            value.retain_grad()
        self.nodes.append(Node(label, value, list(parents)))
        if len(self.nodes) > MOST:
            raise UnreadableError(f"the picture has room for {MOST} boxes")
        return self.nodes[-1]


def read(expression: str, values: dict[str, float] = VALUES) -> list[Node]:
    """Return the boxes of an expression with their gradients, inputs first and the result last.

    Raises:
        UnreadableError: for anything but names in `values`, numbers, the five operators and the known functions.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise UnreadableError(f"{expression!r} is no expression") from None
    reader = _Reader(values)
    result = reader.read(tree)
    if result.value.requires_grad:
        result.value.backward()  # type: ignore[no-untyped-call]
    return reader.nodes


def number(value: float | None) -> str:
    """Format a number so that it fits into a box."""
    return "" if value is None else f"{value:.3g}"


def in_words(expression: str, nodes: list[Node]) -> str:
    """Describe the picture."""
    boxes = []
    for node in nodes:
        slope = "" if node.slope is None else f", gradient {number(node.slope)}"
        boxes.append(f"{node.label or 'number'} {number(node.value.item())}{slope}")
    return f"Graph of {expression}: " + "; ".join(boxes) + "."


def places(nodes: list[Node]) -> dict[int, tuple[int, float]]:
    """Return for each box, by its id, a column and a height in it, near its inputs."""
    found: dict[int, tuple[int, float]] = {}
    taken: dict[int, float] = {}
    for node in nodes:
        heights = [found[id(p)][1] for p in node.parents]
        height = sum(heights) / len(heights) if heights else taken.get(0, 0.0)
        height = max(height, taken.get(node.column, 0.0))
        found[id(node)] = node.column, height
        taken[node.column] = height + 1
    return found


def route(
    start: tuple[float, float], end: tuple[float, float], boxes: list[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return the corners of a line from a box to one further right that passes the boxes between them above or below.

    Boxes are given by their lower left corners. In each column the line takes the free height that is nearest
    to a straight one.
    """
    (x0, y0), (x1, y1) = (start[0] + BOX, start[1] + TALL / 2), (end[0], end[1] + TALL / 2)
    points = [(x0, y0)]
    for column in sorted({x for x, _ in boxes}):
        blocked = [(y - MARGIN, y + TALL + MARGIN) for x, y in boxes if x == column]
        straight = y0 + (y1 - y0) * (column + BOX / 2 - x0) / (x1 - x0)
        heights = [straight, *(edge for interval in blocked for edge in interval)]
        free = [h for h in heights if not any(low < h < high for low, high in blocked)]
        height = min(free, key=lambda h: abs(h - straight))
        points += [(column - MARGIN, height), (column + BOX + MARGIN, height)]
    return [*points, (x1, y1)]


def draw(expression: str, values: dict[str, float] = VALUES) -> Picture:
    """Draw an expression: values in the upper line of each box, gradients in the lower one."""
    nodes = read(expression, values)
    where = places(nodes)
    rows = max(height for _, height in where.values()) + 1
    columns = max(column for column, _ in where.values()) + 1
    width, gap = max(WIDTH, columns * (BOX + 0.25)), max(WIDTH, columns * (BOX + 0.25)) / columns
    page = 0.62 + rows * (TALL + 0.22)
    figure, axes = style.canvas(width, page)
    given = ", ".join(f"{name} = {value:g}" for name, value in values.items())
    style.say(axes, 0.12, page - 0.2, expression, size=11, mono=True, bold=True)
    style.say(axes, 0.12, page - 0.42, f"{given}      above: value, below: gradient", size=8.5, colour=style.GREY)

    corners = {
        id(node): (column * gap + (gap - BOX) / 2, page - 0.62 - (height + 1) * (TALL + 0.22) + 0.15)
        for node in nodes
        for column, height in (where[id(node)],)
    }
    for node in nodes:
        for parent in node.parents:
            between = [corners[id(n)] for n in nodes if where[id(parent)][0] < where[id(n)][0] < where[id(node)][0]]
            across, up = zip(*route(corners[id(parent)], corners[id(node)], between), strict=True)
            axes.plot(across, up, color=style.GREY, linewidth=1, zorder=0)
    for node in nodes:
        x, y = corners[id(node)]
        fill = style.SKY if node.label in values else style.PAPER
        style.cell(axes, x, y, BOX, TALL, fill=fill)
        style.say(axes, x + 0.06, y + TALL / 2, node.label, size=9, mono=True, bold=True)
        style.say(axes, x + BOX - 0.05, y + 0.36, number(node.value.item()), size=8, align="right", mono=True)
        ink = style.INK if node.label in values else style.VERMILION
        style.say(axes, x + BOX - 0.05, y + 0.14, number(node.slope), size=8, align="right", mono=True, colour=ink)
    return style.finish(figure, in_words(expression, nodes))


def message(text: str) -> Picture:
    """Draw a line of text in place of a picture."""
    figure, axes = style.canvas(WIDTH, 0.5)
    style.say(axes, 0.12, 0.25, text, colour=style.VERMILION, size=8)
    return style.finish(figure, text)


def picture(expression: str) -> Picture:
    """Draw the graph of a typed expression, or the reason why that is impossible."""
    try:
        return draw(expression)
    except UnreadableError as error:
        return message(str(error)[:110])
    except (RuntimeError, OverflowError, ZeroDivisionError) as error:
        return message(f"torch refuses: {str(error)[:90]}")


def explorer() -> Live:
    """Return the explorer without showing it."""
    return Live(picture, expression="(a * b + c) ** 2 + a")


def explore() -> None:
    """Type an expression and see its graph, values and gradients."""
    explorer().show()
