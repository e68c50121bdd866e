"""Grade the same submissions with two checkouts of the course, and show every grade that differs.

    python -m benchmarks.same_grades BEFORE [AFTER] --out DIR [--lessons 01_tensors …] [--workers 2]
    python -m benchmarks.same_grades BEFORE.csv AFTER.csv

BEFORE makes the submissions, once: the sample class, an invented class of 20 for every lesson, and notebooks that
together hold every right answer and every known mistake (`benchmarks/_answers_as_notebooks.py`, which imports internals
of BEFORE and so needs its layout; AFTER is driven by its command line alone). What BEFORE gave them is kept in DIR and
used again; AFTER grades anew each time, and without AFTER nothing is compared. Ends with 1 if a score, a status or a
misconception differs.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

COMPARED = ("score", "max_score", "status", "misconception")
COMMAND = "from torchcourse.cli import main; main()"
ANSWERS = Path(__file__).with_name("_answers_as_notebooks.py")
WHERE = "import autograde, torchcourse; print(autograde.__file__, torchcourse.__file__, sep='\\n')"
STUDENTS = 20
MAX_SECONDS = 3600
"""Seconds that any one program may take."""

Key = tuple[str, str, str]
Grades = dict[Key, dict[str, str]]


def main() -> int:
    """Grade twice and print the differences; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path, help="the older checkout, or a grades.csv that it wrote")
    parser.add_argument("after", type=Path, nargs="?", help="the newer checkout, or a grades.csv that it wrote")
    parser.add_argument("--out", type=Path, help="keeps the submissions and the grades")
    parser.add_argument("--lessons", nargs="*", default=[], help="such as 01_tensors; all, if none is named")
    parser.add_argument("--seed", type=int, default=20_261_120, help="what the hidden cases are drawn from")
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    if chosen.before.is_file() and chosen.after:
        return compare(chosen.before, chosen.after, chosen.lessons)
    if chosen.out is None:
        parser.error("--out is needed to grade")
    before, out = chosen.before.resolve(), chosen.out.resolve()
    lessons = chosen.lessons or sorted(path.stem for path in (before / "notebooks").glob("*.ipynb"))
    make_submissions(before, out / "submitted")
    options = ["--workers", str(chosen.workers), "--seed", str(chosen.seed), "--submitted", str(out / "submitted")]
    grade(before, lessons, out / "before", options, digest(out / "submitted"))
    if chosen.after is None:
        return 0
    shutil.rmtree(out / "after", ignore_errors=True)
    grade(chosen.after.resolve(), lessons, out / "after", options, "")
    return compare(out / "before" / "grades.csv", out / "after" / "grades.csv", lessons)


def run(tree: Path, cache: Path, *arguments: str) -> str:
    """Run Python with the code of a checkout; return what it printed.

    Raises:
        RuntimeError: when the code would come from elsewhere, or the program fails.
        TimeoutExpired: when it does not end: two threads of torch may wait for each other as the grader closes.
    """
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}", "TORCHCOURSE_CACHE": str(cache)}
    for command in (["-c", WHERE], [*arguments]):
        whole = [sys.executable, "-P", *command]
        done = subprocess.run(whole, cwd=tree, env=environment, capture_output=True, text=True, timeout=MAX_SECONDS)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} of {tree} failed:\n{done.stdout}{done.stderr}")
        if command[-1] == WHERE and not all(Path(line).is_relative_to(tree) for line in done.stdout.splitlines()):
            raise RuntimeError(f"the code does not come from {tree}:\n{done.stdout}")
    return done.stdout


