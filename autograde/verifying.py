"""The gate: claims about the course, each proven by running something."""

from __future__ import annotations

import importlib.util
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
from nbclient import NotebookClient

from autograde import course, storing
from autograde.building import generate, headings
from autograde.oracle import Oracle, hidden, references, visible
from autograde.oracle import oracle as make_oracle
from autograde.scaffold import SYLLABUS, left, syllabus_entry
from autograde.script import read_script
from autograde.submission import release
from torchcourse import stored
from torchcourse.checking import examine
from torchcourse.exercise import LESSONS, Unattempted, UnknownExerciseError, exercises
from torchcourse.explaining import Known, Result, compare, compared
from torchcourse.lanes import accelerator_lane, lanes
from torchcourse.probing import observe
from torchcourse.reporting import Report, judge

__all__ = ["Claim", "verify"]

SEEDS = (11, 12)
FEWEST_RIGHT, FEWEST_MISTAKES = 2, 3
HINT_WORDS = range(8, 66)


@dataclass(frozen=True)
class Claim:
    """Something that has to hold of the course, and whether it does."""

    about: str
    holds: bool
    says: str


def verify(which: Sequence[str] | None = None) -> Iterator[Claim]:
    """Prove lessons, or exercises as LESSON:EXERCISE; the whole course where nothing is named.

    Raises:
        UnknownExerciseError: for a lesson or exercise that does not exist.
    """
    for name in which or LESSONS:
        lesson, _, exercise = name.partition(":")
        known = exercises(lesson)
        if exercise and exercise not in known:
            raise UnknownExerciseError(f"{lesson} has no exercise {exercise!r}.")
        for one in [exercise] if exercise else known:
            yield from _exercise(lesson, one)
        if not exercise:
            yield from _notebooks(lesson)


# --- one exercise -------------------------------------------------------------------------------------------------


def _exercise(lesson: str, name: str) -> Iterator[Claim]:
    about = f"{lesson}:{name}"
    stub = _stub(lesson, name)  # before an oracle is made: it runs a cell that may take an operator from the reference
    wide = _graded(lesson, name)
    oracle = wide.narrowed(len(visible(wide.exercise)))
    for mark in left(lesson, name):
        yield Claim(about, False, f"still to be written, {mark.path}:{mark.line}: {mark.what}")
    yield Claim(about, *_in_syllabus(lesson, oracle))
    yield Claim(about, *stub)
    every = wide, *_drawn_again(lesson, name)
    yield Claim(about, *_observed(every))
    yield Claim(about, *_accepted([wide], "the reference", wide.reference))  # run once more, it does the same
    others = right_answers(lesson).get(name, [])
    enough = len(others) >= FEWEST_RIGHT
    yield Claim(about, enough, f"{len(others)} other right answers, of at least {FEWEST_RIGHT}")
    for number, answer in enumerate(others, 1):
        yield Claim(about, *_accepted(every, f"right answer {number}", answer))
    names = dict.fromkeys(m.name for m in oracle.mistakes)
    yield Claim(about, len(names) >= FEWEST_MISTAKES, f"{len(names)} known mistakes, of at least {FEWEST_MISTAKES}")
    yield Claim(about, *_hints(oracle))
    sections = headings(lesson)
    for place in range(len(oracle.mistakes)):
        results = made_by(wide, wide.known[place])
        yield Claim(about, *_named(oracle, place, results, sections))
        yield Claim(about, *_refused(wide, place, results))
    if _simulates():
        fresh = storing.exercise_fresh(lesson, oracle)
        remedy = "" if fresh else f": run torchcourse build {lesson}"
        yield Claim(about, fresh, f"what the notebook judges by is fresh{remedy}")


def _in_syllabus(lesson: str, oracle: Oracle) -> tuple[bool, str]:
    """The syllabus has the exercise, and the exercise all misconceptions that the syllabus names."""
    entry, where = syllabus().get(lesson, {}).get(oracle.exercise.name), SYLLABUS.relative_to(course.ROOT)
    if entry is None:
        return False, f"{where} does not list it: add {syllabus_entry(oracle.exercise.name)} to {lesson!r}"
    missing = sorted({*entry["misconceptions"]} - {m.name for m in oracle.mistakes})
    return not missing, f"{where} lists it" + (f", and {missing[0]}, which no mistake is called" if missing else "")


