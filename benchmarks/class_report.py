"""How long a class report takes: `python -m benchmarks.class_report [--students 500]`, from the repository's root.

Makes a class whose learners write each answer of lesson 01 in one of several ways, with own names and small changes,
and one ring of copies; then times each part of the report.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from autograde import course
from autograde.report import report
from autograde.script import read_script
from autograde.submission import release

LESSON = "01_tensors"
NAMES = ("kept", "total", "out", "result", "y", "z", "values", "idx", "rows", "cols", "n", "tmp")


def answer(solution: str, student: int, generator: random.Random) -> str:
    """The solution in the words of a student: other names, further lines, now and then nothing at all."""
    if student < 5:
        generator = random.Random(1)  # the ring of copies
    if generator.random() < 0.05:
        return ""
    body = solution
    for word in set(re.findall(r"^    (\w+) = ", solution, re.MULTILINE)):
        body = re.sub(rf"\b{word}\b", generator.choice(NAMES), body)
    more = "".join(f"    {generator.choice(NAMES)}_{generator.randrange(100)} = {generator.random():.2f}\n"
                   for _ in range(generator.randrange(8)))  # fmt: skip
    return body.rstrip("\n") + "\n" + more


def make_class(out: Path, students: int) -> None:
    """grades.csv and autograded/ of a class."""
    cells = read_script(course.SOLUTIONS / f"{LESSON}.py")
    solved = {c.exercise: re.sub(r" *### (BEGIN|END) SOLUTION\n?", "", c.source) for c in cells if c.exercise}
    notebook: dict[str, Any] = json.loads(json.dumps(release(LESSON).notebook))
    places = {c["metadata"].get("nbgrader", {}).get("grade_id"): c for c in notebook["cells"]}
    stubs = {name: places[name]["source"] for name in solved}
    generator = random.Random(0)
    with (out / "grades.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["student", "lesson", "exercise", "score", "max_score", "status", "misconception", "message"])
        for student in range(students):
            able = generator.random()
            for name, solution in solved.items():
                places[name]["source"] = answer(solution, student, generator) or stubs[name]
                right = generator.random() < able
                found = ["passed", "", ""] if right else ["failed", f"mistake-{generator.randrange(5)}", "It is so."]
                writer.writerow([f"student{student:04}", LESSON, name, 2 * right, 2, *found])
            path = out / "autograded" / f"student{student:04}" / LESSON / f"{LESSON}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(notebook))


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
        what = f"{chosen.students} students, {len(release(LESSON).exercises)} exercises"
        print(f"{what}: {took}; the page has {len(page) // 1024} KiB.")
        (out / "report.html").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
