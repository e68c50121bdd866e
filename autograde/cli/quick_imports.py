"""Import what a command needs in half the time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["GRAMMAR", "quick_imports"]

GRAMMAR = "rfc3987_syntax"
"""A module that jsonschema imports if it is installed, and that takes long to compile a grammar."""


@contextmanager
def quick_imports() -> Iterator[None]:
    """Run a block of imports without garbage collection, which takes a third of their time, and hide `GRAMMAR`."""
    modules: dict[str, Any] = sys.modules
    gc.disable()
    try:
        modules.setdefault(GRAMMAR, None)  # None: its import fails
        yield
    finally:
        gc.freeze()
        gc.enable()
        if modules[GRAMMAR] is None:
            del modules[GRAMMAR]
