"""A made-up class of any size and for any lesson: what people hand in, from right to unreadable, always the same.

Who is right answers as the reference or as one of the right answers beside it; who is wrong makes a known mistake.
Some leave exercises out, some hand in late, and a few files are damaged in the ways that files are.
"""

from __future__ import annotations

import ast
import copy
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from autograde import course
from autograde.carrying import bound_names, carried
from autograde.roster import Member
from autograde.script import answers_as_text, read_script
from torchcourse.exercise import LESSONS

__all__ = ["invented_members", "write_submissions"]

FIRST = (
    "Ada", "Ben", "Chloé", "Daniel", "Elif", "Farid", "Greta", "Hiro", "Irma", "Jonas", "Kavya", "Lena", "Mateo",
    "Noor", "Olga", "Pablo", "Qing", "Rosa", "Samuel", "Tala",
)  # fmt: skip
LAST = (
    "Okafor", "Müller", "García", "Nguyen", "Rossi", "Yildiz", "Novak", "Silva", "Cohen", "Haddad", "Tanaka", "Dubois",
    "Kowalski", "Andersen", "Mehta", "O'Neil", "Petrov", "Santos", "Weber", "Zhang",
)  # fmt: skip
ASCII = str.maketrans("éüí", "eui", "' ")
BEFORE_PYTHON = "# still to do: this raises at the moment\n"
WARNING = """import sys, warnings
warnings.warn("this costs nothing")
print("nor does this", file=sys.stderr)"""


