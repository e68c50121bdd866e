"""Classes of solved submissions, no two alike, so that each has to be run."""

from __future__ import annotations

from pathlib import Path

from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.source import paths
from autograde.source.script import answers_as_text

__all__ = ["write_solved"]


def write_solved(folder: Path, lessons: list[str], count: int) -> list[str]:
    """Write `count` solved submissions of each lesson, as `folder`/STUDENT/LESSON/LESSON.ipynb; return the students."""
    names = [f"student{number:06}" for number in range(count)]
    for lesson in lessons:
        solved = answered_notebook(lesson, answers_as_text(paths.SOLUTIONS / f"{lesson}.py"))
        setup = next(cell for cell in solved["cells"] if "setup" in cell["metadata"].get("tags", []))
        before = setup["source"]
        for name in names:
            setup["source"] = f"{before}\n# {name}"
            write_notebook(folder, name, lesson, solved)
    return names
