"""The exercise `warmup_cosine`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.trainable_models import number


def probe(
    answer: Watched, warmup: int, total: int, peak: float, floor: float | None, steps: list[int]
) -> dict[str, Any]:
    """Observe the rates of single steps, by the part of the schedule that they belong to."""
    more = {} if floor is None else {"floor": floor}
    rates = {step: number(answer(step, warmup=warmup, total=total, peak=peak, **more)) for step in steps}
    return {
        "while it warms up": [rate for step, rate in rates.items() if step < warmup],
        "from the peak to the end": [rate for step, rate in rates.items() if warmup <= step <= total],
        "after the end": [rate for step, rate in rates.items() if step > total],
    }


def cases(draw: Draw) -> list[Case]:
    warmup, total, peak = draw.size(8, 12), draw.size(90, 110), draw.pick([0.1, 0.02, 0.5])

    def at(warmup: int, total: int) -> list[int]:
        span = total - warmup
        up = sorted({0, warmup // 4, warmup // 2, max(warmup - 1, 0)})
        down = [warmup, warmup + 1, warmup + span // 3, warmup + span // 2, total - 1, total]
        return [*(step for step in up if step < warmup), *dict.fromkeys(down), total + 1, total + span // 2, 3 * total]

    def plan(warmup: int, total: int, peak: float, floor: float | None) -> dict[str, Any]:
        return {"warmup": warmup, "total": total, "peak": peak, "floor": floor, "steps": at(warmup, total)}

    exactly = {"rtol": 1e-6, "atol": 1e-9}
    return [
        case("up, down to zero, and on", **exactly, **plan(warmup, total, peak, None)),
        case("down to a floor", **exactly, **plan(warmup, total, peak, peak / 10)),
        case("no warm-up at all", **exactly, **plan(0, total, peak, peak / 20)),
        case("more warm-up than decay", **exactly, **plan(60, 80, 1.0, 0.25)),
    ]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {"floor": 0.0 if inputs["floor"] is None else inputs["floor"]}


EXERCISE = Exercise(
    "warmup_cosine",
    probe,
    cases,
    hints=(
        "There are three stretches. What is the rate at step 0, at step `warmup`, at step `total`, and at every step "
        "after that?",
        "For the middle stretch, work out how much of the way from `warmup` to `total` is done, a number from 0 to 1. "
        "What is the cosine of π times it at both ends?",
        "Half of (1 + cosine) runs from 1 to 0. What must it be multiplied by, and what added, to run from peak to "
        "floor? And what if warmup is 0?",
    ),
    any_device=False,
    quotes=quotes,
)
