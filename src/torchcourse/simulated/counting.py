"""What the simulated device did: counters, and on request an ordered list of events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass
class Counters:
    """A snapshot of what the device did since the last reset.

    `synchronizations`: how often the host waited for the device: explicit calls, blocking copies, `.item()` and what
    rests on it, and operators whose result's shape depends on values (`nonzero`, boolean indexing).
    `copies_to_device`, `copies_to_host`: copies across the border; `.item()` and printing copy to the host.
    `non_blocking_copies`: those of them that asked not to wait.
    `allocated_bytes`, `peak_bytes`: bytes that tensors hold now, and the most at once since the last reset, without
    an allocator's rounding. `allocations`: blocks made. What an operator needs while it runs is not seen.
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
    """Return a copy of the counters as they stand."""
    return replace(COUNTS)


def reset_counters() -> None:
    """Set the counters to zero. The bytes still alive stay counted, and the peak starts again from them."""
    COUNTS.synchronizations = COUNTS.copies_to_device = COUNTS.copies_to_host = 0
    COUNTS.non_blocking_copies = COUNTS.allocations = 0
    reset_peak()


def reset_peak() -> None:
    """Let the peak start again from the bytes that are alive."""
    COUNTS.peak_bytes = COUNTS.allocated_bytes


@contextmanager
def events(into: list[str] | None = None) -> Iterator[list[str]]:
    """Record what the device does inside the block, in order.

    Yields a list that fills up with "kernel:<operator>", "copy_to_device", "copy_to_host" and "synchronize". A
    blocking copy is followed by "synchronize", a non-blocking one is not. The caller may append marks of its own, or
    give a list to record `into`, whose own `append` may act upon what it is told.
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


def synchronized() -> None:
    """Count one wait of the host for the device."""
    COUNTS.synchronizations += 1
    record("synchronize")


def copied(to_device: bool, non_blocking: bool = False) -> None:
    """Count one copy across the border; a blocking one also waits, as it does with CUDA and pageable memory."""
    if to_device:
        COUNTS.copies_to_device += 1
    else:
        COUNTS.copies_to_host += 1
    record("copy_to_device" if to_device else "copy_to_host")
    if non_blocking:
        COUNTS.non_blocking_copies += 1
    else:
        synchronized()
