"""Decide the verdict on each exercise of a submission, outside the sandbox, from the observations made inside."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from autograde.judge.oracle import Oracle
from autograde.judge.run_submission import ExerciseRun
from autograde.judge.submission import Submission
from torchcourse.checking.explain import explain
from torchcourse.checking.report import Report, forbidden_calls, joined_names, judge, without_evasions
from torchcourse.checking.result import Result
from torchcourse.checking.rule_watch import EVASIONS
from torchcourse.model import codec
from torchcourse.model.devices import CPU
from torchcourse.model.known_mistake import KnownMistake
from torchcourse.model.observations import Raised
from torchcourse.probes.native import COMPILER_SAYS

__all__ = [
    "NOT_ALLOWED",
    "STATUSES",
    "Verdict",
    "clean",
    "decide",
    "printable",
    "shown",
    "unjudged",
    "verdict_without_running",
    "verdicts_after_crashes",
]

STATUSES = (
    "unreadable", "missing", "tampered", "unattempted", "forbidden", "crashed", "memory", "timeout", "error", "failed",
    "passed",
)  # fmt: skip
"""In order of precedence: the first that applies is an exercise's status."""

MAX_MESSAGE_LENGTH = 600
MAX_SHOWN_LENGTH = 20_000
"""Characters of an answer, in code or in words, that a page shows: one cell may be the answer to each exercise."""
OUT_OF_MEMORY = re.compile(r"can't allocate memory|not enough memory|Cannot allocate memory", re.IGNORECASE)

CLAUSE_END = re.compile(r"(?<=[.:]) ")
ASK_INSTRUCTOR = "ask your instructor."
"""How the message ends where the grader itself failed."""
NOT_ALLOWED = (
    "In cases that the notebook does not show, or on a second device, the answer uses what this exercise does not "
    "allow: read its rules again."
)
"""What is said where only such cases show a forbidden call: a row of its names could spell a hidden input."""
OTHER_INPUTS_ADVICE = "think of other shapes, dtypes and layouts, of empty inputs and of extreme values."


@dataclass(frozen=True)
class Verdict:
    """The verdict on one exercise: a row of grades.csv, and the heading of the section to reread.

    The message is a line; what a compiler wrote may follow in lines of its own.
    """

    student: str
    lesson: str
    exercise: str
    score: float
    max_score: float
    status: str
    misconception: str = ""
    message: str = ""
    section: str = ""

    @property
    def grader_failed(self) -> bool:
        """Whether the grader itself failed, so that the submission has to be graded again."""
        return self.status == "crashed" and self.message.endswith(ASK_INSTRUCTOR)

    @property
    def line(self) -> str:
        """The message in one line."""
        return clean(self.message)


def verdict_without_running(submission: Submission, exercise: str) -> Verdict | None:
    """Return the verdict if the exercise need not run (unreadable, missing, tampered, still the stub), or None."""
    points = submission.release.points(exercise)
    verdict = Verdict(submission.student, submission.lesson, exercise, 0.0, points, submission.problem)
    if submission.problem:
        return replace(verdict, message=clean(submission.reason))
    if exercise in submission.tampered:
        return replace(verdict, status="tampered", message=clean(submission.tampered[exercise]))
    if submission.untouched(exercise):
        return replace(verdict, status="unattempted", message=f"`{exercise}` is not written yet.")
    return None


def decide(submission: Submission, oracle: Oracle, visible: int, runs: dict[str, ExerciseRun]) -> Verdict:
    """Return the verdict on an exercise that ran.

    Args:
        visible: the number of the oracle's cases that learners may see, which come first; only these are quoted.
        runs: how it ran, by device, the CPU first.
    """
    name = oracle.exercise.name
    points = submission.release.points(name)
    results = [r for device, run in runs.items() for r in _results(oracle, device, run)]
    report = _report(oracle, results, visible, [device for device, run in runs.items() if run.quotable])
    status, message = report.status, report.message
    incidents = [(STATUSES.index(run.incident), run) for run in runs.values() if run.incident]
    incidents += [(STATUSES.index("memory"), ExerciseRun(incident="memory", reason=f"`{name}` ran out of memory."))
                  for r in results if _out_of_memory(r)][:1]  # fmt: skip
    if incidents:
        worst = min(incidents, key=lambda i: i[0])
        if worst[0] <= STATUSES.index(status):
            status, message, report = worst[1].incident, worst[1].reason, replace(report, misconception="", section="")
    score = points * _share(oracle, runs, results)
    return Verdict(
        submission.student, submission.lesson, name, score, points, status, report.misconception,
        _clean_with_output(message), report.section,
    )  # fmt: skip


