"""Notice threads, processes, profilers and copies of files that are started in a block, by Python's audit events.

An audit hook is called on every thread, and Python has no call that removes one.
"""

from __future__ import annotations

import sys
import threading
from functools import cache

__all__ = ["COPIES", "PROCESSES", "PROFILERS", "THREADS", "Audit"]

THREADS, PROCESSES, PROFILERS, COPIES = "threads", "processes", "profilers", "copies of files"
EVENTS = {
    **dict.fromkeys(("_thread.start_new_thread", "_thread.start_joinable_thread"), THREADS),
    **dict.fromkeys(
        ("os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system", "subprocess.Popen"), PROCESSES
    ),
    **dict.fromkeys(("sys.setprofile", "sys.settrace"), PROFILERS),
    "shutil.copyfile": COPIES,
}
"""What an audit event shows to be used."""
_running: list[Audit] = []


class Audit:
    """A context manager that notes what is started in its block.

    Args:
        all_threads: whether to note what other threads start as well.

    Attributes:
        used: `THREADS`, `PROCESSES`, `PROFILERS` and `COPIES`, as far as they were.
    """

    def __init__(self, all_threads: bool = True) -> None:
        self.all_threads = all_threads
        self.used: set[str] = set()
        self.thread = 0

    def __enter__(self) -> Audit:
        _install()
        self.thread = threading.get_ident()
        _running.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _running[:] = [audit for audit in _running if audit is not self]


def _note(event: str, _arguments: object) -> None:
    if _running and event in EVENTS:
        for audit in _running:
            if audit.all_threads or audit.thread == threading.get_ident():
                audit.used.add(EVENTS[event])


@cache
def _install() -> None:
    """Install the hook, once in each process; it stays in its forks."""
    sys.addaudithook(_note)
