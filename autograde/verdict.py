"""One verdict for each exercise of a submission, made outside the sandbox from what came out of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from autograde.examining import Examined
from autograde.oracle import Oracle
from autograde.submission import Submission, release
from torchcourse.explaining import Known, Result, explain
from torchcourse.lanes import CPU
from torchcourse.observations import Raised
from torchcourse.reporting import Report, forbidden_calls, judge

__all__ = ["STATUSES", "Verdict", "deadly", "decide", "unjudged", "without_examination"]

STATUSES = (
    "unreadable", "missing", "tampered", "unattempted", "forbidden", "crashed", "memory", "timeout", "error", "failed",
    "passed",
)  # fmt: skip
"""In order of precedence: the first that applies is an exercise's status."""

OUT_OF_MEMORY = re.compile(r"can't allocate memory|not enough memory|Cannot allocate memory", re.IGNORECASE)


@dataclass(frozen=True)
class Verdict:
    """One row of grades.csv, and the section to reread."""

    student: str
    lesson: str
    exercise: str
    score: float
    max_score: float
    status: str
    misconception: str = ""
    message: str = ""
    read: str = ""


def without_examination(submission: Submission, exercise: str) -> Verdict | None:
    """The verdict on an exercise that need not be run: unreadable, missing, tampered with, or still the stub."""
    points = release(submission.lesson).points(exercise)
    verdict = Verdict(submission.student, submission.lesson, exercise, 0.0, points, submission.problem)
    if submission.problem:
        return replace(verdict, message=clean(submission.reason))
    if exercise in submission.tampered:
        return replace(verdict, status="tampered", message=clean(submission.tampered[exercise]))
    if submission.untouched(exercise):
        return replace(verdict, status="unattempted", message=f"`{exercise}` is not written yet.")
    return None


def decide(submission: Submission, oracle: Oracle, visible: int, lanes: dict[str, Examined]) -> Verdict:
    """The verdict on an examined exercise.

    Args:
        visible: how many of the oracle's cases, the first ones, learners may see; only these are quoted.
        lanes: what was examined, by lane, the CPU first.
    """
    name = oracle.exercise.name
    points = release(submission.lesson).points(name)
    results = [r for lane, examined in lanes.items() for r in _results(oracle, lane, examined)]
    report = _report(oracle, results, visible)
    status, message = report.status, report.message
    incidents = [(STATUSES.index(e.incident), e) for e in lanes.values() if e.incident]
    incidents += [(STATUSES.index("memory"), Examined(incident="memory", reason=f"`{name}` ran out of memory."))
                  for r in results if _out_of_memory(r)][:1]  # fmt: skip
    if incidents:
        first = min(incidents, key=lambda i: i[0])
        if first[0] <= STATUSES.index(status):
            status, message, report = first[1].incident, first[1].reason, replace(report, misconception="", read="")
    score = points * _share(oracle, lanes, results)
    return Verdict(
        submission.student,
        submission.lesson,
        name,
        score,
        points,
        status,
        report.misconception,
        clean(message),
        report.read,
    )


def unjudged(submission: Submission, exercise: str, error: Exception) -> Verdict:
    """The verdict where judging itself failed: no record, no points, and no batch that stops."""
    points = release(submission.lesson).points(exercise)
    message = f"What came back from `{exercise}` could not be judged ({type(error).__name__}): ask your instructor."
    return Verdict(submission.student, submission.lesson, exercise, 0.0, points, "error", "", message)


def deadly(submission: Submission) -> list[Verdict]:
    """The verdicts where the grader's own process ended, or hung, whenever it examined this submission."""
    points = release(submission.lesson).points
    message = "The grader itself ended or hung whenever it examined this notebook: ask your instructor."
    return [
        without_examination(submission, name)
        or Verdict(submission.student, submission.lesson, name, 0.0, points(name), "crashed", "", message)
        for name in release(submission.lesson).exercises
    ]


def _results(oracle: Oracle, lane: str, examined: Examined) -> list[Result]:
    return [
        reply.known or oracle.result(lane, n, reply.raw, reply.data)
        for n, reply in enumerate(examined.replies)
    ]


def _out_of_memory(result: Result) -> bool:
    error = result.seen.get("raised")
    return isinstance(error, Raised) and (error.kind == "MemoryError" or bool(OUT_OF_MEMORY.search(error.message)))


def _share(oracle: Oracle, lanes: dict[str, Examined], results: list[Result]) -> float:
    """1 where every case passed on every lane, 0.5 where all did on the CPU, else 0. No record, no points."""

    def whole(lane: str) -> bool:
        passed = [r for r in results if r.lane == lane and r.passed]
        return not lanes[lane].incident and len(passed) == len(oracle.cases)

    if CPU.name not in lanes or not whole(CPU.name):
        return 0.0
    return 1.0 if all(map(whole, lanes)) else 0.5


def _report(oracle: Oracle, results: list[Result], visible: int) -> Report:
    """As the notebook reports, except that nothing of a hidden case is quoted."""
    shown = [r for r in results if r.number < visible]
    if all(r.passed for r in results) or forbidden_calls(oracle.exercise, results):
        return judge(oracle.exercise, results, oracle.known)
    mistake = explain(results, oracle.known)
    if any(not r.passed for r in shown):
        report = judge(oracle.exercise, shown, [mistake] if mistake else [])
        return report if mistake is None or report.misconception else _unquoted(oracle, mistake)
    if mistake:
        return _unquoted(oracle, mistake)
    status = "error" if any("raised" in r.seen for r in results) else "failed"
    message = "The visible cases pass, but hidden ones do not: the answer holds only for inputs like those shown."
    return Report(oracle.exercise.name, status, message)


def _unquoted(oracle: Oracle, mistake: Known) -> Report:
    message = f"Hidden cases show the mistake known as `{mistake.name}`; read again: {mistake.read}."
    return Report(oracle.exercise.name, "failed", message, mistake.name, mistake.read)


def clean(message: str) -> str:
    """A message in one line, without what differs from run to run or would act on a terminal."""
    printable = "".join(c if c.isprintable() else " " for c in message)
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0x…", " ".join(printable.split()))[:600]
