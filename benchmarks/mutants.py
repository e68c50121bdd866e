"""Damage notebooks at random, in their bytes, their JSON and their cells, and grade them as a class.

    python -m benchmarks.mutants [--count 10000] [--seed 0] [--workers 2] [--folder DIR]

Every mutant has to get one verdict for each exercise, no batch may stop, and none may score more than the honest
notebook that it was made from: one in eight is made from a full one, where most exercises are answered, the others from
a brief one, where most are still stubs. Prints what was found and ends with 1 if anything broke that rule.

All are read, judged, recorded and written about as any submission is; of those in which grading runs the same cells,
damaged elsewhere, only the first is run. With a folder, the same command goes on where an earlier one was ended.
"""

from __future__ import annotations

import argparse
import collections
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from autograde.classroom.synthetic_class import SAMPLE_LESSON as LESSON
from autograde.files import write_atomically
from autograde.judge.fingerprint import fingerprint
from tests.support.mutants import BATCH, Findings, run


def noted(folder: Path, numbers: range, seed: int, workers: int) -> Findings:
    """Return what `run` finds, or found before with the same grader."""
    note = folder / "found" / f"{fingerprint(LESSON)[:16]}-{seed}-{numbers.start}-{numbers.stop}.json"
    if note.exists():
        said = json.loads(note.read_text(encoding="utf-8"))
        return Findings(**{**said, "statuses": collections.Counter(said["statuses"])})
    found = run(folder, numbers, seed, workers)
    for made in ("autograded", "feedback"):  # many gigabytes of them, in the end
        shutil.rmtree(folder / "out" / made, ignore_errors=True)
    write_atomically(note, json.dumps(vars(found)))
    return found


def main() -> int:
    """Run the command line and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="keeps what was found; a temporary one, if none is named")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        total = _all(chosen, chosen.folder or Path(temporary))
    return int(bool(total.unsound))


def _all(chosen: argparse.Namespace, folder: Path) -> Findings:
    begun, total = time.monotonic(), Findings()
    for first in range(0, chosen.count, BATCH):
        part = noted(folder, range(first, min(first + BATCH, chosen.count)), chosen.seed, chosen.workers)
        total.add(part)
        for line in part.unsound:
            print(line, flush=True)
        print(f"{total.graded} mutants, {total.aborts} batches stopped, {len(total.unsound)} complaints, "
              f"{time.monotonic() - begun:.0f} s: {dict(total.statuses.most_common())}", flush=True)  # fmt: skip
    return total


if __name__ == "__main__":
    sys.exit(main())
