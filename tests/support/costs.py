"""Measure what something costs in a process that has run many other tests, on a machine that may be slow."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["cpu_below"]

USUAL = 0.06
"""Seconds that `_fixed_work` takes on the machine that the limits in tests are written for."""


@contextmanager
def cpu_below(seconds: float) -> Iterator[None]:
    """Assert that the body takes less CPU time than this, or, on a slower machine, than so much more.

    How slow it is at the moment is measured before and after. What earlier tests left behind is set aside, so that the
    garbage collector does not go through it meanwhile.
    """
    gc.collect()
    gc.freeze()
    try:
        before = _fixed_work()
        began = time.process_time()
        yield
        spent = time.process_time() - began
        slowness = max(before, _fixed_work()) / USUAL
    finally:
        gc.unfreeze()
    limit = seconds * max(1, slowness)
    assert spent < limit, f"this took {spent:.2f} s of CPU time, and at most {limit:.2f} s are allowed"


def _fixed_work() -> float:
    """Return the CPU time of some work that is always the same, in seconds."""
    began = time.process_time()
    sum(number * number for number in range(1_000_000))
    return time.process_time() - began
