"""Read the results of a grading run, to compare it with another."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.support.doors import scores

__all__ = ["grade_rows", "recorded", "tree"]


def tree(out: Path) -> dict[str, bytes]:
    """Return all files below a folder, by path, except for locks and gradebooks, whose times differ."""
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name not in ("gradebook.db", ".lock"))
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def grade_rows(table: Path) -> list[dict[str, str]]:
    """Return the rows of a grades.csv, as they stand in it."""
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


def recorded(out: Path, lesson: str) -> dict[tuple[str, str], float | None]:
    """Return the scores in the gradebook, by student and exercise."""
    return scores(f"sqlite:///{out / 'gradebook.db'}", lesson)
