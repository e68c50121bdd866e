"""Allocate ids that are unique among the workers of all graders on a machine.

Under root, two workers with the same id would have the same user id and thus share the limit on processes: the
processes of one learner would keep another learner from starting any.
"""

from __future__ import annotations

import itertools
import os
import socket
import sys

__all__ = ["allocate_id", "free_id"]

MAX_WORKERS = 1024
_held: dict[int, socket.socket | None] = {}


def allocate_id() -> int:
    """Return an id that no other worker of this machine has.

    An abstract socket name holds it until `free_id` is called or this process ends. Only Linux has such names;
    elsewhere the id is unique only in this process.

    Raises:
        RuntimeError: when all ids are taken.
    """
    for number in itertools.count() if sys.platform != "linux" else range(MAX_WORKERS):
        if number in _held:
            continue
        if sys.platform != "linux":
            _held[number] = None
            return number
        lock_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            lock_socket.bind(f"\0torchcourse-worker-{os.geteuid()}-{number}")
        except OSError:
            lock_socket.close()
            continue
        _held[number] = lock_socket
        return number
    raise RuntimeError(f"more than {MAX_WORKERS} workers on one machine")


def free_id(number: int) -> None:
    """Free an id for other workers."""
    lock_socket = _held.pop(number, None)
    if lock_socket is not None:
        lock_socket.close()
