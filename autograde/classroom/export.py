"""Export scores from the gradebook: a table for people, files for Canvas and Moodle, JSON for programs.

What the platforms read, after the sources of their exporters and importers (Canvas's lib/gradebook_exporter.rb and
lib/gradebook_importer.rb; docs.moodle.org, "Grade import", and Moodle's grade/export/txt):

    Canvas  a header Student, ID, SIS User ID, SIS Login ID, Section, then a column for each assignment, as `Title` or
            `Title (number)`; a row `Points Possible`; a row for each student, looked for by ID, then by the SIS ids
    Moodle  First name, Last name, ID number, Email address, then a column for each grade item; the person
            who imports chooses the column that identifies a student
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.api import (
    Assignment,
    Grade,
    Gradebook,
    GradeCell,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)

from autograde.results.gradebook_url import gradebook_file, sqlite_url
from autograde.results.grades_table import as_text
from torchcourse.model.catalogue import in_order
from torchcourse.model.notebook_file import exercise_of

__all__ = ["FORMATS", "Score", "export", "scores_of"]


@dataclass(frozen=True)
class Score:
    """The score of a student in a lesson.

    Attributes:
        due, submitted: times in UTC.
        raw: automatic or manual points and extra credit; None if nothing was graded.
        penalty: points lost by lateness.
        exercises: points by exercise, including extra credit.
    """

    student: str
    first_name: str
    last_name: str
    email: str
    lms_user_id: str
    lesson: str
    max_score: float
    due: datetime | None = None
    submitted: datetime | None = None
    raw: float | None = None
    penalty: float = 0.0
    exercises: Mapping[str, float] | None = None

    @property
    def final(self) -> float | None:
        """The raw score minus the penalty."""
        return None if self.raw is None else max(0.0, self.raw - self.penalty)


def scores_of(gradebook: Path | str, lessons: Sequence[str] = ()) -> list[Score]:
    """Return the scores in a gradebook, of `lessons` or of all lessons in it, by student.

    Args:
        gradebook: a file, or the URL of one.

    Raises:
        FileNotFoundError: when there is no gradebook.
    """
    url = sqlite_url(gradebook) if isinstance(gradebook, Path) else gradebook
    file = gradebook_file(url)
    if file and not file.is_file():
        raise FileNotFoundError(f"{file} does not exist: `torchcourse class init` makes one, and so does grading. "
                                "A gradebook elsewhere belongs to a class that `torchcourse class init … --gradebook "
                                "URL` made.")  # fmt: skip
    with Gradebook(url) as book:
        assignments = {a.name: a for a in book.assignments}
        wanted = [name for name in lessons or in_order(assignments) if name in assignments]
        graded = _graded(book)
        found = [
            Score(**_facts(student, assignments[name]), **graded.get((student.id, name), {}))
            for student in book.students
            for name in wanted
        ]
    return sorted(found, key=lambda s: (s.last_name, s.first_name, s.student, wanted.index(s.lesson)))


def _facts(student: Student, assignment: Assignment) -> dict[str, Any]:
    facts = {name: getattr(student, name) or "" for name in ("first_name", "last_name", "email", "lms_user_id")}
    return {"student": student.id, **facts, "lesson": assignment.name, "max_score": float(assignment.max_score),
            "due": assignment.duedate}  # fmt: skip


def _graded(book: Gradebook) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the recorded grades of each submission, by student and lesson, read in one query."""
    rows = (
        book.db.query(SubmittedAssignment.student_id, Assignment.name, SubmittedAssignment.timestamp,
                      SubmittedNotebook.late_submission_penalty, GradeCell.name, Grade.score)
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
        .join(GradeCell, GradeCell.id == Grade.cell_id)
    )  # fmt: skip
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for student, lesson, submitted, penalty, cell, score in rows:
        blank = {"submitted": submitted, "raw": 0.0, "penalty": float(penalty or 0.0), "exercises": {}}
        recorded = found.setdefault((student, lesson), blank)
        recorded["raw"] += float(score)
        recorded["exercises"][exercise_of(cell)] = float(score)
    return found


