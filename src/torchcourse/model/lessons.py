"""The lessons, read from their released notebooks. Imports no torch, so the learner's commands start at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchcourse.model.notebook_file import cells, exercises_of, read, source_of

__all__ = ["Lesson", "lessons", "released"]

DURATION = re.compile(r"takes (?:about )?(an hour and a quarter|an hour|\d+ minutes)")
IN_MINUTES = {"an hour": "60 minutes", "an hour and a quarter": "75 minutes"}


@dataclass(frozen=True)
class Lesson:
    """A lesson: its file name without the ending, title, duration ("60 minutes"), and exercises in order."""

    name: str
    title: str
    duration: str
    exercises: tuple[str, ...]


def released() -> Path:
    """Return the folder of the released notebooks: next to a clone's package, or inside an installed one.

    Raises:
        FileNotFoundError: if neither exists.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parents[1] / "notebooks", package / "notebooks"):
        if any(folder.glob("*.ipynb")):
            return folder
    raise FileNotFoundError("This installation of torchcourse has no notebooks.")


@cache
def lessons() -> tuple[Lesson, ...]:
    """Return all lessons in order.

    Raises:
        FileNotFoundError: as `released` does.
    """
    return tuple(_lesson(path) for path in sorted(released().glob("*.ipynb")))


def _lesson(path: Path) -> Lesson:
    notebook = read(path)
    sources = [source_of(cell) for cell in cells(notebook)]
    title = next((line.lstrip("# ") for source in sources for line in source.splitlines()[:1]), path.stem)
    duration = DURATION.search(" ".join(" ".join(sources[:3]).split()))
    words = duration.group(1) if duration else "an hour"
    return Lesson(path.stem, title, IN_MINUTES.get(words, words), tuple(exercises_of(notebook)))