def unjudged(submission: Submission, exercise: str, error: Exception) -> Verdict:
    """Return the verdict, without points, for an exercise whose judging failed.

    Observations that were made to break it may be the cause, or this machine: so it counts as an ended process, after
    which an answer runs a second time, and the reference as well.
    """
    points = submission.release.points(exercise)
    message = f"What came back from `{exercise}` could not be judged ({type(error).__name__}): {ASK_INSTRUCTOR}"
    return Verdict(submission.student, submission.lesson, exercise, 0.0, points, "crashed", "", message)


def verdicts_after_crashes(submission: Submission) -> list[Verdict]:
    """Return the verdicts on a submission that made the grader's own process end or hang each time."""
    points = submission.release.points
    message = f"The grader itself ended or hung each time that it graded this notebook: {ASK_INSTRUCTOR}"
    return [
        verdict_without_running(submission, name)
        or Verdict(submission.student, submission.lesson, name, 0.0, points(name), "crashed", "", message)
        for name in submission.release.exercises
    ]


def _results(oracle: Oracle, device: str, run: ExerciseRun) -> list[Result]:
    long = {number: reply.raw for number, reply in enumerate(run.replies) if reply.is_long and not reply.remembered}
    apart = oracle.long_results(device, long)
    return [
        reply.remembered or apart.get(number) or oracle.result(device, number, reply.raw, reply.data)
        for number, reply in enumerate(run.replies)
    ]


def _out_of_memory(result: Result) -> bool:
    error = result.seen.get("raised")
    return isinstance(error, Raised) and (
        error.kind == "MemoryError" or bool(OUT_OF_MEMORY.search(error.message[:MAX_MESSAGE_LENGTH]))
    )


def _share(oracle: Oracle, runs: dict[str, ExerciseRun], results: list[Result]) -> float:
    """Return the share of the points: 1 if all cases passed on all devices, 0.5 if all did on the CPU alone, else 0."""

    def all_passed(device: str) -> bool:
        passed = [r for r in results if r.device == device and r.passed]
        return not runs[device].incident and len(passed) == len(oracle.cases)

    if CPU.name not in runs or not all_passed(CPU.name):
        return 0.0
    return 1.0 if all(map(all_passed, runs)) else 0.5


def _report(oracle: Oracle, results: list[Result], visible: int, quoted_devices: Collection[str]) -> Report:
    """Return the report that the notebook would give, except that little is quoted.

    Hidden cases are never quoted. Nor is anything from the second device or from a second run: by then the submission
    has seen hidden inputs and could have passed them on through the machine's counters.
    """
    calls = forbidden_calls(oracle.exercise, results)
    mistakes = explain(without_evasions(oracle.exercise, results), oracle.known)
    if all(r.passed for r in results):
        return judge(oracle.exercise, results, oracle.known)
    quotable = [r for r in results if r.number < visible and r.device in quoted_devices]
    if calls and not (mistakes and set(calls) <= set(EVASIONS)):
        if forbidden_calls(oracle.exercise, quotable):
            return judge(oracle.exercise, quotable, mistakes)
        return Report(oracle.exercise.name, "forbidden", NOT_ALLOWED)
    if any(not r.passed for r in quotable):
        report = judge(oracle.exercise, quotable, mistakes)
        if report.misconception or not mistakes:
            return replace(report, misconception=joined_names(mistakes))
    on_cpu = [r for r in results if r.device == CPU.name and not r.passed]
    only_again = CPU.name not in quoted_devices and any(r.number < visible for r in on_cpu)
    if mistakes:
        return _unquoted(oracle, mistakes, bool(on_cpu), only_again)
    return _unexplained(oracle, results, visible, only_again) if on_cpu else _unexplained_elsewhere(oracle, results)


