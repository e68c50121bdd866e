"""Scores out of the gradebook: a table for people, files for Canvas and Moodle, JSON for programs.

What the platforms read, as their own exports and importers have it (Canvas's lib/gradebook_exporter.rb and
lib/gradebook_importer.rb; docs.moodle.org, "Grade import", and Moodle's grade/export/txt):

    Canvas  a header Student, ID, SIS User ID, SIS Login ID, Section, then a column for each assignment, as `Title` or
            `Title (number)`; a row `Points Possible`; a row for each student, looked for by ID, then by the SIS ids
    Moodle  First name, Last name, ID number, Email address, then a column for each grade item; who imports says which
            column identifies a student
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

from autograde.roster import is_formula
from torchcourse.exercise import LESSONS

__all__ = ["FORMATS", "Score", "export", "scores_of"]


@dataclass(frozen=True)
class Score:
    """What a student has in a lesson; `raw` is None where nothing was graded.

    Attributes:
        raw: automatic and manual points and extra credit.
        penalty: what lateness takes away, never more than `raw`.
        exercises: points by exercise, as they count.
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
        """What counts."""
        return None if self.raw is None else max(0.0, self.raw - self.penalty)


def scores_of(gradebook: Path, lessons: Sequence[str] = ()) -> list[Score]:
    """The scores in a gradebook, of `lessons` or of all lessons in it, by student.

    Raises:
        FileNotFoundError: when there is no gradebook.
    """
    if not gradebook.is_file():
        raise FileNotFoundError(f"{gradebook} does not exist: `torchcourse class init` makes one, grading too.")
    with Gradebook(f"sqlite:///{gradebook}") as book:
        assignments = {a.name: a for a in book.assignments}
        wanted = [name for name in lessons or LESSONS if name in assignments]
        graded = _graded(book)
        found = [
            Score(**_known(student, assignments[name]), **graded.get((student.id, name), {}))
            for student in book.students
            for name in wanted
        ]
    return sorted(found, key=lambda s: (s.last_name, s.first_name, s.student, wanted.index(s.lesson)))


def _known(student: Student, assignment: Assignment) -> dict[str, Any]:
    facts = {name: getattr(student, name) or "" for name in ("first_name", "last_name", "email", "lms_user_id")}
    return {"student": student.id, **facts, "lesson": assignment.name, "max_score": float(assignment.max_score),
            "due": assignment.duedate}  # fmt: skip


def _graded(book: Gradebook) -> dict[tuple[str, str], dict[str, Any]]:
    """What is recorded of each submission, by student and lesson, in one query."""
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
        theirs = found.setdefault((student, lesson), blank)
        theirs["raw"] += float(score)
        theirs["exercises"][cell.removeprefix("check_")] = float(score)
    return found


def export(scores: Sequence[Score], form: str, titles: Mapping[str, str] | None = None) -> str:
    """The scores as text in one of `FORMATS`.

    Args:
        titles: what a lesson is called on the platform, such as "Tensors (123)", where it is not its own name.
    """
    return FORMATS[form](scores, titles or {})


def _csv(scores: Sequence[Score], titles: Mapping[str, str]) -> str:
    """The columns of `nbgrader export`, with every cell quoted and none that a spreadsheet would calculate."""
    rows: list[list[Any]] = [["assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
                              "raw_score", "late_submission_penalty", "score", "max_score"]]  # fmt: skip
    for s in scores:
        given = [_number(s.raw), _number(s.penalty if s.raw is not None else None), _number(s.final)]
        rows.append([titles.get(s.lesson, s.lesson), s.due or "", s.submitted or "", s.student, s.last_name,
                     s.first_name, s.email, *given, _number(s.max_score)])  # fmt: skip
    return _table(rows)


def _canvas(scores: Sequence[Score], titles: Mapping[str, str]) -> str:
    lessons = list(dict.fromkeys(s.lesson for s in scores))
    most = {s.lesson: s.max_score for s in scores}
    columns = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    rows = [[*columns, *(titles.get(lesson, lesson) for lesson in lessons)],
            ["    Points Possible", "", "", "", "", *(_number(most[lesson]) for lesson in lessons)]]  # fmt: skip
    for theirs in _by_student(scores):
        s = theirs[0]
        name = ", ".join(filter(None, (s.last_name, s.first_name))) or s.student
        given = {score.lesson: _number(score.final) for score in theirs}
        rows.append([name, s.lms_user_id, "", s.student, "", *(given.get(lesson, "") for lesson in lessons)])
    return _table(rows)


def _moodle(scores: Sequence[Score], titles: Mapping[str, str]) -> str:
    lessons = list(dict.fromkeys(s.lesson for s in scores))
    columns = ["First name", "Last name", "ID number", "Email address"]
    rows = [[*columns, *(titles.get(lesson, lesson) for lesson in lessons)]]
    for theirs in _by_student(scores):
        s = theirs[0]
        given = {score.lesson: _number(score.final) for score in theirs}
        rows.append([s.first_name, s.last_name, s.student, s.email, *(given.get(lesson, "") for lesson in lessons)])
    return _table(rows)


def _json(scores: Sequence[Score], titles: Mapping[str, str]) -> str:
    students = []
    for theirs in _by_student(scores):
        s = theirs[0]
        lessons = {
            titles.get(x.lesson, x.lesson): {
                "due": x.due and f"{x.due.isoformat()}Z", "submitted": x.submitted and f"{x.submitted.isoformat()}Z",
                "raw_score": x.raw, "late_submission_penalty": x.penalty if x.raw is not None else None,
                "score": x.final, "max_score": x.max_score, "exercises": x.exercises,
            }
            for x in theirs
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
    """With two decimals at most, as platforms keep them; nothing where nothing was graded."""
    return "" if value is None else f"{round(value, 2):.12g}"


def _table(rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows([map(_cell, row) for row in rows])
    return text.getvalue()


def _cell(value: Any) -> str:
    """A cell that spreadsheets show: a formula gets an apostrophe in front, as OWASP advises."""
    text = str(value)
    return f"'{text}" if is_formula(text) else text
