"""grades.csv read back, as it is or as a spreadsheet left it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BadTableError", "Row", "Table", "read_table"]

NEEDED = ("student", "lesson", "exercise", "score", "max_score", "status")
LARGEST = 200 << 20


class BadTableError(ValueError):
    """A grades.csv that is missing or is something else: says what, and the remedy."""


@dataclass(frozen=True)
class Row:
    """The verdict on one exercise of one learner."""

    student: str
    lesson: str
    exercise: str
    score: float
    max_score: float
    status: str
    misconception: str = ""
    message: str = ""

    @property
    def share(self) -> float:
        """The share of the points, from 0 to 1."""
        return min(1.0, max(0.0, self.score / self.max_score)) if self.max_score > 0 else 0.0


@dataclass(frozen=True)
class Table:
    """The rows in order, one for each student and exercise, and what was wrong with others, by line."""

    rows: tuple[Row, ...]
    complaints: tuple[str, ...] = ()


def read_table(path: Path) -> Table:
    """The grades at `path`. Rows that are none are left out and complained of; of two for one exercise the last counts.

    Raises:
        BadTableError: when there is no such file, or it is no table of grades.
    """
    if not path.is_file():
        raise BadTableError(f"{path} is missing: name the folder that `torchcourse grade --out` wrote.")
    if path.stat().st_size > LARGEST:
        raise BadTableError(f"{path} has {path.stat().st_size} bytes, and is no table of grades.")
    text = path.read_text(encoding="utf-8-sig", errors="replace").replace("\0", "\ufffd")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=False)
    rows: dict[tuple[str, str, str], Row] = {}
    complaints: list[str] = []
    try:
        missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
        if missing:
            raise BadTableError(f"{path} has no column {missing[0]!r}: it is not as `torchcourse grade` wrote it.")
        for line, cells in _numbered(reader):
            row, complaint = _row(cells)
            if row is None:
                complaints.append(f"line {line}: {complaint}")
                continue
            who = (row.student, row.lesson, row.exercise)
            if who in rows:
                complaints.append(f"line {line}: a second row for this learner and exercise; it counts")
            rows[who] = row
    except csv.Error as error:
        complaints.append(f"line {reader.line_num}: {error}; what comes after it is not read")
    return Table(tuple(rows.values()), tuple(complaints))


def _numbered(reader: csv.DictReader[str]) -> Iterator[tuple[int, dict[str, str]]]:
    for cells in reader:
        yield reader.line_num, {name: text or "" for name, text in cells.items() if isinstance(name, str)}


def _row(cells: dict[str, str]) -> tuple[Row | None, str]:
    for name in ("student", "lesson", "exercise", "status"):
        if not cells[name].strip():
            return None, f"{name} is empty"
    numbers = dict[str, float]()
    for name in ("score", "max_score"):
        try:
            numbers[name] = float(cells[name])
        except ValueError:
            return None, f"{name} is no number"
        if not math.isfinite(numbers[name]):
            return None, f"{name} is no finite number"
    row = Row(
        cells["student"], cells["lesson"], cells["exercise"], numbers["score"], numbers["max_score"], cells["status"],
        cells.get("misconception", ""), cells.get("message", ""),
    )  # fmt: skip
    return row, ""
