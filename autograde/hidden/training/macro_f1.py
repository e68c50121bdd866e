"""The exercise `macro_f1`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.training.shared import MIXED, VALUE
from autograde.source.mistakes import Mistake
from torchcourse.exercises.training.macro_f1 import _logits_for
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "F1 of a class is 2 hits / (predicted + real), which needs no precision and no recall and is 0, not 0 / 0, "
    "once the denominator is at least 1. Counting all classes at once is one comparison with a column of class "
    "numbers."
)
"""Why the reference is written as it is."""
REQUIRED = ("micro-average", "nan-on-absent-class")
"""The mistakes that a check must always be able to name."""

DEVICES = "Devices in the loop"
METRICS = "Metrics"


def counts(logits: Tensor, labels: Tensor, num_classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return for each class how often it was hit, predicted and real."""
    classes = torch.arange(num_classes, device=labels.device)[:, None]
    predicted, real = logits.argmax(1) == classes, labels == classes
    return (predicted & real).sum(1).double(), predicted.sum(1), real.sum(1)


def scores(logits: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    hits, predicted, real = counts(logits, labels, num_classes)
    return 2 * hits / (predicted + real).clamp(min=1)


def macro_f1(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    return scores(logits, labels, num_classes).mean().item()


def accuracy(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    return (logits.argmax(1) == labels).double().mean().item()


def weighted(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    real = counts(logits, labels, num_classes)[2]
    return ((scores(logits, labels, num_classes) * real).sum() / real.sum()).item()


def unguarded(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    hits, predicted, real = counts(logits, labels, num_classes)
    return (2 * hits / (predicted + real)).mean().item()


def from_ratios(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    hits, predicted, real = counts(logits, labels, num_classes)
    precision, recall = hits / predicted, hits / real
    return (2 * precision * recall / (precision + recall)).mean().item()


def unguarded_in_python(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    columns = (column.tolist() for column in counts(logits, labels, num_classes))
    ratios = [2 * hits / (predicted + real) for hits, predicted, real in zip(*columns, strict=True)]
    return float(sum(ratios) / num_classes)


def of_classes_that_occur(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    _, predicted, real = counts(logits, labels, num_classes)
    return scores(logits, labels, num_classes)[predicted + real > 0].mean().item()


def of_classes_in_the_labels(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    real = counts(logits, labels, num_classes)[2]
    return scores(logits, labels, num_classes)[real > 0].mean().item()


def absent_is_one(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    _, predicted, real = counts(logits, labels, num_classes)
    return torch.where(predicted + real > 0, scores(logits, labels, num_classes), 1.0).mean().item()


def of_the_columns(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    return macro_f1(logits, labels, logits.shape[1])


def mean_precision(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    hits, predicted, _ = counts(logits, labels, num_classes)
    return (hits / predicted.clamp(min=1)).mean().item()


def mean_recall(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    hits, _, real = counts(logits, labels, num_classes)
    return (hits / real.clamp(min=1)).mean().item()


def of_averages(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    p, r = mean_precision(logits, labels, num_classes), mean_recall(logits, labels, num_classes)
    return 2 * p * r / (p + r) if p + r > 0 else 0.0


def macro_f1_on_cpu(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    classes = torch.arange(num_classes)[:, None]
    predicted, real = logits.argmax(1) == classes, labels == classes
    return float((2 * (predicted & real).sum(1) / (predicted.sum(1) + real.sum(1)).clamp(min=1)).mean())


NAN = VALUE + "a class without predictions, or without labels, gave 0 / 0. Such a class has an F1 of 0."
MISTAKES = [
    Mistake("micro-average", accuracy, VALUE + "all classes were counted together, which gives the accuracy, where a "
            "rare class hardly matters. Macro gives each class one F1 and averages those.", METRICS),
    Mistake("nan-on-absent-class", unguarded, NAN, METRICS),
    Mistake("nan-on-absent-class", from_ratios, NAN, METRICS),
    Mistake("divides-by-zero", unguarded_in_python, 'In the case "{case}" the call raised {error}: a class that '
            "neither labels nor predictions have leaves nothing to divide by. Its F1 is 0.", METRICS),
    Mistake("skips-absent-classes", of_classes_that_occur, VALUE + "a class that is neither present nor predicted was "
            "left out of the mean; here it counts as 0, and the mean goes over all {num_classes} classes.", METRICS),
    Mistake("skips-absent-classes", of_classes_in_the_labels, VALUE + "the mean went only over classes that the labels "
            "have; it goes over all {num_classes}.", METRICS),
    Mistake("skips-absent-classes", of_the_columns, VALUE + "the mean went over the columns of the logits, but there "
            "are {num_classes} classes.", METRICS),
    Mistake("weighted-average", weighted, VALUE + "each class counted by its size; in a macro average all count the "
            "same.",
            METRICS),
    Mistake("absent-class-counts-as-right", absent_is_one, VALUE + "a class that is absent got an F1 of 1; with "
            "zero_division=0 it gets 0.", METRICS),
    Mistake("recall-instead-of-f1", mean_recall, VALUE + "that is the mean recall.", METRICS),
    Mistake("precision-instead-of-f1", mean_precision, VALUE + "that is the mean precision.", METRICS),
    Mistake("f1-of-averages", of_averages, VALUE + "precision and recall were averaged first. Take the F1 of each "
            "class, then the mean.", METRICS),
    Mistake("percent-not-fraction", lambda *given: 100 * macro_f1(*given), VALUE + "F1 runs from 0 to 1.", METRICS),
    Mistake("returns-tensor", lambda *given: scores(*given).mean(), "What came back is {got} where a Python float, "
            "{want}, is wanted.", METRICS),
    Mistake("made-on-cpu", macro_f1_on_cpu, MIXED, DEVICES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, c = draw.size(20, 60), draw.size(2, 9)
    labels = draw.integers(0, c, n)
    predicted = torch.where(draw.flags(n), labels, draw.integers(0, c, n))
    return [
        case("drawn", logits=_logits_for(draw, predicted, c), labels=labels, num_classes=c),
        case("more classes than there are", logits=_logits_for(draw, predicted, c + 4), labels=labels,
             num_classes=c + 4),
        case("one class", logits=draw.normal(5, 1), labels=torch.zeros(5, dtype=torch.int64), num_classes=1),
    ]  # fmt: skip


# Right answers unlike the reference


def macro_f1_by_confusion(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    predicted = logits.argmax(-1)
    table = torch.zeros(num_classes * num_classes, device=labels.device)
    table.index_add_(0, labels * num_classes + predicted, torch.ones(len(labels), device=labels.device))
    table = table.view(num_classes, num_classes)
    hits, sums = table.diagonal(), table.sum(0) + table.sum(1)
    return float(torch.where(sums > 0, 2 * hits / sums, 0.0).mean())


def macro_f1_in_python(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    pairs = list(zip(logits.argmax(1).tolist(), labels.tolist(), strict=True))
    scores = []
    for c in range(num_classes):
        tp = sum(p == c == y for p, y in pairs)
        wrong = sum((p == c) != (y == c) for p, y in pairs)
        scores.append(2 * tp / (2 * tp + wrong) if tp else 0.0)
    return sum(scores) / num_classes


def macro_f1_by_scikit_learn(logits: Tensor, labels: Tensor, num_classes: int) -> float:
    from sklearn.metrics import f1_score

    predicted = logits.argmax(1).cpu().numpy()
    classes = range(num_classes)
    return float(f1_score(labels.cpu().numpy(), predicted, labels=classes, average="macro", zero_division=0))


RIGHT_ANSWERS: list[Callable[..., Any]] = [macro_f1_by_confusion, macro_f1_in_python, macro_f1_by_scikit_learn]
