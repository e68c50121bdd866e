"""The lessons, read from their released notebooks. Imports no torch, so the learner's commands start at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchcourse.model.notebook_file import Notebook, cells, exercises_of, read, source_of

__all__ = ["Lesson", "lessons", "released"]

WORDS_A_MINUTE, LINES_A_MINUTE, MINUTES_AN_EXERCISE = 180, 12, 9
"""How fast people read text and code, and how long they need to write an answer; they took from two to four hours."""


@dataclass(frozen=True)
class Lesson:
    """A lesson: its file name without the ending, title, duration ("2½ hours"), and exercises in order."""

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
    exercises = tuple(exercises_of(notebook))
    return Lesson(path.stem, title, _duration(notebook, len(exercises)), exercises)


def _duration(notebook: Notebook, exercises: int) -> str:
    """Return how long a lesson takes about, from its words, lines of code and exercises, in half hours."""
    text = sum(len(source_of(cell).split()) for cell in cells(notebook) if cell.get("cell_type") == "markdown")
    code = sum(len(source_of(cell).splitlines()) for cell in cells(notebook) if cell.get("cell_type") == "code")
    minutes = text / WORDS_A_MINUTE + code / LINES_A_MINUTE + MINUTES_AN_EXERCISE * exercises
    hours, half = divmod(max(1, round(minutes / 30)), 2)
    return f"{hours or ''}{'½' if half else ''} hour{'s' if hours + half > 1 else ''}"
