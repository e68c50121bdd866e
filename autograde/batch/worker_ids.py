"""Allocate ids that are unique among the workers of all graders on a machine that root runs.

Two workers with the same id would have the same user id and thus share the limit on processes: the processes of one
learner would keep another learner from starting any. Only root's workers get user ids; for an ordinary user's, an id
that is unique in this process is enough.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["allocate_id", "free_id"]

MAX_WORKERS = 1024
LOCKS = Path("/run/torchcourse")
"""Root's folder of locked files, one for each id: no other user can take what lies there, as sockets could be taken."""
_held: dict[int, int | None] = {}
"""The ids of this process, and the open file that locks each."""


def allocate_id() -> int:
    """Return an id that no other worker has, until `free_id` is called or this process ends.

    Raises:
        RuntimeError: when all ids are taken.
        OSError: when root cannot write to /run.
    """
    shared = os.geteuid() == 0
    numbers: Iterable[int] = range(MAX_WORKERS) if shared else itertools.count()
    for number in numbers:
        if number in _held:
            continue
        lock = _lock(number) if shared else None
        if shared and lock is None:
            continue
        _held[number] = lock
        return number
    raise RuntimeError(f"more than {MAX_WORKERS} workers on one machine")


def free_id(number: int) -> None:
    """Free an id for other workers."""
    lock = _held.pop(number, None)
    if lock is not None:
        os.close(lock)


def _lock(number: int) -> int | None:
    """Return the open file that holds an id for this process; None if another process holds it."""
    import fcntl  # not on Windows, where instructors can run some commands

    LOCKS.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(LOCKS / f"worker-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle
