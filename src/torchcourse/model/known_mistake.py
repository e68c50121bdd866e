"""A known mistake: how to explain it, and what its program does in each case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torchcourse.model.observations import Observations

__all__ = ["KnownMistake"]


@dataclass(frozen=True)
class KnownMistake:
    """`sentence` has fields as in `explain.difference`; `section` is the heading to reread; `seen` takes a device's
    name and the index of a case, and returns what the mistake's program does there, None if not known."""

    name: str
    sentence: str
    section: str
    seen: Callable[[str, int], Observations | None]
