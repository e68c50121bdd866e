"""Write and read grades.csv: a row for each student and exercise. A spreadsheet may have saved it in between."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autograde.files import writing_atomically

if TYPE_CHECKING:
    from autograde.judge.verdict import Verdict

__all__ = ["COLUMNS", "BadTableError", "Row", "Table", "as_text", "is_formula", "read_table", "write_table"]

COLUMNS = ("student", "lesson", "exercise", "score", "max_score", "status", "misconception", "message")
REQUIRED_COLUMNS = ("student", "lesson", "exercise", "score", "max_score", "status")
MAX_BYTES = 200 << 20
FULL_WIDTH_SIGNS = "\uff1d\uff0b\uff0d\uff20"
"""= + - @ in full width: some spreadsheets take these for the beginning of a formula too."""
AFTER_SEPARATOR = re.compile(rf"([;|\t][\"']*)(?=[=+@{FULL_WIDTH_SIGNS}-])")
"""Where a formula would begin if a spreadsheet took another separator for that of cells, as some languages do."""


class BadTableError(ValueError):
    """A grades.csv is missing or is no table of grades; the message gives the reason and the remedy."""


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
    def key(self) -> tuple[str, str, str]:
        """Student, lesson and exercise, which identify the row."""
        return self.student, self.lesson, self.exercise

    @property
    def share(self) -> float:
        """The share of the points, from 0 to 1."""
        return min(1.0, max(0.0, self.score / self.max_score)) if self.max_score > 0 else 0.0


@dataclass(frozen=True)
class Table:
    """The rows in order, one for each student and exercise, and complaints about bad lines."""

    rows: tuple[Row, ...]
    complaints: tuple[str, ...] = ()


def read_table(path: Path) -> Table:
    """Read the grades at `path`. Bad lines are left out, with a complaint; of two rows with one key the last counts.

    Raises:
        BadTableError: when there is no such file, or it is no table of grades.
    """
    if not path.is_file():
        raise BadTableError(f"{path} is missing: name the folder that `torchcourse grade --out` wrote.")
    if path.stat().st_size > MAX_BYTES:
        raise BadTableError(f"{path} has {path.stat().st_size} bytes, and is no table of grades.")
    text = path.read_text(encoding="utf-8-sig", errors="replace").replace("\0", "\ufffd")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=False)
    rows: dict[tuple[str, str, str], Row] = {}
    complaints: list[str] = []
    try:
        missing = [name for name in REQUIRED_COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise BadTableError(f"{path} has no column {missing[0]!r}: it is not as `torchcourse grade` wrote it.")
        for line, cells in _numbered(reader):
            row, complaint = _row(cells)
            if row is None:
                complaints.append(f"line {line}: {complaint}")
                continue
            if row.key in rows:
                complaints.append(f"line {line}: a second row for this learner and exercise; it counts")
            rows[row.key] = row
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
    student = cells["student"]
    if student.startswith("'") and is_formula(student[1:]):
        student = student[1:]  # as `as_text` wrote it
    row = Row(
        student, cells["lesson"], cells["exercise"], numbers["score"], numbers["max_score"], cells["status"],
        cells.get("misconception", ""), cells.get("message", ""),
    )  # fmt: skip
    return row, ""


def write_table(path: Path, verdicts: Iterable[Verdict]) -> None:
    """Write grades.csv, whole or not at all: a row for each verdict, in their order."""
    with writing_atomically(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(map(_cells, verdicts))


def _cells(verdict: Verdict) -> list[str]:
    v, score, most = verdict, f"{verdict.score:g}", f"{verdict.max_score:g}"
    return [*map(as_text, (v.student, v.lesson, v.exercise, score, most, v.status, v.misconception, v.line))]


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would evaluate this cell instead of showing it."""
    return text.startswith(("=", "+", "-", "@", "\t", "\r", *FULL_WIDTH_SIGNS))


def as_text(cell: str) -> str:
    """Return a cell that spreadsheets show unchanged, with an apostrophe before what they would take for a formula."""
    cell = AFTER_SEPARATOR.sub(r"\1'", cell)
    return f"'{cell}" if is_formula(cell) else cell
