"""Results to report on: a grades.csv, autograded notebooks, and answers that look like no other."""

from __future__ import annotations

import csv
import random
from pathlib import Path

from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.results.grades_table import COLUMNS
from autograde.source.release import load_release

__all__ = ["EXERCISES", "LESSON", "noise", "write_answer", "write_table"]

LESSON = "01_tensors"
EXERCISES = load_release(LESSON).exercises


def write_table(out: Path, rows: list[list[object]]) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "grades.csv").open("w", newline="", encoding="utf-8", errors="surrogatepass") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return out / "grades.csv"


def write_answer(out: Path, student: str, source: str) -> None:
    write_notebook(out / "autograded", student, LESSON, answered_notebook(LESSON, {"row_softmax": source}))


def noise(n: int) -> str:
    """A long answer unlike any other."""
    generator = random.Random(n)
    calls = ["relu", "tanh", "sum", "mean", "exp", "abs", "sin", "cos", "floor", "sign", "t", "norm", "std", "var"]
    pick = generator.choice
    lines = [f"    y = y.{pick(calls)}() {pick('+-*/')} {generator.random():.3f}" for _ in range(12)]
    return "def f(x):\n    y = x\n" + "\n".join(lines) + "\n    return y\n"
