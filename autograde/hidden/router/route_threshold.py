"""The exercise `route_threshold`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograde.hidden.common import MIXED, NUMPY_ONLY
from autograde.source.mistakes import Mistake
from torchcourse.exercises.router.route_threshold import confident, falling
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Each confidence that occurs is tried, from the lowest up, and the first one that is good enough is the answer. "
    "So a dip in between does no harm, and comparing with `>=` keeps equal confidences together. Counts are divided as "
    "Python numbers, since float32 might put 0.9 just below 0.9."
)
"""Why the reference is written as it is."""
REQUIRED = ("logits-not-probabilities", "splits-ties", "highest-not-lowest", "first-crossing")
"""The mistakes that a check must always be able to name."""


class Threshold:
    """A right threshold; a mistake overrides one of its methods."""

    def __call__(self, logits: Tensor, labels: Tensor, precision: float) -> Any:
        confidence, predicted = self.confidence(logits)
        right = predicted == labels
        good = [c for c in self.candidates(confidence) if self.is_good(confidence, right, c, precision)]
        return self.chosen(good, confidence)

    def confidence(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        best = logits.softmax(-1).max(-1)
        return best.values, best.indices

    def candidates(self, confidence: Tensor) -> list[float]:
        return sorted(set(confidence.tolist()))

    def is_good(self, confidence: Tensor, right: Tensor, candidate: float, precision: float) -> bool:
        routed = self.routed(confidence, candidate)
        count = int(routed.sum())
        return count > 0 and self.enough(int((routed & right).sum()), count, precision)

    def routed(self, confidence: Tensor, candidate: float) -> Tensor:
        return confidence >= candidate

    def enough(self, right: int, count: int, precision: float) -> bool:
        return right / count >= precision

    def chosen(self, good: list[float], confidence: Tensor) -> Any:
        return min(good, default=math.inf)


class Logits(Threshold):
    def confidence(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        best = logits.max(-1)
        return best.values, best.indices


class Sigmoids(Threshold):
    def confidence(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        best = logits.sigmoid().max(-1)
        return best.values, best.indices


class Highest(Threshold):
    def chosen(self, good: list[float], confidence: Tensor) -> Any:
        return max(good, default=math.inf)


class StrictlyAbove(Threshold):
    def routed(self, confidence: Tensor, candidate: float) -> Tensor:
        return confidence > candidate


class MoreThanPrecise(Threshold):
    def enough(self, right: int, count: int, precision: float) -> bool:
        return right / count > precision


class StrictlyAboveAndMore(StrictlyAbove, MoreThanPrecise):
    pass


class ZeroForNone(Threshold):
    def chosen(self, good: list[float], confidence: Tensor) -> Any:
        return min(good, default=0.0)


class OneForNone(Threshold):
    def chosen(self, good: list[float], confidence: Tensor) -> Any:
        return min(good, default=1.0)


class StrictlyAboveAndOneForNone(StrictlyAbove):
    def chosen(self, good: list[float], confidence: Tensor) -> Any:
        return min(good, default=1.0)


class NoneForNone(Threshold):
    def chosen(self, good: list[float], confidence: Tensor) -> Any:
        return min(good, default=None)


class ATensor(Threshold):
    def chosen(self, good: list[float], confidence: Tensor) -> Any:
        return torch.tensor(min(good, default=math.inf))


class OnlyOfThatConfidence(Threshold):
    def routed(self, confidence: Tensor, candidate: float) -> Tensor:
        return confidence == candidate


class TheUnsureOnes(Threshold):
    def routed(self, confidence: Tensor, candidate: float) -> Tensor:
        return confidence <= candidate


class ThePrecisionItself(Threshold):
    def chosen(self, good: list[float], confidence: Tensor) -> Any:
        return math.inf

    def __call__(self, logits: Tensor, labels: Tensor, precision: float) -> Any:
        return precision


class OfAllTickets(Threshold):
    def is_good(self, confidence: Tensor, right: Tensor, candidate: float, precision: float) -> bool:
        return self.enough(int((self.routed(confidence, candidate) & right).sum()), len(right), precision)


class OnACoarseGrid(Threshold):
    def candidates(self, confidence: Tensor) -> list[float]:
        return [n / 20 for n in range(1, 21)]


class InHundredths(Threshold):
    def candidates(self, confidence: Tensor) -> list[float]:
        return [n / 100 for n in range(101)]


class OfTheLabel(Threshold):
    def __call__(self, logits: Tensor, labels: Tensor, precision: float) -> Any:
        self.labels = labels
        return super().__call__(logits, labels, precision)

    def confidence(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        return logits.softmax(-1).gather(-1, self.labels[:, None])[:, 0], logits.argmax(-1)


class OnAFineGrid(OneForNone):
    def candidates(self, confidence: Tensor) -> list[float]:
        return [n / 100 for n in range(101)]


class BeforeTheFirstWrong(Threshold):
    def is_good(self, confidence: Tensor, right: Tensor, candidate: float, precision: float) -> bool:
        return bool(right[self.routed(confidence, candidate)].all())


def first_crossing(logits: Tensor, labels: Tensor, precision: float) -> float:
    confidence, predicted = logits.softmax(-1).max(-1)
    found = math.inf
    for candidate in sorted(set(confidence.tolist()), reverse=True):
        routed = confidence >= candidate
        if int((predicted == labels)[routed].sum()) / int(routed.sum()) < precision:
            break
        found = candidate
    return found


def splits_ties(logits: Tensor, labels: Tensor, precision: float) -> float:
    confidence, predicted = logits.softmax(-1).max(-1)
    right = (predicted == labels).cpu()
    order = confidence.cpu().add(right * 1e-6).argsort(descending=True, stable=True)
    share = right[order].double().cumsum(0) / torch.arange(1, len(order) + 1)
    good = (share >= precision).nonzero().flatten().tolist()
    return confidence[int(order[good[-1]])].item() if good else math.inf


def splits_ties_by_place(logits: Tensor, labels: Tensor, precision: float) -> float:
    best, predicted = logits.softmax(-1).max(-1)
    confidence, right = best.tolist(), (predicted == labels).tolist()
    order = sorted(range(len(confidence)), key=lambda i: (round(confidence[i], 6), right[i]), reverse=True)
    found, hits = math.inf, 0
    for count, i in enumerate(order, 1):
        hits += right[i]
        if hits / count >= precision:
            found = confidence[i]
    return found


def splits_ties_on_the_cpu(logits: Tensor, labels: Tensor, precision: float) -> float:
    confidence, order = logits.softmax(-1).amax(-1).sort(descending=True, stable=True)
    right = (logits.argmax(-1) == labels)[order].double()
    share = right.cumsum(0) / torch.arange(1, len(right) + 1)
    good = (share >= precision).nonzero().flatten()
    return confidence[good[-1]].item() if len(good) else math.inf


def with_numpy(logits: Tensor, labels: Tensor, precision: float) -> Any:
    confidence = logits.softmax(-1).numpy().max(-1)
    right = logits.numpy().argmax(-1) == labels.numpy()
    good = [float(c) for c in confidence if right[confidence >= c].mean() >= precision]
    return min(good, default=math.inf)


def labels_on_the_cpu(logits: Tensor, labels: Tensor, precision: float) -> Any:
    return Threshold()(logits, torch.tensor(labels.tolist()) + torch.zeros_like(labels), precision)


class Rounded(Threshold):
    def chosen(self, good: list[float], confidence: Tensor) -> Any:
        return round(min(good, default=math.inf), 4)


class RoundedToSix(Threshold):
    def chosen(self, good: list[float], confidence: Tensor) -> Any:
        return round(min(good, default=math.inf), 6)


class NearbyToo(Threshold):
    def routed(self, confidence: Tensor, candidate: float) -> Tensor:
        return confidence >= candidate - 1e-4


def reshapes_the_labels(logits: Tensor, labels: Tensor, precision: float) -> Any:
    return Threshold()(logits, labels.unsqueeze_(1)[:, 0], precision)


class FloatShares(Threshold):
    def enough(self, right: int, count: int, precision: float) -> bool:
        return torch.tensor(right / count, dtype=torch.float32).item() >= precision


class InFloat32(Threshold):
    def confidence(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        return super().confidence(logits.float())


HUMAN = "When to ask a human"
IS = 'In the case "{case}" the threshold is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("computes-in-float32", InFloat32(), 'In the case "{case}" the {what} is {got} where {want} is wanted: the '
            "first digits agree, but the others were lost in float32.", HUMAN),
    Mistake("logits-not-probabilities", Logits(), IS + "logits are not probabilities. They may be shifted for each "
            "ticket, and are not comparable.", HUMAN),
    Mistake("logits-not-probabilities", Sigmoids(), IS + "the classes exclude each other, so their probabilities come "
            "from a softmax over them, not from a sigmoid of each.", HUMAN),
    Mistake("splits-ties", splits_ties, IS + "at that confidence several tickets tie, and only those were counted that "
            "came first in the sorting: it routes {got_routes}.", HUMAN),
    Mistake("splits-ties", splits_ties_by_place, IS + "tickets of the same confidence were counted one by one: in "
            "fact it routes {got_routes}.", HUMAN),
    Mistake("splits-ties", splits_ties_on_the_cpu, IS + "the share was taken after each single ticket, so only some of "
            "those with that confidence were counted: in fact it routes {got_routes}.", HUMAN),
    Mistake("highest-not-lowest", Highest(), IS + "that is the highest threshold that is good enough, and routes "
            "{got_routes}; the lowest routes {want_routes}.", HUMAN),
    Mistake("first-crossing", first_crossing, IS + "the search ended where the share first fell below `precision`. "
            "Further down it is high enough again: {want_routes}.", HUMAN),
    Mistake("first-crossing", BeforeTheFirstWrong(), IS + "the search ended at the first wrong ticket; `precision` "
            "allows some: {want_routes}.", HUMAN),
    Mistake("routes-strictly-above", StrictlyAbove(), IS + "tickets with exactly that confidence were left out of the "
            "count, but they are routed as well.", HUMAN),
    Mistake("routes-strictly-above", StrictlyAboveAndOneForNone(), IS + "tickets with exactly that confidence were "
            "left out of the count; and where no threshold is good enough, `inf` is wanted, not 1.", HUMAN),
    Mistake("routes-strictly-above", StrictlyAboveAndMore(), IS + "tickets with exactly that confidence were left out "
            "of the count; and a share of exactly `precision` is often enough.", HUMAN),
    Mistake("more-often-than-asked", MoreThanPrecise(), IS + "a share of exactly `precision` is often enough.", HUMAN),
    Mistake("share-in-float32", FloatShares(), IS + "a share in float32 may come out just below what it is: 9 of 10 as "
            "0.8999999762.", HUMAN),
    *(Mistake("rounds-the-threshold", program, IS + "the threshold was rounded. Rounded up, it leaves out the very "
            "ticket that it came from; rounded down, it may route others.", HUMAN) for program in (Rounded(),
            RoundedToSix())),
    Mistake("takes-near-for-equal", NearbyToo(), IS + "tickets of nearly that confidence were counted as well; only "
            "equal ones go together.", HUMAN),
    Mistake("changes-the-labels", reshapes_the_labels, 'In the case "{case}" the caller\'s labels were {got} by the '
            "call: `unsqueeze_` works in place.", HUMAN),
    Mistake("zero-for-none", ZeroForNone(), IS + "where no threshold is good enough, 0 routes everything.", HUMAN),
    Mistake("one-for-none", OneForNone(), IS + "where no threshold is good enough, 1 still routes a ticket of which "
            "the model is quite sure.", HUMAN),
    Mistake("none-for-none", NoneForNone(), 'In the case "{case}" the call returned None where {want} is wanted: `inf` '
            'compares with every confidence and routes nothing.', HUMAN),
    Mistake("returns-a-tensor", ATensor(), 'In the case "{case}" the threshold is {got}; a float is asked for.', HUMAN),
    Mistake("one-confidence-alone", OnlyOfThatConfidence(), IS + "each confidence was judged by the tickets with "
            "exactly that one, not by all with at least that one.", HUMAN),
    Mistake("routes-the-unsure", TheUnsureOnes(), IS + "tickets with at most that confidence were counted, not those "
            "with at least that confidence.", HUMAN),
    Mistake("precision-for-threshold", ThePrecisionItself(), IS + "a model's confidence is not a promise. The "
            "threshold has to be measured.", HUMAN),
    Mistake("share-of-all-tickets", OfAllTickets(), IS + "the right ones were divided by the number of all tickets, "
            "not of those that are routed.", HUMAN),
    *(Mistake("coarse-grid", program, IS + "only some round values were tried; those that occur are asked for.", HUMAN)
      for program in (OnACoarseGrid(), InHundredths())),
    Mistake("coarse-grid", OnAFineGrid(), IS + "round values were tried, and 1 was returned where none of them will "
            "do. A confidence that occurs is asked for, or `inf`.", HUMAN),
    Mistake("probability-of-the-label", OfTheLabel(), IS + "that is how probable a ticket's label is. When the router "
            "has to decide, nobody knows the label; the confidence is the largest probability.", HUMAN),
    Mistake("made-on-cpu", with_numpy, NUMPY_ONLY, HUMAN),
    Mistake("made-on-cpu", labels_on_the_cpu, MIXED, HUMAN),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = 60
    drawn = [int(draw.size(0, 99) < 95 - i) for i in range(n)]
    pairs = [0.5 + 0.1 * (i // 2) for i in range(n)][::-1]
    return [
        case("sixty drawn tickets", **confident(draw, drawn, falling(n, 0.1)), precision=0.8125, rtol=3e-7, atol=0.0),
        case("sixty in pairs", **confident(draw, drawn, pairs, 2), precision=0.6875),
        case("no tickets", logits=torch.zeros(0, 3), labels=torch.zeros(0, dtype=torch.int64), precision=0.5),
        case("one ticket", **confident(draw, [1], [1.0]), precision=1.0),
    ]


# Right answers unlike the reference


def by_cumulative_counts(logits: Tensor, labels: Tensor, precision: float) -> float:
    confidence, predicted = torch.softmax(logits, dim=-1).max(dim=-1)
    levels, place = torch.unique(confidence, return_inverse=True)
    zeros = torch.zeros(len(levels), dtype=torch.float64, device=logits.device)
    count = zeros.index_add(0, place, torch.ones_like(place, dtype=torch.float64)).flip(0).cumsum(0)
    hits = zeros.index_add(0, place, (predicted == labels).double()).flip(0).cumsum(0)
    good = levels.flip(0)[hits / count >= precision]
    return good[-1].item() if len(good) else float("inf")


def in_plain_python(logits: Tensor, labels: Tensor, precision: float) -> float:
    p = logits.detach().cpu().softmax(1).numpy()
    confidence = p.max(1) if len(p) else np.zeros(0)
    rows = sorted(zip(confidence.tolist(), (p.argmax(1) == labels.cpu().numpy()).tolist(), strict=True))
    for at, (candidate, _) in enumerate(rows):
        if at and rows[at - 1][0] == candidate:
            continue
        if sum(hit for _, hit in rows[at:]) >= precision * (len(rows) - at):
            return float(candidate)
    return math.inf


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_cumulative_counts, in_plain_python]
