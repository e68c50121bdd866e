"""The exercise `saved_bytes`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations


def without_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x * x


SAVERS: dict[str, Callable[..., Any]] = {
    "x * x": lambda x: x * x,
    "x * y": lambda x, y: x * y,
    "x + y": lambda x, y: x + y,
    "x.exp()": lambda x: x.exp(),
    "x @ w": lambda x, w: x @ w,
    "x[:3].sin()": lambda x: x[:3].sin(),
    "x[:2] * x[2:4]": lambda x: x[:2] * x[2:4],
    "row.expand_as(y) * y": lambda row, y: row.expand_as(y) * y,
    "x * x under no_grad": without_grad,
    "(x.exp(), y.sin())": lambda x, y: (x.exp(), y.sin()),
    "F.linear(x, w, b).relu().sum()": lambda x, w, b: F.linear(x, w, b).relu().sum(),
    "x.softmax(-1).log()": lambda x: x.softmax(-1).log(),
    "x * x.t()": lambda x: x * x.t(),
}
"""Functions by the expression that they compute."""


def probe(answer: Watched, expression: str, inputs: list[Tensor], followed: bool) -> dict[str, Any]:
    """Observe the number of bytes for one of the expressions `SAVERS`, on inputs that require grad if `followed`."""
    inputs = [t.requires_grad_(followed) for t in inputs]
    return {"result": answer(SAVERS[expression], *inputs)}


def cases(draw: Draw) -> list[Case]:
    n, m = draw.size(5, 7), draw.size(3, 4)

    def drawn(expression: str, *inputs: Tensor, followed: bool = True, name: str = "") -> Case:
        return case(name or expression, expression=expression, inputs=list(inputs), followed=followed)

    return [
        drawn("x * y", draw.normal(n), draw.normal(n)),
        drawn("x * x", draw.normal(n, m)),
        drawn("x + y", draw.normal(n), draw.normal(n)),
        drawn("x.exp()", draw.normal(n, dtype=torch.float64)),
        drawn("x[:3].sin()", draw.normal(100)),
        drawn("x[:2] * x[2:4]", draw.normal(10 * n)),
        drawn("row.expand_as(y) * y", draw.normal(1, m), draw.normal(n, m)),
        drawn("F.linear(x, w, b).relu().sum()", draw.normal(n, m), draw.normal(2, m), draw.normal(2)),
        drawn("x * x under no_grad", draw.normal(n)),
        drawn("x * y", draw.normal(n), draw.normal(n), followed=False, name="x * y, none of them followed"),
        drawn("(x.exp(), y.sin())", draw.normal(n), draw.normal(m)),
    ]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {"inputs": sum(t.untyped_storage().nbytes() for t in inputs["inputs"])}


EXERCISE = Exercise(
    "saved_bytes",
    probe,
    cases,
    hints=(
        "`torch.autograd.graph.saved_tensors_hooks(pack, unpack)` calls `pack` with every tensor that is saved while "
        "the block runs. What could pack note, and what must it return?",
        "One tensor may be saved twice, and two views may lie in one storage. What is the same for all of them: the "
        "tensor, its `data_ptr()`, or something of its `untyped_storage()`?",
        "A view keeps its whole storage alive. Which method tells the bytes of a storage? A dict from a storage's "
        "address to its bytes counts each one once.",
    ),
    any_device=False,
    quotes=quotes,
)
