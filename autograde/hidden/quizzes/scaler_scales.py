"""The exercise `scaler_scales`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

from autograde.source.mistakes import Mistake
from torchcourse.exercises.quizzes.scaler_scales import stepped
from torchcourse.model.exercise import Case, Draw

WHY = (
    "The scaler remembers two numbers, the scale and the count of good steps in a row. An overflow changes both, and "
    "so does growing; everything else only counts. The list is written at the end of a step, as `update` leaves it."
)
"""Why the reference is written as it is."""
REQUIRED = ("grows-every-step", "counter-survives-overflow", "backoff-to-zero")
"""The mistakes that a check must always be able to name."""

SECTION = "A scale that finds itself"


class Scales:
    """The right answer in parts; a misconception overrides one."""

    def __call__(self, finite: list[bool], *, scale: float, interval: int) -> list[float]:
        self.first = self.scale = scale
        self.count = 0
        scales = []
        for good in finite:
            if good:
                self.good(interval)
            else:
                self.bad()
            scales.append(self.scale)
        return scales

    def good(self, interval: int) -> None:
        self.count += 1
        if self.count == interval:
            self.scale, self.count = self.scale * 2, 0

    def bad(self) -> None:
        self.scale, self.count = self.scale / 2, 0


class GrowsEveryStep(Scales):
    def good(self, interval: int) -> None:
        self.scale *= 2


class CounterSurvivesOverflow(Scales):
    def bad(self) -> None:
        self.scale /= 2


class BackoffToZero(Scales):
    def bad(self) -> None:
        self.scale, self.count = 0.0, 0


class BackoffToStart(Scales):
    def bad(self) -> None:
        self.scale, self.count = self.first, 0


class OverflowKeepsScale(Scales):
    def bad(self) -> None:
        self.count = 0


class HalvesOnceInARow(Scales):
    overflowed = False

    def __call__(self, finite: list[bool], *, scale: float, interval: int) -> list[float]:
        self.overflowed = False
        return super().__call__(finite, scale=scale, interval=interval)

    def good(self, interval: int) -> None:
        self.overflowed = False
        super().good(interval)

    def bad(self) -> None:
        if not self.overflowed:
            super().bad()
        self.overflowed = True


class HalvesAfterTheInterval(Scales):
    def __call__(self, finite: list[bool], *, scale: float, interval: int) -> list[float]:
        self.interval, self.overflows = interval, 0
        return super().__call__(finite, scale=scale, interval=interval)

    def good(self, interval: int) -> None:
        self.overflows = 0
        super().good(interval)

    def bad(self) -> None:
        self.overflows += 1
        self.count = 0
        if self.overflows == self.interval:
            self.scale, self.overflows = self.scale / 2, 0


class NeverBelowOne(Scales):
    def bad(self) -> None:
        self.scale, self.count = max(self.scale / 2, 1.0), 0


class HalvesToWholeNumbers(Scales):
    def bad(self) -> None:
        self.scale, self.count = self.scale // 2, 0


class CounterSurvivesGrowth(Scales):
    def good(self, interval: int) -> None:
        self.count += 1
        if self.count >= interval:
            self.scale *= 2


class GrowsOneLate(Scales):
    def good(self, interval: int) -> None:
        self.count += 1
        if self.count > interval:
            self.scale, self.count = self.scale * 2, 0


class NeverGrows(Scales):
    def good(self, interval: int) -> None:
        pass


def by_the_step_number(finite: list[bool], *, scale: float, interval: int) -> list[float]:
    scales = []
    for step, good in enumerate(finite, 1):
        scale = scale / 2 if not good else scale * 2 if step % interval == 0 else scale
        scales.append(scale)
    return scales


def at_multiples_after_good_steps(finite: list[bool], *, scale: float, interval: int) -> list[float]:
    scales = []
    for step, good in enumerate(finite, 1):
        grows = step % interval == 0 and all(finite[step - interval : step])
        scale = scale / 2 if not good else scale * 2 if grows else scale
        scales.append(scale)
    return scales


def before_each_update(finite: list[bool], *, scale: float, interval: int) -> list[float]:
    return [scale, *Scales()(finite, scale=scale, interval=interval)][: len(finite)]


def with_the_first_scale(finite: list[bool], *, scale: float, interval: int) -> list[float]:
    return [scale, *Scales()(finite, scale=scale, interval=interval)]


RUN = "PyTorch runs `{run}` and {said}; you predict {guess} there: "
MISTAKES = [
    Mistake("grows-every-step", GrowsEveryStep(), RUN + "it grows after `growth_interval` good steps in a row, not "
            "after each.", SECTION),
    Mistake("counter-survives-overflow", CounterSurvivesOverflow(), RUN + "an overflow sets the count of good steps "
            "back to 0.", SECTION),
    Mistake("counts-all-steps", by_the_step_number, RUN + "what counts are the good steps in a row, not the number of "
            "the step.", SECTION),
    Mistake("counts-all-steps", at_multiples_after_good_steps, RUN + "what counts are the good steps in a row, not the "
            "number of the step.", SECTION),
    Mistake("halves-once-in-a-row", HalvesOnceInARow(), RUN + "each overflow halves the scale, whatever the step "
            "before it was.", SECTION),
    Mistake("backoff-to-zero", BackoffToZero(), RUN + "an overflow halves the scale.", SECTION),
    Mistake("backoff-to-start", BackoffToStart(), RUN + "an overflow halves the current scale; it does not bring the "
            "first one back.", SECTION),
    Mistake("overflow-keeps-scale", OverflowKeepsScale(), RUN + "an overflow skips the step and halves the scale.",
            SECTION),
    Mistake("halves-after-the-interval", HalvesAfterTheInterval(), RUN + "the interval counts good steps; each "
            "overflow halves the scale at once.", SECTION),
    Mistake("never-below-one", NeverBelowOne(), RUN + "nothing stops the scale at 1.", SECTION),
    Mistake("halves-to-whole-numbers", HalvesToWholeNumbers(), RUN + "half of 1 is 0.5; `//` rounds down.", SECTION),
    Mistake("counter-survives-growth", CounterSurvivesGrowth(), RUN + "the count begins again after growing.",
            SECTION),
    Mistake("grows-one-late", GrowsOneLate(), RUN + "it grows with the last step of the interval, not with the next "
            "one.", SECTION),
    Mistake("never-grows", NeverGrows(), RUN + "`growth_interval` good steps in a row double the scale.", SECTION),
    Mistake("scale-before-update", before_each_update, RUN + "the scale after each step is asked for, as `update` "
            "leaves it.", SECTION),
    Mistake("with-the-first-scale", with_the_first_scale, 'In the case "{case}" you predict {got} where {want} is '
            "wanted: the list has one scale for each step, the one that holds after it. The scale before the first "
            "step is not among them.", SECTION),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        stepped(
            f"drawn {n}",
            "".join(draw.pick("++++-") for _ in range(draw.size(1, 14))),
            draw.size(1, 5),
            2.0 ** draw.size(0, 16),
        )
        for n in range(14)
    ]


# Right answers unlike the reference


def by_runs(finite: list[bool], *, scale: float, interval: int) -> list[float]:
    scales: list[float] = []
    now = scale
    for good, run in groupby(finite):
        length = len(list(run))
        scales += [now * (2 ** ((n + 1) // interval) if good else 0.5 ** (n + 1)) for n in range(length)]
        now = scales[-1]
    return scales


def by_looking_back(finite: list[bool], *, scale: float, interval: int) -> list[float]:
    power, since, powers = 0, 0, []
    for place, good in enumerate(finite):
        since = since if good else place + 1
        power += -1 if not good else int((place + 1 - since) % interval == 0)
        powers.append(power)
    return [scale * 2.0**power for power in powers]


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_runs, by_looking_back]
