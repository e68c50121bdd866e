"""Make synthetic classes: students who do not exist, and the notebooks that they hand in.

Right answers are the reference or one of the other right answers; wrong ones make a known mistake. Some students leave
exercises out, some hand in late, and a few files are damaged as real files are. The same call always makes the same
class.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from autograde.classroom.roster import Member
from autograde.course.inline_source import bound_names, inline_source
from autograde.files import write_atomically
from autograde.results.exchange_files import TIME_FILE
from autograde.source import paths
from autograde.source.private_half import private_half, private_path
from autograde.source.script import answers_as_text, read_script
from torchcourse.model.notebook_file import is_check

__all__ = ["SAMPLE_LESSON", "answered_notebook", "code_cell", "invented_members", "write_notebook",
           "write_sample_class", "write_submissions"]  # fmt: skip

SAMPLE_LESSON = "01_tensors"
"""The lesson of the sample class of ten."""
CLEO = {
    "row_softmax": "global-maximum", "standardize": "sample-variance", "image_to_chw": "reshaped-not-permuted",
    "attention_scores": "not-scaled", "masked_mean": "masked-values-leak",
}  # fmt: skip
"""The mistakes of Cleo, one of the ten, by exercise."""

FIRST = (
    "Ada", "Ben", "Chloé", "Daniel", "Elif", "Farid", "Greta", "Hiro", "Irma", "Jonas", "Kavya", "Lena", "Mateo",
    "Noor", "Olga", "Pablo", "Qing", "Rosa", "Samuel", "Tala",
)  # fmt: skip
LAST = (
    "Okafor", "Müller", "García", "Nguyen", "Rossi", "Yildiz", "Novak", "Silva", "Cohen", "Haddad", "Tanaka", "Dubois",
    "Kowalski", "Andersen", "Mehta", "O'Neil", "Petrov", "Santos", "Weber", "Zhang",
)  # fmt: skip
ASCII = str.maketrans("éüí", "eui", "' ")

HARMLESS = """import sys, warnings
warnings.warn("this costs nothing")
print("nor does this", file=sys.stderr)
torch.set_default_dtype(torch.float64)
torch.manual_seed(1)"""
ENDLESS = "while True:\n    pass"
EXITS = "import os\nos._exit(1)"


# --- the class of ten ---------------------------------------------------------------------------------------------


def write_sample_class(folder: Path) -> list[str]:
    """Write ten submissions of lesson 01 as STUDENT/LESSON/LESSON.ipynb, and return the names of the students."""
    lesson, choices = SAMPLE_LESSON, _choices(SAMPLE_LESSON)
    right = {name: choice.right[0] for name, choice in choices.items()}
    files: dict[str, bytes | None] = {
        "ada": _as_bytes(answered_notebook(lesson, right)),
        "ben": _as_bytes(answered_notebook(lesson, {name: choice.right[-1] for name, choice in choices.items()})),
        "cleo": _as_bytes(answered_notebook(lesson, right | {n: choices[n].wrong_by_name(m) for n, m in CLEO.items()})),
        "dan": _as_bytes(answered_notebook(lesson, right | {
            "one_hot": choices["one_hot"].wrong_by_name("made-on-cpu"),
            "pairwise_distances": "def pairwise_distances(a, b):\n    return torch.cdist(a, b)",
            "describe": _without_colon(right["describe"]),
        })),
        "eve": _as_bytes(answered_notebook(lesson, {})),
        "finn": _truncated(answered_notebook(lesson, right)),
        "gil": None,
        "hana": _saved_elsewhere(answered_notebook(lesson, right)),
        "ivo": _as_bytes(answered_notebook(lesson, right | {
            "standardize": _beginning_with(ENDLESS, right["standardize"]),
            "masked_mean": _beginning_with(EXITS, right["masked_mean"]),
        })),
        "jun": _tampered(answered_notebook(lesson, right), "describe", "one_hot", "to_numpy"),
    }  # fmt: skip
    for student, data in files.items():
        write_notebook(folder, student, lesson, data)
    return list(files)


# --- a class of any size ------------------------------------------------------------------------------------------


def invented_members(count: int) -> list[Member]:
    """Return students who do not exist, with addresses that do not exist either."""
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
    """Write the submissions of `members` as STUDENT/LESSON/LESSON.ipynb; existing ones stay as they are.

    Args:
        due: due dates in UTC, by lesson; for these the time of submission is written beside the notebook.

    Returns:
        The new notebooks.
    """
    written = []
    for lesson in lessons:
        answers = [_answers(lesson, member.id) for member in members]
        for place, member in enumerate(members):
            if (folder / member.id / lesson).exists():
                continue
            data = _handed_in(lesson, _habit(place, len(members)), answers[place], answers[place - 1])
            path = write_notebook(folder, member.id, lesson, data)
            if data is not None:
                written.append(path)
                if lesson in due:
                    _write_time(path.with_name(TIME_FILE), due[lesson], random.Random(f"{lesson} {member.id}"))
    return written


def _write_time(path: Path, due: datetime, chance: random.Random) -> None:
    """Write a time of submission: up to 50 hours before the due date, or after it for one in eight."""
    late = chance.random() < 1 / 8
    hours = chance.uniform(0.1, 50)
    time = (due + timedelta(hours=hours if late else -hours)).replace(microsecond=0)
    write_atomically(path, f"{time} UTC\n")


def _habit(place: int, size: int) -> str:
    """Return what is special about the submission of the student at this place, or ""; of twenty students each kind has
    one."""
    kinds = ["untouched", "endless", "missing", "odd", "copied", "truncated", "tampered"]
    step = max(2, size // (len(kinds) + 1))
    return kinds[place // step - 1] if place and not place % step and place // step <= len(kinds) else ""


def _handed_in(lesson: str, habit: str, answers: dict[str, str], neighbours: dict[str, str]) -> bytes | None:
    """Return the bytes of a submission; None if nothing is handed in."""
    names = list(_choices(lesson))
    match habit:
        case "missing":
            return None
        case "untouched":
            answers = {}
        case "copied":
            answers = {name: _reworded(source) for name, source in neighbours.items()}
        case "endless":
            answers = answers | {names[0]: _beginning_with(ENDLESS, _choices(lesson)[names[0]].right[0])}
    notebook = answered_notebook(lesson, answers)
    special: dict[str, Callable[[dict[str, Any]], bytes]] = {
        "odd": _saved_elsewhere, "truncated": _truncated, "tampered": lambda made: _tampered(made, *names[:3]),
    }  # fmt: skip
    return special.get(habit, _as_bytes)(notebook)


def _answers(lesson: str, student: str) -> dict[str, str]:
    """Return the answers of a student, by exercise, without the exercises that they leave out."""
    chance = random.Random(f"{lesson} {student}")
    skill = chance.betavariate(4, 1.6)
    answers = {}
    for place, (name, choice) in enumerate(_choices(lesson).items()):
        tired = 0.2 * place / len(_choices(lesson))
        luck = chance.random()
        if luck < skill - tired:
            answers[name] = chance.choice(choice.right)
        elif luck < 0.93 - tired and choice.wrong:
            wrong = list(choice.wrong)
            answers[name] = wrong[min(chance.randrange(len(wrong)), chance.randrange(len(wrong)))]
        elif luck > 0.98:
            answers[name] = _without_colon(choice.right[0])
    return answers


# --- answers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Choice:
    """The texts that answer an exercise: right ones, the reference first, and wrong ones with their mistakes' names."""

    right: list[str]
    wrong: dict[str, str]

    def wrong_by_name(self, mistake: str) -> str:
        """Return the first text that makes this mistake."""
        return next(text for text, name in self.wrong.items() if name == mistake)


