"""Time a class report: `python -m benchmarks.class_report [--students 500]`, from the repository's root.

Makes a class whose learners write each answer of lesson 01 in one of several ways, with names of their own and small
changes, and a group of copies; then times each part of the report.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
import tempfile
import time
from pathlib import Path

from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.report.class_report import report
from autograde.source import paths
from autograde.source.release import load_release
from autograde.source.script import answers_as_text

LESSON = "01_tensors"
NAMES = ("kept", "total", "out", "result", "y", "z", "values", "idx", "rows", "cols", "n", "tmp")


def answer(solution: str, student: int, generator: random.Random) -> str:
    """Return a student's version of the solution: other names, further lines, sometimes nothing at all."""
    if student < 5:
        generator = random.Random(1)  # the group of copies
    if generator.random() < 0.05:
        return ""
    body = solution
    for word in set(re.findall(r"^    (\w+) = ", solution, re.MULTILINE)):
        body = re.sub(rf"\b{word}\b", generator.choice(NAMES), body)
    more = "".join(f"    {generator.choice(NAMES)}_{generator.randrange(100)} = {generator.random():.2f}\n"
                   for _ in range(generator.randrange(8)))  # fmt: skip
    return body.rstrip("\n") + "\n" + more


def make_class(out: Path, students: int) -> None:
    """Write grades.csv and autograded/ of a class."""
    solved = answers_as_text(paths.SOLUTIONS / f"{LESSON}.py")
    generator = random.Random(0)
    with (out / "grades.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "lesson", "exercise", "score", "max_score", "status", "misconception", "message"])
        for student in range(students):
            able = generator.random()
            answers = {name: answer(solution, student, generator) for name, solution in solved.items()}
            for name in solved:
                right = generator.random() < able
                found = ["passed", "", ""] if right else ["failed", f"mistake-{generator.randrange(5)}", "It is so."]
                writer.writerow([f"student{student:04}", LESSON, name, 2 * right, 2, *found])
            attempted = {name: source for name, source in answers.items() if source}
            write_notebook(out / "autograded", f"student{student:04}", LESSON, answered_notebook(LESSON, attempted))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=int, default=500)
    parser.add_argument("--keep", type=Path, help="a new folder to leave the class and its report in")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = chosen.keep or Path(scratch)
        out.mkdir(exist_ok=True)
        make_class(out, chosen.students)
        begun, cpu = time.perf_counter(), time.process_time()
        page = report(out)
        took = f"{time.process_time() - cpu:.1f} s of CPU time, {time.perf_counter() - begun:.1f} s in all"
        what = f"{chosen.students} students, {len(load_release(LESSON).exercises)} exercises"
        print(f"{what}: {took}; the page has {len(page) // 1024} KiB.")
        (out / "report.html").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
