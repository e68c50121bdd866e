"""Measure how long checks take: `python benchmarks/checks.py [LESSON…]`, from the repository's root.

Prints for each exercise the time of the visible check of the reference with its card, the first in the process and the
median of five more; the median of these over each lesson and over all exercises requested; then what importing the
course adds to importing torch, and what one solved lesson costs in the sandbox.
"""

from __future__ import annotations

import os
import statistics
import subprocess
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
from torchcourse.checking.card import as_html
from torchcourse.checking.card_details import card_details
from torchcourse.checking.check import report_on
from torchcourse.model.catalogue import LESSONS, imports

IMPORTS = "import time, torch; t = time.perf_counter(); import torchcourse; print(time.perf_counter() - t)"


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def card(name: str, answer: Callable[..., object]) -> str:
    """Do all that `check` does, except for displaying the card."""
    report = report_on(name, {name: answer})
    return as_html(report, card_details(report, answer))


def checks(lesson: str) -> list[float]:
    """Measure the seconds for each exercise of a lesson."""
    namespace = dict(references(lesson))
    medians = []
    for name in namespace:
        first, *rest = (seconds(partial(card, name, namespace[name])) for _ in range(6))
        medians.append(statistics.median(rest))
        print(f"{lesson:20} {name:24} first {1e3 * first:6.0f} ms   then {1e3 * medians[-1]:6.0f} ms")
    print(f"{lesson:20} {'median of all':24} {'':12}   then {1e3 * statistics.median(medians):6.0f} ms", flush=True)
    return medians


def sandboxed(lesson: str) -> None:
    """Run cells, visible and hidden cases of a solved lesson on all devices, one after another in one worker."""
    sandbox, judge = Sandbox(modules=imports(lesson)), lesson_grader(lesson)
    submission = trial_submission(lesson, load_release(lesson).exercises)
    sandbox.start()
    judge.grade(sandbox, submission)
    times = [seconds(lambda: judge.grade(sandbox, submission)) for _ in range(5)]
    sandbox.close()
    print(f"{lesson:20} {'graded, solved':24} {'':12}   then {1e3 * statistics.median(times):6.0f} ms")


def main() -> None:
    lessons = sys.argv[1:] or LESSONS
    shown = [each for lesson in lessons for each in checks(lesson)]
    print(f"{'all lessons asked for':20} {f'median of {len(shown)} exercises':24} {'':12}   "
          f"then {1e3 * statistics.median(shown):6.0f} ms, longest {1e3 * max(shown):.0f} ms")  # fmt: skip
    print(f"load of this machine: {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores",
          flush=True)  # fmt: skip
    runs = [float(subprocess.check_output([sys.executable, "-c", IMPORTS])) for _ in range(5)]
    print(f"import torchcourse, over import torch: {1e3 * statistics.median(runs):.0f} ms")
    if reason := isolation_problem():
        print(f"grading is not measured: {reason}")
        return
    for lesson in lessons:
        sandboxed(lesson)


if __name__ == "__main__":
    main()
