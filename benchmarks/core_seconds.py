"""Measure the CPU time of checks and grading: `python benchmarks/core_seconds.py [LESSON…]`, from the root.

In core-seconds: the visible check of each reference, median of five after a first one; and a solved lesson graded in
the sandbox, on all devices, median of three after a first one. A check counts this process, which depends little on
what else the machine does; grading counts all processes of the machine, so nothing else should run.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autograde.judge.lesson_grader import lesson_grader
from autograde.judge.oracle import references
from autograde.judge.trial import trial_submission
from autograde.sandbox.requirements import isolation_problem
from autograde.sandbox.sandbox import Sandbox
from autograde.source.release import load_release
from tests.support.worker_processes import busy_seconds
from torchcourse.checking.check import report_on
from torchcourse.model.catalogue import LESSONS, imports


def median_of(count: int, work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return by how much `clock` advances in a run of `work`: the median, without the first run."""
    marks = []
    for _ in range(count + 1):
        work()
        marks.append(clock())
    return statistics.median(after - before for before, after in itertools.pairwise(marks))


def checks(lesson: str) -> None:
    namespace = dict(references(lesson))
    for name in namespace:
        found = median_of(5, partial(report_on, name, namespace), time.process_time)
        print(f"{lesson:20} {name:24} {found:7.3f} core-seconds", flush=True)


def grading(lesson: str) -> None:
    sandbox, judge = Sandbox(modules=imports(lesson)), lesson_grader(lesson)
    submission = trial_submission(lesson, load_release(lesson).exercises)
    found = median_of(3, lambda: judge.grade(sandbox, submission), busy_seconds)
    sandbox.close()
    print(f"{lesson:20} {'graded, solved':24} {found:7.3f} core-seconds", flush=True)


def main() -> None:
    lessons = sys.argv[1:] or LESSONS
    for lesson in lessons:
        checks(lesson)
    if reason := isolation_problem():
        print(f"grading is not measured: {reason}")
        return
    for lesson in lessons:
        grading(lesson)


if __name__ == "__main__":
    main()