def export(scores: Sequence[Score], form: str, titles: Mapping[str, str] | None = None) -> str:
    """Return the scores as text in one of `FORMATS`.

    Args:
        titles: the names of lessons on the platform, such as "Tensors (123)"; by default a lesson's own name.
    """
    return FORMATS[form](scores, titles or {})


def _csv(scores: Sequence[Score], titles: Mapping[str, str]) -> str:
    """Return the columns of `nbgrader export`, every cell quoted."""
    rows: list[list[Any]] = [["assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
                              "raw_score", "late_submission_penalty", "score", "max_score"]]  # fmt: skip
    for s in scores:
        given = [_number(s.raw), _number(s.penalty if s.raw is not None else None), _number(s.final)]
        rows.append([titles.get(s.lesson, s.lesson), s.due or "", s.submitted or "", s.student, s.last_name,
                     s.first_name, s.email, *given, _number(s.max_score)])  # fmt: skip
    return _table(rows)


def _canvas(scores: Sequence[Score], titles: Mapping[str, str]) -> str:
    def facts(s: Score) -> list[str]:
        name = ", ".join(filter(None, (s.last_name, s.first_name))) or s.student
        return [name, s.lms_user_id, "", s.student, ""]

    rows = _by_lesson(scores, titles, ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"], facts)
    max_scores = {s.lesson: _number(s.max_score) for s in scores}
    return _table([rows[0], ["    Points Possible", "", "", "", "", *max_scores.values()], *rows[1:]])


def _moodle(scores: Sequence[Score], titles: Mapping[str, str]) -> str:
    columns = ["First name", "Last name", "ID number", "Email address"]
    return _table(_by_lesson(scores, titles, columns, lambda s: [s.first_name, s.last_name, s.student, s.email]))


def _by_lesson(
    scores: Sequence[Score], titles: Mapping[str, str], columns: list[str], facts: Callable[[Score], list[str]]
) -> list[list[str]]:
    """Return a header and a row for each student: facts about them, then a column for each lesson."""
    lessons = dict.fromkeys(s.lesson for s in scores)
    rows = [[*columns, *(titles.get(lesson, lesson) for lesson in lessons)]]
    for own in _by_student(scores):
        final = {score.lesson: _number(score.final) for score in own}
        rows.append([*facts(own[0]), *(final.get(lesson, "") for lesson in lessons)])
    return rows


def _json(scores: Sequence[Score], titles: Mapping[str, str]) -> str:
    students = []
    for own in _by_student(scores):
        s = own[0]
        lessons = {
            titles.get(x.lesson, x.lesson): {
                "due": x.due and f"{x.due.isoformat()}Z", "submitted": x.submitted and f"{x.submitted.isoformat()}Z",
                "raw_score": x.raw, "late_submission_penalty": x.penalty if x.raw is not None else None,
                "score": x.final, "max_score": x.max_score, "exercises": x.exercises,
            }
            for x in own
        }  # fmt: skip
        students.append({"id": s.student, "first_name": s.first_name, "last_name": s.last_name, "email": s.email,
                         "lms_user_id": s.lms_user_id or None, "lessons": lessons})  # fmt: skip
    return json.dumps({"students": students}, ensure_ascii=False, indent=1) + "\n"


FORMATS: dict[str, Callable[[Sequence[Score], Mapping[str, str]], str]] = {
    "csv": _csv, "canvas": _canvas, "moodle": _moodle, "json": _json,
}  # fmt: skip


def _by_student(scores: Sequence[Score]) -> list[list[Score]]:
    found: dict[str, list[Score]] = {}
    for score in scores:
        found.setdefault(score.student, []).append(score)
    return list(found.values())


def _number(value: float | None) -> str:
    """Return a number with at most two decimals, as the platforms store it; "" for None."""
    return "" if value is None else f"{round(value, 2):.12g}"


def _table(rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerows([as_text(str(cell)) for cell in row] for row in rows)
    return text.getvalue()
