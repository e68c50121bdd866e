"""What checks and examinations compute: `python benchmarks/core_seconds.py [LESSON…]`, from the repository's root.

In core-seconds, which depend little on what else the machine does: the visible check of each reference, median of five
after a first one; and a solved lesson examined in the sandbox, on all lanes, median of three after a first one. The
examination counts the grader's own process, the worker, and all that the worker has started and waited for.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import nbformat

from autograde.building import source_notebook
from autograde.examiner import examiner
from autograde.oracle import references
from autograde.sandbox import Sandbox, blocker
from autograde.submission import read_submission
from benchmarks.family import cpu_seconds
from torchcourse.checking import examine
from torchcourse.exercise import LESSONS, imports


def median_of(count: int, work: Callable[[], object], clock: Callable[[], float]) -> float:
    """The median of what `clock` advances in a run of `work`, a first run left out."""
    marks = []
    for _ in range(count + 1):
        work()
        marks.append(clock())
    return statistics.median(after - before for before, after in itertools.pairwise(marks))


def checks(lesson: str) -> None:
    namespace = dict(references(lesson))
    for name in namespace:
        found = median_of(5, lambda name=name: examine(name, namespace), time.process_time)
        print(f"{lesson:20} {name:24} {found:7.3f} core-seconds", flush=True)


def examination(lesson: str) -> None:
    sandbox, judge = Sandbox(modules=imports(lesson)), examiner(lesson)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{lesson}.ipynb"
        nbformat.write(source_notebook(lesson), path)
        submission = read_submission(path, "ada", lesson)
        sandbox.start()
        found = median_of(3, lambda: judge.grade(sandbox, submission), lambda: cpu_seconds(sandbox))
    sandbox.close()
    print(f"{lesson:20} {'examined, solved':24} {found:7.3f} core-seconds", flush=True)


def main() -> None:
    lessons = sys.argv[1:] or LESSONS
    for lesson in lessons:
        checks(lesson)
    if reason := blocker():
        print(f"examinations are not measured: {reason}")
        return
    for lesson in lessons:
        examination(lesson)


if __name__ == "__main__":
    main()
