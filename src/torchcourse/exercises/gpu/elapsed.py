"""The exercise `elapsed`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.fake_clock import SETBACK, World
from torchcourse.probes.observe import kind

FIRST_RUNS = 3.0  # how many times as long the first runs take: kernels are compiled, caches are cold


def probe(
    answer: Watched, seconds: list[float], host: float, warmup: int | None, repeats: int | None, like: Tensor
) -> Observations:
    """Time a program that takes the given seconds, in a world whose clock the probe moves."""
    world = World(like.device, setback=SETBACK)
    fn = world.program("fn", seconds, host)
    options = {name: n for name, n in (("warmup", warmup), ("repeats", repeats)) if n is not None}
    with world.replace_clocks(answer.answer):
        times = answer(fn, like.device, **options)
    seen = {"runs": len(world.calls), "seconds": kind(times)}
    if isinstance(times, list):
        others = sorted({type(t).__name__ for t in times if not isinstance(t, float)})
        seen["seconds"] = f"a list of {' and '.join(others)}" if others else [float(t) for t in times]
    return seen


def cases(draw: Draw) -> list[Case]:
    def drawn(name: str, warmup: int | None, repeats: int | None, host: float = 0.0005) -> Case:
        first, rest = 3 if warmup is None else warmup, 10 if repeats is None else repeats
        slow = [FIRST_RUNS + 0.25 * i for i in range(first)]
        seconds = slow + draw.uniform(0.002, 0.02, rest + 2, dtype=torch.float64).tolist()
        inputs: dict[str, Any] = {"seconds": seconds, "host": host, "warmup": warmup, "repeats": repeats}
        return case(name, rtol=0.0, atol=1e-6, **inputs, like=torch.zeros(1))

    return [
        drawn("three runs of warm-up, five that count", 3, 5),
        drawn("as many as by default", None, None),
        drawn("one run of warm-up", 1, 4),
        drawn("no warm-up", 0, 3),
        drawn("one run that counts", 2, 1),
        drawn("a host that is slower than the device", 2, 4, host=0.05),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"runs": seen.get("runs")}
    times, should = seen.get("seconds"), wanted["seconds"]
    if isinstance(times, list) and times:
        fields |= {"count": len(times), "wanted_count": len(should), "first": times[0], "wanted_first": should[0]}
        if len(times) == len(should):
            place = max(range(len(times)), key=lambda i: abs(times[i] - should[i]))
            fields |= {"one": times[place], "wanted_one": should[place]}
    return fields


EXERCISE = Exercise(
    "elapsed",
    probe,
    cases,
    hints=(
        "Calling fn only hands work to the device. When is that work done, and which call waits for it? What does that "
        "call do on a machine that has no accelerator, if `device` is the CPU?",
        "After the warm-up the device may still be busy. Whose time would you measure, if the clock started now?",
        "Which clock can be put back while you measure, by the user or by the network, and which two of `time` cannot? "
        "One number for each run is wanted, in seconds.",
    ),
    quotes=quotes,
)
