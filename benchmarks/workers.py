"""Measure the cost of a worker: CPU for an empty exercise, private memory, and how well two share the work.

    python -m benchmarks.workers [--students 40] [--repeats 50]

CPU is that of all processes of this machine, so nothing else should run. Memory is that of all processes of an idle
worker, as in smaps_rollup: private pages, and its share of the pages that others have too. Prints one table.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from autograde.batch.grading import grade_class
from autograde.judge.lesson_grader import LessonGrader
from autograde.judge.submission import Submission, SubmittedCell
from autograde.sandbox.sandbox import Sandbox
from autograde.source.release import load_release
from tests.support.solved import write_solved
from tests.support.worker_processes import busy_seconds, memory
from torchcourse.model.catalogue import LESSONS, imports

LESSON, EXERCISE = "01_tensors", "describe"
EMPTY = Submission("nobody", load_release(LESSON), (SubmittedCell("code", f"def {EXERCISE}(t): return None"),))
"""One cell, and an answer that does nothing."""


def overhead(repeats: int) -> float:
    """Return CPU seconds for a submission with one empty exercise and its first visible case, on two devices."""
    judge, sandbox = LessonGrader(LESSON), Sandbox(modules=imports(LESSON))
    oracle = judge.oracles[EXERCISE]
    judge.oracles[EXERCISE] = oracle.narrowed(1)
    judge.visible[EXERCISE] = 1
    sandbox.start()
    try:
        for _ in range(3):
            judge.grade(sandbox, EMPTY)
        began = busy_seconds()
        for _ in range(repeats):
            judge.grade(sandbox, EMPTY)
        return (busy_seconds() - began) / repeats
    finally:
        sandbox.close()


def workers_memory(count: int, lessons: list[str]) -> list[dict[str, int]]:
    """Return the memory of each of several idle workers."""
    modules = imports(*lessons)
    sandboxes = [Sandbox(number=number, modules=modules) for number in range(count)]
    try:
        for sandbox in sandboxes:
            sandbox.start()
        return [memory(sandbox) for sandbox in sandboxes]
    finally:
        for sandbox in sandboxes:
            sandbox.close()


def seconds(students: int, workers: int) -> float:
    """Return the wall time of grading a class of solved submissions, from start to end."""
    with tempfile.TemporaryDirectory() as folder:
        write_solved(Path(folder) / "class", [LESSON], students)
        began = time.perf_counter()
        grade_class([LESSON], Path(folder) / "class", Path(folder) / "out", workers=workers)
        return time.perf_counter() - began


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--students", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=50)
    chosen = parser.parse_args()
    print(f"python -m benchmarks.workers --students {chosen.students} --repeats {chosen.repeats}\n")
    print("| what | measured |\n|---|---|", flush=True)
    print(f"| CPU for a submission with one empty exercise | {1e3 * overhead(chosen.repeats):.0f} ms |", flush=True)
    for name, lessons in ((f"lesson {LESSON}", [LESSON]), ("all lessons", list(LESSONS))):
        for number, found in enumerate(workers_memory(2, lessons), 1):
            print(f"| worker {number} of 2, {name}: private memory, share of all | {found['private'] / 1e6:.0f} MB, "
                  f"{found['share'] / 1e6:.0f} MB |", flush=True)  # fmt: skip
    if chosen.students:
        one, two = (seconds(chosen.students, workers) for workers in (1, 2))
        print(f"| {chosen.students} solved submissions of {LESSON}, 1 worker, 2 workers | {one:.1f} s, {two:.1f} s |")
        print(f"| parallel efficiency at 2 workers | {one / two / 2:.2f} |")


if __name__ == "__main__":
    main()
