"""Classes for benchmarks: every submission solved, and no two of them alike, so that each is work of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from autograde import course
from autograde.script import read_script

__all__ = ["write_solved"]


def write_solved(folder: Path, lessons: list[str], count: int) -> list[str]:
    """Write `count` solved submissions of each lesson below `folder`, as STUDENT/LESSON/LESSON.ipynb; the students."""
    names = [f"student{number:06}" for number in range(count)]
    for lesson in lessons:
        solved = _solved(lesson)
        setup = next(cell for cell in solved["cells"] if "setup" in cell["metadata"].get("tags", []))
        before = "".join(setup["source"])  # files keep lines
        for name in names:
            setup["source"] = f"{before}\n# {name}"
            path = folder / name / lesson / f"{lesson}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(solved), encoding="utf-8")
    return names


def _solved(lesson: str) -> dict[str, Any]:
    """The released notebook of a lesson with the answers of the solved script."""
    cells = read_script(course.SOLUTIONS / f"{lesson}.py")
    answers = {c.exercise: re.sub(r" *### (BEGIN|END) SOLUTION\n?", "", c.source) for c in cells if c.exercise}
    notebook = json.loads((course.NOTEBOOKS / f"{lesson}.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        cell["source"] = answers.get(name, cell["source"])
    made: dict[str, Any] = notebook
    return made
