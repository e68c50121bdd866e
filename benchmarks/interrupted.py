"""Whole batches graded again, with other numbers of workers, and killed at random moments: are the results the same?

    python -m benchmarks.interrupted [--kills 10] [--repeats 3] [--students 8]

Every batch is a process of its own, forked before anything is graded. Killed ones are run again with the same
arguments. Prints a line for each and ends with 1 if any differed from the first.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import psutil

from autograde.grading import grade
from autograde.sample import LESSON, make_sample_class
from autograde.settings import LIMITS

PATIENT = dataclasses.replace(LIMITS, start_seconds=600, cell_seconds=60, exercise_seconds=60, lane_seconds=3600)
"""A busy machine changes no verdict."""
LEFT_OUT = ("ivo",)
"""Takes all the time that an endless loop is allowed."""


def tree(out: Path) -> dict[str, bytes]:
    """All that grading wrote but for the gradebook, whose times differ, and the lock."""
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name not in ("gradebook.db", ".lock"))
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def recorded(out: Path, lesson: str) -> dict[tuple[str, str], float | None]:
    """The scores in the gradebook."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        return {
            (submission.student.id, grade.name.removeprefix("check_")): grade.auto_score
            for submission in book.assignment_submissions(lesson)
            for notebook in submission.notebooks
            for grade in notebook.grades
        }


def begin(submitted: Path, out: Path, workers: int) -> int:
    """Grade in a process of its own; its id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        grade([LESSON], submitted, out, workers=workers, limits=PATIENT)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def finish(pid: int) -> int:
    """Wait for a process; its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill(pid: int, out: Path, moment: Iterator[bool]) -> tuple[dict[str, int], int]:
    """Kill a batch when the moment has come; the journal's entries by then, and how many processes outlived it."""
    while not next(moment) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.002)
    family = psutil.Process(pid).children(recursive=True)
    os.kill(pid, signal.SIGKILL)
    finish(pid)
    return entries(out), len(psutil.wait_procs(family, timeout=60)[1])


def entries(out: Path) -> dict[str, int]:
    """The journal's entries, and when each was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in out.glob(f"journal/*/{LESSON}.json")}


def after(seconds: float) -> Iterator[bool]:
    """A moment by the clock."""
    begun = time.monotonic()
    while True:
        yield time.monotonic() - begun > seconds


def at_entry(count: int, out: Path) -> Iterator[bool]:
    """The moment at which the journal has so many entries."""
    while True:
        yield len(entries(out)) >= count


def main() -> int:
    """Run what the arguments ask for; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--students", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    draw = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory() as folder:
        submitted = Path(folder) / "class"
        names = [name for name in make_sample_class(submitted) if name not in LEFT_OUT]
        for name in [*LEFT_OUT, *names[chosen.students :]]:
            shutil.rmtree(submitted / name)
        return _compare(submitted, Path(folder), chosen.kills, chosen.repeats, min(chosen.students, len(names)), draw)


def _compare(submitted: Path, folder: Path, kills: int, repeats: int, students: int, draw: random.Random) -> int:
    began = time.monotonic()
    if finish(begin(submitted, folder / "first", 1)):
        print("the first batch failed")
        return 1
    seconds = time.monotonic() - began
    print(f"first, 1 worker: {students} students, {seconds:.1f} s")
    wanted = tree(folder / "first"), recorded(folder / "first", LESSON)
    failures = 0
    for number in range(1, repeats):
        workers, out = (1, 4)[number % 2], folder / f"repeat{number}"
        status = finish(begin(submitted, out, workers))
        same = not status and (tree(out), recorded(out, LESSON)) == wanted
        failures += not same
        print(f"again, {workers} worker(s): {'the same bytes' if same else 'DIFFERENT'}")
    for number in range(kills):
        out, workers = folder / f"killed{number}", draw.choice((1, 3))
        entry = draw.randrange(1, students)
        moment = after(draw.uniform(0, seconds)) if number % 2 else at_entry(entry, out)
        noted, survivors = kill(begin(submitted, out, workers), out, moment)
        status = finish(begin(submitted, out, workers))
        same = not status and (tree(out), recorded(out, LESSON)) == wanted
        twice = [name for name, when in noted.items() if entries(out).get(name) != when]
        failures += not same or bool(twice) or bool(survivors)
        print(f"killed with {len(noted)} of {students} noted, {workers} worker(s): then "
              f"{'the same bytes' if same else 'DIFFERENT'}, {len(twice)} graded twice, {survivors} processes left")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
