"""Compare two gradings, exercise by exercise, and preview what grading again would change."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autograde.files import write_atomically
from autograde.results.grades_table import BadTableError, Row, read_table

__all__ = ["Change", "Grades", "apply", "changes", "gains_and_losses", "preview", "read_grades"]

Grades = Mapping[tuple[str, str, str], Row]
"""Rows of grades.csv by student, lesson and exercise."""


@dataclass(frozen=True)
class Change:
    """A row of grades.csv that differs; `before` or `after` is None if there was no row."""

    student: str
    lesson: str
    exercise: str
    before: Row | None
    after: Row | None

    @property
    def points(self) -> float:
        """The points that the student gains; negative if they lose points."""
        return (self.after.score if self.after else 0.0) - (self.before.score if self.before else 0.0)

    def __str__(self) -> str:
        where = f"{self.student} {self.lesson} {self.exercise}"
        return f"{where}: {_verdict(self.before)} -> {_verdict(self.after)}"


def read_grades(place: Path) -> Grades:
    """Return the rows of a grades.csv, or of the one in a folder.

    Raises:
        BadTableError: when it is missing, is something else, or holds a line that is no row.
    """
    path = place / "grades.csv" if place.is_dir() else place
    table = read_table(path)
    if table.complaints:
        raise BadTableError(f"{path} is no table of grades as `torchcourse grade` writes it: {table.complaints[0]}.")
    return {row.key: row for row in table.rows}


def changes(before: Grades, after: Grades) -> list[Change]:
    """Return the rows whose score, status or misconception differ, in the order of `after`."""
    keys = [*after, *(key for key in before if key not in after)]
    return [Change(*key, before.get(key), after.get(key)) for key in keys
            if _compared_fields(before.get(key)) != _compared_fields(after.get(key))]  # fmt: skip


def gains_and_losses(changes: Sequence[Change]) -> list[str]:
    """Return a sentence with the students who gain points, and one with those who lose some, most first."""
    sums: dict[str, float] = defaultdict(float)
    for change in changes:
        sums[change.student] += change.points
    sentences = []
    for words, sign in (("Gain points", 1), ("Lose points", -1)):
        students = sorted((s for s in sums if sign * sums[s] > 0), key=lambda s: (-abs(sums[s]), s))
        if students:
            sentences.append(f"{words}: {', '.join(f'{s} {sums[s]:+g}' for s in students)}")
    return sentences


@contextmanager
def preview(out: Path, lessons: Sequence[str], grade: Callable[[Path], object]) -> Iterator[tuple[Path, list[Change]]]:
    """Grade into a folder beside `out` and compare, without writing to `out`.

    Args:
        grade: grades into the folder that it is given, which holds copies of the journal and the gradebook of `out`.

    Yields:
        The folder with the new results, which is deleted afterwards, and the changes in `lessons`.
    """
    with tempfile.TemporaryDirectory(prefix="torchcourse-") as folder:
        new = Path(folder) / "out"
        new.mkdir()
        if (out / "gradebook.db").is_file():
            shutil.copyfile(out / "gradebook.db", new / "gradebook.db")
        if (out / "journal").is_dir():
            shutil.copytree(out / "journal", new / "journal")
        before = read_grades(out) if (out / "grades.csv").is_file() else {}
        grade(new)
        after = read_grades(new)
        yield new, [change for change in changes(before, after) if change.lesson in lessons]


def apply(new: Path, out: Path) -> None:
    """Copy the journal of a preview to `out`, so that grading into `out` runs nothing again.

    Raises:
        BusyError: when another grader writes to `out`.
    """
    from autograde.batch.journal import Journal  # it imports torch, which `diff` can do without

    with Journal(out / "journal"):
        for source in sorted((new / "journal").rglob("*.json")):
            target = out / "journal" / source.relative_to(new / "journal")
            write_atomically(target, source.read_bytes())


def _compared_fields(row: Row | None) -> tuple[object, ...] | None:
    return (row.score, row.max_score, row.status, row.misconception) if row else None


def _verdict(row: Row | None) -> str:
    if row is None:
        return "nothing"
    name = f", {row.misconception}" if row.misconception else ""
    return f"{row.score:g} of {row.max_score:g} ({row.status}{name})"
