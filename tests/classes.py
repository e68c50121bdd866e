"""A class for any lesson: students who are right, each in another style, and students who make the known mistakes.

The answers are the programs of tests/right and autograde/hidden, carried into the notebooks as source text: in the
sandbox there is nothing but the course.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograde import course
from autograde.mistakes import Mistake
from autograde.verifying import right_answers
from torchcourse.exercise import LESSONS, exercises

__all__ = ["Student", "students", "write_class"]

LOADER = """
import sys, types

def _module(name, text=""):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    return module
"""


@dataclass(frozen=True)
class Student:
    """Who answers how: for each exercise the place of a right answer, or of a mistake in its list."""

    name: str
    right: dict[str, int]
    wrong: dict[str, int]


def students(lesson: str, size: int) -> list[Student]:
    """A class of `size`: two in five are right in every exercise but at most three, the others make a mistake wherever
    there is one left, misconceptions that nobody has shown yet first."""
    names = exercises(lesson)
    styles = min(3, 2 * size // 5)
    made = [
        Student(f"right{n}", {name: n % len(right_answers(lesson)[name]) for name in names}, {}) for n in range(styles)
    ]
    orders = {name: _by_name(course.mistakes(lesson)[name]) for name in names}
    for n in range(size - styles):
        wrong = {name: order[n] for name, order in orders.items() if n < len(order)}
        made.append(Student(f"wrong{n:02}", {name: 0 for name in names if name not in wrong}, wrong))
    return made


def _by_name(mistakes: list[Mistake]) -> list[int]:
    """Places in the list, the first of each name first."""
    first = {mistake.name: place for place, mistake in reversed(list(enumerate(mistakes)))}
    return sorted(range(len(mistakes)), key=lambda place: (first[mistakes[place].name] != place, place))


def write_class(folder: Path, lesson: str, members: list[Student]) -> None:
    """Write the submissions of a class, as STUDENT/LESSON/LESSON.ipynb."""
    released = json.loads((course.NOTEBOOKS / f"{lesson}.ipynb").read_text(encoding="utf-8"))
    for student in members:
        notebook = json.loads(json.dumps(released))
        answers = dict(_answers(student))
        for cell in notebook["cells"]:
            name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
            cell["source"] = answers.get(name, cell["source"])
        setup = next(i for i, c in enumerate(notebook["cells"]) if "setup" in c["metadata"].get("tags", []))
        notebook["cells"].insert(setup + 1, _cell(_programs(lesson, student)))
        path = folder / student.name / lesson / f"{lesson}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(notebook), encoding="utf-8")


def _answers(student: Student) -> Iterator[tuple[str, str]]:
    for name, place in student.right.items():
        yield name, f"{name} = _right.RIGHT[{name!r}][{place}]"
    for name, place in student.wrong.items():
        yield name, f"{name} = _hidden.MISTAKES[{name!r}][{place}].answer()"


def _programs(lesson: str, student: Student) -> str:
    """A cell that makes the programs of the lesson's authors available."""
    module = LESSONS[lesson]
    lines = [LOADER, f"_right = _module('right', {_text(course.ROOT / 'tests' / 'right' / f'{module}.py')!r})"]
    if student.wrong:
        lines += ["_module('autograde')", "_module('autograde.hidden')"]
        for name in ("mistakes", "hidden.common"):
            path = course.AUTOGRADE / f"{name.replace('.', '/')}.py"
            lines.append(f"_module('autograde.{name}', {_text(path)!r})")
        lines.append(f"_hidden = _module('hidden', {_text(course.AUTOGRADE / 'hidden' / f'{module}.py')!r})")
    return "\n".join(lines)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _cell(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
