"""Lessons of an instructor's own, beside those of the course. Imports no torch.

`torchcourse --course FOLDER` adds them to every command. The folder holds what the course's repository holds for its
own lessons: the script of each, the two halves of its exercises in exercises/TOPIC/ and hidden/TOPIC/, and what
`torchcourse build` makes of them in notebooks/ and stored/. TOPIC is the name of the lesson without its number.
Learners get such lessons in their package, among the others.
"""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

__all__ = [
    "VARIABLE",
    "NotAnExerciseError",
    "folder_of",
    "has_lesson_name",
    "more_lessons",
    "own_course",
    "own_home",
    "topic_of",
]

VARIABLE = "TORCHCOURSE_COURSE"
"""The environment variable with the folder of an instructor's own course; the option `--course` sets it."""
PACKAGE = Path(__file__).resolve().parents[1]


class NotAnExerciseError(ImportError):
    """A module among the exercises of a lesson holds none; the message gives its file and the remedy."""


@cache  # lessons are found at import, so a config that is read later must not change the folder
def own_course() -> Path | None:
    """Return the folder of the instructor's own course; None if there is none."""
    named = os.environ.get(VARIABLE)
    return Path(named).resolve() if named else None


def own_home(lesson: str) -> Path | None:
    """Return the folder of the instructor's own course if it holds this lesson, else None."""
    folder = own_course()
    return folder if folder and (folder / "solutions" / f"{lesson}.py").is_file() else None


def folder_of(lesson: str, part: str, otherwise: Path) -> Path:
    """Return the folder `part` of the instructor's own course if it holds this lesson, else `otherwise`."""
    home = own_home(lesson)
    return home / part if home else otherwise


def more_lessons() -> list[str]:
    """Return the names of the lessons of the instructor's own course, and of those in a package for learners."""
    folder = own_course()
    scripts = [*(folder / "solutions").glob("*.py")] if folder else []
    notebooks = PACKAGE.glob("notebooks/*.ipynb")
    return sorted(path.stem for path in (*scripts, *notebooks) if has_lesson_name(path.stem))


def has_lesson_name(name: str) -> bool:
    """Return whether `name` is a number of two digits and a topic in small letters, such as 16_graphs."""
    return re.fullmatch("[0-9]{2}_[a-z][a-z0-9_]*", name) is not None


def topic_of(lesson: str) -> str:
    """Return the folder of the exercises of an own lesson: its name without the number."""
    return lesson.partition("_")[2]
