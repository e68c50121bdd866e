"""The exercise `route_threshold`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept
from torchcourse.probes.trainable_models import number_or_kind


def probe(answer: Watched, logits: Tensor, labels: Tensor, precision: float) -> Observations:
    before = logits.clone(), labels.clone()
    found = number_or_kind(answer(logits, labels, precision))
    return {"threshold": found, **kept(logits=(logits, before[0]), labels=(labels, before[1]))}


def confident(draw: Draw, right: list[int], gaps: list[float], classes: int = 3) -> dict[str, Any]:
    """Return logits whose largest entry stands `gaps` above the others, in a drawn order, and labels.

    Where `right` is 1 the label is the class that the logits favour. Each ticket has a level of its own.
    """
    n = len(right)
    predicted = draw.integers(0, classes, n)
    logits = torch.zeros(n, classes).scatter(1, predicted[:, None], torch.tensor(gaps)[:, None])
    labels = torch.where(torch.tensor(right) > 0, predicted, (predicted + 1) % classes)
    level = 2.0 * draw.integers(-3, 4, n, 1)
    order = draw.normal(n).argsort()
    return {"logits": (logits + level)[order], "labels": labels[order]}


def falling(n: int, step: float = 0.25) -> list[float]:
    """Return n gaps, each smaller than the one before."""
    return [0.5 + step * (n - 1 - i) for i in range(n)]


def cases(draw: Draw) -> list[Case]:
    recovers = [1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 0]  # 1, 1, .67, .75, .8, .83, .86, .875, .78, .7, .64
    tie = [1, 1, 1, 1, 0, 0, 1, 0]
    tied = [3.0, 2.5, 2.0, 1.5, 1.5, 1.5, 1.5, 1.0]  # the middle four: 5 of 7
    ahead = [1] * 6 + [0, 1, 0, 0]
    close = [3.0, 2.5, 2.0, 1.5, 1.49999, 1.0]
    digits, all_digits = {"rtol": 3e-7, "atol": 0.0}, {"rtol": 1e-12, "atol": 0.0}
    in_float64 = confident(draw, [1] * 5 + [0] * 3, falling(8))
    in_float64["logits"] = in_float64["logits"].double()
    return [
        case("right, then wrong", **confident(draw, ahead, falling(10)), precision=0.85, **digits),
        case("two that are nearly as sure", **confident(draw, [1, 1, 1, 1, 0, 0], close), precision=1.0, **digits),
        case("falls below and recovers", **confident(draw, recovers, falling(11)), precision=0.85, **digits),
        case("four tickets with the same confidence", **confident(draw, tie, tied, 2), precision=0.75),
        case("exactly as often as asked", **confident(draw, [1, 1, 1, 0, 0, 0], falling(6)), precision=0.75),
        case("the surest one is wrong", **confident(draw, [0, 1, 1, 1, 0], falling(5)), precision=0.75),
        case("never often enough", **confident(draw, [0, 0, 1, 0], falling(4)), precision=0.75),
        case("nine of ten, as asked", **confident(draw, [1] * 8 + [0, 1, 0, 0], falling(12)), precision=0.9),
        case("all may be routed", **confident(draw, [1, 1, 0, 1, 1], falling(5)), precision=0.75),
        case("float64", **in_float64, precision=0.9, **all_digits),
        case("six classes", **confident(draw, [1] * 5 + [0] * 3, falling(8), 6), precision=0.9, **digits),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {}
    confidence, predicted = inputs["logits"].softmax(-1).max(-1)
    right = predicted == inputs["labels"]
    for name, value in (("got", seen.get("threshold")), ("want", wanted["threshold"])):
        if isinstance(value, float):
            routed = confidence >= value - 1e-6
            fields[f"{name}_routes"] = f"{int((routed & right).sum())} right of {int(routed.sum())}"
    return fields


EXERCISE = Exercise(
    "route_threshold",
    probe,
    cases,
    hints=(
        "Take one confidence that occurs. Which tickets would be routed with it as the threshold, and which share of "
        "those is right? Now do that for each.",
        "The share goes up and down as the threshold falls. If it drops below `precision` once, can it come back? "
        "Which of all the thresholds that are good enough is asked for?",
        "Compare with `>=`, so that equal confidences go together. Candidates from low to high come from "
        "`confidence.unique()`; what do you return if none is good enough?",
    ),
    quotes=quotes,
)
