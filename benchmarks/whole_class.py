"""Grade a class that solved the whole course, from start to end, with the command that people run.

    python -m benchmarks.whole_class [--students 200] [--workers 2] [LESSON …]

No two submissions are alike, and every exercise in them is right. Prints one table; ends with 1 if a verdict is not
"passed".
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.against_stock import GRADE, timed
from tests.support.solved import write_solved
from torchcourse.model.catalogue import LESSONS


def main() -> int:
    """Print the table and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lessons", nargs="*", help="all, unless named")
    parser.add_argument("--students", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    lessons = chosen.lessons or list(LESSONS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_solved(folder / "class", lessons, chosen.students)
        command = [sys.executable, "-c", GRADE, "grade", *lessons, "--workers", str(chosen.workers)]
        seconds = timed([*command, "--submitted", folder / "class", "--out", folder / "out"], folder)
        with (folder / "out" / "grades.csv").open(encoding="utf-8", newline="") as table:
            rows = list(csv.DictReader(table))
    count, verdicts = chosen.students * len(lessons), Counter(row["status"] for row in rows)
    named = " ".join(chosen.lessons)
    print(f"python -m benchmarks.whole_class --students {chosen.students} --workers {chosen.workers} {named}\n")
    print("| what | measured |\n|---|---|")
    print(f"| submissions | {count}, of {chosen.students} students and {len(lessons)} lessons |")
    print(f"| from start to end, {chosen.workers} workers, {os.cpu_count()} cores | {seconds / 60:.1f} minutes |")
    print(f"| a submission | {seconds / count:.2f} s |")
    print(f"| verdicts | {', '.join(f'{number} {status}' for status, number in verdicts.most_common())} |")
    wrong = [row for row in rows if row["status"] != "passed"]
    for row in wrong[:20]:
        print(", ".join(row[key] for key in ("student", "lesson", "exercise", "status", "message") if key in row))
    return int(bool(wrong) or not rows)


if __name__ == "__main__":
    sys.exit(main())
