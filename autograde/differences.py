"""What another grading would change: the scores before and after, exercise by exercise."""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autograde.journal import Journal

__all__ = ["Change", "adopt", "changes", "preview", "read_grades"]

Row = dict[str, str]
Key = tuple[str, str, str]
KEPT = ("gradebook.db", "grades.csv")


@dataclass(frozen=True)
class Change:
    """A row of grades.csv that differs: None where it is missing before or after."""

    student: str
    lesson: str
    exercise: str
    before: Row | None
    after: Row | None

    @property
    def points(self) -> float:
        """What the student gains; negative for what is lost."""
        return _score(self.after) - _score(self.before)

    def __str__(self) -> str:
        where = f"{self.student} {self.lesson} {self.exercise}"
        return f"{where}: {_verdict(self.before)} -> {_verdict(self.after)}"


def read_grades(place: Path) -> dict[Key, Row]:
    """The rows of a grades.csv, or of the one in a folder, by student, lesson and exercise.

    Raises:
        ValueError: when it is no such table, with the reason.
    """
    path = place / "grades.csv" if place.is_dir() else place
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return {(row["student"], row["lesson"], row["exercise"]): row for row in rows if float(row["score"]) >= 0}
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None
    except (KeyError, TypeError, ValueError, csv.Error):
        raise ValueError(f"{path} is no table of grades as `torchcourse grade` writes it.") from None


def changes(before: dict[Key, Row], after: dict[Key, Row]) -> list[Change]:
    """The rows whose score, status or misconception differ, in the order of `after`."""
    keys = [*after, *(key for key in before if key not in after)]
    return [Change(*key, before.get(key), after.get(key)) for key in keys
            if _told(before.get(key)) != _told(after.get(key))]  # fmt: skip


@contextmanager
def preview(out: Path, lessons: Sequence[str], grade: Callable[[Path], object]) -> Iterator[tuple[Path, list[Change]]]:
    """Grade beside `out` and compare, without writing there.

    Args:
        grade: grades into the folder it is given; that one starts with what `out` has found out so far.

    Yields:
        The folder with the new results, which is gone afterwards, and what differs in `lessons`.
    """
    with tempfile.TemporaryDirectory(prefix="torchcourse-") as folder:
        new = Path(folder) / "out"
        new.mkdir()
        for name in KEPT:
            if (out / name).is_file():
                shutil.copyfile(out / name, new / name)
        if (out / "journal").is_dir():
            shutil.copytree(out / "journal", new / "journal")
        before = read_grades(out) if (out / "grades.csv").is_file() else {}
        grade(new)
        after = read_grades(new)
        yield new, changes(_of(lessons, before), _of(lessons, after))


def _of(lessons: Sequence[str], grades: Mapping[Key, Row]) -> dict[Key, Row]:
    return {key: row for key, row in grades.items() if key[1] in lessons}


def adopt(new: Path, out: Path) -> None:
    """Take over what was found out for a preview, so that grading into `out` need not find it out again.

    Raises:
        BusyError: when another grader writes to `out`.
    """
    with Journal(out / "journal"):
        for source in sorted((new / "journal").rglob("*.json")):
            target = out / "journal" / source.relative_to(new / "journal")
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.part")
            shutil.copyfile(source, part)
            part.replace(target)


def _score(row: Row | None) -> float:
    return float(row["score"]) if row else 0.0


def _told(row: Row | None) -> tuple[object, ...] | None:
    return (float(row["score"]), row["max_score"], row["status"], row["misconception"]) if row else None


def _verdict(row: Row | None) -> str:
    if row is None:
        return "nothing"
    name = f", {row['misconception']}" if row["misconception"] else ""
    return f"{row['score']} of {row['max_score']} ({row['status']}{name})"
