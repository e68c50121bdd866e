"""Notebooks that are damaged at random, and what grading them may come to."""

from __future__ import annotations

import collections
import copy
import dataclasses
import json
import random
import shutil
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from autograde.batch import grading
from autograde.batch.grading import Graded, LessonGrader, grade
from autograde.classroom.synthetic_class import SAMPLE_LESSON as LESSON
from autograde.classroom.synthetic_class import write_notebook
from autograde.judge.submission import Submission
from autograde.judge.verdict import STATUSES, Verdict, verdict_without_running
from autograde.sandbox.sandbox import Sandbox
from autograde.settings import LIMITS
from autograde.source.release import load_release
from tests.support.honest import honest

PATIENT = dataclasses.replace(LIMITS, start_seconds=600, device_seconds=1200)
BATCH = 250
HONEST = "honest-full", "honest-brief"
JUNK: list[Any] = [
    None, True, -1, 0, 1e308, float("nan"), float("inf"), "", "x", "\ud800", [], {}, [[]], {"a": 1}, 10**30,
]  # fmt: skip
CHARACTERS = b" \"'\\,:()[]{}=+-*.0179_abnxyz\n"
FLAGS = ("grade", "locked", "solution", "task", "schema_version", "cell_type", "checksum")
FIELDS: dict[tuple[str, ...], list[Any]] = {
    ("cell_type",): ["code", "markdown", "raw", "heading", 7],
    ("id",): ["exercise-one_hot", "check-row_softmax", "x", "", None, 5],
    ("metadata", "tags"): [["skip-execution"], ["demo"], ["setup"], "x", [None]],
    ("metadata", "nbgrader", "grade_id"): [*load_release(LESSON).cells, "mine", "", None, 3, []],
    ("metadata", "nbgrader", "points"): [0, -1, 1, 2, 100, 1e308, float("nan"), "2", None, [2], True],
    **{("metadata", "nbgrader", flag): [True, False, 99, -1, None, "x"] for flag in FLAGS},
}
"""Values that a field of a cell may get, by the keys that lead to it."""
LINES = ("x = 1\n", "%%time\n", "!true\n", "raise SystemExit\n", "é\x00\n", "    pass\n")


