"""The exercise `hot_ops`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from autograde.source.mistakes import Mistake
from torchcourse.exercises.efficiency.hot_ops import profiled
from torchcourse.model.exercise import Case, Draw

WHY = (
    "Self time leaves out the operators inside of an operator, so `aten::matmul` is not charged for the `aten::mm` "
    "that it calls. The warm-up call happens before the profiler starts. Where there is a device, its time counts, "
    "since the host only launches and goes on."
)
"""Why the reference is written as it is."""
REQUIRED = ("total-not-self-time", "counts-warmup", "lists-ranges")
"""The mistakes that a check must always be able to name."""

READ = "Measure first"


class Profiled:
    """A right answer; a mistake overrides one of its methods."""

    def __call__(self, fn: Callable[..., Any], *args: Any, top: int = 5) -> Any:
        self.warm_up(fn, *args)
        with profile(**self.options()) as run:
            self.run(fn, *args)
        entries = [entry for entry in run.key_averages() if self.is_listed(entry.key)]
        on_device = any(entry.self_device_time_total for entry in self.deciding(run, entries))
        entries.sort(key=lambda entry: self.time(entry, on_device), reverse=True)
        return self.named(entries, top)

    def deciding(self, run: Any, entries: list[Any]) -> list[Any]:
        return entries

    def options(self) -> dict[str, Any]:
        return {}

    def warm_up(self, fn: Callable[..., Any], *args: Any) -> None:
        fn(*args)

    def run(self, fn: Callable[..., Any], *args: Any) -> None:
        fn(*args)

    def is_listed(self, key: str) -> bool:
        return key.startswith("aten::")

    def time(self, entry: Any, on_device: bool) -> float:
        return float(entry.self_device_time_total if on_device else entry.self_cpu_time_total)

    def named(self, entries: list[Any], top: int) -> Any:
        return [entry.key for entry in entries[:top]]


class FirstArgumentOnly(Profiled):
    def warm_up(self, fn: Callable[..., Any], *args: Any) -> None:
        fn(args[0])

    def run(self, fn: Callable[..., Any], *args: Any) -> None:
        fn(args[0])


class Total(Profiled):
    def time(self, entry: Any, on_device: bool) -> float:
        return float(entry.device_time_total if on_device else entry.cpu_time_total)


class NoWarmup(Profiled):
    def warm_up(self, fn: Callable[..., Any], *args: Any) -> None:
        pass


class WarmupInside(NoWarmup):
    def run(self, fn: Callable[..., Any], *args: Any) -> None:
        fn(*args)
        fn(*args)


class WithRanges(Profiled):
    def is_listed(self, key: str) -> bool:
        return True


class InARange(WithRanges):
    def run(self, fn: Callable[..., Any], *args: Any) -> None:
        with record_function("call"):
            fn(*args)


class HostOnly(Profiled):
    def options(self) -> dict[str, Any]:
        return {"activities": [ProfilerActivity.CPU]}


class TotalOnHost(HostOnly):
    def time(self, entry: Any, on_device: bool) -> float:
        return float(entry.device_time_total if on_device else entry.cpu_time_total)


class NoWarmupOnHost(HostOnly):
    def warm_up(self, fn: Callable[..., Any], *args: Any) -> None:
        pass


class WarmupInsideOnHost(NoWarmupOnHost):
    def run(self, fn: Callable[..., Any], *args: Any) -> None:
        fn(*args)
        fn(*args)


class WithRangesOnHost(HostOnly):
    def is_listed(self, key: str) -> bool:
        return True


class HostTime(Profiled):
    def time(self, entry: Any, on_device: bool) -> float:
        return float(entry.self_cpu_time_total)


class DeviceTime(Profiled):
    def time(self, entry: Any, on_device: bool) -> float:
        return float(entry.self_device_time_total)


class EachByItsOwn(Profiled):
    def time(self, entry: Any, on_device: bool) -> float:
        return float(entry.self_device_time_total or entry.self_cpu_time_total)


class SumOfBoth(Profiled):
    def time(self, entry: Any, on_device: bool) -> float:
        return float(entry.self_device_time_total + entry.self_cpu_time_total)


class AnyEntryDecides(Profiled):
    def deciding(self, run: Any, entries: list[Any]) -> list[Any]:
        return list(run.key_averages())


class ByCount(Profiled):
    def time(self, entry: Any, on_device: bool) -> float:
        return float(entry.count)


class PerCall(Profiled):
    def time(self, entry: Any, on_device: bool) -> float:
        return super().time(entry, on_device) / float(entry.count)


class LeastFirst(Profiled):
    def time(self, entry: Any, on_device: bool) -> float:
        return -super().time(entry, on_device)


class MostLast(Profiled):
    def named(self, entries: list[Any], top: int) -> Any:
        return [entry.key for entry in entries[:top]][::-1]


class IgnoresTop(Profiled):
    def named(self, entries: list[Any], top: int) -> Any:
        return [entry.key for entry in entries]


class CutBeforeFiltering(WithRanges):
    def named(self, entries: list[Any], top: int) -> Any:
        return [entry.key for entry in entries[:top] if entry.key.startswith("aten::")]


class CutBeforeFilteringOnHost(HostOnly, CutBeforeFiltering):
    pass


class TopBeforeSorting(Profiled):
    def named(self, entries: list[Any], top: int) -> Any:
        return sorted(entry.key for entry in entries[:top])


class Stripped(Profiled):
    def named(self, entries: list[Any], top: int) -> Any:
        return [entry.key.removeprefix("aten::") for entry in entries[:top]]


class WithTimes(Profiled):
    def named(self, entries: list[Any], top: int) -> Any:
        return {entry.key: entry.self_cpu_time_total for entry in entries[:top]}


class EachEvent(Profiled):
    def __call__(self, fn: Callable[..., Any], *args: Any, top: int = 5) -> Any:
        fn(*args)
        with profile() as run:
            fn(*args)
        entries = [event for event in run.events() or [] if event.name.startswith("aten::")]
        on_device = any(event.self_device_time_total for event in entries)
        entries.sort(key=lambda event: self.time(event, on_device), reverse=True)
        return [event.name for event in entries[:top]]


NAMED = 'For "{case}" the operators are {names} where {want_names} is wanted: '
TOO = ". Also, a device's time is missing: it was not profiled, or not looked at."
HOST = "these are the host's times, those of launching. The device's own were not profiled, or not looked at."
DEVICE = 'On the second device, for "{case}", the operators are {names} where {want_names} is wanted: '
MISTAKES = [
    Mistake("total-not-self-time", Total(), NAMED + "they were sorted by total time, so an operator that only calls "
            "others comes before those that do the work.", READ),
    Mistake("counts-warmup", NoWarmup(), NAMED + "the first call of `fn` was profiled, with what only a first call "
            "does.", READ),
    Mistake("counts-warmup", WarmupInside(), NAMED + "the warm-up call ran under the profiler as well.", READ),
    Mistake("lists-ranges", WithRanges(), NAMED + "a range that somebody named with `record_function` is not an "
            "operator.", READ),
    Mistake("lists-ranges", InARange(), NAMED + "your own range around the call is among them; it is not an operator.",
            READ),
    Mistake("total-not-self-time", TotalOnHost(), NAMED + "they were sorted by total time, so an operator that only "
            "calls others comes before those that do the work" + TOO, READ),
    Mistake("counts-warmup", NoWarmupOnHost(), NAMED + "the first call of `fn` was profiled, with what only a first "
            "call does" + TOO, READ),
    Mistake("counts-warmup", WarmupInsideOnHost(), NAMED + "the warm-up call ran under the profiler as well" + TOO,
            READ),
    Mistake("lists-ranges", WithRangesOnHost(), NAMED + "a range that somebody named with `record_function` is not an "
            "operator" + TOO, READ),
    Mistake("host-time", HostOnly(), DEVICE + HOST, READ),
    Mistake("host-time", HostTime(), DEVICE + HOST, READ),
    Mistake("device-time-only", DeviceTime(), NAMED + "they were sorted by the device's time, which is zero for all of "
            "them on the CPU.",
            READ),
    Mistake("mixes-host-and-device", EachByItsOwn(), DEVICE + "an operator without time on the device was sorted by "
            "its time on the host, among the others' times on the device.", READ),
    Mistake("mixes-host-and-device", SumOfBoth(), DEVICE + "the host's time was added to the device's; where there is "
            "any on the device, that alone counts.", READ),
    Mistake("any-entry-decides", AnyEntryDecides(), DEVICE + "a range had time on the device, but no operator did, so "
            "sort by the host's times.", READ),
    Mistake("counts-calls", ByCount(), NAMED + "the operator that runs most often need not be the one that takes "
            "longest.", READ),
    Mistake("time-per-call", PerCall(), NAMED + "the time of one call was compared; four calls cost four times that.",
            READ),
    Mistake("least-first", LeastFirst(), NAMED + "the cheapest come first; the costliest should.", READ),
    Mistake("most-last", MostLast(), NAMED + "these are the right ones, but the costliest comes last; it should come "
            "first.",
            READ),
    Mistake("ignores-top", IgnoresTop(), NAMED + "at most `top` names are wanted.", READ),
    Mistake("cuts-before-filtering", CutBeforeFiltering(), NAMED + "the list was cut to `top` entries before the names "
            "that are not operators were dropped, so too few are left.", READ),
    Mistake("cuts-before-filtering", CutBeforeFilteringOnHost(), NAMED + "the list was cut to `top` entries before the "
            "names that are not operators were dropped, so too few are left" + TOO, READ),
    Mistake("sorted-by-name", TopBeforeSorting(), NAMED + "the names are in alphabetical order, not by time.", READ),
    Mistake("prefix-stripped", Stripped(), NAMED + "the names keep their `aten::`.", READ),
    Mistake("not-a-list", WithTimes(), NAMED + "a list of names is wanted.", READ),
    Mistake("first-argument-only", FirstArgumentOnly(), 'In the case "{case}" the call raised {error}: `fn` may take '
            "several arguments; `fn(*args)` hands on all of them.", READ),
    Mistake("lists-events", EachEvent(), NAMED + "each event was listed, so a name comes up more than once, and its "
            "calls do not add up.", READ),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    names = ("a product", "a loop", "nested names", "the first call prepares", "with a range of its own")
    return [*(profiled(draw, name, 2) for name in names), profiled(draw, "many kinds", 4)]


# Right answers unlike the reference


def with_schedule(fn: Callable[..., Any], *args: Any, top: int = 5) -> list[str]:
    """Lets the profiler skip the first call, by a schedule."""
    with profile(schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1)) as run:
        for _ in range(2):
            fn(*args)
            run.step()
    spent: dict[str, list[float]] = {}
    for event in run.events() or []:
        if event.name.startswith("aten::"):
            times = spent.setdefault(event.name, [0.0, 0.0])
            times[0] += event.self_device_time_total
            times[1] += event.self_cpu_time_total
    device = sum(times[0] for times in spent.values()) > 0
    return sorted(spent, key=lambda name: spent[name][0 if device else 1], reverse=True)[:top]


def by_autograd_profiler(fn: Callable[..., Any], *args: Any, top: int = 5) -> list[str]:
    """Uses every activity that may be there, and a table sorted by hand."""
    for _ in range(3):
        fn(*args)
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, record_shapes=True) as run:
        fn(*args)
    averages = run.key_averages()
    rows = [(e.self_device_time_total, e.self_cpu_time_total, e.key) for e in averages if e.key[:6] == "aten::"]
    rows.sort(key=lambda row: (-row[0], -row[1]))
    return [key for _, _, key in rows[:top]]


def if_available(fn: Callable[..., Any], *args: Any, top: int = 5) -> list[str]:
    """Profiles a GPU only where there is one, as PyTorch's own tutorials do."""
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    fn(*args)
    with profile(activities=activities) as run:
        fn(*args)
    events = [event for event in run.key_averages() if event.key.startswith("aten::")]
    device = any(event.self_device_time_total > 0 for event in events)
    events.sort(key=lambda event: -(event.self_device_time_total if device else event.self_cpu_time_total))
    return [event.key for event in events][:top]


def by_the_older_profiler(fn: Callable[..., Any], *args: Any, top: int = 5) -> list[str]:
    """Uses the profiler of torch.autograd itself."""
    fn(*args)
    with torch.autograd.profiler.profile(use_device="cuda" if torch.cuda.is_available() else None) as run:
        fn(*args)
    entries = [entry for entry in run.key_averages() if entry.key.startswith("aten::")]
    column = "device" if any(entry.self_device_time_total for entry in entries) else "cpu"
    entries.sort(key=lambda entry: -getattr(entry, f"self_{column}_time_total"))
    return [entry.key for entry in entries[:top]]


RIGHT_ANSWERS: list[Callable[..., Any]] = [with_schedule, by_autograd_profiler, if_available, by_the_older_profiler]
