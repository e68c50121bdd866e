"""Notebooks damaged at random, in their bytes, their JSON and their cells, graded as a class.

    python -m benchmarks.mutants [--count 10000] [--seed 0] [--workers 2] [--folder DIR]

Every mutant has to get one verdict for each exercise, no batch may stop, and none may score more than the honest
notebook that it was made from: one in eight is made from a full one, where most exercises are answered, the others from
a brief one, where most are still stubs. Prints what was found and ends with 1 if anything broke that rule.

All are read, judged, recorded and written about as any submission is; of those in which grading runs the same cells,
damaged elsewhere, only the first is run. With a folder, the same command goes on where an earlier one was ended.
"""

from __future__ import annotations

import argparse
import collections
import copy
import dataclasses
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from autograde import grading
from autograde.files import write_atomically
from autograde.grading import Examiner, Graded, grade
from autograde.journal import fingerprint
from autograde.sample import LESSON, make_sample_class
from autograde.sandbox import Sandbox
from autograde.settings import LIMITS
from autograde.submission import Submission, release
from autograde.verdict import STATUSES, Verdict, without_examination

PATIENT = dataclasses.replace(LIMITS, start_seconds=600, lane_seconds=1200)
BATCH = 250
HONEST = "honest-full", "honest-brief"
WRONG = ("row_softmax", "standardize")
STUBS = ("flatten_reporting", "sliding_windows", "masked_mean")
BRIEF = ("describe", "select_scores", "one_hot", *WRONG)
JUNK: list[Any] = [
    None, True, -1, 0, 1e308, float("nan"), float("inf"), "", "x", "\ud800", [], {}, [[]], {"a": 1}, 10**30,
]  # fmt: skip
CHARACTERS = b" \"'\\,:()[]{}=+-*.0179_abnxyz\n"
LINES = ("x = 1\n", "%%time\n", "!true\n", "raise SystemExit\n", "é\x00\n", "    pass\n")


def honest() -> tuple[dict[str, Any], dict[str, Any]]:
    """A full notebook and a brief one, each with right answers, wrong ones and stubs: there is something to gain."""
    with tempfile.TemporaryDirectory() as folder:
        make_sample_class(Path(folder))
        right, wrong, stubs = (
            json.loads((Path(folder) / name / LESSON / f"{LESSON}.ipynb").read_bytes())
            for name in ("ben", "cleo", "eve")
        )
    full, brief = right, copy.deepcopy(stubs)
    for place, cell in enumerate(stubs["cells"]):
        name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        if name in STUBS:
            full["cells"][place] = cell
        if name in WRONG:
            full["cells"][place] = wrong["cells"][place]
        if name in BRIEF:
            brief["cells"][place] = full["cells"][place]
    return full, brief


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


def retype(draw: random.Random, cells: list[Any]) -> None:
    draw.choice(cells)["cell_type"] = draw.choice(("code", "markdown", "raw", "heading", 7))


def tag(draw: random.Random, cells: list[Any]) -> None:
    draw.choice(cells)["metadata"]["tags"] = draw.choice((["skip-execution"], ["demo"], ["setup"], "x", [None]))


def rename(draw: random.Random, cells: list[Any]) -> None:
    meta = _graded(draw, cells)
    meta["grade_id"] = draw.choice([*release(LESSON).cells, "mine", "", None, 3, []])


def repoint(draw: random.Random, cells: list[Any]) -> None:
    _graded(draw, cells)["points"] = draw.choice([0, -1, 1, 2, 100, 1e308, float("nan"), "2", None, [2], True])


def reflag(draw: random.Random, cells: list[Any]) -> None:
    key = draw.choice(("grade", "locked", "solution", "task", "schema_version", "cell_type", "checksum"))
    _graded(draw, cells)[key] = draw.choice([True, False, 99, -1, None, "x"])


def reidentify(draw: random.Random, cells: list[Any]) -> None:
    draw.choice(cells)["id"] = draw.choice([draw.choice(cells).get("id"), "x", "", None, 5])


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


