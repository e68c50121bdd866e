"""Verify the course: check claims about it, each by running something."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import nbformat

from autograde.course import store
from autograde.course.build import generate, headings
from autograde.course.notebook_run import faults_and_outcomes, unsolved_and_solved
from autograde.course.scaffold import todos
from autograde.course.selection import result_of, results_of, selected
from autograde.errors import CourseError
from autograde.judge.oracle import RIGHT_ANSWER, Oracle, hidden, references, visible
from autograde.judge.oracle import oracle as make_oracle
from autograde.judge.oracle_cache import OracleCache
from autograde.settings import SEED
from autograde.source import paths
from autograde.source.private_half import private_half
from autograde.source.release import load_release
from autograde.source.script import read_script
from torchcourse.checking.check import report_on
from torchcourse.checking.report import Report, judge
from torchcourse.checking.result import Result
from torchcourse.model import stored_observations
from torchcourse.model.catalogue import exercises
from torchcourse.model.devices import CPU, checked_devices, find_accelerator
from torchcourse.model.exercise import Unattempted
from torchcourse.model.known_mistake import KnownMistake
from torchcourse.model.observations import Observations
from torchcourse.ranks.descendants import die_with

__all__ = ["Claim", "results", "verify"]

OTHER_SEEDS = (12,)
"""Further seeds of hidden cases: right answers pass with those too, on the CPU."""
MIN_RIGHT, MIN_MISTAKES = 2, 3
HINT_WORDS = range(8, 66)


@dataclass(frozen=True)
class Claim:
    """A claim that has to be true of the course: what it is about, whether it holds, and its text."""

    about: str
    holds: bool
    says: str


def verify(which: Sequence[str] | None = None, workers: int = 1, use_cache: bool = False) -> Iterator[Claim]:
    """Yield the claims about lessons, or exercises as LESSON:EXERCISE; about the whole course by default.

    Where all claims about an exercise hold, what was observed is saved in the grader's cache.

    Args:
        which: lessons or exercises.
        workers: how many processes check claims at once; 1: this process. The order of the claims is the same.
        use_cache: whether to take what an earlier run observed of exercises that have not changed since, and run only
            those that have, and the notebooks.

    Raises:
        UnknownExerciseError: for a lesson or exercise that does not exist.
    """
    parts: list[partial[Iterator[Claim]]] = []
    for lesson, names, whole in selected(which):
        parts += [partial(_saved_if_they_hold, lesson, name, use_cache) for name in names]
        parts += [partial(_notebook_claims, lesson)] if whole else []
    if workers == 1 or len(parts) == 1:
        for part in parts:
            yield from part()
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=die_with, initargs=(os.getpid(),)) as pool:
        waiting = {part: pool.submit(_listed, part) for part in sorted(parts, key=_max_seconds, reverse=True)}
        try:
            for part in parts:
                yield from waiting[part].result()
        finally:
            pool.shutdown(cancel_futures=True)


def _max_seconds(part: partial[Iterator[Claim]]) -> float:
    """Return the most seconds that a part may take, so that the longest parts can start first; notebooks are last."""
    lesson, *exercise = part.args
    return exercises(lesson)[exercise[0]].seconds if exercise else 0.0


def _listed(part: Callable[[], Iterator[Claim]]) -> list[Claim]:
    return list(part())


# --- one exercise -------------------------------------------------------------------------------------------------


def _saved_if_they_hold(lesson: str, name: str, use_cache: bool) -> Iterator[Claim]:
    """Yield the claims about an exercise. If all of them hold, save what was observed."""
    hold = True
    for claim in _exercise_claims(lesson, name, use_cache):
        hold &= claim.holds
        yield claim
    if hold:
        for seed, oracle in _oracles(lesson, name).items():
            _cache(lesson, seed).save(oracle)


def _cache(lesson: str, seed: int | None) -> OracleCache:
    return OracleCache(lesson, seed, find_accelerator().name)


def _exercise_claims(lesson: str, name: str, use_cache: bool) -> Iterator[Claim]:
    about = f"{lesson}:{name}"
    if not paths.notebook(lesson).is_file():
        yield from _todo_claims(lesson, name)
        yield Claim(about, False, f"it has not been built: run {paths.build_command(lesson)}")
        return
    stub = _stub(lesson, name)  # before any oracle: the stub may register an operator of the reference again
    oracles = _oracles(lesson, name)
    graded = oracles[SEED]
    if use_cache:
        _cache(lesson, None).load(graded)  # what the build observed, in visible cases
        for seed, earlier in oracles.items():
            _cache(lesson, seed).load(earlier)
    oracle = graded.narrowed(len(visible(graded.exercise)))
    yield from _todo_claims(lesson, name)
    yield Claim(about, *_knows_required(lesson, oracle))
    yield Claim(about, *stub)
    try:
        runs = _reference_runs([*oracles.values()])
    except CourseError as error:
        yield Claim(about, False, str(error))
        return
    yield Claim(about, *runs)
    standards = [graded] if graded.exercise.ground_truth is None else [*oracles.values()]
    if runs[0]:  # what raises agrees with itself
        yield Claim(about, *_accepted(standards, 0, graded.reference))
    others = private_half(lesson, name).right_answers
    enough = len(others) >= MIN_RIGHT
    yield Claim(about, enough, f"{len(others)} other right answers, of at least {MIN_RIGHT}")
    for number, answer in enumerate(others, 1):
        yield Claim(about, *_accepted([*oracles.values()], number, answer))
    names = dict.fromkeys(m.name for m in oracle.mistakes)
    yield Claim(about, len(names) >= MIN_MISTAKES, f"{len(names)} known mistakes, of at least {MIN_MISTAKES}")
    yield Claim(about, *_hints(oracle))
    sections = headings(lesson)
    for place in range(len(oracle.mistakes)):
        shown = _shown(oracle, place)
        yield Claim(about, *_named_in_notebook(oracle, place, shown, sections))
        yield Claim(about, *_named_in_grading(graded, place, shown))
    if _is_simulated():
        fresh = store.exercise_fresh(lesson, oracle)
        remedy = "" if fresh else f": run torchcourse build {lesson}"
        yield Claim(about, fresh, f"what the notebook checks answers against is fresh{remedy}")


def _todo_claims(lesson: str, name: str) -> Iterator[Claim]:
    for mark in todos(lesson, name):
        yield Claim(f"{lesson}:{name}", False, f"still to be written, {mark.path}:{mark.line}: {mark.what}")


def _knows_required(lesson: str, oracle: Oracle) -> tuple[bool, str]:
    """Return whether the exercise knows every misconception in `REQUIRED`."""
    required = private_half(lesson, oracle.exercise.name).required
    missing = sorted({*required} - {mistake.name for mistake in oracle.mistakes})
    return not missing, "every required misconception is known" + (f", but {missing[0]} is not" if missing else "")


def _is_simulated() -> bool:
    """Return whether this process uses the simulated accelerator, as the build does."""
    return find_accelerator().name == "simulated"


def _stub(lesson: str, name: str) -> tuple[bool, str]:
    """Return whether the unchanged stub counts as not attempted.

    A process has only one operator of a name: a stub that registers the operator of the reference invalidates the
    reference. So references are loaded again afterwards, and the oracles of the earlier ones are dropped.
    """
    if name not in load_release(lesson).cells:
        return False, f"the notebook does not have it: run torchcourse build {lesson}"
    namespace = dict(_setup(lesson))
    exec(compile(load_release(lesson).cells[name].source, name, "exec"), namespace)
    report = report_on(name, namespace)
    for cached in (references, _oracles):
        cached.cache_clear()
    built = report.status == "unattempted"
    return built, f"the stub is {report.status}{'' if built else _remedy(lesson, name)}"


def _remedy(lesson: str, name: str) -> str:
    """Return the remedy for a stub whose status is not `unattempted`."""
    if "Unattempted(" in load_release(lesson).cells[name].source:
        return ": the code given in the stub, or the setup cell, ends that way before `raise Unattempted` is reached"
    return f": the notebook was not built by this version, run torchcourse build {lesson}"


def _reference_runs(oracles: Sequence[Oracle]) -> tuple[bool, str]:
    """Return whether the reference never raises unexpectedly: answers that raise the same would be right."""
    for oracle in oracles:
        for device in checked_devices(oracle.exercise.any_device):
            for n, case in enumerate(oracle.cases):
                wanted = oracle.wanted(device.name, n)
                if "raised" in wanted:
                    return False, f"the reference raises in the case {case.name!r} {device.words}: {wanted['raised']}"
    return True, "the reference is observed in every case"


@cache
def _setup(lesson: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"Unattempted": Unattempted}
    for cell in read_script(paths.script(lesson)):
        if "setup" in cell.tags:
            exec(compile(cell.source, lesson, "exec"), namespace)
    return namespace


def results(oracle: Oracle, seen: Callable[[str, int], Observations | None]) -> list[Result]:
    """Return the results in every case of an oracle of a program that does what `seen` returns."""
    return results_of(seen, oracle.exercise.any_device, oracle.cases, oracle.wanted)


def _shown(oracle: Oracle, place: int) -> list[Result]:
    """Return the results of a known mistake in visible cases: on the CPU, and on both if these do not explain it."""
    seen = oracle.known[place].seen
    on_cpu = results_of(seen, False, oracle.cases, oracle.wanted)
    report = judge(oracle.exercise, on_cpu, oracle.known)
    is_explained = report.misconception == oracle.known[place].name and "…" not in report.message
    return on_cpu if is_explained else results(oracle, seen)


@cache
def _oracles(lesson: str, name: str) -> dict[int, Oracle]:
    """Return oracles by seed: of the cases that grading uses, the visible ones and then hidden ones, and on the CPU
    alone of the hidden cases that further seeds give."""
    made = {SEED: make_oracle(lesson, name, lambda e: [*visible(e), *hidden(lesson, e, SEED)])}
    for seed in OTHER_SEEDS:
        made[seed] = make_oracle(lesson, name, partial(hidden, lesson, seed=seed))
        made[seed].exercise = replace(made[seed].exercise, any_device=False)
    return made


def _accepted(oracles: Sequence[Oracle], number: int, answer: Callable[..., Any]) -> tuple[bool, str]:
    """Return whether a right answer passes in the cases of these oracles; number 0 is the reference, run once more."""
    who = f"right answer {number}" if number else "the reference"
    for oracle in oracles:
        seen = partial(oracle.observe_once, RIGHT_ANSWER - number, answer, trusted=False)
        report = judge(oracle.exercise, _without_repeats(oracle, seen), oracle.known)
        if not report.passed:
            outcome = f"{report.status} {report.misconception} {report.message}"
            return False, f"{who} does not pass (cases {[c.name for c in oracle.cases]}): {outcome}"
    return True, f"{who} passes"


def _without_repeats(oracle: Oracle, seen: Callable[[str, int], Observations | None]) -> list[Result]:
    """Return the results of a right answer: on the CPU in every case, and on the second device in the first case of
    each name. Those of a name differ in their numbers."""
    first = {case.name: number for number, case in reversed([*enumerate(oracle.cases)])}
    return [
        result_of(seen, device.name, number, case, oracle.wanted)
        for device in checked_devices(oracle.exercise.any_device)
        for number, case in enumerate(oracle.cases)
        if device.name == CPU.name or first[case.name] == number
    ]


def _hints(oracle: Oracle) -> tuple[bool, str]:
    counts = [len(hint.split()) for hint in oracle.exercise.hints]
    good = len(set(oracle.exercise.hints)) == 3 and all(count in HINT_WORDS for count in counts)
    few, many = HINT_WORDS[0], HINT_WORDS[-1]
    return good, f"hints of {counts} words" + ("" if good else f"; three different ones of {few} to {many} are wanted")


def _named_in_notebook(oracle: Oracle, place: int, shown: list[Result], sections: list[str]) -> tuple[bool, str]:
    """Return whether a known mistake is named on the visible cases, in a sentence that quotes what was observed."""
    known = oracle.known[place]
    report = judge(oracle.exercise, shown, oracle.known)
    if report.misconception != known.name:
        return False, f"the mistake {known.name} is taken for {report.misconception or report.status}: {report.message}"
    fault = _message_fault(known, report, sections)
    return not fault, f"the mistake {known.name} fails by name{fault and ', but ' + fault}: {report.message}"


def _message_fault(known: KnownMistake, report: Report, sections: list[str]) -> str:
    if known.section not in sections:
        return f"points to {known.section!r}, which is not a heading of the lesson"
    if not re.search(r"\{[a-z_]+\}", known.sentence):
        return "its sentence quotes nothing that was observed"
    words = report.message.split()
    if len(words) < 8 or report.message[0].islower() or not report.message.endswith("."):
        return f"its message is not a full sentence: {report.message}"
    if "…" in report.message or "{" in report.message:
        return f"a field of its message stays empty: {report.message}"
    return ""


def _named_in_grading(graded: Oracle, place: int, shown: list[Result]) -> tuple[bool, str]:
    """Return whether a known mistake is still named when hidden cases are added, as in grading.

    Only those hidden cases are run that are no visible ones with other numbers, and on the CPU alone. All of them are
    run on both devices where tests grade known mistakes (tests/batch/test_classes.py).
    """
    names, seen = {result.case.name for result in shown}, graded.known[place].seen
    added = [result_of(seen, CPU.name, number, case, graded.wanted)
             for number, case in enumerate(graded.cases) if case.name not in names]  # fmt: skip
    report, name = judge(graded.exercise, shown + added, graded.known), graded.mistakes[place].name
    return report.misconception == name, f"the mistake {name} is {report.misconception or report.status} when graded"


# --- the notebooks ------------------------------------------------------------------------------------------------


def _notebook_claims(lesson: str) -> Iterator[Claim]:
    """Yield the claims about what is built from a lesson's script, and about its notebook, unsolved and solved."""
    if not paths.notebook(lesson).is_file():
        return  # each exercise says so
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        made = generate([lesson], root, f"sqlite:///{root / 'gradebook.db'}") / lesson / f"{lesson}.ipynb"
        same = made.read_bytes() == paths.notebook(lesson).read_bytes()
        yield Claim(lesson, same, "the notebook is what the script builds")
        complete = list(stored_observations.load(lesson)) == list(exercises(lesson))
        yield Claim(lesson, complete, "the notebook has something to check each exercise against")
        if not _is_simulated():
            yield Claim(lesson, store.proven_fresh(lesson), "what the notebook checks answers against is fresh")
        yield Claim(lesson, *_runs_through(lesson, root / "source" / lesson / f"{lesson}.ipynb", made))


def _runs_through(lesson: str, solved: Path, unsolved: Path) -> tuple[bool, str]:
    """Return whether a notebook runs from start to end without errors and warnings, unsolved and solved."""
    notebook = unsolved_and_solved(*(nbformat.read(path, as_version=4) for path in (unsolved, solved)))
    faults, outcomes = faults_and_outcomes(notebook)
    count = len(exercises(lesson))
    counts = [(outcomes.count(outcome), outcome) for outcome in ("Not attempted", "Right")]
    in_words = ", ".join(f"{n} checks say {outcome!r}" for n, outcome in counts)
    says = f"run start to end, of {count} exercises {in_words}"
    return not faults and counts == [(count, "Not attempted"), (count, "Right")], "; ".join([says, *faults])