@cache
def _choices(lesson: str) -> dict[str, _Choice]:
    cells = read_script(paths.script(lesson))
    setup: dict[str, Any] = {"__name__": f"synthetic_{lesson}"}
    for cell in cells:
        if "setup" in cell.tags:
            exec(compile(cell.source, lesson, "exec"), setup)
    references = answers_as_text(paths.script(lesson))
    taken = {name for cell in cells if cell.kind == "code" for name in bound_names(cell.source)}
    found = {}
    for name, reference in references.items():
        half, path = private_half(lesson, name), private_path(lesson, name)
        others = [inline_source(answer, path, name, setup, taken) for answer in half.right_answers]
        wrong: dict[str, str] = {}
        for mistake in half.mistakes:
            wrong.setdefault(inline_source(mistake.program, path, name, setup, taken), mistake.name)
        wrong.pop("", None)  # programs that cannot be written as text
        found[name] = _Choice([reference, reference, *filter(None, others)], wrong)
    return found


def _beginning_with(statements: str, source: str) -> str:
    """Return an answer with `statements` before the first statement of its first function."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    function = next(node for node in functions if node.body[0].lineno > node.lineno)
    documented = ast.get_docstring(function) is not None and len(function.body) > 1
    first = function.body[1 if documented else 0]
    lines, pad = source.splitlines(), " " * first.col_offset
    new = [pad + line for line in statements.splitlines()]
    return "\n".join([*lines[: first.lineno - 1], *new, *lines[first.lineno - 1 :]])


def _without_colon(source: str) -> str:
    """Return an answer with a syntax error: without the first colon at the end of a line."""
    return source.replace(":\n", "\n", 1)


def _reworded(source: str) -> str:
    """Return an answer with another comment and other names, like a disguised copy."""
    return "# my own solution\n" + re.sub(r"\b(result|out|total)\b", r"my_\1", source)


# --- notebooks ----------------------------------------------------------------------------------------------------


def answered_notebook(lesson: str, answers: Mapping[str, str]) -> dict[str, Any]:
    """Return the released notebook of a lesson with answers by exercise; the source of each cell is one string."""
    notebook: dict[str, Any] = json.loads(_released(lesson))
    for cell in notebook["cells"]:
        cell["source"] = answers.get(_grade_id(cell), "".join(cell["source"]))
    return notebook


def write_notebook(folder: Path, student: str, lesson: str, data: bytes | dict[str, Any] | None) -> Path:
    """Write a submission as STUDENT/LESSON/LESSON.ipynb, or only its folder if `data` is None; return its path."""
    path = folder / student / lesson / f"{lesson}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    if data is not None:
        write_atomically(path, _as_bytes(data) if isinstance(data, dict) else data)
    return path


def code_cell(source: str) -> dict[str, Any]:
    """Return a code cell as a learner adds it."""
    return {"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [], "source": source}


@cache
def _released(lesson: str) -> str:
    return paths.notebook(lesson).read_text(encoding="utf-8")


def _grade_id(cell: dict[str, Any]) -> str:
    return str(cell["metadata"].get("nbgrader", {}).get("grade_id", ""))


def _as_bytes(notebook: dict[str, Any]) -> bytes:
    return json.dumps(notebook, indent=1).encode()


def _truncated(notebook: dict[str, Any]) -> bytes:
    data = _as_bytes(notebook)
    return data[: len(data) // 3]


def _saved_elsewhere(notebook: dict[str, Any]) -> bytes:
    """Return a notebook with what happens to honest ones: another kernel, a cell that warns, check cells deleted and
    moved, a byte order mark and Windows line ends."""
    cells = notebook["cells"]
    setup = next(place for place, cell in enumerate(cells) if "setup" in cell["metadata"].get("tags", []))
    cells.insert(setup + 1, code_cell(HARMLESS))
    deleted, moved, *_ = [cell for cell in cells if is_check(_grade_id(cell))]
    notebook["cells"] = [cell for cell in cells if cell is not deleted and cell is not moved] + [moved]
    notebook["metadata"]["kernelspec"] = {"display_name": "my env", "language": "python", "name": "my-env"}
    return b"\xef\xbb\xbf" + _as_bytes(notebook).replace(b"\n", b"\r\n")


def _tampered(notebook: dict[str, Any], worth_more: str, renamed: str, retyped: str) -> bytes:
    """Change the points of one exercise, the grade_id of another and the cell type of a third."""
    for cell in notebook["cells"]:
        if _grade_id(cell) == f"check_{worth_more}":
            cell["metadata"]["nbgrader"]["points"] = 100
        elif _grade_id(cell) == renamed:
            cell["metadata"]["nbgrader"]["grade_id"] = worth_more
        elif _grade_id(cell) == retyped:
            cell["cell_type"] = "markdown"
    return _as_bytes(notebook)
