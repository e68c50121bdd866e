"""The exercise `one_hot`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, look, refusal

BOUNDS = "num_classes", "classes"
NOT_NEGATIVE = "0", "zero", "negative", "positive"
"""Words, besides numbers, by which a message says which labels are allowed; the latter where one was negative."""


def probe(answer: Watched, labels: Tensor, num_classes: int, dtype: torch.dtype | None, refused: str) -> dict[str, Any]:
    """Observe the result, or, where `refused` names a bad label, how the call is refused."""
    if refused:
        # not on a real GPU: an index out of range takes its whole process down
        labels = labels.cpu() if labels.device.type == "cuda" else labels
        bounds = [str(num_classes), str(num_classes - 1), *BOUNDS, *(NOT_NEGATIVE if int(refused) < 0 else ())]
        return refusal(lambda: answer(labels, num_classes), "labels", [refused], bounds)
    before = labels.clone()
    result = answer(labels, num_classes) if dtype is None else answer(labels, num_classes=num_classes, dtype=dtype)
    return {**look(result, labels), **kept(labels=(labels, before))}


def cases(draw: Draw) -> list[Case]:
    c = draw.size(3, 5)
    n = c + draw.size(1, 2)
    common: dict[str, Any] = {"dtype": None, "refused": ""}
    bad = draw.integers(0, c, n)
    above, below = bad.clone(), bad.clone()
    above[1], below[2] = c, -1
    return [
        case("a vector of labels", **common, labels=draw.integers(0, c, n), num_classes=c),
        case("a matrix of labels", **common, labels=draw.integers(0, c, 2, n), num_classes=c),
        case("one label, no dimensions", **common, labels=draw.integers(0, c), num_classes=c),
        case("no labels at all", labels=torch.empty(2, 0, dtype=torch.int64), num_classes=c, dtype=torch.int64,
             refused=""),
        case("a class that does not occur", **common, labels=torch.zeros(n, dtype=torch.int64), num_classes=c),
        case("another dtype", labels=draw.integers(0, c, n), num_classes=c, dtype=torch.int64, refused=""),
        case("a label too large", labels=above, num_classes=c, dtype=None, refused=str(c)),
        case("a negative label", labels=below, num_classes=c, dtype=None, refused="-1"),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {"refused": seen.get("refused with"), "bad": inputs.get("refused")}


EXERCISE = Exercise(
    "one_hot",
    probe,
    cases,
    hints=(
        "Every label is compared with every class number. Which two shapes broadcast to (..., num_classes)?",
        "Where does `torch.arange(num_classes)` or `torch.zeros(...)` live if you do not say? Labels may live "
        "elsewhere.",
        "Out of range has two ends. Which of them would a comparison let through without a word, and what should the "
        "message of the ValueError tell: which argument, what it got, what it wants?",
    ),
    forbids=("one_hot", "eye"),
    quotes=quotes,
)
