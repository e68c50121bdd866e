"""A machine whose time passes only when something runs on it: for judging measurements without measuring."""

from __future__ import annotations

import contextlib
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from torchcourse import simulated

__all__ = ["Machine"]

CLOCKS = ("perf_counter", "monotonic", "time")
LAUNCH = 1e-6  # seconds until the host has queued some work


class Machine:
    """Runs pieces of work of known lengths, on the CPU at once, on another device in a queue; and shows the time.

    `calls` are the names of what ran, in order.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.now, self.free_at = 1000.0, 0.0
        self.calls: list[str] = []
        self._waited = 0
        self._waits_known = self._waits()

    def _waits(self) -> int:
        return self._waited + (simulated.counters().synchronizations if self.device.type == simulated.NAME else 0)

    def _catch_up(self) -> None:
        """Let the queue run empty if the host has waited for it since we last looked."""
        if self._waits() > self._waits_known:
            self.now = max(self.now, self.free_at)
        self._waits_known = self._waits()

    def work(self, name: str, seconds: float, compiling: float = 0.0) -> None:
        """Something runs; compiling it keeps the host itself busy first."""
        self._catch_up()
        self.calls.append(name)
        self.now += compiling
        if self.device.type == "cpu":
            self.now += seconds
        else:
            self.now += LAUNCH
            self.free_at = max(self.now, self.free_at) + seconds

    def program(self, name: str, base: float, pattern: Sequence[float], compiling: float) -> Callable[..., Any]:
        """A function that returns its first argument, takes `base` times the next number of `pattern`, over and over,
        and has to be compiled when it is first called."""
        count = 0

        def run(*args: Any) -> Any:
            nonlocal count
            self.work(name, base * pattern[count % len(pattern)], 0.0 if count else compiling)
            count += 1
            return args[0] if args else None

        return run

    def clock(self) -> float:
        self._catch_up()
        return self.now

    def clock_ns(self) -> int:
        return round(self.clock() * 1e9)

    @contextlib.contextmanager
    def replacing_clocks(self, answer: Callable[..., Any]) -> Iterator[None]:
        """A block in which the clocks of Python show this machine's time, also to `answer`, which may have imported
        one by name; and in which waiting for the device is noticed."""
        spaces = [vars(time), vars(timeit), getattr(answer, "__globals__", {})]
        clocks = {getattr(time, name): self.clock for name in CLOCKS}
        clocks |= {getattr(time, f"{name}_ns"): self.clock_ns for name in CLOCKS}
        with contextlib.ExitStack() as stack:
            for space in spaces:
                for name, held in list(space.items()):
                    if type(held) is type(time.sleep) and held in clocks:
                        stack.callback(space.__setitem__, name, held)
                        space[name] = clocks[held]
            for function in _with_clocks_as_defaults():
                defaults = function.__defaults__
                stack.callback(setattr, function, "__defaults__", defaults)
                function.__defaults__ = tuple(
                    clocks.get(d, d) if isinstance(d, type(time.sleep)) else d for d in defaults or ()
                )
            stack.enter_context(self._noticing_waits())
            yield

    @contextlib.contextmanager
    def _noticing_waits(self) -> Iterator[None]:
        if self.device.type == simulated.NAME:
            with simulated.as_accelerator():
                yield
            return
        names = [n for n in ("_accelerator_synchronizeDevice", "_cuda_synchronize") if hasattr(torch._C, n)]
        kept = {name: getattr(torch._C, name) for name in names}
        try:
            for name, real in kept.items() if self.device.type == "cuda" else ():
                setattr(torch._C, name, self._noticed(real))
            yield
        finally:
            for name, real in kept.items():
                setattr(torch._C, name, real)

    def _noticed(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def synchronize(*args: Any) -> Any:
            self._waited += 1
            return real(*args)

        return synchronize


def _with_clocks_as_defaults() -> list[Any]:
    """Functions that took hold of a clock when they were defined."""
    found: list[Any] = [timeit.timeit, timeit.repeat, timeit.Timer.__init__]
    if "torch.utils.benchmark" in sys.modules:
        found.append(sys.modules["torch.utils.benchmark"].Timer.__init__)
    return found
