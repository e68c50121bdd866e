"""Whether this process has other work to do beside the program that is observed, as a grader has.

What its other threads start, read and hold is then not the program's doing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

__all__ = ["in_shared_process", "is_shared"]

_is_shared = ContextVar("is_shared", default=False)


@contextlib.contextmanager
def in_shared_process(shared: bool) -> Iterator[None]:
    """Say that this process is `shared` with other work while this block runs."""
    token = _is_shared.set(shared)
    try:
        yield
    finally:
        _is_shared.reset(token)


def is_shared() -> bool:
    """Return whether this process has other work to do."""
    return _is_shared.get()