def invented_members(count: int) -> list[Member]:
    """Students who do not exist, at addresses that do not either."""
    members = []
    for n in range(count):
        first, last = FIRST[n % len(FIRST)], LAST[(n + n // len(FIRST)) % len(LAST)]
        name = f"{first}.{last}".lower().translate(ASCII)
        name += str(n // 400 + 1) if n >= len(FIRST) * len(LAST) else ""
        members.append(Member(name, first, last, f"{name}@example.org", str(40_000 + n)))
    return members


def write_submissions(
    folder: Path, lessons: Sequence[str], members: Sequence[Member], due: Mapping[str, datetime]
) -> list[Path]:
    """Write what `members` hand in of `lessons`, as STUDENT/LESSON/LESSON.ipynb; what is there already stays.

    Args:
        due: for lessons that are due, when (UTC); the time of submission is then written beside the notebook.

    Returns:
        The new notebooks.
    """
    written = []
    for lesson in lessons:
        notebooks = [_notebook(lesson, member.id) for member in members]
        for place, (member, notebook) in enumerate(zip(members, notebooks, strict=True)):
            path = folder / member.id / lesson / f"{lesson}.ipynb"
            if path.parent.exists():
                continue
            path.parent.mkdir(parents=True)
            before = notebooks[place - 1]
            data = _file(_habit(place, len(members)), notebook, before)
            if data is not None:
                path.write_bytes(data)
                written.append(path)
                if lesson in due:
                    _write_time(path.with_name("timestamp.txt"), due[lesson], random.Random(f"{lesson} {member.id}"))
    return written


def _write_time(path: Path, due: datetime, chance: random.Random) -> None:
    """Most come on the last two days, one in eight late."""
    late = chance.random() < 1 / 8
    hours = chance.uniform(0.1, 50)
    path.write_text(f"{(due + timedelta(hours=hours if late else -hours)).replace(microsecond=0)} UTC\n")


def _habit(place: int, size: int) -> str:
    """What befalls the file of the student at this place; in a class of twenty, one of each kind."""
    kinds = ["untouched", "endless", "missing", "oddly", "copied", "truncated", "points"]
    step = max(2, size // (len(kinds) + 1))
    return kinds[place // step - 1] if place and not place % step and place // step <= len(kinds) else ""


def _file(habit: str, notebook: Any, before: Any) -> bytes | None:
    """The bytes of what is handed in; None for nothing."""
    if habit == "missing":
        return None
    if habit == "untouched":
        notebook = _released(notebook["metadata"]["torchcourse"]["lesson"])
    if habit == "copied":
        notebook = _reworded(before)
    if habit == "endless":
        cell = _solutions(notebook)[0]
        reference = _choices(notebook["metadata"]["torchcourse"]["lesson"])[_meta(cell)["grade_id"]].right[0]
        cell["source"] = _endless(reference)
    if habit == "points":
        check = next(c for c in notebook["cells"] if _meta(c).get("grade"))
        check["metadata"]["nbgrader"]["points"] = 100
    if habit == "oddly":
        notebook["cells"].insert(2, _code(WARNING))
        notebook["metadata"]["kernelspec"] = {"display_name": "my env", "language": "python", "name": "my-env"}
        return b"\xef\xbb\xbf" + json.dumps(notebook, indent=1).encode().replace(b"\n", b"\r\n")
    data = json.dumps(notebook, indent=1).encode()
    return data[: len(data) // 3] if habit == "truncated" else data


def _endless(source: str) -> str:
    """An answer whose first function never returns: a loop stands before its first statement."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    function = next(node for node in functions if node.body[0].lineno > node.lineno)
    documented = ast.get_docstring(function) is not None and len(function.body) > 1
    first = function.body[1 if documented else 0]
    lines, pad = source.splitlines(), " " * first.col_offset
    return "\n".join([*lines[: first.lineno - 1], f"{pad}while True:", f"{pad}    pass", *lines[first.lineno - 1 :]])


def _notebook(lesson: str, student: str) -> Any:
    """A whole notebook, as this student would have answered it."""
    chance = random.Random(f"{lesson} {student}")
    skill = chance.betavariate(4, 1.6)
    notebook = _released(lesson)
    for place, cell in enumerate(_solutions(notebook)):
        name = _meta(cell)["grade_id"]
        tired = 0.2 * place / len(_choices(lesson))
        luck = chance.random()
        if luck < skill - tired:
            cell["source"] = chance.choice(_choices(lesson)[name].right)
        elif luck < 0.93 - tired and _choices(lesson)[name].wrong:
            wrong = _choices(lesson)[name].wrong
            cell["source"] = wrong[min(chance.randrange(len(wrong)), chance.randrange(len(wrong)))]
        elif luck > 0.98:
            cell["source"] = BEFORE_PYTHON + cell["source"].replace(":\n", "\n", 1)
    return notebook


@dataclass(frozen=True)
class _Choices:
    """The texts that an exercise is answered with."""

    right: list[str]
    wrong: list[str]


@cache
def _choices(lesson: str) -> dict[str, _Choices]:
    from autograde.verifying import right_answers

    cells = read_script(course.SOLUTIONS / f"{lesson}.py")
    setup: dict[str, Any] = {"__name__": f"sample_{lesson}"}
    for cell in cells:
        if "setup" in cell.tags:
            exec(compile(cell.source, lesson, "exec"), setup)
    references = answers_as_text(course.SOLUTIONS / f"{lesson}.py")
    module = LESSONS[lesson]
    hidden, right = course.AUTOGRADE / "hidden" / f"{module}.py", course.ROOT / "tests" / "right" / f"{module}.py"
    taken = {name for cell in cells if cell.kind == "code" for name in bound_names(cell.source)}
    found = {}
    for cell in cells:
        if name := cell.exercise:
            others = [carried(answer, right, name, setup, taken) for answer in right_answers(lesson).get(name, [])]
            wrong = [carried(mistake.answer(), hidden, name, setup, taken) for mistake in course.mistakes(lesson)[name]]
            found[name] = _Choices([references[name]] * 2 + [*filter(None, others)], list(filter(None, wrong)))
    return found


def _reworded(notebook: Any) -> Any:
    """The same answers with other comments and another name or two: what a copy looks like."""
    changed = copy.deepcopy(notebook)
    for cell in _solutions(changed):
        cell["source"] = "# my own solution\n" + re.sub(r"\b(result|out|total)\b", r"my_\1", cell["source"])
    return changed


@cache
def _released_text(lesson: str) -> str:
    return (course.NOTEBOOKS / f"{lesson}.ipynb").read_text(encoding="utf-8")


def _released(lesson: str) -> Any:
    notebook = json.loads(_released_text(lesson))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def _solutions(notebook: Any) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if _meta(cell).get("solution")]


def _meta(cell: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = cell["metadata"].get("nbgrader", {})
    return found


def _code(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [], "source": source}
