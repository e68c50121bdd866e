"""The limits on a process that runs learners' code."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import landlock, seccomp
from .memory import data_segment

__all__ = ["confine", "cpu_time_limit", "enter_work_folder", "restrict_files"]

PR_SET_DUMPABLE = 4


def confine(limits: dict[str, int], configuration: dict[str, Any]) -> None:
    """Apply all limits and layers of isolation to this process, for good.

    Args:
        limits: resource limits by name, without `RLIMIT_`; `DATA` limits only memory that is added from now on.
        configuration: `Isolation.worker_configuration`.
    """
    with contextlib.suppress(OSError):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        Path("/proc/self/oom_score_adj").write_text("1000")  # the first to be killed when memory runs out
    loaded = data_segment(os.getpid())  # this depends on the lessons being graded, and is not the answer's doing
    for name, value in {**limits, "DATA": loaded + limits["DATA"]}.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    enter_work_folder(configuration)
    restrict_files(configuration)
    seccomp.install_filter()


def enter_work_folder(configuration: dict[str, Any]) -> None:
    """Connect the standard streams to /dev/null, and create and enter the folder that cells run in, which is HOME.

    Raises:
        OSError: when this process may not do so, because of what the machine's folders and devices are.
    """
    null = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    work = Path(configuration["home"]) / "work"
    work.mkdir(exist_ok=True)
    os.chdir(work)
    os.environ["HOME"] = str(work)


def restrict_files(configuration: dict[str, Any]) -> bool:
    """Allow writing to scratch folders only, and reading the system and the course only; return whether the kernel has
    Landlock, which does that."""
    readable = [*configuration["mounted"], "/proc"]
    return landlock.restrict(readable, configuration["writable"], configuration["devices"], tcp=configuration["tcp"])


@contextlib.contextmanager
def cpu_time_limit(seconds: float, wall_clock_factor: float) -> Iterator[None]:
    """Raise TimeIsUpError in this block after `seconds` of CPU time or `seconds * wall_clock_factor` of wall time."""
    from torchcourse.checking.check import REPEAT_SECONDS, TimeIsUpError

    is_over = False

    def raise_error(*args: object) -> None:
        if not is_over:  # a signal may arrive while the timers are being stopped, and would end the process
            raise TimeIsUpError

    signal.signal(signal.SIGPROF, raise_error)  # each time: learners' code may have set other handlers
    signal.signal(signal.SIGALRM, raise_error)
    signal.setitimer(signal.ITIMER_PROF, seconds, REPEAT_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, wall_clock_factor * seconds, REPEAT_SECONDS)
    try:
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
