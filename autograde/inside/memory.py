"""Watching the memory of many processes where no control group can limit it, by what the kernel says to anybody.

A limit on private memory does not see shared maps, and holds for each process alone. What was loaded before a learner's
process was forked is common to all and not counted again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Watch", "parent", "private"]

SECONDS = 0.1


class Watch:
    """Says when processes have too much memory together: the private memory of each beyond our own, and shared maps."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.next = most_bytes, 0.0
        self.loaded = private(os.getpid())

    def is_exceeded(self, processes: Iterable[int]) -> bool:
        """Whether it is too much; looks ten times a second, however often it is called, and never without a limit."""
        now = time.monotonic()
        if not self.most_bytes or now < self.next:
            return False
        self.next = now + SECONDS
        return sum(map(self._used, processes)) > self.most_bytes

    def _used(self, pid: int) -> int:
        status = _status(pid)
        return max(0, _private(status) - self.loaded) + status.get("RssShmem", 0)


def parent(pid: int) -> int:
    """The parent of a process; 0 where there is none."""
    return _status(pid).get("PPid", 0)


def private(pid: int) -> int:
    """The private memory of a process in bytes, what it shares with the one it was forked from among it; 0 where there
    is none, or no /proc."""
    return _private(_status(pid))


def _private(status: dict[str, int]) -> int:
    return status.get("RssAnon", 0)


def _status(pid: int) -> dict[str, int]:
    """What /proc says of a process, sizes in bytes; empty where it is gone."""
    found = {}
    try:
        with Path(f"/proc/{pid}/status").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name in ("PPid", "RssAnon", "RssShmem"):
                    found[name] = int(value.split()[0]) * (1 if name == "PPid" else 1024)
    except OSError:
        return {}
    return found
