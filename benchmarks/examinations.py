"""What examining a solved lesson costs, in core-seconds: `python -m benchmarks.examinations [LESSON…]`.

Cells, visible and hidden cases on all lanes, in a worker that has its imports behind it. What is counted is processor
time of the worker and all its forks, less that of a worker that only starts; a busy machine does not change it.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
from pathlib import Path

import nbformat

from autograde.building import source_notebook
from autograde.grading import examiner
from autograde.sandbox import Sandbox, blocker
from autograde.submission import Submission, read_submission
from torchcourse.exercise import LESSONS, imports


def spent() -> float:
    """Seconds of processor time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def solved(lesson: str, folder: Path) -> Submission:
    """The solved lesson, as somebody would hand it in."""
    path = folder / f"{lesson}.ipynb"
    nbformat.write(source_notebook(lesson), path)
    return read_submission(path, "ada", lesson)


def cost(lesson: str, submission: Submission, times: int) -> float:
    """Core-seconds of a worker that starts, examines a submission so many times and ends."""
    before, sandbox, judge = spent(), Sandbox(modules=imports(lesson)), examiner(lesson)
    sandbox.start()
    for _ in range(times):
        judge.grade(sandbox, submission)
    sandbox.close()
    return spent() - before


def main() -> None:
    if reason := blocker():
        sys.exit(f"grading is not measured: {reason}")
    costs = []
    for lesson in sys.argv[1:] or LESSONS:
        with tempfile.TemporaryDirectory() as folder:
            submission = solved(lesson, Path(folder))
            costs.append(cost(lesson, submission, 1) - cost(lesson, submission, 0))
        print(f"{lesson:20} {costs[-1]:5.1f} core-seconds", flush=True)
    print(f"{'median':20} {statistics.median(costs):5.1f} core-seconds")


if __name__ == "__main__":
    main()
