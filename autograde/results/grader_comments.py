"""Read what an instructor added to grades by hand in the gradebook: comments, scores and extra credit."""

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

from torchcourse.model.notebook_file import exercise_of

__all__ = ["GraderComment", "grader_comments"]


@dataclass(frozen=True)
class GraderComment:
    """What was added to one exercise, in points; a `score` other than None replaces the automatic one."""

    comment: str = ""
    score: float | None = None
    extra: float = 0.0


def grader_comments(book: Gradebook, lesson: str) -> dict[str, dict[str, GraderComment]]:
    """Return what was added to a lesson, by student and exercise; exercises without additions are left out."""
    found: dict[str, dict[str, GraderComment]] = {}
    for student, cell, comment in _rows(book, lesson, Comment, Comment.manual_comment):
        if comment and comment.strip():
            found.setdefault(student, {})[exercise_of(cell)] = GraderComment(comment.strip())
    for student, cell, score, extra in _rows(book, lesson, Grade, Grade.manual_score, Grade.extra_credit):
        if score is not None or extra:
            own, name = found.setdefault(student, {}), exercise_of(cell)
            own[name] = replace(own.get(name, GraderComment()), score=score, extra=extra or 0.0)
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
