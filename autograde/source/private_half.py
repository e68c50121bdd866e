"""The private half of an exercise: the module `autograde/hidden/TOPIC/EXERCISE.py`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autograde.source import paths
from autograde.source.mistakes import Mistake
from torchcourse.model.catalogue import LESSONS, module_name
from torchcourse.model.exercise import Case, Draw

__all__ = ["PrivateHalf", "private_half", "private_path"]


@dataclass
class PrivateHalf:
    """What learners must not see of an exercise.

    Attributes:
        why: the reason for the way the reference is written; shown to learners once their own answer has passed.
        required: the misconceptions that have to be among the known mistakes.
        more_cases: draws the cases that only the grader sees.
        mistakes: the known mistakes.
        right_answers: right answers that differ from the reference.
    """

    why: str
    required: tuple[str, ...]
    more_cases: Callable[[Draw], list[Case]]
    mistakes: list[Mistake]
    right_answers: list[Callable[..., Any]]


def private_path(lesson: str, exercise: str) -> Path:
    """Return the file of an exercise's private half."""
    return paths.private_topic(lesson) / f"{module_name(exercise)}.py"


@cache
def private_half(lesson: str, exercise: str) -> PrivateHalf:
    """Load the private half of an exercise.

    Raises:
        ModuleNotFoundError: when the exercise has none.
    """
    module = importlib.import_module(f"autograde.hidden.{LESSONS[lesson]}.{module_name(exercise)}")
    return PrivateHalf(module.WHY, module.REQUIRED, module.more_cases, module.MISTAKES, module.RIGHT_ANSWERS)
