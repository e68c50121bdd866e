"""Read from a gradebook when submissions were handed in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from nbgrader.api import Assignment, SubmittedAssignment
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from autograde.results.gradebook_url import gradebook_file

__all__ = ["HandedIn", "handed_in"]


@dataclass(frozen=True)
class HandedIn:
    """When a student handed in a lesson, and when the class had to, in UTC; `due` is None where no date is set."""

    student: str
    lesson: str
    time: datetime
    due: datetime | None


def handed_in(url: str) -> list[HandedIn]:
    """Return what the gradebook at `url` knows of times, earliest first; nothing where there is no gradebook.

    Raises:
        SQLAlchemyError: when it cannot be read.
    """
    file = gradebook_file(url)
    if file and not file.is_file():
        return []
    engine = create_engine(url, poolclass=NullPool)
    with Session(engine) as session:  # nbgrader's Gradebook would make tables that are not there
        rows = (
            session.query(SubmittedAssignment.student_id, Assignment.name, SubmittedAssignment.timestamp,
                          Assignment.duedate)
            .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
            .filter(SubmittedAssignment.timestamp.is_not(None))
            .order_by(SubmittedAssignment.timestamp)
        )  # fmt: skip
        return [HandedIn(*row) for row in rows]
