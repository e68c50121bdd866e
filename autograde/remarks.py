"""What an instructor added by hand in the gradebook: comments, scores and extra credit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nbgrader.api import (
    Assignment,
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    SubmittedAssignment,
    SubmittedNotebook,
)

__all__ = ["Remark", "remarks"]


@dataclass(frozen=True)
class Remark:
    """What was added to one exercise. `score`, in points, stands in place of the automatic one; None leaves that."""

    comment: str = ""
    score: float | None = None
    extra: float = 0.0


def remarks(book: Gradebook, lesson: str) -> dict[str, dict[str, Remark]]:
    """All remarks on a lesson, by student and exercise; nothing where nothing was added."""
    found: dict[str, dict[str, Remark]] = {}
    for student, cell, comment in _rows(book, lesson, Comment, Comment.manual_comment):
        if comment and comment.strip():
            found.setdefault(student, {})[cell.removeprefix("check_")] = Remark(comment.strip())
    for student, cell, score, extra in _rows(book, lesson, Grade, Grade.manual_score, Grade.extra_credit):
        if score is not None or extra:
            mine, name = found.setdefault(student, {}), cell.removeprefix("check_")
            mine[name] = replace(mine.get(name, Remark()), score=score, extra=extra or 0.0)
    return found


def _rows(book: Gradebook, lesson: str, table: Any, *columns: Any) -> list[tuple[Any, ...]]:
    query = (
        book.db.query(SubmittedAssignment.student_id, BaseCell.name, *columns)
        .select_from(table)
        .join(BaseCell, BaseCell.id == table.cell_id)
        .join(SubmittedNotebook, SubmittedNotebook.id == table.notebook_id)
        .join(SubmittedAssignment, SubmittedAssignment.id == SubmittedNotebook.assignment_id)
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .filter(Assignment.name == lesson)
        .order_by(SubmittedAssignment.student_id, BaseCell.name)
    )
    return [tuple(row) for row in query]
