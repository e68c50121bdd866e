"""The exercise `macro_f1`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.probes.trainable_models import number_or_kind


def probe(answer: Watched, logits: Tensor, labels: Tensor, num_classes: int) -> dict[str, Any]:
    return {"returned": number_or_kind(answer(logits, labels, num_classes))}


def _logits_for(draw: Draw, predicted: Tensor, num_classes: int) -> Tensor:
    """Draw logits of either sign whose largest entries are at `predicted`."""
    logits = draw.normal(len(predicted), num_classes)
    return logits.scatter(1, predicted[:, None], logits.max(1, keepdim=True).values + 0.5)


def cases(draw: Draw) -> list[Case]:
    def judged(labels: Tensor, num_classes: int, wrong: float) -> dict[str, Any]:
        other = draw.integers(0, num_classes, len(labels))
        predicted = torch.where(draw.flags(len(labels), share=wrong), other, labels)
        return {"logits": _logits_for(draw, predicted, num_classes), "labels": labels, "num_classes": num_classes}

    rare = torch.tensor([0] * 14 + [1] * 4 + [2] * 2)
    few = torch.tensor([0, 0, 1, 1, 1, 3, 3, 0])
    never = torch.tensor([0, 0, 1, 1, 2, 0, 1, 2])
    sure = _logits_for(draw, torch.tensor([0, 0, 1, 1, 1, 0, 1, 0]), 3)
    return [
        case("classes of different sizes", **judged(rare, 3, 0.5)),
        case("a class that neither labels nor predictions have", logits=_logits_for(draw, few.roll(1), 4), labels=few,
             num_classes=5),
        case("a class that is never predicted", logits=sure, labels=never, num_classes=3),
        case("all right", **judged(draw.integers(0, 4, 12), 4, 0.0)),
        case("all wrong", logits=_logits_for(draw, (few + 1) % 4, 4), labels=few, num_classes=4),
        case("one example", **judged(draw.integers(0, 3, 1), 3, 0.0)),
    ]  # fmt: skip


EXERCISE = Exercise(
    "macro_f1",
    probe,
    cases,
    hints=(
        "For one class, count three things: predicted and true, predicted and not true, true and not predicted. Which "
        "fraction of these is F1?",
        "F1 is 2·TP / (2·TP + FP + FN). The part in brackets is the number of predictions of the class plus the "
        "number of its labels. When is it zero, and what should F1 be then?",
        "Macro means: one F1 per class, then their plain mean over all `num_classes`. What would one F1 over "
        "everything together be called?",
    ),
)
