"""Where the parts of the course lie, and what its lessons are."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

from autograde.mistakes import Mistake
from torchcourse.exercise import LESSONS, Case, Draw

__all__ = ["AUTOGRADE", "BUILD", "NOTEBOOKS", "ROOT", "SOLUTIONS", "STORED", "hidden_cases", "mistakes", "scripts"]

AUTOGRADE = Path(__file__).resolve().parent
ROOT = AUTOGRADE.parent
SOLUTIONS = ROOT / "solutions"
NOTEBOOKS = ROOT / "notebooks"
STORED = ROOT / "src" / "torchcourse" / "stored"
BUILD = AUTOGRADE / "build"


def scripts() -> list[Path]:
    """The lesson scripts, in order."""
    return [SOLUTIONS / f"{lesson}.py" for lesson in LESSONS]


@cache
def _hidden(lesson: str) -> ModuleType:
    return importlib.import_module(f"autograde.hidden.{LESSONS[lesson]}")


def mistakes(lesson: str) -> dict[str, list[Mistake]]:
    """The known mistakes of each exercise of a lesson."""
    known: dict[str, list[Mistake]] = _hidden(lesson).MISTAKES
    return known


def hidden_cases(lesson: str) -> dict[str, Callable[[Draw], list[Case]]]:
    """For each exercise what draws its further cases, that only the grader sees."""
    more: dict[str, Callable[[Draw], list[Case]]] = _hidden(lesson).MORE_CASES
    return more
