"""Count what the simulated device does, and record the order of events on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass
class Counters:
    """A snapshot of what the device did since the last reset.

    Attributes:
        synchronizations: how often the host waited for the device: in explicit calls, blocking copies, `.item()` and
            its users, and operators whose result's shape depends on values (`nonzero`, boolean indexing).
        copies_to_device: copies from the CPU.
        copies_to_host: copies to the CPU; `.item()` and printing count too.
        non_blocking_copies: how many of these copies did not wait.
        allocated_bytes: bytes that tensors use now, without an allocator's rounding.
        peak_bytes: the maximum of `allocated_bytes`. The memory that operators need while they run is not counted.
        allocations: how many blocks were allocated.
    """

    synchronizations: int = 0
    copies_to_device: int = 0
    copies_to_host: int = 0
    non_blocking_copies: int = 0
    allocated_bytes: int = 0
    peak_bytes: int = 0
    allocations: int = 0


COUNTS = Counters()
RECORDERS: list[list[str]] = []


class Block:
    """Memory on the device, counted for as long as any tensor over it is alive."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        self.nbytes = 0
        COUNTS.allocations += 1
        self.resize(nbytes)

    def resize(self, nbytes: int) -> None:
        """Count `nbytes` from now on."""
        COUNTS.allocated_bytes += nbytes - self.nbytes
        self.nbytes = nbytes
        if COUNTS.allocated_bytes > COUNTS.peak_bytes:
            COUNTS.peak_bytes = COUNTS.allocated_bytes

    def __del__(self) -> None:
        COUNTS.allocated_bytes -= self.nbytes


def counters() -> Counters:
    """Return a copy of the counters."""
    return replace(COUNTS)


def reset_counters() -> None:
    """Reset the counters to zero; bytes that are still in use stay counted, also in the peak."""
    COUNTS.synchronizations = COUNTS.copies_to_device = COUNTS.copies_to_host = 0
    COUNTS.non_blocking_copies = COUNTS.allocations = 0
    reset_peak()


def reset_peak() -> None:
    """Reset the peak to the bytes that are in use."""
    COUNTS.peak_bytes = COUNTS.allocated_bytes


@contextmanager
def events(into: list[str] | None = None) -> Iterator[list[str]]:
    """Record what the device does inside the block, in order.

    Yield a list of "kernel:<operator>", "copy_to_device", "copy_to_host" and "synchronize". A blocking copy is followed
    by "synchronize", a non-blocking one is not. The caller may append marks, or pass a list to record `into`, whose
    `append` may react to events.
    """
    log: list[str] = [] if into is None else into
    RECORDERS.append(log)
    try:
        yield log
    finally:
        RECORDERS[:] = [each for each in RECORDERS if each is not log]


def record(event: str) -> None:
    """Append `event` to every list that is recording."""
    for log in RECORDERS:
        log.append(event)


def count_wait() -> None:
    """Count one wait of the host for the device."""
    COUNTS.synchronizations += 1
    record("synchronize")


def count_copy(to_device: bool, non_blocking: bool = False) -> None:
    """Count one copy between CPU and device; a blocking one also waits, as with CUDA and pageable memory."""
    if to_device:
        COUNTS.copies_to_device += 1
    else:
        COUNTS.copies_to_host += 1
    record("copy_to_device" if to_device else "copy_to_host")
    if non_blocking:
        COUNTS.non_blocking_copies += 1
    else:
        count_wait()
