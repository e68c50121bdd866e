"""Wait for what other processes do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["eventually"]

T = TypeVar("T")


def eventually(found: Callable[[], T], seconds: float = 60.0, fault: Callable[[], object] = lambda: "") -> T:
    """Return the first true value of `found`, which is called until then; fail with `fault` after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (result := found()):
        assert time.monotonic() < deadline, fault()
        time.sleep(0.05)
    return result
