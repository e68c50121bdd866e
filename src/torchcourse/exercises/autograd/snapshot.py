"""The exercise `snapshot`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind, look

PLAIN = "plain"
LEAF = "leaf"
INSIDE = "inside a graph"


def nudge(t: Tensor) -> None:
    """Write into a tensor's memory, whatever its dtype, history or mode."""
    with torch.no_grad():
        inner = t.detach()
        inner.logical_not_() if t.dtype == torch.bool else inner.add_(1)


def probe(answer: Watched, values: Tensor, role: str) -> dict[str, Any]:
    """Observe the copy, what it shares with `t`, and what the call left behind on `t`."""
    base = values.requires_grad_() if role != PLAIN else values
    base.grad = torch.ones_like(values, requires_grad=False) if role == LEAF else None
    t = base * 1 if role == INSIDE else base
    copy = answer(t)
    if not isinstance(copy, Tensor):
        return {"returned": kind(copy)}
    seen = look(copy.detach().clone(), t)
    seen |= {"copy requires grad": copy.requires_grad, "copy has a history": copy.grad_fn is not None}
    seen |= {"t requires grad afterwards": t.requires_grad, "t has a history": t.grad_fn is not None}
    seen |= {"t.grad afterwards": t.grad} if role == LEAF else {}
    seen["copy is an inference tensor"] = copy.is_inference()
    nudge(t)
    seen["copy after t was changed"] = copy.detach().clone()
    if not copy.is_inference():
        nudge(copy)
        nudge(copy)
    seen["t after the copy was changed"] = t.detach()
    return seen


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    return [
        case("a plain tensor", values=draw.normal(n), role=PLAIN),
        case("a leaf that requires grad", values=draw.normal(n), role=LEAF),
        case("a result inside a graph", values=draw.normal(2, n), role=INSIDE),
        case("large integers", values=draw.integers(2**60, 2**61, n), role=PLAIN),
        case("a transposed matrix", values=draw.normal(n, 2).t(), role=LEAF),
        case("a slice of a longer tensor", values=draw.normal(3 * n)[::3], role=PLAIN),
        case("one bool", values=torch.tensor(True), role=PLAIN),
        case("float64, a single number", values=draw.normal(dtype=torch.float64), role=INSIDE),
    ]


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    def first(name: str) -> object:
        found = seen.get(name)
        return found.flatten()[0] if isinstance(found, Tensor) else None

    fields: dict[str, object] = {"at_first": first("result"), "later": first("copy after t was changed")}
    fields |= {"requires": seen.get("copy requires grad"), "history": seen.get("copy has a history")}
    fields |= {"t_requires": seen.get("t requires grad afterwards"), "t_history": seen.get("t has a history")}
    fields |= {"inference": seen.get("copy is an inference tensor")}
    return fields


EXERCISE = Exercise(
    "snapshot",
    probe,
    cases,
    hints=(
        "Two properties are wanted: memory of its own and no history. Which method gives the one, which the other?",
        "`detach()` returns a view of the same memory. What do you see through it after somebody writes into t?",
        "`clone()` is an operation like any other: autograd records it. In which order should the two be called so "
        "that nothing is recorded?",
    ),
    quotes=quotes,
)
