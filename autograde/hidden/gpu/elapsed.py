"""The exercise `elapsed`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from time import monotonic_ns
from time import perf_counter as clock
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A call on an accelerator returns when the work is queued. So it is waited for before the clock starts, or "
    "the timing would take in what was queued earlier, and before it stops, or it would measure the queueing. "
    "The first runs, which load and tune kernels, are not counted."
)
"""Why the reference is written as it is."""
REQUIRED = ("no-synchronize", "times-warmup")
"""The mistakes that a check must always be able to name."""


class Timing:
    """A right timing. Each mistake below is this one with one method written otherwise."""

    def elapsed(self, fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10) -> Any:
        self.device = device
        for _ in range(warmup):
            fn()
        return [self.once(fn) for _ in range(repeats)]

    def once(self, fn: Callable[[], object]) -> float:
        self.wait()
        start = self.now()
        fn()
        self.wait()
        return self.now() - start

    def wait(self) -> None:
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)

    def now(self) -> float:
        return time.perf_counter()


class NeverWaits(Timing):
    def wait(self) -> None:
        pass


class WaitsBeforeOnly(Timing):
    def once(self, fn: Callable[[], object]) -> float:
        self.wait()
        start = self.now()
        fn()
        return self.now() - start


class WaitsAfterOnly(Timing):
    def once(self, fn: Callable[[], object]) -> float:
        start = self.now()
        fn()
        self.wait()
        return self.now() - start


class StartsBeforeWaiting(Timing):
    def once(self, fn: Callable[[], object]) -> float:
        start = self.now()
        self.wait()
        fn()
        self.wait()
        return self.now() - start


class WaitsWithoutAsking(Timing):
    def wait(self) -> None:
        torch.accelerator.synchronize()


class WallClock(Timing):
    def now(self) -> float:
        return time.time()


class ProcessTime(Timing):
    def now(self) -> float:
        return time.process_time()


class Milliseconds(Timing):
    def once(self, fn: Callable[[], object]) -> float:
        return 1000 * super().once(fn)


class TimesTheWarmup(Timing):
    def elapsed(self, fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10) -> Any:
        return super().elapsed(fn, device, warmup=0, repeats=warmup + repeats)


class ReturnsTheWarmup(TimesTheWarmup):
    def elapsed(self, fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10) -> Any:
        return super().elapsed(fn, device, warmup=warmup, repeats=repeats)[:repeats]


class WarmupAmongTheRepeats(Timing):
    def elapsed(self, fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10) -> Any:
        return super().elapsed(fn, device, warmup=warmup, repeats=repeats - warmup)


class NoWarmup(Timing):
    def elapsed(self, fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10) -> Any:
        return super().elapsed(fn, device, warmup=0, repeats=repeats)


class ReturnsTheMean(Timing):
    def elapsed(self, fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10) -> Any:
        return sum(super().elapsed(fn, device, warmup=warmup, repeats=repeats)) / repeats


class DividesTheTotal(Timing):
    def elapsed(self, fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10) -> Any:
        return [sum(super().elapsed(fn, device, warmup=warmup, repeats=repeats)) / repeats] * repeats


TIMING = "Timing what runs later"
RUN = 'In the case "{case}" a run came out as {one} seconds where {wanted_one} is right: '
NO_WAIT = 'On the second device, in the case "{case}", a run came out as {one} seconds where {wanted_one} is right: '
LATE = NO_WAIT + "the clock was stopped when the work had been handed over, and not when it was done."
MISTAKES = [
    Mistake("no-synchronize", NeverWaits().elapsed, LATE, TIMING),
    Mistake("times-warmup", TimesTheWarmup().elapsed, 'In the case "{case}" the list holds {count} times where '
            "{wanted_count} are wanted, and the first is {first} seconds: the runs of the warm-up are among them.",
            TIMING),
    Mistake("uses-wall-clock", WallClock().elapsed, RUN + "`time.time` follows the clock on the wall, which may be "
            "set back.", TIMING),
    Mistake("in-milliseconds", Milliseconds().elapsed, 'In the case "{case}" a run came out as {one} where '
            "{wanted_one} is right: seconds are wanted.", TIMING),
    Mistake("no-synchronize", WaitsBeforeOnly().elapsed, LATE, TIMING),
    *(Mistake("no-synchronize", timing.elapsed, NO_WAIT + "the clock was started while the device was still busy with "
              "the runs before.", TIMING) for timing in (WaitsAfterOnly(), StartsBeforeWaiting())),
    Mistake("uses-process-time", ProcessTime().elapsed, RUN + "`process_time` adds up what the threads of this "
            "process compute, and does not measure the time that passes.", TIMING),
    Mistake("times-warmup", ReturnsTheWarmup().elapsed, 'In the case "{case}" the function ran {runs} times and the '
            "first time is {first} seconds where {wanted_first} is right: it was taken in the warm-up.", TIMING),
    Mistake("warmup-among-the-repeats", WarmupAmongTheRepeats().elapsed, 'In the case "{case}" the list holds {count} '
            "times where {wanted_count} are wanted: the runs of the warm-up come before the repeats, and are not "
            "counted among them.",
            TIMING),
    Mistake("no-warmup", NoWarmup().elapsed, 'In the case "{case}" the function ran {runs} times, and the first time '
            "is {first} seconds where {wanted_first} is right: the very first runs are slow, so `warmup` runs come "
            "before those that count.",
            TIMING),
    Mistake("returns-the-mean", ReturnsTheMean().elapsed, 'In the case "{case}" the answer returned {got}: a list '
            'with a number for each run is wanted, because a single one hides the outliers.', TIMING),
    Mistake("waits-without-accelerator", WaitsWithoutAsking().elapsed, "On a machine with only a CPU the call raised "
            "{error}: there is nothing to wait for, and so `torch.accelerator.synchronize()` refuses. Ask for the kind "
            "of device first.", TIMING),
    Mistake("divides-the-total", DividesTheTotal().elapsed, RUN + "every run was given the same time, the mean of all.",
            TIMING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(name: str, warmup: int | None, repeats: int | None, host: float) -> Case:
        first, rest = 3 if warmup is None else warmup, 10 if repeats is None else repeats
        seconds = [5.0] * first + draw.uniform(0.001, 0.5, rest + 2, dtype=torch.float64).tolist()
        inputs: dict[str, Any] = {"seconds": seconds, "host": host, "warmup": warmup, "repeats": repeats}
        return case(name, rtol=0.0, atol=1e-6, **inputs, like=torch.zeros(1))

    return [
        drawn("drawn numbers of runs", draw.size(1, 6), draw.size(2, 12), 0.001),
        drawn("no warm-up, one run", 0, 1, 0.001),
        drawn("warm-up as by default", None, draw.size(2, 6), 0.01),
        drawn("repeats as by default", 1, None, 0.002),
    ]


# Right answers unlike the reference


def elapsed_by_module(
    fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10
) -> list[float]:
    synchronize = torch.get_device_module(device).synchronize
    for _ in range(warmup):
        fn()
    synchronize()
    times = []
    for _ in range(repeats):
        start = clock()
        fn()
        synchronize()
        times.append(clock() - start)
    return times


def elapsed_in_nanoseconds(
    fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10
) -> list[float]:
    def now() -> int:
        if device.type != "cpu":
            torch.accelerator.synchronize()
        return monotonic_ns()

    times = []
    for run in range(warmup + repeats):
        before = now()
        fn()
        after = now()
        if run >= warmup:
            times.append((after - before) / 1e9)
    return times


def elapsed_with_timeit(
    fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10
) -> list[float]:
    import time

    def waited() -> None:
        fn()
        if device.type in ("cuda", "mps", "xpu") or torch.accelerator.is_available():
            torch.accelerator.synchronize(device if device.type != "cpu" else None)

    for _ in range(warmup):
        waited()
    if warmup == 0 and device.type != "cpu":
        torch.accelerator.synchronize(device)
    results = []
    for number in range(repeats):
        start = timeit.default_timer() if number % 2 else time.monotonic()
        waited()
        results.append((timeit.default_timer() if number % 2 else time.monotonic()) - start)
    return results


def elapsed_by_repeating(
    fn: Callable[[], object], device: torch.device, *, warmup: int = 3, repeats: int = 10
) -> list[float]:
    wait = torch.get_device_module(device).synchronize

    def whole() -> None:
        fn()
        wait()

    for _ in range(warmup):
        fn()
    return timeit.repeat(whole, setup=wait, number=1, repeat=repeats)


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    elapsed_by_module,
    elapsed_in_nanoseconds,
    elapsed_with_timeit,
    elapsed_by_repeating,
]
