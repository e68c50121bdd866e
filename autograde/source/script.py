"""Read and check lesson scripts: the solved lessons as authors write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jupytext

from torchcourse.checking.references import GIVEN, without_markers
from torchcourse.model.catalogue import LESSONS, exercises, lesson_with

__all__ = [
    "Cell",
    "MalformedScriptError",
    "answers",
    "answers_as_text",
    "read_script",
    "rubrics",
    "with_given_code",
]

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
KNOWN_KEYS = {"exercise", "points", "check", "question", "tags", "lines_to_next_cell"}
UNPARSED = "incorrectly_encoded_metadata"
"""The key under which jupytext keeps the part of a cell header that it cannot read."""


class MalformedScriptError(ValueError):
    """A lesson script cannot be built; the message gives file, line and remedy."""


@dataclass(frozen=True)
class Cell:
    """One cell of a lesson script. `exercise` and `check` name an exercise, or are empty.

    A `question` is answered in words, in a Markdown cell, and graded by hand. Between the answer markers is its rubric.
    """

    kind: str
    source: str
    line: int
    exercise: str = ""
    points: int = 0
    check: str = ""
    question: str = ""
    tags: tuple[str, ...] = field(default=())


def read_script(path: Path) -> list[Cell]:
    """Return the cells of a lesson script.

    Raises:
        MalformedScriptError: for an unknown, duplicate or missing exercise, a check without its exercise, missing
            points, or answer markers that are not one BEGIN and one END.
    """
    text = path.read_text(encoding="utf-8")
    notebook = jupytext.reads(text, fmt="py:percent")
    starts = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith("# %%")]
    if len(starts) != len(notebook.cells):
        raise MalformedScriptError(
            f"{path}:1: {len(starts)} cell markers, {len(notebook.cells)} cells: start each cell with # %%"
        )
    cells = [_cell(path, line, cell) for line, cell in zip(starts, notebook.cells, strict=True)]
    for complaint in _complaints(path.stem, cells):
        raise MalformedScriptError(f"{path}:{complaint}")
    return cells


def _cell(path: Path, line: int, cell: Any) -> Cell:
    metadata = dict(cell.metadata)
    names = [metadata.get(key, "") for key in ("exercise", "check", "question")]
    if UNPARSED in metadata or not all(isinstance(name, str) for name in names):
        raise MalformedScriptError(f"{path}:{line}: the cell header cannot be read; write it in the form "
                                   '# %% exercise="name" points=2, without commas')  # fmt: skip
    unknown = sorted(metadata.keys() - KNOWN_KEYS)
    if unknown:
        raise MalformedScriptError(f"{path}:{line}: unknown key {unknown[0]!r}; a cell header may say "
                                   "exercise, points, check, question or tags")  # fmt: skip
    return Cell(
        kind=cell.cell_type, source=cell.source, line=line, exercise=names[0], check=names[1], question=names[2],
        points=metadata.get("points", 0), tags=tuple(metadata.get("tags", ())),
    )  # fmt: skip


def _complaints(lesson: str, cells: list[Cell]) -> Iterator[str]:
    """Yield what is wrong with the cells, each as `line: what; remedy`."""
    if lesson not in LESSONS:
        yield f"1: no lesson is called {lesson}; add it to BUILT_IN in src/torchcourse/model/catalogue.py"
        return
    known, seen, questions = exercises(lesson), dict[str, int](), set[str]()
    for before, cell in zip([None, *cells], cells, strict=False):
        if cell.exercise:
            yield from _exercise_complaints(lesson, cell, known, seen)
            seen.setdefault(cell.exercise, cell.line)
        elif cell.question:
            yield from _question_complaints(cell, {*known, *questions})
            questions.add(cell.question)
        elif BEGIN in cell.source or END in cell.source:
            yield f'{cell.line}: answer markers in a cell without exercise="…"; name its exercise'
        if cell.check and (before is None or before.exercise != cell.check):
            yield f'{cell.line}: check="{cell.check}" does not follow its exercise; put it right after that cell'
        if cell.check and cell.source.strip() != f'check("{cell.check}")':
            yield f'{cell.line}: the check cell holds something else; it reads check("{cell.check}") and nothing else'
    checked = {cell.check for cell in cells}
    for name, line in seen.items():
        if name not in checked:
            yield f'{line}: exercise {name} has no check; add a cell # %% check="{name}" after it'
    for name in known:
        if name not in seen:
            yield f'1: exercise {name} has no answer cell; add one with # %% exercise="{name}" points=…'


def _exercise_complaints(lesson: str, cell: Cell, known: Any, seen: dict[str, int]) -> Iterator[str]:
    name = cell.exercise
    if name not in known:
        yield f"{cell.line}: unknown exercise {name}; the lesson has {', '.join(known)}"
    elif (first := lesson_with(name)) and first != lesson:
        yield f"{cell.line}: exercise {name} is one of {first}; names are unique in the course"
    if name in seen:
        yield f"{cell.line}: exercise {name} is already at line {seen[name]}; each has one answer cell"
    yield from _marking_complaints(cell, f"exercise {name}", "answer")
    if not re.search(rf"^(def|class) {re.escape(name)}\b", cell.source, re.MULTILINE):
        yield f"{cell.line}: the answer cell of {name} does not define it; start it with def or class {name}"


def _question_complaints(cell: Cell, taken: set[str]) -> Iterator[str]:
    name = cell.question
    if cell.kind != "markdown" or not name.isidentifier() or name.startswith("check_") or name in taken:
        yield f"{cell.line}: question {name} has to be a Markdown cell, with a name that nothing else has"
    yield from _marking_complaints(cell, f"question {name}", "rubric")


def _marking_complaints(cell: Cell, what: str, inside: str) -> Iterator[str]:
    if type(cell.points) is not int or cell.points < 1:
        yield f"{cell.line}: {what} needs points; write a positive whole number, such as points=2"
    lines = [line.strip() for line in cell.source.splitlines()]
    marks = [line for line in lines if line in (BEGIN, END)]
    if marks != [BEGIN, END]:
        yield f"{cell.line}: {what} needs one line {BEGIN} and then one line {END}, with the {inside} between"


def rubrics(path: Path) -> dict[str, str]:
    """Return the rubric of each question of a lesson script, by the question's name.

    Raises:
        MalformedScriptError: as `read_script` does.
    """
    questions = [cell for cell in read_script(path) if cell.question]
    return {cell.question: cell.source.partition(BEGIN)[2].partition(END)[0].strip() for cell in questions}


def answers(path: Path) -> dict[str, Callable[..., Any]]:
    """Run the setup and answer cells of a lesson script; return the references that they define, by exercise.

    Raises:
        MalformedScriptError: as `read_script` does.
    """
    namespace: dict[str, Any] = {"__name__": f"solution_{path.stem}"}
    cells = read_script(path)
    for cell in cells:
        if cell.exercise or "setup" in cell.tags:
            code = compile("\n" * cell.line + cell.source, str(path), "exec")
            exec(code, namespace)
    return {cell.exercise: namespace[cell.exercise] for cell in cells if cell.exercise}


def answers_as_text(path: Path) -> dict[str, str]:
    """Return the references in the answer cells of a lesson script, by exercise.

    Raises:
        MalformedScriptError: as `read_script` does.
    """
    return {cell.exercise: without_markers(cell.source) for cell in read_script(path) if cell.exercise}


def with_given_code(source: str) -> str:
    """Return the source of a cell in which the code for learners is code and no comment."""
    return re.sub(rf"^( *){GIVEN} ?(.*)$", lambda line: (line[1] + line[2]).rstrip(), source, flags=re.MULTILINE)
