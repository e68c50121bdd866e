"""Tell what other processes do, as far as the system lets one look: whether they run, sleep or poll."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

__all__ = ["activity", "cpu_seconds", "seconds_asleep", "voluntary_switches"]

POLLING = "(gloo_tcp_loop"
"""The name of gloo's transport thread, which polls even when there are no messages."""


def activity(pid: int) -> str:
    """Return what a process does: "work" if a thread runs or waits for a processor or a disk, or if that is unknown;
    "poll" if only gloo's polling thread does; else "nothing"."""
    try:
        states = [_state(thread / "stat") for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return "nothing" if Path("/proc/self/task").exists() else "work"
    awake = [name for name, state in states if state in "RD"]
    return "nothing" if not awake else "poll" if all(POLLING in name for name in awake) else "work"


def voluntary_switches(pid: int) -> str:
    """Return how often the main thread of a process went to sleep, or "" where the system does not tell."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
        return status.partition("\nvoluntary_ctxt_switches:")[2].split("\n")[0].strip()
    return ""


def cpu_seconds(pid: int, unknown: float) -> float:
    """Return the CPU seconds of a process, or `unknown` where the system does not tell."""
    if sys.platform != "linux":
        return unknown
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)  # the clock of a process: clock_getcpuclockid(3)
    return 0.0


def seconds_asleep(pid: int, age: float) -> float:
    """Return how long the main thread of a process neither ran nor waited for a processor; 0 if that is unknown."""
    with contextlib.suppress(OSError, ValueError):
        ran, waited, _ = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
        return age - (ran + waited) / 1e9
    return 0.0


def _state(stat: Path) -> tuple[str, str]:
    """Return a thread's name and state."""
    try:
        name, _, rest = stat.read_text(errors="replace").rpartition(")")
    except OSError:  # the thread has ended
        return "", "X"
    return name, rest.split()[0]
