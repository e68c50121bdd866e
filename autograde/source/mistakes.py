"""Known mistakes: each is a program that somebody with the misconception would write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Mistake"]


@dataclass(frozen=True)
class Mistake:
    """The answer of somebody with a misconception, and how to explain it.

    Attributes:
        name: the name of the misconception; several programs may share it.
        program: the wrong answer.
        sentence: explains the mistake in terms of what was observed; `explain.fill_sentence` fills its `{fields}`.
        section: the heading of the section to reread.
    """

    name: str
    program: Callable[..., Any]
    sentence: str
    section: str
