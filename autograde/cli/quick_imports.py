"""Import what a command needs in less time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quick_imports"]


@contextmanager
def quick_imports() -> Iterator[None]:
    """Run a block of imports without garbage collection, which takes a third of their time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
