"""Numbers that tell the workers of a machine apart, whichever grader they belong to.

Workers of one number share a user id where the grader is root, and with it the limit on processes: what one learner
starts would keep another's from starting any.
"""

from __future__ import annotations

import itertools
import os
import socket
import sys

__all__ = ["give_back", "take_number"]

MOST = 1024
_held: dict[int, socket.socket | None] = {}


def take_number() -> int:
    """A number that no worker of this machine has now.

    A name in the kernel is taken for it, which is free again when it is given back or this process ends; where there
    are no such names, the number is new in this process alone.
    """
    for number in itertools.count() if sys.platform != "linux" else range(MOST):
        if number in _held:
            continue
        if sys.platform != "linux":
            _held[number] = None
            return number
        name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            name.bind(f"\0torchcourse-worker-{os.geteuid()}-{number}")
        except OSError:
            name.close()
            continue
        _held[number] = name
        return number
    raise RuntimeError(f"more than {MOST} workers on one machine")


def give_back(number: int) -> None:
    """Let another worker have a number."""
    name = _held.pop(number, None)
    if name is not None:
        name.close()
