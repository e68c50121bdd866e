"""Hand a function to an answer without what it was made from."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

__all__ = ["sealed"]


def sealed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another and shows neither it nor its closure, or the object that it is a method of.

    It is a cache without entries, which is written in C.
    """
    cover: Any = lru_cache(maxsize=0)(function)
    del cover.__wrapped__
    opaque: Callable[..., Any] = cover
    return opaque