def _unquoted(oracle: Oracle, mistakes: list[KnownMistake], on_cpu: bool, only_again: bool) -> Report:
    """Return the report on mistakes that nothing quotable shows: their sentences without what was observed.

    Args:
        on_cpu: whether a case failed on the CPU.
        only_again: whether a visible case did so, in a second run.
    """
    found = " Also: ".join(dict.fromkeys(_general(mistake) for mistake in mistakes))
    where = "More cases than the notebook shows find" if on_cpu else "A second device finds"
    if only_again:
        where = "A second run finds"
    message = f"{where} a mistake: {found} Read again: {mistakes[0].section}."
    return Report(oracle.exercise.name, "failed", message, joined_names(mistakes), mistakes[0].section)


def _general(mistake: KnownMistake) -> str:
    """Return the clauses of a mistake's sentence that neither quote nor announce a value, or its name without any."""
    clauses = CLAUSE_END.split(mistake.sentence)
    following = [*clauses[1:], ""]
    plain = [c for c, after in zip(clauses, following, strict=True) if "{" not in c + (after if c[-1] == ":" else "")]
    return " ".join(plain) if plain else f"`{mistake.name}`."


def _unexplained(oracle: Oracle, results: list[Result], visible: int, only_again: bool) -> Report:
    """Return the report on an answer that cases refuse which are not quoted: what differs, but no values."""
    failed = [r for r in results if not r.passed]
    raised = any("raised" in r.seen for r in failed)
    shown = {name for r in results if r.number < visible for name in r.wanted}  # a case's own names may quote it
    names = [name for name in dict.fromkeys(n for r in failed for n in r.differs) if name in shown]
    what = "it raised an exception" if raised else f"`{names[0]}` differs" if names else "what it does differs"
    where = "The answer is right in every case that the notebook shows. In others"
    if only_again:
        where = "The answer had to run twice. In the second run"
    message = f"{where} {what}: {OTHER_INPUTS_ADVICE}"
    return Report(oracle.exercise.name, "error" if raised else "failed", message)


def _unexplained_elsewhere(oracle: Oracle, results: list[Result]) -> Report:
    """Return the report on an answer that only the second device refuses, for unknown reasons."""
    raised = any("raised" in r.seen for r in results if not r.passed)
    what = "it raised an exception" if raised else "what it does differs"
    message = f"Every case agrees on the CPU. On a second device {what}: think of where tensors are made and moved."
    return Report(oracle.exercise.name, "error" if raised else "failed", message)


def _clean_with_output(message: str) -> str:
    """Return a message in one line, followed by what a compiler wrote, if it quotes one, in lines as they were."""
    first, says, output = message.partition(f"{COMPILER_SAYS}\n")
    if not says:
        return clean(message)
    return f"{clean(first + COMPILER_SAYS)}\n{printable(output[: codec.MAX_OUTPUT_LENGTH])}"


def printable(text: str) -> str:
    """Return a text with control characters, and halves of surrogate pairs, replaced, except line ends and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text.replace("\r\n", "\n"))


def shown(text: str) -> str:
    """Return a text as pages show it: printable, and without what comes after `MAX_SHOWN_LENGTH` characters."""
    more = len(text) - MAX_SHOWN_LENGTH
    return printable(text[:MAX_SHOWN_LENGTH]) + (f"\n… ({more} more characters)" if more > 0 else "")


def clean(message: str) -> str:
    """Return a message in one line of at most `MAX_MESSAGE_LENGTH` characters, without control characters and memory
    addresses."""
    start = message[: 4 * MAX_MESSAGE_LENGTH]  # a learner's exception may have megabytes of text
    one_line = "".join(c if c.isprintable() else " " for c in start)
    text = re.sub(r"0x[0-9a-fA-F]{6,}", "0x…", " ".join(one_line.split()))
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[: MAX_MESSAGE_LENGTH - 1]}…"
