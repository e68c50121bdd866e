"""Make the device the machine's accelerator for a limited time only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from torchcourse.simulated.counting import COUNTS, count_wait, reset_peak
from torchcourse.simulated.device import NAME, device, is_ours

CAPACITY = 8 << 30  # bytes of memory that the device claims to have
_standing_in = 0


def stands_in() -> bool:
    """Return whether the device is the machine's accelerator now."""
    return _standing_in > 0


@contextmanager
def as_accelerator() -> Iterator[torch.device]:
    """Make the simulated device `torch.accelerator` in this block, and yield it.

    Blocks may be nested. The switch applies to the whole process: other threads see it too. It replaces the functions
    below `torch.accelerator`, so names imported from that earlier change as well.
    """
    global _standing_in
    kept = {name: getattr(torch._C, name) for name in CALLS if hasattr(torch._C, name)}
    generator = torch.Generator
    try:
        for name in kept:
            setattr(torch._C, name, CALLS[name])
        torch.Generator = Generator  # type: ignore[misc, assignment]
        _standing_in += 1
        yield device()
    finally:
        _standing_in -= 1
        torch.Generator = generator  # type: ignore[misc]
        for name, function in kept.items():
            setattr(torch._C, name, function)


def stay_hidden() -> None:
    """Let PyTorch name the same accelerator after the registration as before it."""
    before = torch._C._accelerator_getAccelerator()
    torch._C._accelerator_getAccelerator = lambda: before
    # PyTorch would look for an allocator that a device of this kind does not have
    torch._C._accelerator_isAllocatorInitialized = lambda: False


def statistics(_index: int = 0) -> dict[str, Any]:
    """Return what `torch.accelerator.memory_stats` flattens; nothing is reserved beyond what is allocated."""
    now, peak = COUNTS.allocated_bytes, COUNTS.peak_bytes
    held = {"all": {"current": now, "peak": peak}}
    return {"allocated_bytes": held, "reserved_bytes": held, "allocation": {"all": {"allocated": COUNTS.allocations}}}


def select(index: int) -> None:
    """Accept device 0 and refuse any other with `RuntimeError`."""
    is_ours(torch.device(NAME, index))


CALLS: dict[str, Callable[..., Any]] = {
    "_accelerator_getAccelerator": lambda: torch.device(NAME),
    "_accelerator_getDeviceIndex": lambda: 0,
    "_accelerator_setDeviceIndex": select,
    "_accelerator_synchronizeDevice": lambda _: count_wait(),
    "_accelerator_isAllocatorInitialized": lambda: True,
    "_accelerator_getDeviceStats": statistics,
    "_accelerator_getMemoryInfo": lambda _: (CAPACITY - COUNTS.allocated_bytes, CAPACITY),
    "_accelerator_resetPeakStats": lambda _: reset_peak(),
    "_accelerator_resetAccumulatedStats": lambda _: None,
    "_accelerator_emptyCache": lambda: None,
    "_accelerator_emptyHostCache": lambda: None,
}


class DeviceGenerator(torch._C.Generator):
    """A generator that the CPU's kernels draw from and that names the simulated device as its own."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return device()


class _GeneratorType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C.Generator)

    def __call__(cls, device: Any = "cpu") -> torch._C.Generator:
        return DeviceGenerator() if device is not None and is_ours(device) else torch._C.Generator(device)


class Generator(metaclass=_GeneratorType):
    """A replacement of `torch.Generator` that can make one for the simulated device too."""
