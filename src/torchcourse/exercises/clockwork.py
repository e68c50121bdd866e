"""Time that probes make up: clocks that move only as they are told, and a device that works while the host goes on."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from torchcourse import simulated
from torchcourse.exercises.machines import MACHINES, pretending

__all__ = ["World"]

ONE_WAY = ("perf_counter", "monotonic")
SETBACK = 3600.0  # seconds by which the clock on the wall is put back each time that somebody looks at it


class World:
    """A host, a device that takes orders, and the clocks they are timed by.

    `now` is the time on the host in seconds; the device is busy until `busy`. A host whose device is the CPU itself
    does the work as it is ordered.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.now, self.busy, self.looks = device, 100.0, 0.0, 0

    def order(self, seconds: float, host: float) -> None:
        """Give the device work for so many seconds, which takes the host `host` seconds."""
        self.now += host
        self.busy = max(self.busy, self.now) + seconds
        if self.device.type == "cpu":
            self.wait()

    def wait(self) -> None:
        """Let the host wait until the device has done its work."""
        self.now = max(self.now, self.busy)

    def on_the_wall(self) -> float:
        """What the clock on the wall says: somebody keeps setting it right."""
        self.looks += 1
        return self.now - SETBACK * self.looks

    @contextlib.contextmanager
    def instead(self, answer: Callable[..., Any]) -> Iterator[None]:
        """A block in which `answer`, and what it calls by name, lives in this world."""
        with contextlib.ExitStack() as stack:
            stack.callback(_restore, _replaced(answer, self._clocks()))
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

    def _clocks(self) -> dict[Any, Callable[[], Any]]:
        """What each clock of the standard library says here."""
        clocks: dict[Any, Callable[[], Any]] = {time.time: self.on_the_wall}
        clocks[time.time_ns] = lambda: round(self.on_the_wall() * 1e9)
        for name in ONE_WAY:
            clocks[getattr(time, name)] = lambda: self.now
            clocks[getattr(time, f"{name}_ns")] = lambda: round(self.now * 1e9)
        return clocks


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


Place = tuple[dict[str, Any], str, Any]


def _replaced(answer: Callable[..., Any], clocks: dict[Any, Callable[[], Any]]) -> list[Place]:
    """Put `clocks` in place of the real ones wherever the answer has them from, and nowhere else, for other threads go
    on living in real time; what stood there before."""
    copies = {module: _copied(module, clocks) for module in (time, timeit)}
    instead = {id(real): copy for real, copy in [*clocks.items(), *copies.items()]}
    places = [
        (names, name, value)
        for names in _namespaces(answer)
        for name, value in list(names.items())
        if id(value) in instead
    ]
    places += [(sys.modules, module.__name__, module) for module in copies]
    for names, name, value in places:
        names[name] = instead[id(value)]
    return places


def _copied(module: ModuleType, clocks: dict[Any, Callable[[], Any]]) -> ModuleType:
    copy = ModuleType(module.__name__)
    for name, value in vars(module).items():
        setattr(copy, name, clocks[value] if callable(value) and value in clocks else value)
    return copy


def _namespaces(answer: Any) -> Iterator[dict[str, Any]]:
    """The names that an answer sees: those of its module or notebook, and the defaults of its keywords."""
    while isinstance(answer, functools.partial):
        answer = answer.func
    function = getattr(answer, "__func__", answer)
    if not hasattr(function, "__globals__"):
        function = vars(type(answer)).get("__call__")
    yield getattr(function, "__globals__", {})
    yield getattr(function, "__kwdefaults__", None) or {}


def _restore(places: list[Place]) -> None:
    for names, name, value in places:
        names[name] = value
