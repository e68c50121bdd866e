"""What lessons there are, as their released notebooks say. Imports no torch: the desk's commands answer at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchcourse.notebookfile import cells, grade_id, read, text

__all__ = ["Lesson", "lessons", "released"]

TIME = re.compile(r"takes (?:about )?(an hour and a quarter|an hour|\d+ minutes)")
IN_MINUTES = {"an hour": "60 minutes", "an hour and a quarter": "75 minutes"}


@dataclass(frozen=True)
class Lesson:
    """A lesson: its file's name without ending, its title, how long it takes, its exercises in order."""

    name: str
    title: str
    takes: str
    exercises: tuple[str, ...]


def released() -> Path:
    """The folder of the lessons as they were released: beside a checkout's package, or inside an installed one.

    Raises:
        FileNotFoundError: when neither is there.
    """
    here = Path(__file__).resolve().parent
    for folder in (here.parents[1] / "notebooks", here / "notebooks"):
        if any(folder.glob("*.ipynb")):
            return folder
    raise FileNotFoundError("This installation of torchcourse holds no notebooks.")


@cache
def lessons() -> tuple[Lesson, ...]:
    """All lessons in order.

    Raises:
        FileNotFoundError: as `released` does.
    """
    return tuple(_lesson(path) for path in sorted(released().glob("*.ipynb")))


def _lesson(path: Path) -> Lesson:
    notebook = read(path)
    opening = " ".join(" ".join(text(cell) for cell in list(cells(notebook))[:3]).split())
    title = next((line.lstrip("# ") for c in cells(notebook) for line in text(c).splitlines()[:1]), path.stem)
    takes = TIME.search(opening)
    checks = (grade_id(cell) for cell in cells(notebook) if grade_id(cell).startswith("check_"))
    exercises = tuple(check.removeprefix("check_") for check in checks)
    words = takes.group(1) if takes else "an hour"
    return Lesson(path.stem, title, IN_MINUTES.get(words, words), exercises)
