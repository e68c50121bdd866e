"""The exercise `latency`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np
import torch

from autograde.source.mistakes import Mistake
from torchcourse.exercises.router.latency import TIGHT, mixed
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Each request has a stopwatch of its own, because percentiles need single times: a mean hides the one customer in "
    "twenty who waits. The device is awaited before the start, so that nothing earlier is counted, and before the "
    "stop, so that all of the request is."
)
"""Why the reference is written as it is."""
REQUIRED = ("mean-not-percentile", "counts-warmup", "times-a-batch", "no-synchronize")
"""The mistakes that a check must always be able to name."""


class Stopwatch:
    """A right measurement; a mistake overrides one of its methods."""

    def latency(self, route: Any, requests: Any, *, warmup: int = 5) -> Any:
        self.warm_up(route, requests, warmup)
        return self.summary([self.unit() * self.once(route, request) for request in self.measured(requests, warmup)])

    def warm_up(self, route: Any, requests: Any, warmup: int) -> None:
        for n in range(warmup):
            route(requests[n % len(requests)])

    def measured(self, requests: Any, warmup: int) -> Any:
        return requests

    def before(self) -> None:
        self.wait()

    def after(self) -> None:
        self.wait()

    def wait(self) -> None:
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def once(self, route: Any, request: Any) -> float:
        self.before()
        start = time.perf_counter()
        route(request)
        self.after()
        return time.perf_counter() - start

    def unit(self) -> float:
        return 1000.0

    def summary(self, times: list[float]) -> Any:
        return {"p50": float(np.percentile(times, 50)), "p95": float(np.percentile(times, 95))}


class Mean(Stopwatch):
    def summary(self, times: list[float]) -> Any:
        return {"p50": statistics.fmean(times), "p95": float(np.percentile(times, 95))}


class MeanAndLargest(Stopwatch):
    def summary(self, times: list[float]) -> Any:
        return {"p50": statistics.fmean(times), "p95": max(times)}


class MeanAndSpread(Stopwatch):
    def summary(self, times: list[float]) -> Any:
        return {"p50": statistics.fmean(times), "p95": statistics.fmean(times) + 1.645 * statistics.pstdev(times)}


class Largest(Stopwatch):
    def summary(self, times: list[float]) -> Any:
        return {"p50": float(np.percentile(times, 50)), "p95": max(times)}


class MostFrequent(Stopwatch):
    def summary(self, times: list[float]) -> Any:
        return {"p50": statistics.mode(round(t, 6) for t in times), "p95": float(np.percentile(times, 95))}


class Unsorted(Stopwatch):
    def summary(self, times: list[float]) -> Any:
        return {"p50": times[len(times) // 2], "p95": times[int(0.95 * len(times))]}


class Smallest(Stopwatch):
    def summary(self, times: list[float]) -> Any:
        return {"p50": float(np.percentile(times, 50)), "p95": float(np.percentile(times, 5))}


class NeverWarmsUp(Stopwatch):
    def warm_up(self, route: Any, requests: Any, warmup: int) -> None:
        pass


class CountsWarmup(NeverWarmsUp):
    def measured(self, requests: Any, warmup: int) -> Any:
        return [*(requests[n % len(requests)] for n in range(warmup)), *requests]


class CountsWarmupInAMean(CountsWarmup):
    def summary(self, times: list[float]) -> Any:
        return {"p50": statistics.fmean(times), "p95": float(np.percentile(times, 95))}


class WarmsUpWithTheFirst(Stopwatch):
    def warm_up(self, route: Any, requests: Any, warmup: int) -> None:
        for _ in range(warmup):
            route(requests[0])


class MeasuresTheFirst(Stopwatch):
    def measured(self, requests: Any, warmup: int) -> Any:
        return requests[:1] * len(requests)


class NeverBeginsAgain(Stopwatch):
    def warm_up(self, route: Any, requests: Any, warmup: int) -> None:
        for request in requests[:warmup]:
            route(request)


class WarmsUpOnce(Stopwatch):
    def warm_up(self, route: Any, requests: Any, warmup: int) -> None:
        route(requests[0])


class GoesOnAfterTheWarmUp(Stopwatch):
    def measured(self, requests: Any, warmup: int) -> Any:
        count = max(warmup + 1, len(requests))
        return [requests[n % len(requests)] for n in range(warmup, count)]


class DropsAsManyAsTheWarmUp(Stopwatch):
    def measured(self, requests: Any, warmup: int) -> Any:
        return requests[warmup:] or requests


class DropsTheFirstTimes(Stopwatch):
    """Measures all requests, and drops the first times in place of a warm-up."""

    def latency(self, route: Any, requests: Any, *, warmup: int = 5) -> Any:
        times = [1000 * self.once(route, request) for request in requests]
        return self.summary(times[warmup:] or times)


class DropsTheFirst(Stopwatch):
    def warm_up(self, route: Any, requests: Any, warmup: int) -> None:
        for request in requests[:warmup]:
            route(request)

    def measured(self, requests: Any, warmup: int) -> Any:
        return requests[warmup:] or requests[-1:]


def times_a_batch(route: Any, requests: Any, *, warmup: int = 5) -> Any:
    watch = Stopwatch()
    watch.warm_up(route, requests, warmup)
    each = 1000 * watch.once(route, requests) / len(requests)
    return {"p50": each, "p95": each}


def times_the_loop(route: Any, requests: Any, *, warmup: int = 5) -> Any:
    watch = Stopwatch()
    watch.warm_up(route, requests, warmup)
    watch.wait()
    start = time.perf_counter()
    for request in requests:
        route(request)
    watch.wait()
    each = 1000 * (time.perf_counter() - start) / len(requests)
    return {"p50": each, "p95": each}


class NeverWaits(Stopwatch):
    def wait(self) -> None:
        pass


class WaitsBeforeOnly(Stopwatch):
    def after(self) -> None:
        pass


class WaitsAfterOnly(Stopwatch):
    def before(self) -> None:
        pass


class WaitsAtTheEnd(Stopwatch):
    def before(self) -> None:
        pass

    def after(self) -> None:
        pass

    def summary(self, times: list[float]) -> Any:
        self.wait()
        return super().summary(times)


class WaitsWithoutAsking(Stopwatch):
    def wait(self) -> None:
        torch.accelerator.synchronize()


class Seconds(Stopwatch):
    def unit(self) -> float:
        return 1.0


class Microseconds(Stopwatch):
    def unit(self) -> float:
        return 1e6


class AList(Stopwatch):
    def summary(self, times: list[float]) -> Any:
        return [float(np.percentile(times, 50)), float(np.percentile(times, 95))]


TIME = "How long one request takes"
IS = 'In the case "{case}" {what} is {got} where {want} is wanted: '
WAIT = IS + "the device is still working when `route` has returned. Wait for it before the start and before the stop."
MISTAKES = [
    Mistake("mean-not-percentile", Mean().latency, IS + "that is the mean, which a few late requests pull up.", TIME),
    Mistake("mean-not-percentile", MeanAndLargest().latency, IS + "`p50` is a mean here, and `p95` the longest time.",
            TIME),
    Mistake("mean-not-percentile", MeanAndSpread().latency, IS + "`p50` is a mean here, and `p95` the mean plus some "
            "standard deviations. Times are not normally distributed.", TIME),
    Mistake("largest-not-percentile", Largest().latency, IS + "that is the longest time of all. One request in twenty "
            "takes longer than the 95th percentile.", TIME),
    Mistake("mode-not-median", MostFrequent().latency, IS + "that is the most frequent time; half of the requests "
            "take longer than the median.", TIME),
    Mistake("percentile-of-unsorted", Unsorted().latency, IS + "the times were not sorted before one was "
            "picked.", TIME),
    Mistake("fast-tail", Smallest().latency, IS + "that is the 5th percentile. The 95th tells how long the slow "
            "requests take.", TIME),
    Mistake("counts-warmup", CountsWarmup().latency, IS + "the first requests, which take longer, were measured along "
            "with the others.", TIME),
    Mistake("counts-warmup", NeverWarmsUp().latency, IS + "there was no warm-up, so `route` ran {calls} times and not "
            "{want_calls}, and the slow first requests were measured.", TIME),
    Mistake("counts-warmup", CountsWarmupInAMean().latency, IS + "the first requests, which take longer, were measured "
            "along with the others, and `p50` is the mean of all, not the median.", TIME),
    Mistake("warms-up-on-list-only", NeverBeginsAgain().latency, IS + "`route` ran {calls} times and not {want_calls}, "
            "because the warm-up ended with the list. It has to start the list again until `warmup` requests are "
            "done.", TIME),
    Mistake("warms-up-once", WarmsUpOnce().latency, IS + "`route` ran {calls} times and not {want_calls}: `warmup` "
            "says how many requests come first.", TIME),
    Mistake("drops-requests", DropsTheFirst().latency, 'In the case "{case}" `route` ran {calls} times and not '
            '{want_calls}: the requests of the warm-up were never measured. Each request has to be measured once.',
            TIME),
    Mistake("drops-requests", GoesOnAfterTheWarmUp().latency, "In the case \"{case}\" `route` ran {calls} times and "
            "not {want_calls}: after the warm-up the list begins anew, and each request is measured once.", TIME),
    Mistake("drops-requests", DropsAsManyAsTheWarmUp().latency, "In the case \"{case}\" `route` ran {calls} times and "
            "not {want_calls}: the requests of the warm-up are measured as well, each once.", TIME),
    Mistake("drops-requests", DropsTheFirstTimes().latency, "In the case \"{case}\" `route` ran {calls} times and not "
            "{want_calls}: the first requests of the list served as the warm-up, and each one has to be measured after "
            "that.", TIME),
    Mistake("always-the-first-request", WarmsUpWithTheFirst().latency, 'In the case "{case}" the {what} were {got} and '
            'should be {want}: one request may take a different path from the next, so warm up with all of them in '
            'turn.', TIME),
    Mistake("always-the-first-request", MeasuresTheFirst().latency, 'In the case "{case}" the {what} were {got} and '
            'should be {want}.',
            TIME),
    Mistake("times-a-batch", times_a_batch, 'In the case "{case}" `route` got {asked} where one request is wanted: '
            "a batch divided by its size is throughput, and no customer gets an answer that fast.", TIME),
    Mistake("times-the-loop", times_the_loop, IS + "one stopwatch ran for all requests, and its time was divided. That "
            "gives a mean, and no percentiles.", TIME),
    Mistake("no-synchronize", NeverWaits().latency, WAIT, TIME),
    Mistake("no-synchronize", WaitsBeforeOnly().latency, WAIT + " Here the only wait is before the start.", TIME),
    Mistake("no-synchronize", WaitsAfterOnly().latency, WAIT + " Here the only wait is before the stop, so the first "
            "time includes the rest of the warm-up.", TIME),
    Mistake("no-synchronize", WaitsAtTheEnd().latency, WAIT + " Here the only wait came when all was over.", TIME),
    Mistake("synchronizes-without-asking", WaitsWithoutAsking().latency, "The call raised {error}: on a machine "
            "without an accelerator there is nothing to wait for. Ask `is_available()` first.", TIME),
    Mistake("in-seconds", Seconds().latency, IS + "milliseconds are asked for, and these are seconds.", TIME),
    Mistake("in-microseconds", Microseconds().latency, IS + "milliseconds are asked for.", TIME),
    Mistake("returns-a-list", AList().latency, "The call gave {returned}; a dict with `p50` and `p95` is asked for.",
            TIME),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    near: dict[str, Any] = {"rtol": 0.02, "atol": 1e-4, "x": torch.ones(1)}
    return [
        case("many requests again", **near, times=mixed(draw, TIGHT), count=120, warmup=draw.size(6, 12)),
        case("one request, without a warm-up", **near, times=[0.25], count=1, warmup=0),
    ]


# Right answers unlike the reference


def with_nanoseconds(route: Any, requests: Any, *, warmup: int = 5) -> dict[str, float]:
    for n in range(warmup):
        result = route(requests[n % len(requests)])
    taken = []
    for request in requests:
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        begun = perf_counter_ns()
        result = route(request)
        torch.get_device_module(result.device).synchronize()
        taken.append((perf_counter_ns() - begun) / 1e6)
    middle, late = np.quantile(taken, [0.5, 0.95], method="nearest")
    return {"p95": float(late), "p50": float(middle)}


def by_sorting(route: Any, requests: Any, *, warmup: int = 5) -> dict[str, Any]:
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    wait = torch.get_device_module(device).synchronize
    times: list[float] = []
    for n in range(-warmup, len(requests)):
        wait()
        start = time.monotonic()
        route(requests[n % len(requests)])
        wait()
        if n >= 0:
            times.append(1e3 * (time.monotonic() - start))
    times.sort()
    return {"p50": statistics.median(times), "p95": times[min(int(0.95 * len(times)), len(times) - 1)], "n": len(times)}


RIGHT_ANSWERS: list[Callable[..., Any]] = [with_nanoseconds, by_sorting]
