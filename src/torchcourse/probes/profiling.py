"""Give the operators in a profile known times, so that what is hottest does not depend on the machine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler import profile as autograd_profile
from torch.autograd.profiler_util import Interval
from torch.profiler import ProfilerActivity
from torch.profiler.profiler import _KinetoProfile

__all__ = ["known_times"]

SMALL = 0.001
"""Microseconds of an operator without a known time."""
PYTHON = 500.0
"""Microseconds that a named range takes beside its operators: Python's own time."""
INSIDE = "PythonSubclass"
"""The event around what the simulated accelerator does on the CPU: a real one has nothing there."""


@contextlib.contextmanager
def known_times(host: Mapping[str, float], kernels: Mapping[str, float], device: torch.device) -> Iterator[None]:
    """Let profilers report these times in this block, whichever interface of torch starts them.

    Args:
        host: microseconds of the host in each operator itself, by name.
        kernels: microseconds of the device for each operator, if `device` is not the CPU. Not reported to a profiler
            limited to the CPU, unless the answer limited it after asking `torch.cuda.is_available()`, which is False
            on the simulated accelerator.
        device: where the profiled tensors are.
    """
    has_kernels = device.type != "cpu"
    watches = {"device": False, "asked": False}
    begin, parse, available = _KinetoProfile.__init__, autograd_profile._parse_kineto_results, torch.cuda.is_available

    def asked() -> bool:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        watches["asked"] |= not str(caller).startswith("torch.")  # torch asks for itself
        return available()

    def noted(self: Any, *, activities: Any = None, **options: Any) -> None:
        host_only = activities is not None and set(activities) == {ProfilerActivity.CPU}
        watches["device"] = has_kernels and (watches["asked"] or not host_only)
        begin(self, activities=activities, **options)

    def parsed(self: Any, *args: Any, **options: Any) -> Any:
        events = _outermost(parse(self, *args, **options))
        _retime(events, host)
        if watches["device"] or (has_kernels and (self.use_device or watches["asked"])):
            _attach(events, kernels, device.type)
        return events

    with (
        mock.patch.object(torch.cuda, "is_available", asked),
        mock.patch.object(_KinetoProfile, "__init__", noted),
        mock.patch.object(autograd_profile, "_parse_kineto_results", parsed),
    ):
        yield


def _outermost(events: Sequence[Any]) -> list[Any]:
    """Return the host's events in order, without those inside of a simulated operator, and without real kernels."""
    kept: list[Any] = []
    hidden_until: dict[int, float] = {}
    for event in sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)):
        if event.device_type != DeviceType.CPU:
            continue
        if event.time_range.start < hidden_until.get(event.thread, 0.0):
            continue
        if event.name == INSIDE:
            hidden_until[event.thread] = event.time_range.end
            continue
        event.kernels.clear()
        kept.append(event)
    return kept


def _retime(events: Sequence[Any], host: Mapping[str, float]) -> None:
    """Give each event the known time of its own, after that of the events inside of it."""
    clock = 0.0
    ends = [event.time_range.end for event in events]
    open_events: list[int] = []

    def close(place: int) -> None:
        nonlocal clock
        name = events[place].name
        clock += host.get(name, SMALL if name.startswith("aten::") else PYTHON)
        events[place].time_range.end = clock

    for place, event in enumerate(events):
        while open_events and ends[open_events[-1]] <= event.time_range.start:
            close(open_events.pop())
        clock += SMALL / 10  # so that no two events begin at the same time
        event.time_range = Interval(clock, clock)  # type: ignore[no-untyped-call]
        open_events.append(place)
    while open_events:
        close(open_events.pop())


def _attach(events: Sequence[Any], kernels: Mapping[str, float], device: str) -> None:
    """Give each event with a known time on the device a kernel of that time."""
    for event in events:
        event.use_device = device
        if event.name in kernels:
            event.append_kernel(event.name, 0, kernels[event.name])
