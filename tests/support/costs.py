"""Measure what something costs in a process that has run many other tests."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["cpu_below"]


@contextmanager
def cpu_below(seconds: float) -> Iterator[None]:
    """Assert that the body takes less CPU time than this.

    What earlier tests left behind is set aside, so that the garbage collector does not go through it meanwhile.
    """
    gc.collect()
    gc.freeze()
    try:
        began = time.process_time()
        yield
        spent = time.process_time() - began
    finally:
        gc.unfreeze()
    assert spent < seconds, f"this took {spent:.2f} s of CPU time"
