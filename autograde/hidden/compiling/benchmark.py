"""The exercise `benchmark`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import gc
import random
import statistics
import time
import timeit
from collections.abc import Callable
from statistics import quantiles
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np
import torch

from autograde.hidden.common import combined
from autograde.source.mistakes import Mistake
from torchcourse.exercises.compiling.benchmark import SPREAD
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The functions take turns, so that a machine that slows down does so for all. Waiting before and after each"
    " call takes the queue out of the timing. Two runs first, which compile and warm up. Median and quartiles "
    "do not care about one slow outlier, as a mean would."
)
"""Why the reference is written as it is."""
REQUIRED = ("includes-compile-time", "no-synchronize")
"""The mistakes that a check must always be able to name."""


class Stopwatch:
    """A right benchmark. Each mistake below is this one with one method written otherwise."""

    def benchmark(self, fns: Any, *args: Any, device: Any, repeats: int = 30) -> Any:
        self.wait = torch.get_device_module(device).synchronize
        for fn in fns.values():
            self.warm_up(fn, args)
        times: dict[str, list[float]] = {name: [] for name in fns}
        for name in self.order(list(fns), repeats):
            times[name].append(self.once(fns[name], args))
        return {name: {"median": self.middle(t), "iqr": self.spread(t)} for name, t in times.items()}

    def warm_up(self, fn: Any, args: Any) -> None:
        fn(*args)
        fn(*args)

    def order(self, names: list[str], repeats: int) -> list[str]:
        return names * repeats

    def once(self, fn: Any, args: Any) -> float:
        self.wait()
        start = time.perf_counter()
        fn(*args)
        self.wait()
        return time.perf_counter() - start

    def middle(self, times: list[float]) -> float:
        return statistics.median(times)

    def spread(self, times: list[float]) -> float:
        low, high = self.quartiles(times)
        return high - low

    def quartiles(self, times: list[float]) -> list[float]:
        quarters = torch.tensor([0.25, 0.75], dtype=torch.float64)
        found: list[float] = torch.tensor(times, dtype=torch.float64).quantile(quarters).tolist()
        return found


class NeverWarmsUp(Stopwatch):
    def warm_up(self, fn: Any, args: Any) -> None:
        pass


class NeverWaits(Stopwatch):
    def once(self, fn: Any, args: Any) -> float:
        start = time.perf_counter()
        fn(*args)
        return time.perf_counter() - start


class WaitsOnce(NeverWaits):
    def order(self, names: list[str], repeats: int) -> list[str]:
        self.wait()
        return super().order(names, repeats)


class WaitsBeforeOnly(Stopwatch):
    def once(self, fn: Any, args: Any) -> float:
        self.wait()
        start = time.perf_counter()
        fn(*args)
        return time.perf_counter() - start


class WaitsAfterOnly(Stopwatch):
    def once(self, fn: Any, args: Any) -> float:
        start = time.perf_counter()
        fn(*args)
        self.wait()
        return time.perf_counter() - start


class WaitsAfterOnlyWarmedUpOnce(WaitsAfterOnly):
    def warm_up(self, fn: Any, args: Any) -> None:
        fn(*args)


class WallClock(Stopwatch):
    def once(self, fn: Any, args: Any) -> float:
        self.wait()
        start = time.time()
        fn(*args)
        self.wait()
        return time.time() - start


class ProcessTime(Stopwatch):
    def once(self, fn: Any, args: Any) -> float:
        self.wait()
        start = time.process_time()
        fn(*args)
        self.wait()
        return time.process_time() - start


class OneAfterTheOther(Stopwatch):
    def order(self, names: list[str], repeats: int) -> list[str]:
        return [name for name in names for _ in range(repeats)]


class Mean(Stopwatch):
    def middle(self, times: list[float]) -> float:
        return statistics.fmean(times)


class Least(Stopwatch):
    def middle(self, times: list[float]) -> float:
        return min(times)


class StandardDeviation(Stopwatch):
    def spread(self, times: list[float]) -> float:
        return statistics.stdev(times)


class WholeRange(Stopwatch):
    def spread(self, times: list[float]) -> float:
        return max(times) - min(times)


class UpperQuartile(Stopwatch):
    def spread(self, times: list[float]) -> float:
        return self.quartiles(times)[1]


class Milliseconds(Stopwatch):
    def once(self, fn: Any, args: Any) -> float:
        return 1000 * super().once(fn, args)


class OwnRepeats(Stopwatch):
    def order(self, names: list[str], repeats: int) -> list[str]:
        return names * 30


class PassesTheTuple(Stopwatch):
    def benchmark(self, fns: Any, *args: Any, device: Any, repeats: int = 30) -> Any:
        return super().benchmark(fns, args, device=device, repeats=repeats)


class NeedsADevice(Stopwatch):
    def benchmark(self, fns: Any, *args: Any, device: Any, repeats: int = 30) -> Any:
        return super().benchmark(fns, *args, device=device.type, repeats=repeats)


class NeedsAString(Stopwatch):
    def benchmark(self, fns: Any, *args: Any, device: Any, repeats: int = 30) -> Any:
        self.on_cpu = device == "cpu"
        return super().benchmark(fns, *args, device=device, repeats=repeats)

    def once(self, fn: Any, args: Any) -> float:
        if not self.on_cpu:
            self.wait = torch.accelerator.synchronize
        return super().once(fn, args)


class OtherQuartiles(Stopwatch):
    """Not a mistake: another convention, which differs where one of few runs is far off."""

    def quartiles(self, times: list[float]) -> list[float]:
        low, _, high = statistics.quantiles(times, n=4)
        return [low, high]


def by_either_quartiles(name: str, fault: type[Stopwatch], sentence: str) -> list[Mistake]:
    """Return a mistake that moves single runs, once for each convention of quartiles."""
    faults: list[Any] = [fault, combined(fault, OtherQuartiles)]
    return [Mistake(name, each().benchmark, sentence, MEASURING) for each in faults]


MEASURING = "What it costs, and measuring it"
TIMES = 'In the case "{case}", the {what} came out as {got} where {want} is wanted: '
UNFINISHED = TIMES + (
    "the device takes work into a queue and lets the host go on. Wait for the device before a stopwatch starts, and "
    "again before it stops."
)
MISTAKES = [
    *by_either_quartiles("includes-compile-time", NeverWarmsUp, TIMES + "the first call compiles, and was timed along "
                         "with the others."),
    *by_either_quartiles("no-synchronize", NeverWaits, UNFINISHED),
    Mistake("not-interleaved", OneAfterTheOther().benchmark, 'In the case "{case}", the variants ran {turns}, and '
            "should take turns: whatever changes on the machine meanwhile would count against one of them alone.",
            MEASURING),
    Mistake("uses-wall-clock", WallClock().benchmark, TIMES + "`time.time` follows the clock on the wall, "
            "which may be set back.", MEASURING),
    Mistake("uses-process-time", ProcessTime().benchmark, TIMES + "`time.process_time` adds up what all threads "
            "compute, and stands still while the program waits.", MEASURING),
    Mistake("mean-not-median", Mean().benchmark, TIMES + "that is the mean, which a single late run pulls up.",
            MEASURING),
    Mistake("spread-is-standard-deviation", StandardDeviation().benchmark, TIMES + "that is the standard deviation; "
            "the interquartile range is the distance between the quartiles, which outliers do not move.", MEASURING),
    *by_either_quartiles("no-synchronize", WaitsOnce, UNFINISHED + " That was done only once, before the first run."),
    *by_either_quartiles("no-synchronize", WaitsBeforeOnly, UNFINISHED + " That was done only before the start."),
    *(mistake for fault in (WaitsAfterOnly, WaitsAfterOnlyWarmedUpOnce) for mistake in by_either_quartiles(
        "no-synchronize", fault, UNFINISHED + " That was done only before the stop, so the warm-up was still running "
        "when the first run began.")),
    Mistake("ignores-repeats", OwnRepeats().benchmark, 'In the case "{case}" each function ran {got} times: `repeats` '
            "asks for {number} timed runs of each.", MEASURING),
    Mistake("arguments-not-unpacked", PassesTheTuple().benchmark, "The functions were called with {got}, and not with "
            "the arguments as given: `fn(args)` hands over a single tuple, `fn(*args)` everything that is in it.",
            MEASURING),
    Mistake("needs-a-device-object", NeedsADevice().benchmark, "In the case \"{case}\" the call raised {error}: "
            "`device` may be a string, such as \"cpu\"; `torch.device(device)` makes a device of either.", MEASURING),
    Mistake("needs-a-string", NeedsAString().benchmark, 'In the case "{case}" the call raised {error}: `device` may '
            "also be a `torch.device`, which is not equal to any string; compare its `type`.", MEASURING),
    Mistake("spread-is-whole-range", WholeRange().benchmark, TIMES + "that is the distance from the fastest to the "
            "slowest run.", MEASURING),
    Mistake("spread-is-upper-quartile", UpperQuartile().benchmark, TIMES + "that is the upper quartile; subtract the "
            "lower one from it.", MEASURING),
    Mistake("least-not-median", Least().benchmark, TIMES + "that is the fastest run of {number}.", MEASURING),
    Mistake("not-in-seconds", Milliseconds().benchmark, TIMES + "seconds are asked for, and these are milliseconds.",
            MEASURING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    near: dict[str, Any] = {"rtol": 0.02, "atol": 1e-5, "x": torch.ones(1)}
    bases = {name: draw.size(1, 90) / 1000 for name in "abcd"}
    return [
        case("four variants, fifty repeats", bases=bases, pattern=SPREAD, repeats=50, **near),
        case("five repeats", bases={"one": 0.25, "two": 0.125}, pattern=[0.8, 1.5, 1.0, 0.8, 1.5], repeats=5, **near),
    ]


# Right answers unlike the reference


def benchmark_shuffled(
    fns: dict[str, Callable[..., Any]], *args: Any, device: Any, repeats: int = 30
) -> dict[str, dict[str, float]]:
    device = torch.device(device)

    def settle() -> None:
        if device.type != "cpu":
            torch.accelerator.synchronize()

    for fn in fns.values():
        for _ in range(3):
            fn(*args)
        settle()
    times: dict[str, list[float]] = {name: [] for name in fns}
    for _ in range(repeats):
        for name in random.sample(list(fns), len(fns)):
            settle()
            begun = perf_counter_ns()
            fns[name](*args)
            settle()
            times[name].append((perf_counter_ns() - begun) / 1e9)
    return {
        name: {"median": float(np.median(t)), "iqr": float(np.subtract(*np.percentile(t, [75, 25])))}
        for name, t in times.items()
    }


def benchmark_with_timeit(
    fns: dict[str, Callable[..., Any]], *args: Any, device: Any, repeats: int = 30
) -> dict[str, dict[str, float]]:
    wait: Any = torch.accelerator.synchronize if torch.device(device).type != "cpu" else (lambda: None)

    def timed(fn: Callable[..., Any]) -> Callable[[], None]:
        def run() -> None:
            fn(*args)
            wait()

        return run

    stopwatches = {name: timeit.Timer(timed(fn), setup=wait) for name, fn in fns.items()}
    for watch in stopwatches.values():
        watch.timeit(2)
    rounds = [{name: watch.timeit(1) for name, watch in stopwatches.items()} for _ in range(repeats)]
    out = {}
    for name in fns:
        low, middle, high = quantiles([r[name] for r in rounds], n=4)
        out[name] = {"median": middle, "iqr": high - low, "runs": repeats}
    return out


def benchmark_in_blocks(
    fns: dict[str, Callable[..., Any]], *args: Any, device: Any, repeats: int = 30
) -> dict[str, dict[str, float]]:
    module = torch.get_device_module(torch.device(device))
    samples: dict[str, list[float]] = {}
    gc.collect()
    for round_number in range(repeats + 1):
        for name, fn in fns.items():
            module.synchronize()
            before = perf_counter()
            fn(*args)
            module.synchronize()
            after = perf_counter()
            if round_number:
                samples.setdefault(name, []).append(after - before)
    result: dict[str, dict[str, float]] = {}
    for name, taken in samples.items():
        t = torch.tensor(taken, dtype=torch.float64)
        result[name] = {"median": t.quantile(0.5).item(), "iqr": (t.quantile(0.75) - t.quantile(0.25)).item()}
    assert time.time() > 0
    return result


RIGHT_ANSWERS: list[Callable[..., Any]] = [benchmark_shuffled, benchmark_with_timeit, benchmark_in_blocks]
