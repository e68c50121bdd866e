"""What the simulated device did: counters, and on request an ordered list of events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass
class Counters:
    """A snapshot. Bytes are the bytes that tensors hold, without an allocator's rounding.

    `copies_to_device` and `copies_to_host` count every copy across the border, `.item()` and printing included;
    `non_blocking_copies` counts those of them that asked not to wait. `allocated_bytes` is what is alive now,
    `peak_bytes` the most that was alive at once since the last reset, `allocations` how many blocks were made.
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


def record(event: str) -> None:
    """Append `event` to every list that is recording."""
    for log in RECORDERS:
        log.append(event)


def counters() -> Counters:
    """Return a copy of the counters as they stand."""
    return replace(COUNTS)


def reset_counters() -> None:
    """Set all counters to zero except the bytes still alive; the peak starts again from those."""
    alive = COUNTS.allocated_bytes
    COUNTS.__init__(allocated_bytes=alive, peak_bytes=alive)  # type: ignore[misc]


@contextmanager
def events() -> Iterator[list[str]]:
    """Record what the device does inside the block, in order.

    Yields a list that fills up: "kernel:<operator>", "copy_to_device", "copy_to_host", "synchronize". A copy that
    blocks is followed by "synchronize"; a non-blocking one is not. The caller may append marks of its own.
    """
    log: list[str] = []
    RECORDERS.append(log)
    try:
        yield log
    finally:
        RECORDERS[:] = [each for each in RECORDERS if each is not log]


def synchronized() -> None:
    """Count one wait of the host for the device."""
    COUNTS.synchronizations += 1
    if RECORDERS:
        record("synchronize")


def copied(direction: str, non_blocking: bool) -> None:
    """Count one copy across the border; `direction` is "to_device" or "to_host". A blocking one also waits."""
    if direction == "to_device":
        COUNTS.copies_to_device += 1
    else:
        COUNTS.copies_to_host += 1
    if RECORDERS:
        record(f"copy_{direction}")
    if non_blocking:
        COUNTS.non_blocking_copies += 1
    else:
        synchronized()


class Block:
    """Memory on the device: counted while any tensor over it is alive."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        COUNTS.allocations += 1
        COUNTS.allocated_bytes += nbytes
        if COUNTS.allocated_bytes > COUNTS.peak_bytes:
            COUNTS.peak_bytes = COUNTS.allocated_bytes

    def __del__(self) -> None:
        COUNTS.allocated_bytes -= self.nbytes
