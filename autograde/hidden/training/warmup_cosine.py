"""The exercise `warmup_cosine`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from autograde.hidden.common import override
from autograde.hidden.training.shared import schedule_early_returns
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Half a cosine goes from 1 to -1, so `0.5 * (1 + cos)` goes from 1 to 0 with flat ends. `min` keeps it at "
    "the floor when training goes on longer than planned: the cosine itself would rise again."
)
"""Why the reference is written as it is."""
REQUIRED = ("no-warmup", "misses-floor", "oscillates-after-total")
"""The mistakes that a check must always be able to name."""

SCHEDULES = "Schedules"


class Schedule:
    """A right schedule; a mistake overrides one of its methods."""

    def __call__(self, step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
        if step < warmup:
            return self.climb(step, warmup, peak, floor)
        return self.between(floor, peak, self.cosine(self.done(step, warmup, total)))

    def climb(self, step: int, warmup: int, peak: float, floor: float) -> float:
        return peak * step / warmup

    def done(self, step: int, warmup: int, total: int) -> float:
        """Return which part of the way down is done, from 0 to 1."""
        return limited((step - warmup) / (total - warmup))

    def cosine(self, done: float) -> float:
        return 0.5 * (1 + math.cos(math.pi * done))

    def between(self, floor: float, peak: float, cosine: float) -> float:
        return floor + (peak - floor) * cosine


class ZeroAfterTheEnd(Schedule):
    def __call__(self, step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
        return 0.0 if step > total else super().__call__(step, warmup=warmup, total=total, peak=peak, floor=floor)


class CosineFromStepZero(Schedule):
    def done(self, step: int, warmup: int, total: int) -> float:
        return limited(step / total)


class WholeCosine(Schedule):
    def __call__(self, step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
        return floor if step >= total else super().__call__(step, warmup=warmup, total=total, peak=peak, floor=floor)

    def cosine(self, done: float) -> float:
        return 0.5 * (1 + math.cos(2 * math.pi * done))


def limited(part: float) -> float:
    return min(max(part, 0.0), 1.0)


def scheduling(**methods: Callable[..., float]) -> Callable[..., float]:
    """Return the right schedule with these methods in place of its own."""
    program: Callable[..., float] = override(Schedule, **methods)()
    return program


def dividing_by_warmup(step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    return min(step / warmup, 1.0) * NO_WARMUP(step, warmup=warmup, total=total, peak=peak, floor=floor)


NO_WARMUP = scheduling(climb=lambda self, step, warmup, peak, floor: peak)
RATES = 'In the case "{case}", the rates {what} came out as {got} where {want} is wanted: '
MISTAKES = [
    Mistake("no-warmup", NO_WARMUP, RATES + "from step 0 the rate should climb in a straight line from 0 to the peak.",
            SCHEDULES),
    Mistake("warms-up-a-step-early",
            scheduling(climb=lambda self, step, warmup, peak, floor: peak * (step + 1) / warmup), RATES
            + "step 0 has the rate 0, and step `warmup` the peak.", SCHEDULES),
    Mistake("warms-up-from-the-floor",
            scheduling(climb=lambda self, step, warmup, peak, floor: floor + (peak - floor) * step / warmup), RATES
            + "the warm-up starts from 0, and only the decay ends at the floor.", SCHEDULES),
    Mistake("divides-by-no-warmup", dividing_by_warmup, "In the case \"{case}\" the call raised {error}: `warmup` may "
            "be 0, and then there is no climb to compute.", SCHEDULES),
    Mistake("misses-floor", scheduling(between=lambda self, floor, peak, cosine: peak * cosine), RATES + "the cosine "
            "has to come down to the floor of {floor}, not to 0.", SCHEDULES),
    Mistake("misses-floor", scheduling(between=lambda self, floor, peak, cosine: floor + peak * cosine), RATES + "the "
            "floor of {floor} was added on top, so the peak is too high.", SCHEDULES),
    Mistake("misses-floor", scheduling(between=lambda self, floor, peak, cosine: max(floor, peak * cosine)), RATES
            + "the cosine ran towards 0 and was cut off at the floor of {floor}; it should arrive there at `total`, "
            "not before.", SCHEDULES),
    Mistake("misses-floor", ZeroAfterTheEnd(), RATES + "after the end the rate stays at the floor of {floor}.",
            SCHEDULES),
    Mistake("oscillates-after-total",
            scheduling(done=lambda self, step, warmup, total: (step - warmup) / (total - warmup)), RATES + "a cosine "
            "goes up again after its lowest point; from `total` on the rate stays at the floor.", SCHEDULES),
    Mistake("cosine-from-step-zero", CosineFromStepZero(), RATES + "the cosine has to begin at `warmup`, where the "
            "rate is at its peak, not at step 0.", SCHEDULES),
    Mistake("divided-by-total",
            scheduling(done=lambda self, step, warmup, total: limited((step - warmup) / total)),
            RATES + "the way down takes total - warmup steps, but was divided by total.", SCHEDULES),
    Mistake("straight-line-down", scheduling(cosine=lambda self, done: 1 - done), RATES + "it went down in a straight "
            "line, not in half a cosine.", SCHEDULES),
    Mistake("wrong-part-of-the-cosine", scheduling(cosine=lambda self, done: math.cos(math.pi / 2 * done)), RATES
            + "from peak to floor the angle goes from 0 to π, and (1 + cos) / 2 goes from 1 to 0.", SCHEDULES),
    Mistake("wrong-part-of-the-cosine", WholeCosine(), RATES + "it went down and up again: from peak to floor the "
            "angle goes from 0 to π, not to 2π.", SCHEDULES),
    Mistake("wrong-part-of-the-cosine", scheduling(cosine=lambda self, done: math.cos(math.pi * done)), RATES + "the "
            "cosine itself goes from 1 to -1; half of (1 + cos) goes from 1 to 0.", SCHEDULES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    warmup = draw.size(1, 30)
    total = warmup + draw.size(1, 300)
    steps = sorted({0, 1, warmup - 1, warmup, warmup + 1, (warmup + total) // 2, total - 1, total, total + 1, 10**6})
    common = {"rtol": 1e-6, "atol": 1e-9, "warmup": warmup, "total": total}
    return [
        case("drawn", **common, peak=draw.uniform(0.01, 2).item(), floor=draw.uniform(0, 0.01).item(), steps=steps),
        case("a floor as high as the peak", **common, peak=0.3, floor=0.3, steps=steps),
        case("one step of each", rtol=1e-6, atol=1e-9, warmup=1, total=2, peak=0.1, floor=None, steps=[0, 1, 2, 3]),
    ]  # fmt: skip


# Right answers unlike the reference


def schedule_by_squares(step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    climbing = np.interp(step, [0, warmup], [0, peak]) if warmup else peak
    half = np.clip((step - warmup) / (total - warmup), 0, 1) * np.pi / 2
    return float(climbing if step < warmup else floor * np.sin(half) ** 2 + peak * np.cos(half) ** 2)


def schedule_in_torch(step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    done = torch.tensor((step - warmup) / (total - warmup), dtype=torch.float64).clamp(0, 1)
    down = torch.lerp(torch.tensor(floor, dtype=torch.float64), torch.tensor(peak, dtype=torch.float64),
                      (1 + torch.cos(done * math.pi)) / 2)  # fmt: skip
    return down.item() if step >= warmup else step * peak / warmup


RIGHT_ANSWERS: list[Callable[..., Any]] = [schedule_early_returns, schedule_by_squares, schedule_in_torch]
