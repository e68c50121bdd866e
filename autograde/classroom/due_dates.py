"""Due dates: of lessons, and of single students who were given an extension."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, time
from pathlib import Path

from autograde.files import writing_atomically
from torchcourse.model.path import AmbiguousNumberError, by_number

__all__ = ["DueError", "due_dates", "extensions", "read_extensions", "write_extensions"]

FILE = "extensions.csv"
"""The file of a class folder with the due dates of single students, in UTC."""
COLUMNS = ["student", "lesson", "due"]


class DueError(ValueError):
    """A due date cannot be read; the message quotes it and says how to write one."""


def due_dates(texts: Sequence[str], lessons: Sequence[str]) -> dict[str, datetime]:
    """Return due dates, in UTC, from texts LESSON=DATE, or DATE for all lessons without one of their own.

    A date without a time means its last second; one without an offset is in this machine's time zone. Texts that name a
    student (see `extensions`) are left out.

    Raises:
        DueError: for a text that is not a date, or a lesson that is not in `lessons` or is not clear from its number.
    """
    found: dict[str, datetime] = {}
    general: datetime | None = None
    for text in texts:
        lesson, _, date = text.rpartition("=")
        if ":" in lesson:
            continue
        lesson = _named(text, lesson, lessons)
        when = _time(text, lesson, date, lessons)
        if lesson:
            found[lesson] = when
        else:
            general = when
    return {lesson: due for lesson in lessons if (due := found.get(lesson, general))}


def extensions(
    texts: Sequence[str], lessons: Sequence[str], students: Collection[str]
) -> dict[tuple[str, str], datetime]:
    """Return the due dates of single students, in UTC, by student and lesson, from texts STUDENT:LESSON=DATE.

    Raises:
        DueError: as `due_dates` does, and for a student who is not in `students`.
    """
    found: dict[tuple[str, str], datetime] = {}
    for text in texts:
        who, _, date = text.rpartition("=")
        student, colon, lesson = who.partition(":")
        if colon and student not in students:
            raise DueError(f"--due {text}: {student} is not on the roster.")
        if colon:
            lesson = _named(text, lesson, lessons)
            found[student, lesson] = _time(text, lesson, date, lessons)
    return found


def _named(text: str, lesson: str, lessons: Sequence[str]) -> str:
    """Return the lesson that is meant by its name or its number."""
    try:
        return by_number(lesson, lessons)
    except AmbiguousNumberError as error:
        raise DueError(f"--due {text}: {error}") from None


def _time(text: str, lesson: str, date: str, lessons: Sequence[str]) -> datetime:
    if lesson and lesson not in lessons:
        raise DueError(f"--due {text}: {lesson} is none of the class's lessons: {', '.join(lessons)}.")
    try:
        when = datetime.fromisoformat(date)
        if when.time() == time() and len(date) <= len("2026-12-01"):
            when = datetime.combine(when.date(), time(23, 59, 59))
        return when.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # the last day of the calendar has no end in UTC, west of it
        raise DueError(f"--due {text}: {date} is no date; write 2026-12-01 or 2026-12-01T18:00.") from None


def write_extensions(folder: Path, given: Mapping[tuple[str, str], datetime]) -> None:
    """Add due dates of single students, if there are any, to those of a class folder."""
    if not given:
        return
    all_of_them = sorted({**read_extensions(folder), **given}.items())
    with writing_atomically(folder / FILE) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows([student, lesson, when.isoformat(sep=" ")] for (student, lesson), when in all_of_them)


def read_extensions(folder: Path) -> dict[tuple[str, str], datetime]:
    """Return the due dates of single students in a class folder, in UTC, by student and lesson.

    Raises:
        DueError: when the file is something else.
    """
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return {(row["student"], row["lesson"]): datetime.fromisoformat(row["due"]) for row in csv.DictReader(file)}
    except (csv.Error, KeyError, TypeError, ValueError) as error:
        raise DueError(f"{path} cannot be read ({error}): it has the columns {', '.join(COLUMNS)}.") from None
