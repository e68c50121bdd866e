"""Read from a gradebook when submissions were handed in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nbgrader.api import Assignment, SubmittedAssignment
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from autograde.results.gradebook_url import gradebook_file

__all__ = ["HandedIn", "handed_in"]

EARLIEST_TIME, MAX_CLOCK_DIFFERENCE = datetime(2000, 1, 1), timedelta(days=1)
"""Earlier times, and those further ahead, are mistakes or jokes: a student may have written them."""


@dataclass(frozen=True)
class HandedIn:
    """When a student last handed in a lesson, and when it was due for the class (None where no date is set), both in
    this machine's local time."""

    student: str
    lesson: str
    time: datetime
    due: datetime | None


def handed_in(url: str) -> list[HandedIn]:
    """Return what the gradebook at `url` knows of times, earliest first; nothing where there is no gradebook.

    Raises:
        SQLAlchemyError, ValueError: when it cannot be read.
    """
    file = gradebook_file(url)
    if file and not file.is_file():
        return []
    engine = create_engine(url, poolclass=NullPool)
    last = datetime.now(UTC).replace(tzinfo=None) + MAX_CLOCK_DIFFERENCE
    with Session(engine) as session:  # nbgrader's Gradebook would make tables that are not there
        rows = (
            session.query(SubmittedAssignment.student_id, Assignment.name, SubmittedAssignment.timestamp,
                          Assignment.duedate)
            .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
            .filter(SubmittedAssignment.timestamp.is_not(None))
            .order_by(SubmittedAssignment.timestamp)
        )  # fmt: skip
        return [
            HandedIn(student, lesson, _local(time), _local(due) if due else None)
            for student, lesson, time, due in rows
            if EARLIEST_TIME <= time <= last
        ]


def _local(time: datetime) -> datetime:
    """Return a time in UTC, as gradebooks have it, on this machine's clock."""
    return time.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)
