"""The lessons, read from their released notebooks. Imports no torch, so the learner's commands start at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchcourse.model.notebook_file import Notebook, cells, exercises_of, read, source_of
from torchcourse.model.own_course import has_lesson_name, own_course

__all__ = ["Lesson", "address", "lessons", "released"]

WORDS_A_MINUTE, MINUTES_A_POINT = 150, 5
"""How fast learners read prose between cells that they run, and how long they work on a point of an exercise."""


@dataclass(frozen=True)
class Lesson:
    """A lesson: its file name without the ending, title, estimated duration ("2½ hours"), and exercises in order."""

    name: str
    title: str
    duration: str
    exercises: tuple[str, ...]


def address(lesson: str, exercise: str) -> str:
    """Return the address of the cell that sets an exercise, for a link in the folder of the notebooks."""
    # JupyterLab goes to a heading only once it has drawn it, but to a cell by its id at once
    return f"{lesson}.ipynb#cell-id=about-{exercise}"


def released() -> dict[str, Path]:
    """Return the released notebooks in order, by file name: those next to a clone's package, or inside an installed
    one, and those of the instructor's own course.

    Raises:
        FileNotFoundError: if there are none.
    """
    package, own = Path(__file__).resolve().parents[1], own_course()
    for folder in (package.parents[1] / "notebooks", package / "notebooks"):
        if found := sorted(folder.glob("*.ipynb")):
            paths = sorted((own / "notebooks").glob("*.ipynb")) if own else []
            mine = [path for path in paths if has_lesson_name(path.stem)]
            return {path.name: path for path in (*found, *mine)}
    raise FileNotFoundError("This installation of torchcourse has no notebooks.")


@cache
def lessons() -> tuple[Lesson, ...]:
    """Return all lessons in order.

    Raises:
        FileNotFoundError: as `released` does.
    """
    return tuple(_lesson(path) for path in released().values())


def _lesson(path: Path) -> Lesson:
    notebook = read(path)
    title = next(
        (line.lstrip("# ") for cell in cells(notebook) for line in source_of(cell).splitlines()[:1]), path.stem
    )
    return Lesson(path.stem, title, _duration(notebook), tuple(exercises_of(notebook)))


def _duration(notebook: Notebook) -> str:
    """Estimate the time for a notebook from its words and the points of its exercises, to the half hour."""
    words = sum(len(source_of(cell).split()) for cell in cells(notebook) if cell.get("cell_type") == "markdown")
    points = sum(cell.get("metadata", {}).get("nbgrader", {}).get("points", 0) for cell in cells(notebook))
    minutes = words / WORDS_A_MINUTE + MINUTES_A_POINT * points
    hours, half = divmod(max(round(minutes / 30), 1), 2)
    number = f"{hours or ''}{'½' if half else ''}"
    return f"{number} hour{'s' if hours > 1 or (hours == 1 and half) else ''}"
