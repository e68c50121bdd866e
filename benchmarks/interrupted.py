"""Check that batches give the same results with other numbers of workers, and when killed at random moments.

    python -m benchmarks.interrupted [--kills 10] [--repeats 3] [--students 8]

Every batch runs in a separate process, forked before anything is graded. Killed batches are run again with the same
arguments. Prints a line for each and ends with 1 if any result differs from the first.
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

from autograde.batch.grading import grade
from autograde.classroom.synthetic_class import SAMPLE_LESSON as LESSON
from autograde.classroom.synthetic_class import write_sample_class
from autograde.settings import LIMITS
from tests.support.results import recorded, tree

PATIENT = dataclasses.replace(LIMITS, start_seconds=600, cell_seconds=60, exercise_seconds=60, device_seconds=3600)
"""A busy machine changes no verdict."""
LEFT_OUT = ("ivo",)
"""Takes all the time that an endless loop is allowed."""


def begin(submitted: Path, out: Path, workers: int) -> int:
    """Grade in a separate process, and return its id."""
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
    """Wait for a process and return its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill(pid: int, out: Path, moment: Iterator[bool]) -> tuple[dict[str, int], int]:
    """Kill a batch at a moment; return the number of journal entries by then, and of processes that outlived it."""
    while not next(moment) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.002)
    family = psutil.Process(pid).children(recursive=True)
    os.kill(pid, signal.SIGKILL)
    finish(pid)
    return entries(out), len(psutil.wait_procs(family, timeout=60)[1])


def entries(out: Path) -> dict[str, int]:
    """Return the journal's entries with the time when each was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in out.glob(f"journal/*/{LESSON}.json")}


def after(seconds: float) -> Iterator[bool]:
    """Return the moment `seconds` from now."""
    begun = time.monotonic()
    while True:
        yield time.monotonic() - begun > seconds


def at_entry(count: int, out: Path) -> Iterator[bool]:
    """Return the moment at which the journal has `count` entries."""
    while True:
        yield len(entries(out)) >= count


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--students", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    draw = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory() as folder:
        submitted = Path(folder) / "class"
        names = [name for name in write_sample_class(submitted) if name not in LEFT_OUT]
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
        print(
            f"killed with {len(noted)} of {students} noted, {workers} worker(s): then "
            f"{'the same bytes' if same else 'DIFFERENT'}, {len(twice)} graded twice, {survivors} processes left"
        )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
