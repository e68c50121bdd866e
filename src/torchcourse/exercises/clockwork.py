"""Time that probes make up: clocks that move only as they are told, and a device that works while the host goes on.

So measurements are judged without measuring.
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
from torchcourse.exercises.machines import MACHINES, pretending

__all__ = ["LAUNCH", "SETBACK", "World"]

ONE_WAY = ("perf_counter", "monotonic")
EPOCH = 1.75e9  # what the clock on the wall says when a world begins
SETBACK = 3600.0  # seconds by which people may put the clock on the wall back each time that somebody looks at it
THREADS = 2  # how many processors compute while the host does: their time adds up in `process_time`
LAUNCH = 1e-6  # seconds until the host has queued some work


class World:
    """A host, a device that takes orders, and the clocks they are timed by.

    `now` is the time on the host in seconds; the device is busy until `busy`. A host whose device is the CPU itself
    does the work as it is ordered. `calls` are the names of the programs that ran, in order. Each look at the clock on
    the wall puts it back by `setback` seconds.
    """

    def __init__(self, device: torch.device, setback: float = 0.0) -> None:
        self.device, self.setback = device, setback
        self.now, self.busy, self.computed, self.looks = 1000.0, 0.0, 0.0, 0
        self.calls: list[str] = []

    def order(self, seconds: float, host: float) -> None:
        """Give the device work for so many seconds, which takes the host `host` seconds."""
        self.now += host
        self.busy = max(self.busy, self.now) + seconds
        self.computed += host
        if self.device.type == "cpu":
            self.computed += seconds
            self.wait()

    def wait(self) -> None:
        """Let the host wait until the device has done its work."""
        self.now = max(self.now, self.busy)

    def program(
        self, name: str, seconds: Sequence[float], host: float = 0.0, compiling: float = 0.0
    ) -> Callable[..., Any]:
        """A function that orders work for the next of `seconds`, over and over, and returns its first argument; each
        call keeps the host busy for `host` seconds, the first for `compiling` more."""
        count = 0

        def run(*args: Any) -> Any:
            nonlocal count
            self.calls.append(name)
            if count == 0:
                self.order(0.0, compiling)
            self.order(seconds[count % len(seconds)], host)
            count += 1
            return args[0] if args else None

        return run

    def on_the_wall(self) -> float:
        """What the clock on the wall says."""
        self.looks += 1
        return EPOCH + self.now - self.setback * self.looks

    @contextlib.contextmanager
    def instead(self, answer: Callable[..., Any]) -> Iterator[None]:
        """A block in which `answer`, and what it calls by name, lives in this world."""
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
                    setattr(owner, name, self.asked_to_wait)
            yield

    def asked_to_wait(self, *_: object) -> None:
        """What a real accelerator's functions do here: they wait, or refuse where there is only the CPU.

        Raises:
            RuntimeError: when the device is the CPU, as torch does on a machine without an accelerator.
        """
        if self.device.type == "cpu":
            raise RuntimeError("there is no accelerator on this machine to synchronize")
        self.wait()

    def _clocks(self) -> dict[Any, Callable[[], float]]:
        """What each clock of the standard library says here."""
        told: dict[str, Callable[[], float]] = {name: lambda: self.now for name in ONE_WAY}
        told |= {"time": self.on_the_wall, "process_time": lambda: THREADS * self.computed}
        clocks: dict[Any, Callable[[], float]] = {getattr(time, name): clock for name, clock in told.items()}
        return clocks | {getattr(time, f"{name}_ns"): _in_nanoseconds(clock) for name, clock in told.items()}


def _in_nanoseconds(clock: Callable[[], float]) -> Callable[[], int]:
    return lambda: round(clock() * 1e9)


class _Listener(list[str]):
    """Hears of every synchronisation of the simulated accelerator."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def append(self, event: str) -> None:
        if event == "synchronize":
            self.world.wait()


def _waiting() -> Iterator[tuple[Any, str]]:
    """Where torch waits for a real accelerator."""
    for name in ("_accelerator_synchronizeDevice", "_cuda_synchronize", "_mps_deviceSynchronize", "_xpu_synchronize"):
        if hasattr(torch._C, name):
            yield torch._C, name


@contextlib.contextmanager
def _replacing(answer: Callable[..., Any], clocks: dict[Any, Callable[[], float]]) -> Iterator[None]:
    """A block in which `clocks` stand in place of the real ones wherever the answer has them from, and nowhere else,
    for other threads go on living in real time."""
    copies = {module: _copied(module, clocks) for module in (time, timeit)}
    instead = {id(real): copy for real, copy in [*clocks.items(), *copies.items()]}
    with contextlib.ExitStack() as stack:
        for names in [sys.modules, *_namespaces(answer)]:
            for name, value in list(names.items()):
                if id(value) in instead:
                    stack.callback(names.__setitem__, name, value)
                    names[name] = instead[id(value)]
        for function in (timeit.timeit, timeit.repeat, timeit.Timer.__init__):  # they have kept a clock as a default
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
    """The names that an answer sees: those of its module or notebook, the defaults of its keywords, and those of
    torch's own stopwatch."""
    while isinstance(answer, functools.partial):
        answer = answer.func
    function = getattr(answer, "__func__", answer)
    if not hasattr(function, "__globals__"):
        function = vars(type(answer)).get("__call__")
    yield getattr(function, "__globals__", {})
    yield getattr(function, "__kwdefaults__", None) or {}
    yield vars(sys.modules.get("torch.utils.benchmark.utils.timer", ModuleType("none")))
