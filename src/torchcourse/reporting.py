"""What one check found, in a form that card, terminal and grader share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from torchcourse.exercise import Exercise
from torchcourse.explaining import Known, Result, explain, quoted, told
from torchcourse.lanes import CPU
from torchcourse.observations import Raised

__all__ = ["Report", "forbidden_calls", "judge"]


@dataclass(frozen=True)
class Report:
    """The outcome of one check.

    `status` is one of unattempted, forbidden, timeout, error, failed, passed; `misconception` the name of the mistake
    that explains the answer ("" if none does), `message` a sentence for the learner, `read` the section to reread.
    """

    exercise: str
    status: str
    message: str
    misconception: str = ""
    read: str = ""
    results: Sequence[Result] = field(default=())

    @property
    def passed(self) -> bool:
        return self.status == "passed"


def judge(exercise: Exercise, results: Sequence[Result], known: Sequence[Known]) -> Report:
    """The report on an answer that ran in all its cases."""
    failed = [r for r in results if not r.passed]
    if not failed:
        count = len({r.number for r in results})
        lanes = " and ".join(dict.fromkeys(_lane_words(r.lane) for r in results))
        return Report(exercise.name, "passed", f"All {count} cases agree {lanes}.", results=results)
    calls = forbidden_calls(exercise, results)
    if calls:
        names = ", ".join(f"`{name}`" for name in calls)
        message = f"The answer uses {names}, which this exercise does not allow: build it from other operations."
        return Report(exercise.name, "forbidden", message, results=results)
    mistake = explain(results, known)
    if mistake is None:
        error = next((r for r in failed if "raised" in r.seen), None)
        return Report(exercise.name, "error" if error else "failed", _unexplained(error or failed[0]), results=results)
    message = quoted(exercise, mistake, results)
    return Report(exercise.name, "failed", message, mistake.name, mistake.read, results)


def forbidden_calls(exercise: Exercise, results: Sequence[Result]) -> list[str]:
    """What was called although the exercise forbids it. Only names that it does forbid are believed: when grading,
    observations come from a process that could put any text there."""
    observed = (r.seen.get("forbidden calls") for r in results)
    named = ([n for n in calls if _forbids(exercise, n)] for calls in observed if isinstance(calls, list | tuple))
    return next(filter(None, named), [])


def _forbids(exercise: Exercise, name: object) -> bool:
    if not isinstance(name, str):
        return False
    module, _, function = name.rpartition(".")
    return name in exercise.forbids or (module in exercise.forbids and hasattr(sys.modules.get(module), function))


def _unexplained(result: Result) -> str:
    where = f'in the case "{result.case.name}", {_lane_words(result.lane)}'
    error = result.seen.get("raised")
    if isinstance(error, Raised):
        return f"{where[0].upper()}{where[1:]}, the answer raised {error}."
    if "returned" in result.seen and "returned" not in result.wanted:
        return f"{where[0].upper()}{where[1:]}, the answer returned {result.seen['returned']}."
    names = sorted(result.differs, key=lambda name: name not in result.seen)  # what is there says more
    differences = " and ".join(told(result, name) for name in names[:2])
    return f"{where[0].upper()}{where[1:]}, {differences}."


def _lane_words(lane: str) -> str:
    return {CPU.name: CPU.words, "cuda": "on the GPU"}.get(lane, "on a second device (simulated)")
