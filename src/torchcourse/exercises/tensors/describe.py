"""The exercise `describe`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind


def probe(answer: Watched, t: Tensor) -> dict[str, Any]:
    """Observe the dict; of the device's name, which differs between devices, only whether it is `str(t.device)`."""
    facts = answer(t)
    if not isinstance(facts, dict):
        return {"returned": f"{kind(facts)}, where a dict is wanted"}
    if facts.get("device") == str(t.device):
        facts = {**facts, "device": "str(t.device)"}
    return facts


def cases(draw: Draw) -> list[Case]:
    rows, columns = draw.size(2, 4), draw.size(5, 7)
    table = draw.normal(rows, columns)
    return [
        case("a matrix", t=table),
        case("its transpose", t=table.t()),
        case("two columns of a matrix", t=table[:, 1:3]),
        case("half of the top row", t=table[:1, :3]),
        case("float64, three dimensions", t=draw.normal(2, 3, rows, dtype=torch.float64)),
        case("one number", t=draw.integers(0, 9, dtype=torch.uint8)),
        case("bfloat16, no elements", t=torch.empty(0, columns, dtype=torch.bfloat16).t()),
        case("one row, expanded", t=draw.flags(1, columns).expand(rows, columns)),
    ]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    t = inputs["t"]
    return {"shape": tuple(t.shape), "item": t.element_size(), "dtype": t.dtype, "stride": t.stride()}


EXERCISE = Exercise(
    "describe",
    probe,
    cases,
    hints=(
        "Each of the seven has an attribute or a method of its own on the tensor. "
        "Which of them are methods that need parentheses?",
        "What does `len(t)` count when t has two dimensions, and what when it has none?",
        "A view of two columns keeps a whole matrix alive in its storage. How many bytes do its own elements take? "
        "Look for a method that gives the size of one element.",
    ),
    quotes=quotes,
)
