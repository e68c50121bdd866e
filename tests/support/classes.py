"""A class for any lesson: students who are right, each in another style, and students who make the known mistakes.

The modules of autograde/hidden are in each notebook as text, so that every program of theirs can be an answer: the
sandbox has nothing but the course.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autograde.batch.grading import grade
from autograde.classroom.class_folder import make_class
from autograde.classroom.roster import Member
from autograde.classroom.synthetic_class import answered_notebook, code_cell, write_notebook
from autograde.source import paths
from autograde.source.mistakes import Mistake
from autograde.source.private_half import private_half
from autograde.source.release import load_release
from torchcourse.model.catalogue import LESSONS, exercises, module_name

__all__ = ["Student", "adas_class", "halves", "insert_programs", "private_module", "students", "write_class"]

LOADER = """
import sys
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.util import spec_from_loader

_private = sys.modules

class _Programs(MetaPathFinder, InspectLoader):
    def find_spec(self, name, path, target=None):
        return spec_from_loader(name, self) if name in _texts else None
    def get_source(self, name):
        return _texts[name]
    def is_package(self, name):
        return not _texts[name]

sys.meta_path.insert(0, _Programs())
for _name in _texts:
    import_module(_name)
"""


@dataclass(frozen=True)
class Student:
    """A student's answers: for each exercise the place of a right answer, or of a mistake, in its list."""

    name: str
    right: dict[str, int]
    wrong: dict[str, int]


def students(lesson: str, size: int) -> list[Student]:
    """Return a class of `size`: two in five are right in all exercises but at most three, the others make a mistake
    wherever one is left, first those whose misconception nobody has shown yet."""
    names = exercises(lesson)
    styles = min(3, 2 * size // 5)
    made = [
        Student(f"right{n}", {name: n % len(private_half(lesson, name).right_answers) for name in names}, {})
        for n in range(styles)
    ]
    orders = {name: _by_name(private_half(lesson, name).mistakes) for name in names}
    for n in range(size - styles):
        wrong = {name: order[n] for name, order in orders.items() if n < len(order)}
        made.append(Student(f"wrong{n:02}", {name: 0 for name in names if name not in wrong}, wrong))
    return made


def halves(lesson: str) -> list[Student]:
    """Return two students who are right in every second exercise, each where the other makes a mistake."""
    names = list(exercises(lesson))
    return [Student(f"half{n}", dict.fromkeys(names[n::2], 0), dict.fromkeys(names[1 - n :: 2], 0)) for n in range(2)]


def _by_name(mistakes: list[Mistake]) -> list[int]:
    """Return indices into the list, the first mistake of each name first."""
    first = {mistake.name: place for place, mistake in reversed(list(enumerate(mistakes)))}
    return sorted(range(len(mistakes)), key=lambda place: (first[mistakes[place].name] != place, place))


def write_class(folder: Path, lesson: str, members: list[Student]) -> None:
    """Write the submissions of a class, as STUDENT/LESSON/LESSON.ipynb."""
    for student in members:
        notebook = answered_notebook(lesson, dict(_answers(lesson, student)))
        insert_programs(notebook, lesson)
        write_notebook(folder, student.name, lesson, notebook)


def _answers(lesson: str, student: Student) -> Iterator[tuple[str, str]]:
    for name, place in student.right.items():
        yield name, f"{name} = {private_module(lesson, name)}.RIGHT_ANSWERS[{place}]"
    for name, place in student.wrong.items():
        yield name, f"{name} = {private_module(lesson, name)}.MISTAKES[{place}].program"


def private_module(lesson: str, name: str) -> str:
    """Return the module of an exercise's private half as an expression, for a notebook with the programs."""
    return f"_private['autograde.hidden.{LESSONS[lesson]}.{module_name(name)}']"


def adas_class(folder: Path, lesson: str, change: Callable[[dict[str, Any]], None], gradebook: str = "") -> Path:
    """Return a class folder of one student, ada, with an exchange and her released notebook, changed and graded.

    Args:
        gradebook: the URL of the gradebook; by default a file in the folder.
    """
    room, exchange = folder / "room", folder / "exchange"
    exchange.mkdir()
    ada = Member("ada", "Ada", "Lovelace", "ada@example.org")
    make_class(room, [lesson], members=[ada], exchange=exchange, gradebook=gradebook)
    notebook = copy.deepcopy(load_release(lesson).notebook)
    change(notebook)
    write_notebook(room / "submitted", "ada", lesson, notebook)
    grade([lesson], room / "submitted", room, gradebook=gradebook)
    return room


def insert_programs(notebook: dict[str, Any], lesson: str) -> None:
    """Insert a cell below the setup cell that makes the programs of the lesson's authors available."""
    setup = next(i for i, c in enumerate(notebook["cells"]) if "setup" in c["metadata"].get("tags", []))
    notebook["cells"].insert(setup + 1, code_cell(_programs(lesson)))


@cache
def _programs(lesson: str) -> str:
    """Return a cell that imports the programs of a lesson; its modules may import one another in any order."""
    topic = paths.AUTOGRADE / "hidden" / LESSONS[lesson]
    files = [paths.AUTOGRADE / "source" / "mistakes.py", paths.AUTOGRADE / "hidden" / "common.py"]
    files += [path for path in sorted(topic.glob("*.py")) if path.name != "__init__.py"]
    packages = ["autograde", "autograde.source", "autograde.hidden", f"autograde.hidden.{LESSONS[lesson]}"]
    texts = dict.fromkeys(packages, "")
    for path in files:
        texts[".".join(path.relative_to(paths.ROOT).with_suffix("").parts)] = path.read_text(encoding="utf-8")
    return f"_texts = {texts!r}\n{LOADER}"
