"""Distinguish a process that waits for a core from one that sleeps, using Linux's statistics of its threads."""

from __future__ import annotations

import time
from pathlib import Path

__all__ = ["Stopwatch"]

THREADS = Path("/proc/self/task")
ASLEEP = 0.5
"""A process slept if it worked, or waited for a core, for less than this share of the time."""


class Stopwatch:
    """What this process has done since the stopwatch was made."""

    def __init__(self) -> None:
        self._begun, self._used, self._delay = time.monotonic(), time.process_time(), _delay()

    @property
    def elapsed(self) -> float:
        """Seconds of wall-clock time."""
        return time.monotonic() - self._begun

    @property
    def worked(self) -> float:
        """Seconds of CPU time."""
        return time.process_time() - self._used

    def slept(self) -> bool:
        """Return whether the process is known to have slept most of the time, and not to wait for another process."""
        delay = _delay()
        if self._delay is None or delay is None or _has_children():
            return False
        return self.worked + max(0.0, delay - self._delay) < ASLEEP * self.elapsed


def _delay() -> float | None:
    """Return the seconds that the threads of this process were ready and had no core; None if that is unknown."""
    try:
        fields = [(thread / "schedstat").read_text().split() for thread in THREADS.iterdir()]
        return sum(int(field[1]) for field in fields) / 1e9
    except (OSError, ValueError, IndexError):  # not Linux, or a thread that ended meanwhile
        return None


def _has_children() -> bool:
    """Return whether this process has started others that still run, or may have."""
    try:
        return any((thread / "children").read_text().strip() for thread in THREADS.iterdir())
    except OSError:
        return True
