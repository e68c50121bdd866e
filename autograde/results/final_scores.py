"""Read from a gradebook the scores that count: with those given by hand, extra credit and late penalties."""

from __future__ import annotations

from collections.abc import Mapping

from nbgrader.api import Assignment, Grade, GradeCell, SubmittedAssignment, SubmittedNotebook
from sqlalchemy import create_engine, func
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from autograde.results.gradebook_url import gradebook_file

__all__ = ["FinalScores", "final_scores"]

FinalScores = Mapping[tuple[str, str], tuple[float, float]]
"""The score of a submission and the most that it could be, by student and lesson, as exports have them."""


def final_scores(url: str) -> FinalScores:
    """Return the final scores in the gradebook at `url`; nothing where there is no gradebook.

    Raises:
        SQLAlchemyError, ValueError: when it cannot be read.
    """
    file = gradebook_file(url)
    if file and not file.is_file():
        return {}
    with Session(create_engine(url, poolclass=NullPool)) as session:  # nbgrader's Gradebook would make missing tables
        rows = (
            session.query(SubmittedAssignment.student_id, Assignment.name, func.sum(Grade.score),
                          func.max(SubmittedNotebook.late_submission_penalty), func.sum(GradeCell.max_score))
            .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
            .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
            .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
            .join(GradeCell, GradeCell.id == Grade.cell_id)
            .group_by(SubmittedAssignment.student_id, Assignment.name)
        )  # fmt: skip
        return {(student, lesson): (max(0.0, float(score) - float(penalty or 0.0)), float(most))
                for student, lesson, score, penalty, most in rows}  # fmt: skip
