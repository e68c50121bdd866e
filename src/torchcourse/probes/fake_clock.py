"""Fake time: clocks that move only when a program works or waits, and a device that works while the host goes on.

With it, probes judge measurements without measuring.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import torch

from torchcourse import simulated
from torchcourse.probes.fake_machines import MACHINES, pretending
from torchcourse.probes.sealed import sealed

__all__ = ["LAUNCH", "SETBACK", "World"]

ONE_WAY = ("perf_counter", "monotonic")
EPOCH = 1.75e9  # wall-clock time at the start
SETBACK = 3600.0  # seconds by which the wall clock may be set back each time it is read
THREADS = 2  # threads that compute on the host: their time adds up in `process_time`
LAUNCH = 1e-6  # seconds that the host needs to queue some work


class World:
    """A fake host and device, and the clocks that time them.

    Args:
        device: the device that works; the CPU does its work at once.
        setback: seconds by which the wall clock is set back each time it is read.

    Attributes:
        now: the time on the host in seconds.
        busy: the time until which the device works.
        calls: the names of the programs that ran, in order.
    """

    def __init__(self, device: torch.device, setback: float = 0.0) -> None:
        self.device, self.setback = device, setback
        self.now, self.busy, self.computed, self.readings = 1000.0, 0.0, 0.0, 0
        self.calls: list[str] = []

    def launch(self, seconds: float, host: float) -> None:
        """Give the device work for `seconds`, which keeps the host busy for `host` seconds."""
        self.now += host
        self.busy = max(self.busy, self.now) + seconds
        self.computed += host
        if self.device.type == "cpu":
            self.computed += seconds
            self.wait()

    def wait(self) -> None:
        """Let the host wait until the device is idle."""
        self.now = max(self.now, self.busy)

    def program(
        self, name: str, seconds: Sequence[float], host: float = 0.0, compiling: float = 0.0
    ) -> Callable[..., Any]:
        """Return a function that gives the device work and returns its first argument.

        Args:
            name: recorded in `calls` at each call.
            seconds: how long the device works at each call, repeated from the start when used up.
            host: how long each call keeps the host busy.
            compiling: how much longer the first call keeps the host busy.
        """
        count = 0

        def run(*args: Any) -> Any:
            nonlocal count
            self.calls.append(name)
            if count == 0:
                self.launch(0.0, compiling)
            self.launch(seconds[count % len(seconds)], host)
            count += 1
            return args[0] if args else None

        return sealed(run)

    def wall_clock(self) -> float:
        """Return the wall-clock time."""
        self.readings += 1
        return EPOCH + self.now - self.setback * self.readings

    @contextlib.contextmanager
    def replace_clocks(self, answer: Callable[..., Any]) -> Iterator[None]:
        """Let `answer`, and what it calls by name, see this world's clocks and device in this block."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(_replacing(answer, self._clocks()))
            if self.device.type == simulated.NAME:
                stack.enter_context(simulated.as_accelerator())
                stack.enter_context(simulated.events(_Listener(self)))
            else:
                if self.device.type == "cpu":
                    stack.enter_context(pretending(MACHINES["a machine without a GPU"]))
                for owner, name in _waiting():
                    stack.callback(setattr, owner, name, getattr(owner, name))
                    setattr(owner, name, self.synchronize)
            yield

    def synchronize(self, *_: object) -> None:
        """Wait, as a real accelerator's `synchronize` does.

        Raises:
            RuntimeError: if the device is the CPU, as in torch on a machine without an accelerator.
        """
        if self.device.type == "cpu":
            raise RuntimeError("there is no accelerator on this machine to synchronize")
        self.wait()

    def _clocks(self) -> dict[Any, Callable[[], float]]:
        """Return the replacements of the standard library's clocks."""
        readings: dict[str, Callable[[], float]] = {name: lambda: self.now for name in ONE_WAY}
        readings |= {"time": self.wall_clock, "process_time": lambda: THREADS * self.computed}
        clocks: dict[Any, Callable[[], float]] = {getattr(time, name): clock for name, clock in readings.items()}
        return clocks | {getattr(time, f"{name}_ns"): _in_nanoseconds(clock) for name, clock in readings.items()}


def _in_nanoseconds(clock: Callable[[], float]) -> Callable[[], int]:
    return lambda: round(clock() * 1e9)


class _Listener(list[str]):
    """A list of events that waits at every synchronisation of the simulated accelerator."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def append(self, event: str) -> None:
        if event == "synchronize":
            self.world.wait()


def _waiting() -> Iterator[tuple[Any, str]]:
    """Yield the functions in which torch waits for a real accelerator."""
    for name in ("_accelerator_synchronizeDevice", "_cuda_synchronize", "_mps_deviceSynchronize", "_xpu_synchronize"):
        if hasattr(torch._C, name):
            yield torch._C, name


@contextlib.contextmanager
def _replacing(answer: Callable[..., Any], clocks: dict[Any, Callable[[], float]]) -> Iterator[None]:
    """Replace the real clocks wherever the answer may look them up, and nowhere else: other threads need real time."""
    copies = {module: _copied(module, clocks) for module in (time, timeit)}
    instead = {id(real): copy for real, copy in [*clocks.items(), *copies.items()]}
    with contextlib.ExitStack() as stack:
        for names in [sys.modules, *_namespaces(answer)]:
            for name, value in list(names.items()):
                if id(value) in instead:
                    stack.callback(names.__setitem__, name, value)
                    names[name] = instead[id(value)]
        for function in (timeit.timeit, timeit.repeat, timeit.Timer.__init__):  # their defaults hold a clock
            defaults = function.__defaults__ or ()
            stack.callback(setattr, function, "__defaults__", defaults)
            function.__defaults__ = tuple(instead.get(id(value), value) for value in defaults)
        yield


def _copied(module: ModuleType, clocks: dict[Any, Callable[[], float]]) -> ModuleType:
    copy = ModuleType(module.__name__)
    for name, value in vars(module).items():
        setattr(copy, name, clocks[value] if callable(value) and value in clocks else value)
    return copy


def _namespaces(answer: Any) -> Iterator[dict[str, Any]]:
    """Yield the namespaces that an answer sees: of its module, its keyword defaults, and torch's own timer."""
    while isinstance(answer, functools.partial):
        answer = answer.func
    function = getattr(answer, "__func__", answer)
    if not hasattr(function, "__globals__"):
        function = vars(type(answer)).get("__call__")
    yield getattr(function, "__globals__", {})
    yield getattr(function, "__kwdefaults__", None) or {}
    yield vars(sys.modules.get("torch.utils.benchmark.utils.timer", ModuleType("none")))
