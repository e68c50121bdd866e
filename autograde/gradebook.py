"""The only writer of nbgrader's gradebook."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from nbgrader.api import (
    Assignment,
    Grade,
    Gradebook,
    GradeCell,
    MissingEntry,
    Notebook,
    SourceCell,
    SubmittedAssignment,
    SubmittedNotebook,
)
from sqlalchemy.exc import SAWarning

from autograde.building import generate
from autograde.submission import release
from autograde.verdict import Verdict

__all__ = ["Writer"]


class Writer:
    """A gradebook that has the assignments of `lessons`, open for verdicts. Use it in one thread, as a context."""

    def __init__(self, path: Path, lessons: list[str], scratch: Path) -> None:
        self.path, self.lessons, self.scratch = path, lessons, scratch
        self.book: Gradebook

    def __enter__(self) -> Writer:
        # nbgrader 0.9.6 makes submissions in a way that SQLAlchemy 2 warns of; the rows come out right
        self._quiet = warnings.catch_warnings()
        self._quiet.__enter__()
        warnings.simplefilter("ignore", SAWarning)
        if not self.path.exists():
            self._make()
        self.book = Gradebook(_url(self.path))
        stale = [lesson for lesson in self.lessons if not self._is_as_released(lesson)]
        if stale:
            generate(stale, self.scratch, _url(self.path))
        self._scores = {lesson: self._recorded(lesson) for lesson in self.lessons}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.book.close()
        self._quiet.__exit__(kind, error, trace)

    def _make(self) -> None:
        """Make a new gradebook beside its place: one that is half made would never be completed by nbgrader."""
        part = self.path.with_name(f".{self.path.name}.part")
        for left in part.parent.glob(f"{part.name}*"):
            left.unlink()
        generate(self.lessons, self.scratch, _url(part))
        part.replace(self.path)

    def _is_as_released(self, lesson: str) -> bool:
        """Whether the gradebook knows the cells of the lesson as they were released.

        nbgrader takes cells out and puts them in again when it generates an assignment, so that is not done in a
        gradebook full of grades without need.
        """
        cells = release(lesson).cells
        points = {name: cell.points for name, cell in cells.items() if cell.points is not None}
        query = self.book.db.query
        theirs = query(GradeCell.name, GradeCell.max_score).join(Notebook, Notebook.id == GradeCell.notebook_id)
        sources = query(SourceCell.name, SourceCell.source).join(Notebook, Notebook.id == SourceCell.notebook_id)
        return points == dict(map(tuple, theirs.filter(Notebook.name == lesson))) and (
            {name: cell.source for name, cell in cells.items()}
            == dict(map(tuple, sources.filter(Notebook.name == lesson)))
        )

    def _recorded(self, lesson: str) -> dict[str, dict[str, float | None]]:
        """What the gradebook holds of a lesson: for each student the automatic score of each exercise."""
        rows = (
            self.book.db.query(SubmittedAssignment.student_id, GradeCell.name, Grade.auto_score)
            .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
            .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
            .join(GradeCell, GradeCell.id == Grade.cell_id)
            .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
            .filter(Assignment.name == lesson)
        )
        found: dict[str, dict[str, float | None]] = {}
        for student, cell, score in rows:
            found.setdefault(student, {})[cell.removeprefix("check_")] = score
        return found

    def scores(self, student: str, lesson: str) -> dict[str, float]:
        """The automatic scores that are recorded for a submission, by exercise; none where there is none."""
        recorded = self._scores[lesson].get(student, {})
        return {exercise: score for exercise, score in recorded.items() if score is not None}

    def write(self, student: str, lesson: str, verdicts: Sequence[Verdict]) -> None:
        """Record the verdicts on one submission; an earlier score of it is replaced, a manual one stays.

        What is recorded already is left as it is, and with it what has been done by hand since.
        """
        scores: dict[str, float | None] = {verdict.exercise: verdict.score for verdict in verdicts}
        if self._scores[lesson].get(student) == scores:
            return
        book = self.book
        try:
            book.find_student(student)
        except MissingEntry:
            book.add_student(student)
        book.update_or_create_submission(lesson, student)
        for verdict in verdicts:
            grade = book.find_grade(f"check_{verdict.exercise}", lesson, lesson, student)
            grade.auto_score = verdict.score
            grade.needs_manual_grade = grade.manual_score is not None
        book.db.commit()
        self._scores[lesson][student] = scores


def _url(path: Path) -> str:
    return f"sqlite:///{path.absolute()}"  # nbgrader goes into other folders while it works