@cache
def syllabus() -> dict[str, dict[str, dict[str, Any]]]:
    """By lesson and exercise: the misconceptions it has to tell apart, and whether it runs on any device."""
    entries: dict[str, dict[str, dict[str, Any]]] = json.loads(SYLLABUS.read_text(encoding="utf-8"))
    return entries


def _simulates() -> bool:
    """Whether this process checks on the simulated accelerator, and so sees what a notebook is given to judge by."""
    return accelerator_lane().name == "simulated"


def _stub(lesson: str, name: str) -> tuple[bool, str]:
    """The released cell, run as it is, is told from an attempt.

    An operator of torch has one meaning in a process: a stub that registers the reference's name leaves the reference
    a handle to nothing (torch frees what it points to). So references are read anew after it, and oracles that hold
    the old ones are forgotten.
    """
    if name not in release(lesson).cells:
        return False, f"the notebook does not have it: run torchcourse build {lesson}"
    namespace = dict(_setup(lesson))
    exec(compile(release(lesson).cells[name].source, name, "exec"), namespace)
    report = examine(name, namespace)
    for kept in (references, _graded, _drawn_again):
        kept.cache_clear()
    return report.status == "unattempted", f"the stub is {report.status}"


def _observed(every: Sequence[Oracle]) -> tuple[bool, str]:
    """What is wanted is never an exception that the probe did not expect: all that fail alike would then be right."""
    for oracle in every:
        for lane in lanes(oracle.exercise.any_device):
            for n, case in enumerate(oracle.cases):
                wanted = oracle.wanted(lane.name, n)
                if "raised" in wanted:
                    return False, f"the reference raises in the case {case.name!r} {lane.words}: {wanted['raised']}"
    return True, "the reference is observed in every case"


@cache
def _setup(lesson: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"Unattempted": Unattempted}
    for cell in read_script(course.SOLUTIONS / f"{lesson}.py"):
        if "setup" in cell.tags:
            exec(compile(cell.source, lesson, "exec"), namespace)
    return namespace


@cache
def _right_module(lesson: str) -> ModuleType | None:
    path = course.ROOT / "tests" / "right" / f"{LESSONS[lesson]}.py"
    spec = importlib.util.spec_from_file_location(f"right_{LESSONS[lesson]}", path)
    if not path.exists() or spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def right_answers(lesson: str) -> dict[str, list[Callable[..., Any]]]:
    """Right answers unlike the reference, by exercise."""
    answers: dict[str, list[Callable[..., Any]]] = getattr(_right_module(lesson), "RIGHT", {})
    return answers


def run(oracle: Oracle, answer: Callable[..., Any]) -> list[Result]:
    """An answer in every case of an oracle, on every lane."""
    exercise = oracle.exercise
    return [
        compare(exercise, case, n, lane.name, observe(exercise, answer, case, lane), oracle.wanted(lane.name, n))
        for lane in lanes(exercise.any_device)
        for n, case in enumerate(oracle.cases)
    ]


def made_by(oracle: Oracle, mistake: Known) -> list[Result]:
    """The results of a learner who makes this mistake. That a program does the same when it is run again, is proven by
    what is stored of it being fresh."""
    results = []
    for lane in lanes(oracle.exercise.any_device):
        for n, case in enumerate(oracle.cases):
            seen, wanted = mistake.seen(lane.name, n), oracle.wanted(lane.name, n)
            assert seen is not None, "an oracle runs what it does not know"
            results.append(compared(case, n, lane.name, seen, wanted))
    return results


@cache
def _graded(lesson: str, name: str) -> Oracle:
    """All that a grader judges an exercise by: the visible cases first, then hidden ones."""
    return make_oracle(lesson, name, lambda e: [*visible(e), *hidden(lesson, e, SEEDS[0])])


def _accepted(every: Sequence[Oracle], who: str, answer: Callable[..., Any]) -> tuple[bool, str]:
    """A right answer passes in all cases of these oracles: visible ones, and hidden ones of several seeds."""
    for oracle in every:
        report = judge(oracle.exercise, run(oracle, answer), oracle.known)
        if not report.passed:
            said = f"{report.status} {report.misconception} {report.message}"
            return False, f"{who} does not pass (cases {[c.name for c in oracle.cases]}): {said}"
    return True, f"{who} passes"