def _graded(draw: random.Random, cells: list[Any]) -> dict[str, Any]:
    """The metadata of some cell that nbgrader knows, or that is to become one."""
    known = [cell for cell in cells if "nbgrader" in cell["metadata"]]
    meta: dict[str, Any] = draw.choice(known or cells)["metadata"].setdefault("nbgrader", {})
    return meta


CHANGES: list[Callable[[random.Random, list[Any]], None]] = [
    double, move, take_out, retype, tag, rename, repoint, reflag, reidentify, edit, edit, edit, exchange,
]  # fmt: skip


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
    points = {name: release(LESSON).points(name) for name in release(LESSON).exercises}
    if [v.exercise for v in graded.verdicts] != list(points):
        yield "not one verdict for each exercise"
    for v in graded.verdicts:
        where = f"{v.exercise}: {v.status} {v.score:g}"
        sound = v.status in STATUSES and v.max_score == points[v.exercise] and v.message and v.message.isprintable()
        if not sound:
            yield f"{where}: not a sound verdict: {v}"
        if v.score > most[v.exercise]:
            yield f"{where}: more than the honest {most[v.exercise]:g}: {v.message}"


class Remembering(Examiner):
    """Runs the same cells once. Verdicts on exercises that are examined depend on nothing else of a submission."""

    def __init__(self, lesson: str, seed: int, gpu: bool = False, anew: bool = False) -> None:
        super().__init__(lesson, seed, gpu, anew)
        self.known: dict[object, dict[str, Verdict]] = {}

    def grade(self, sandbox: Sandbox, submission: Submission) -> Graded:
        """The verdicts on one submission."""
        early = {name: without_examination(submission, name) for name in release(self.lesson).exercises}
        pending = tuple((name, submission.solution(name)) for name, verdict in early.items() if verdict is None)
        ran = (tuple(submission.to_run()), pending) if pending else None
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
    texts = {f"m{number:06}": mutant(originals, seed, number) for number in numbers}
    unharmed = {name: json.dumps(notebook).encode() for name, notebook in zip(HONEST, originals, strict=True)}
    for name, data in {**unharmed, **texts}.items():
        path = submitted / name / LESSON / f"{LESSON}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    try:
        with mock.patch.object(grading, "Examiner", remembering):
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


def noted(folder: Path, numbers: range, seed: int, workers: int) -> Findings:
    """What `run` finds, or has found of the same grader before."""
    note = folder / "found" / f"{fingerprint(LESSON)[:16]}-{seed}-{numbers.start}-{numbers.stop}.json"
    if note.exists():
        said = json.loads(note.read_text(encoding="utf-8"))
        return Findings(**{**said, "statuses": collections.Counter(said["statuses"])})
    found = run(folder, numbers, seed, workers)
    for made in ("autograded", "feedback"):  # many gigabytes of them, in the end
        shutil.rmtree(folder / "out" / made, ignore_errors=True)
    write_atomically(note, json.dumps(vars(found)))
    return found


def main() -> int:
    """Run what the arguments ask for; the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="keeps what was found; a temporary one, if none is named")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        total = _all(chosen, chosen.folder or Path(temporary))
    return int(bool(total.unsound))


def _all(chosen: argparse.Namespace, folder: Path) -> Findings:
    begun, total = time.monotonic(), Findings()
    for first in range(0, chosen.count, BATCH):
        part = noted(folder, range(first, min(first + BATCH, chosen.count)), chosen.seed, chosen.workers)
        total.add(part)
        for line in part.unsound:
            print(line, flush=True)
        print(f"{total.graded} mutants, {total.aborts} batches stopped, {len(total.unsound)} complaints, "
              f"{time.monotonic() - begun:.0f} s: {dict(total.statuses.most_common())}", flush=True)  # fmt: skip
    return total


if __name__ == "__main__":
    sys.exit(main())