def make_submissions(tree: Path, folder: Path) -> None:
    """Make the submissions with the older checkout, unless they are there."""
    if not folder.exists():
        begun, work = time.monotonic(), folder.with_name("making")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        cache, made = work / "cache", work / "class" / "submitted"
        run(tree, cache, "-c", COMMAND, "class", "init", str(work / "class"), "--sample", str(STUDENTS))
        run(tree, cache, "-c", COMMAND, "sample", str(made))
        lessons = sorted(path.stem for path in (tree / "notebooks").glob("*.ipynb"))
        (work / "answers.json").write_text(run(tree, cache, str(ANSWERS), str(made), *lessons), encoding="utf-8")
        shutil.copy(work / "answers.json", folder.with_name("answers.json"))
        made.rename(folder)
        shutil.rmtree(work)
        print(f"submissions made in {time.monotonic() - begun:.0f} s")
    found = json.loads(folder.with_name("answers.json").read_text(encoding="utf-8"))
    print(f"{len(list(folder.glob('*/*/*.ipynb')))} notebooks of {len(list(folder.iterdir()))} students")
    of_both = f"{found['in their modules']} of both in their modules"
    print(f"{found['right']} right answers and {found['mistake']} mistakes, {of_both}")


def digest(folder: Path) -> str:
    """Return a hash of all files below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    parts = (hashlib.sha256(path.read_bytes()).hexdigest() + str(path.relative_to(folder)) for path in files)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def grade(tree: Path, lessons: list[str], out: Path, options: list[str], submissions: str) -> None:
    """Grade lessons with a checkout, unless what lies in `out` is of the same submissions and has them all."""
    note = out / "graded.json"
    earlier = json.loads(note.read_text(encoding="utf-8")) if note.exists() else {}
    is_same = earlier.get("submissions") == submissions and earlier["options"] == options
    if is_same and set(lessons) <= set(earlier["lessons"]):
        print(f"{out.name}: graded earlier")
        return
    begun = time.monotonic()
    arguments = ["-c", COMMAND, "grade", *lessons, "--out", str(out), *options]
    try:
        run(tree, out.with_name(f"cache-{out.name}"), *arguments)
    except subprocess.TimeoutExpired:
        print(f"{out.name}: hangs, is ended, and goes on from its journal", flush=True)
        run(tree, out.with_name(f"cache-{out.name}"), *arguments)
    wrote = {"submissions": submissions, "options": options, "lessons": lessons}
    note.write_text(json.dumps(wrote), encoding="utf-8")
    print(f"{out.name}: {len(lessons)} lessons graded in {time.monotonic() - begun:.0f} s", flush=True)


def read(path: Path, lessons: list[str]) -> Grades:
    """Return the rows of a grades.csv, of these lessons, or of all if none is named."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if not lessons or row["lesson"] in lessons]
    grades = {(row["student"], row["lesson"], row["exercise"]): row for row in rows}
    assert len(grades) == len(rows), f"{path} has two rows for one exercise of one student"
    return grades


def compare(before: Path, after: Path, lessons: list[str]) -> int:
    """Print which grades differ between two tables; return 1 if any does."""
    old, new = read(before, lessons), read(after, lessons)
    counts, missing = Counter[str](), dict.fromkeys(COMPARED, "no row")
    print("| student | lesson | exercise | before | after |\n|---|---|---|---|---|")
    for key in [*old, *(key for key in new if key not in old)]:
        rows = old.get(key, missing), new.get(key, missing)
        differing = [name for name in COMPARED if rows[0].get(name) != rows[1].get(name)]
        counts.update(differing)
        counts["rows"] += bool(differing)
        counts["message"] += rows[0].get("message") != rows[1].get("message")
        if differing:
            print(f"| {' | '.join([*key, *(' '.join(str(row.get(name)) for name in COMPARED) for row in rows)])} |")
    order = "the same" if list(old) == list(new) else "another"
    print(
        f"\n{len(old)} rows before, {len(new)} after, in {order} order; {counts['rows']} differ: "
        f"{', '.join(f'{name} {counts[name]}' for name in COMPARED)}; {counts['message']} messages differ"
    )
    return int(counts["rows"] > 0 or not old)


if __name__ == "__main__":
    sys.exit(main())