def original_of(number: int) -> int:
    """Which of the two honest notebooks a mutant is made from: of each eight of a kind, one from the full one, 0."""
    return int(number // 4 % 8 != 0)


# --- bytes --------------------------------------------------------------------------------------------------------


def in_bytes(draw: random.Random, data: bytes) -> bytes:
    """Some bytes replaced, taken out, doubled, put in; or the end cut off."""
    for _ in range(draw.randint(1, 4)):
        at, size = draw.randrange(len(data) or 1), draw.choice((1, 1, 1, 2, 8, 200))
        match draw.randrange(12):
            case 0:
                data = data[:at]
            case 1 | 2:
                data = data[:at] + data[at + size :]
            case 3 | 4:
                data = data[:at] + draw.randbytes(size) + data[at:]
            case 5 | 6:
                data = data[:at] + data[at : at + size] + data[at:]
            case _:
                data = data[:at] + bytes([draw.choice(CHARACTERS)]) + data[at + 1 :]
    return data


# --- JSON ---------------------------------------------------------------------------------------------------------


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All places in a JSON value: what holds each, and where."""
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, dict | list):
            yield from places(item)


def in_json(draw: random.Random, notebook: dict[str, Any]) -> None:
    """Some values replaced by others, by values from elsewhere in the notebook, or taken out."""
    for _ in range(draw.randint(1, 4)):
        spots = list(places(notebook))
        if not spots:
            return
        (holder, key), (other, there) = draw.choice(spots), draw.choice(spots)
        match draw.randrange(3):
            case 0:
                holder[key] = draw.choice(JUNK)
            case 1:
                holder[key] = copy.deepcopy(other[there])
            case _:
                del holder[key]


# --- cells --------------------------------------------------------------------------------------------------------


def in_cells(draw: random.Random, notebook: dict[str, Any]) -> None:
    """Some cells doubled, moved, taken out, given another text, type or other metadata."""
    for _ in range(draw.randint(1, 5)):
        cells = notebook["cells"]
        if not cells:
            return
        draw.choice(CHANGES)(draw, cells)


def double(draw: random.Random, cells: list[Any]) -> None:
    cells.insert(draw.randrange(len(cells)), copy.deepcopy(draw.choice(cells)))


def move(draw: random.Random, cells: list[Any]) -> None:
    cells.insert(draw.randrange(len(cells)), cells.pop(draw.randrange(len(cells))))


def take_out(draw: random.Random, cells: list[Any]) -> None:
    cells.pop(draw.randrange(len(cells)))


def rewrite(draw: random.Random, cells: list[Any]) -> None:
    *way, field = place = draw.choice(list(FIELDS))
    graded = [cell for cell in cells if "nbgrader" in way and "nbgrader" in cell["metadata"]]
    changed = draw.choice(graded or cells)
    for key in way:
        changed = changed.setdefault(key, {})
    changed[field] = copy.deepcopy(draw.choice(FIELDS[place]))


def edit(draw: random.Random, cells: list[Any]) -> None:
    cell = draw.choice(cells)
    lines = "".join(cell["source"]).splitlines(keepends=True)
    if not lines:
        return
    at = draw.randrange(len(lines))
    match draw.randrange(4):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, draw.choice(lines))
        case 2:
            lines[at] = lines[at][draw.randrange(len(lines[at])) :]
        case _:
            lines.insert(at, draw.choice(LINES))
    cell["source"] = draw.choice((lines, "".join(lines)))


def exchange(draw: random.Random, cells: list[Any]) -> None:
    one, other = draw.choice(cells), draw.choice(cells)
    one["source"], other["source"] = other["source"], one["source"]


CHANGES = (double, move, take_out, *[rewrite] * 6, *[edit] * 3, exchange)


# --- grading them -------------------------------------------------------------------------------------------------


def mutant(originals: tuple[dict[str, Any], dict[str, Any]], seed: int, number: int) -> bytes:
    """One mutant: the same for the same numbers."""
    draw = random.Random(f"{seed}:{number}")
    made = copy.deepcopy(originals[original_of(number)])
    level = number % 4
    if level in (0, 3):
        in_cells(draw, made)
    if level in (1, 3):
        in_json(draw, made)
    data = json.dumps(made, indent=1).encode()
    return in_bytes(draw, data) if level == 2 or (level == 3 and draw.random() < 0.3) else data


def complaints(graded: Graded, most: dict[str, float]) -> Iterator[str]:
    """What is wrong with the verdicts on one mutant."""
    points = {name: load_release(LESSON).points(name) for name in load_release(LESSON).exercises}
    if [v.exercise for v in graded.verdicts] != list(points):
        yield "not one verdict for each exercise"
    for v in graded.verdicts:
        where = f"{v.exercise}: {v.status} {v.score:g}"
        sound = v.status in STATUSES and v.max_score == points[v.exercise] and v.message and v.message.isprintable()
        if not sound:
            yield f"{where}: not a sound verdict: {v}"
        if v.score > most[v.exercise]:
            yield f"{where}: more than the honest {most[v.exercise]:g}: {v.message}"


class Remembering(LessonGrader):
    """Runs the same cells once. Verdicts on exercises that are examined depend on nothing else of a submission."""

    def __init__(self, lesson: str, seed: int, gpu: bool = False, use_cache: bool = True) -> None:
        super().__init__(lesson, seed, gpu, use_cache)
        self.known: dict[object, dict[str, Verdict]] = {}

    def grade(self, sandbox: Sandbox, submission: Submission, *_: Any) -> Graded:
        """The verdicts on one submission."""
        early = {name: verdict_without_running(submission, name) for name in submission.release.exercises}
        pending = tuple(name for name, verdict in early.items() if verdict is None)
        ran = (tuple(submission.cells_to_run()), pending) if pending else None
        if ran not in self.known:
            self.known[ran] = {v.exercise: v for v in super().grade(sandbox, submission).verdicts}
        known = self.known[ran]
        mine = (v or dataclasses.replace(known[name], student=submission.student) for name, v in early.items())
        return Graded(submission, list(mine))


remembering = cache(Remembering)
"""One for all batches."""


@dataclasses.dataclass
class Findings:
    """What came of a run."""

    graded: int = 0
    aborts: int = 0
    unsound: list[str] = dataclasses.field(default_factory=list)
    statuses: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def add(self, more: Findings) -> None:
        """Count `more` too."""
        self.graded += more.graded
        self.aborts += more.aborts
        self.unsound += more.unsound
        self.statuses.update(more.statuses)


def run(folder: Path, numbers: range, seed: int, workers: int = 1) -> Findings:
    """Grade the mutants of these numbers as one batch, below `folder`, where results of other batches may lie."""
    originals, found = honest(), Findings()
    submitted = folder / "submitted"
    shutil.rmtree(submitted, ignore_errors=True)
    mutants = {f"m{number:06}": mutant(originals, seed, number) for number in numbers}
    for name, notebook in zip(HONEST, originals, strict=True):
        write_notebook(submitted, name, LESSON, notebook)
    for name, data in mutants.items():
        write_notebook(submitted, name, LESSON, data)
    try:
        with mock.patch.object(grading, "LessonGrader", remembering):
            done = grade([LESSON], submitted, folder / "out", workers=workers, limits=PATIENT)
    except Exception:
        found.aborts += 1
        found.unsound.append(f"the batch from {numbers.start} stopped:\n{traceback.format_exc()}")
        return found
    scores = {g.submission.student: {v.exercise: v.score for v in g.verdicts} for g in done}
    for name in HONEST:
        if not any(scores[name].values()) or all(scores[name].values()):
            found.unsound.append(f"in the batch from {numbers.start} the {name} one scored {scores[name]}")
    for each in done:
        student = each.submission.student
        if student not in HONEST:
            found.graded += 1
            found.statuses.update(v.status for v in each.verdicts)
            most = scores[HONEST[original_of(int(student[1:]))]]
            found.unsound += [f"{student}: {wrong}" for wrong in complaints(each, most)]
    return found
