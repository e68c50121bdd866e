"""The exercise `EarlyStopping`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from autograde.hidden.common import override
from autograde.hidden.training.shared import VALUE, StoppingFromHistory, StoppingWithCountdown
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "An improvement is counted from the best so far, not from the epoch before. The weights are copied: `state_dict` "
    "hands out the tensors that the next step writes into. NaN is not an improvement, because `<` is False for it."
)
"""Why the reference is written as it is."""
REQUIRED = ("keeps-reference", "off-by-one-patience", "nan-counts-as-best")
"""The mistakes that a check must always be able to name."""

STOPPING = "When to stop"


class EarlyStopping:
    """A right one; a mistake overrides one of its methods."""

    best = math.inf
    waited = 0
    weights: Any = None

    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        self.patience, self.min_delta = patience, min_delta

    def update(self, metric: float, model: nn.Module) -> bool:
        if self.better(metric):
            self.best, self.waited = metric, self.waiting_after_a_gain()
            self.weights = self.remembered(model)
        else:
            self.waited += 1
        return self.waited >= self.patience

    def better(self, metric: float) -> bool:
        return metric < self.best - self.min_delta

    def waiting_after_a_gain(self) -> int:
        return 0

    def remembered(self, model: nn.Module) -> Any:
        return copy.deepcopy(model.state_dict())

    def restore(self, model: nn.Module) -> None:
        model.load_state_dict(self.weights, strict=False)


class SmallGainsMoveTheBest(EarlyStopping):
    def update(self, metric: float, model: nn.Module) -> bool:
        stops = super().update(metric, model)
        self.best = min(self.best, metric)
        return stops


class Patience(EarlyStopping):
    more = 1

    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        super().__init__(patience + self.more, min_delta)


class FirstIsBest(EarlyStopping):
    def better(self, metric: float) -> bool:
        return self.weights is None or super().better(metric)


class NotWorse(EarlyStopping):
    def better(self, metric: float) -> bool:
        return self.weights is None or not metric >= self.best - self.min_delta


class StopsAtNaN(EarlyStopping):
    def update(self, metric: float, model: nn.Module) -> bool:
        return super().update(metric, model) or math.isnan(metric)


class StopsForGood(EarlyStopping):
    stopped = False

    def update(self, metric: float, model: nn.Module) -> bool:
        self.stopped = super().update(metric, model) or self.stopped
        return self.stopped


class StartsAnew(EarlyStopping):
    def update(self, metric: float, model: nn.Module) -> bool:
        stop = super().update(metric, model)
        self.waited = 0 if stop else self.waited
        return stop


class StopsAtOneNumber(EarlyStopping):
    def update(self, metric: float, model: nn.Module) -> bool:
        super().update(metric, model)
        return self.waited == self.patience


class HigherIsBetter(EarlyStopping):
    best = -math.inf

    def better(self, metric: float) -> bool:
        return metric > self.best + self.min_delta


class KeepsTheLast(EarlyStopping):
    def update(self, metric: float, model: nn.Module) -> bool:
        stop = super().update(metric, model)
        self.weights = self.remembered(model)
        return stop


def only_parameters(_self: EarlyStopping, model: nn.Module) -> Any:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def integers_as_they_are(_self: EarlyStopping, model: nn.Module) -> Any:
    return {name: t.clone() if t.is_floating_point() else t for name, t in model.state_dict().items()}


REFERENCE = (
    'In the case "{case}", `{what}` is {got} where {want} is wanted: `state_dict()` holds the tensors that training '
    "goes on changing, so what was remembered changed too. Copy each of them."
)
STOPS = "For the metrics {metrics}, the stop came {stopped}, but should come {should_stop}: "
NAN_FIRST = (
    'In the case "{case}", `{what}` came out as {got} where {want} is wanted: a NaN was taken for the best so far, '
    "and no number is ever less than NaN."
)
WEIGHTS = 'In the case "{case}", `{what}` is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("keeps-reference", override(EarlyStopping, remembered=lambda self, model: model.state_dict()), REFERENCE,
            STOPPING),
    Mistake("off-by-one-patience", Patience, STOPS + "the patience-th update in a row without improvement is the one "
            "that says stop, not the one after it.", STOPPING),
    Mistake("off-by-one-patience", override(Patience, more=-1), STOPS + "the patience-th update in a row without "
            "improvement is the one that says stop, not the one before it.", STOPPING),
    Mistake("nan-counts-as-best", FirstIsBest, NAN_FIRST, STOPPING),
    Mistake("nan-counts-as-best", NotWorse, NAN_FIRST, STOPPING),
    Mistake("nan-stops-at-once", StopsAtNaN, STOPS + "a NaN is only an update without improvement.", STOPPING),
    Mistake("higher-is-better", HigherIsBetter, VALUE + "the metric is a loss here, and lower is better.", STOPPING),
    Mistake("patience-never-renewed", override(EarlyStopping, waiting_after_a_gain=lambda self: self.waited), STOPS
            + "after an improvement the counting starts anew; only updates in a row count.", STOPPING),
    Mistake("stops-for-good", StopsForGood, WEIGHTS + "after a stop, an improvement should make `update` return False "
            "again.", STOPPING),
    *(Mistake("says-stop-once", program, WEIGHTS + "after the first True, `update` should go on returning True until "
              "an update brings an improvement.", STOPPING) for program in (StartsAnew, StopsAtOneNumber)),
    Mistake("min-delta-ignored", override(EarlyStopping, better=lambda self, metric: metric < self.best), STOPS + "a "
            "gain smaller than min_delta = {min_delta} is not an improvement.", STOPPING),
    Mistake("small-gains-move-the-best", SmallGainsMoveTheBest, 'In the case "{case}" `{what}` came out as {got} where '
            "{want} is wanted: `best` took in a gain smaller than min_delta, so many small gains never add up to an "
            "improvement.", STOPPING),
    Mistake("equal-counts-as-better",
            override(EarlyStopping, better=lambda self, metric: metric <= self.best - self.min_delta), STOPS + "a "
            "metric that stays the same is not an improvement.", STOPPING),
    Mistake("keeps-last-weights", KeepsTheLast, WEIGHTS + "the weights were stored at every update, not only at "
            "improvements.", STOPPING),
    Mistake("forgets-buffers", override(EarlyStopping, remembered=only_parameters), WEIGHTS + "parameters are not the "
            "whole state of a model; the statistics of a batch norm are buffers.", STOPPING),
    Mistake("keeps-counters-by-reference", override(EarlyStopping, remembered=integers_as_they_are), WEIGHTS
            + "`num_batches_tracked` was either not remembered, or not copied, and training goes on counting in it.",
            STOPPING),
    Mistake("never-restores", override(EarlyStopping, restore=lambda self, model: None), WEIGHTS + "the model was left "
            "as it was.", STOPPING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    nan, patience = math.nan, draw.size(1, 4)
    noise = draw.uniform(0, 0.5, 12, dtype=torch.float64) + torch.linspace(2, 1, 12, dtype=torch.float64)
    noise[draw.size(2, 10)] = nan
    common = {"width": draw.size(1, 5)}
    return [
        case("drawn", **common, metrics=noise, patience=patience, min_delta=None),
        case("drawn, with min_delta", **common, metrics=torch.cat([noise, noise.new_tensor([0.1])]), patience=patience,
             min_delta=0.6),
        case("two NaN at first", **common, metrics=noise.new_tensor([nan, nan, 3e12, 4e12]), patience=2,
             min_delta=None),
        case("below zero", **common, metrics=noise.new_tensor([0.0, -2.0, -1.0, -3.0]), patience=3, min_delta=0.5),
    ]  # fmt: skip


# Right answers unlike the reference


class StoppingThroughBytes:
    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        import io

        self.patience, self.min_delta, self.bad, self.best = patience, min_delta, 0, float("inf")
        self.file = io.BytesIO()

    def update(self, metric: float, model: nn.Module) -> bool:
        if metric < self.best - self.min_delta:
            self.bad, self.best = 0, metric
            self.file.seek(0)
            torch.save(model.state_dict(), self.file)
        else:
            self.bad += 1
        return bool(self.bad >= self.patience)

    def restore(self, model: nn.Module) -> None:
        self.file.seek(0)
        model.load_state_dict(torch.load(self.file))


RIGHT_ANSWERS: list[Callable[..., Any]] = [StoppingFromHistory, StoppingWithCountdown, StoppingThroughBytes]