@cache
def _drawn_again(lesson: str, name: str) -> list[Oracle]:
    """The hidden cases of further seeds."""
    return [make_oracle(lesson, name, partial(hidden, lesson, seed=seed)) for seed in SEEDS[1:]]


def _hints(oracle: Oracle) -> tuple[bool, str]:
    counts = [len(hint.split()) for hint in oracle.exercise.hints]
    good = len(set(oracle.exercise.hints)) == 3 and all(count in HINT_WORDS for count in counts)
    few, many = HINT_WORDS[0], HINT_WORDS[-1]
    return good, f"hints of {counts} words" + ("" if good else f"; three different ones of {few} to {many} are wanted")


def _named(oracle: Oracle, place: int, results: list[Result], sections: list[str]) -> tuple[bool, str]:
    """A known mistake fails by its own name on the visible cases, in a sentence that quotes what was observed."""
    known = oracle.known[place]
    shown = [result for result in results if result.number < len(oracle.cases)]
    report = judge(oracle.exercise, shown, oracle.known)
    if report.misconception != known.name:
        return False, f"the mistake {known.name} is taken for {report.misconception or report.status}: {report.message}"
    fault = _fault_of(known, report, sections)
    return not fault, f"the mistake {known.name} fails by name{fault and ', but ' + fault}"


def _fault_of(known: Known, report: Report, sections: list[str]) -> str:
    if known.read not in sections:
        return f"points to {known.read!r}, which is no heading of the lesson"
    if not re.search(r"\{[a-z_]+\}", known.sentence):
        return "its sentence quotes nothing that was observed"
    words = report.message.split()
    if len(words) < 8 or report.message[0].islower() or not report.message.endswith("."):
        return f"its message is no full sentence: {report.message}"
    if "…" in report.message or "{" in report.message:
        return f"a field of its message stays empty: {report.message}"
    return ""


def _refused(wide: Oracle, place: int, results: list[Result]) -> tuple[bool, str]:
    """A known mistake is named among visible and hidden cases together, as the grader does."""
    report, name = judge(wide.exercise, results, wide.known), wide.mistakes[place].name
    return report.misconception == name, f"the mistake {name} is {report.misconception or report.status} when graded"


# --- the notebooks ------------------------------------------------------------------------------------------------


def _notebooks(lesson: str) -> Iterator[Claim]:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        made = generate([lesson], root, f"sqlite:///{root / 'gradebook.db'}") / lesson / f"{lesson}.ipynb"
        same = made.read_bytes() == (course.NOTEBOOKS / f"{lesson}.ipynb").read_bytes()
        yield Claim(lesson, same, "the notebook is what the script builds")
        held = list(stored.load(lesson)) == list(exercises(lesson))
        yield Claim(lesson, held, "the notebook has something to judge each exercise by")
        if not _simulates():
            yield Claim(lesson, storing.proven_fresh(lesson), "what the notebook judges by is fresh")
        yield Claim(lesson, *_runs(root / "source" / lesson / f"{lesson}.ipynb", "Right"))
        yield Claim(lesson, *_runs(course.NOTEBOOKS / f"{lesson}.ipynb", "Not attempted"))


def _runs(path: Path, outcome: str) -> tuple[bool, str]:
    """A notebook runs from start to end, warns of nothing, and each check comes out as it should."""
    notebook = nbformat.read(path, as_version=4)
    count = sum("nbgrader" in c.metadata and c.metadata.nbgrader.grade for c in notebook.cells)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=120, allow_errors=True, resources={"metadata": {"path": folder}}).execute()
    faults = [fault for cell in notebook.cells for fault in _faults(cell)]
    shown = [o.get("data", {}).get("text/plain", "") for c in notebook.cells for o in c.get("outputs", [])]
    outcomes = sum(bool(re.match(rf"\w+: {outcome}\.", text)) for text in shown)
    says = f"run start to end, {outcomes} of {count} checks say {outcome!r}"
    return not faults and outcomes == count, says + "".join(f"; {fault}" for fault in faults)


def _faults(cell: Any) -> Iterator[str]:
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            yield f"{cell.id} raised {output.ename}: {output.evalue[:200]}"
        if output.output_type == "stream" and output.name == "stderr":
            yield f"{cell.id} wrote to stderr: {output.text[:200]}"
