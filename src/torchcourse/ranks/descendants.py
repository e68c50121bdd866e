"""Have no process outlive the one that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

__all__ = ["adopt_orphans", "die_with", "kill_children"]

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, whatever ends that; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Have the kernel make this process the parent of whatever its children leave behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_children(seconds: float) -> bool:
    """Kill the children of this process until none is left, for so long; return whether one had not ended by itself."""
    found, deadline = False, time.monotonic() + seconds
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < deadline:
            ended, status = os.waitpid(-1, os.WNOHANG)
            found = found or not ended or os.WIFSIGNALED(status)
            if not ended:
                for pid in _children():
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.001)
    return found


def _children() -> list[int]:
    """Return the children of this process; none where the system does not tell."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = stat.read_text(errors="replace").rpartition(")")[2].split()[1]
            found += [int(stat.parent.name)] if int(parent) == os.getpid() else []
    return found
