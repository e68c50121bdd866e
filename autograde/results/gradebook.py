"""Write verdicts to nbgrader's gradebook. No other module records scores there."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from nbgrader.api import (
    Assignment,
    Base,
    Grade,
    Gradebook,
    GradeCell,
    MissingEntry,
    Notebook,
    SourceCell,
    SubmittedAssignment,
    SubmittedNotebook,
    app_log,
)
from sqlalchemy import Connection, create_engine, inspect, make_url, text
from sqlalchemy.exc import DBAPIError, SAWarning

from autograde.course.build import generate, table_version
from autograde.errors import BusyError, RefusedError
from autograde.judge.verdict import Verdict
from autograde.results.changed_release import follow_release
from autograde.results.gradebook_url import sqlite_url
from autograde.results.grader_comments import GraderComment, grader_comments
from autograde.source.release import load_release
from torchcourse.model.files import replacing
from torchcourse.model.notebook_file import exercise_of

__all__ = ["Writer", "late_penalties"]

LOCK = 7_086_110_511
"""The number of the advisory lock on a gradebook on a server."""


class Writer:
    """A gradebook with the assignments of `lessons`, open for verdicts; a context manager for one thread.

    Args:
        place: a file, or the URL of a PostgreSQL database.
        scratch: a folder for intermediate notebooks of nbgrader.
    """

    def __init__(self, place: Path | str, lessons: list[str], scratch: Path) -> None:
        self.url = sqlite_url(place) if isinstance(place, Path) else place
        self.lessons, self.scratch = lessons, scratch
        self.book: Gradebook
        self._connection: Connection | None = None

    def __enter__(self) -> Writer:
        # SQLAlchemy 2 warns of how nbgrader 0.9.6 makes submissions; the rows are right
        self._quiet = warnings.catch_warnings()
        self._quiet.__enter__()
        warnings.simplefilter("ignore", SAWarning)
        try:
            self._open()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _open(self) -> None:
        place = make_url(self.url)
        if place.get_backend_name() != "sqlite":
            self._lock()
            self._complete_tables()
        elif not Path(place.database or "").exists():
            self._make(Path(place.database or ""))
        self.book = Gradebook(self.url)
        self._index()
        for lesson in [lesson for lesson in self.lessons if not self._is_as_released(lesson)]:
            if self.book.db.query(SubmittedNotebook).join(Notebook).filter(Notebook.name == lesson).count():
                with self._one_transaction() as book:
                    follow_release(book, load_release(lesson))
            else:
                generate([lesson], self.scratch, self.url)
        self._scores = {lesson: self._recorded_scores(lesson) for lesson in self.lessons}
        self._comments = {lesson: grader_comments(self.book, lesson) for lesson in self.lessons}
        self._penalties = late_penalties(self.book)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "book"):
            self.book.close()
        self._unlock()
        self._quiet.__exit__(kind, error, trace)

    def _make(self, path: Path) -> None:
        """Make a new gradebook under another name and then rename it: nbgrader would never complete a half made one."""
        with replacing(path) as part:
            for left in part.parent.glob(f"{part.name}*"):
                left.unlink()
            generate(self.lessons, self.scratch, sqlite_url(part))

    def _lock(self) -> None:
        """Lock a gradebook on a server while it is open: graders with other folders may use the same one.

        Raises:
            BusyError: when another grader holds the lock.
        """
        self._connection = create_engine(self.url).connect()
        if not self._connection.scalar(text(f"select pg_try_advisory_lock({LOCK})")):
            self._unlock()
            raise BusyError("Another grader is writing to this gradebook: wait for it, or end it.")
        self._connection.commit()

    def _unlock(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection.engine.dispose()
            self._connection = None

    def _complete_tables(self) -> None:
        """Make all tables and their version in one transaction: nbgrader never completes tables without a version."""
        assert self._connection is not None
        with self._connection.begin():
            Base.metadata.create_all(self._connection)
            if not inspect(self._connection).has_table("alembic_version"):
                self._connection.execute(text("create table alembic_version (version_num varchar(32) not null)"))
                stamp = text("insert into alembic_version (version_num) values (:version)")
                self._connection.execute(stamp, {"version": table_version()})

    def _index(self) -> None:
        """Make the indexes that nbgrader lacks, so that the rows of a submission are found without reading all rows.

        On a server that does not allow it, writing large classes is slower.
        """
        tables = inspect(self.book.db.get_bind())
        for table, column in (("grade", "notebook_id"), ("submitted_notebook", "assignment_id")):
            name = f"torchcourse_{table}"
            if name in {index["name"] for index in tables.get_indexes(table)}:
                continue
            try:
                self.book.db.execute(text(f"create index {name} on {table} ({column})"))
                self.book.db.commit()
            except DBAPIError:
                self.book.db.rollback()

    def _is_as_released(self, lesson: str) -> bool:
        """Return whether the gradebook has the cells of the lesson as they were released."""
        cells = load_release(lesson).cells
        points = {name: cell.points for name, cell in cells.items() if cell.points is not None}
        query = self.book.db.query
        graded = query(GradeCell.name, GradeCell.max_score).join(Notebook, Notebook.id == GradeCell.notebook_id)
        sources = query(SourceCell.name, SourceCell.source).join(Notebook, Notebook.id == SourceCell.notebook_id)
        return points == dict(map(tuple, graded.filter(Notebook.name == lesson))) and (
            {name: cell.source for name, cell in cells.items()}
            == dict(map(tuple, sources.filter(Notebook.name == lesson)))
        )

    def _recorded_scores(self, lesson: str) -> dict[str, dict[str, float | None]]:
        """Return the automatic scores of a lesson, by student and exercise or question."""
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
            found.setdefault(student, {})[exercise_of(cell)] = score
        return found

    def scores(self, student: str, lesson: str) -> dict[str, float]:
        """Return the automatic scores recorded for a submission, by exercise."""
        recorded, questions = self._scores[lesson].get(student, {}), load_release(lesson).questions
        return {name: score for name, score in recorded.items() if score is not None and name not in questions}

    def comments(self, student: str, lesson: str) -> dict[str, GraderComment]:
        """Return what instructors had added to a submission by hand before this run, by exercise."""
        return self._comments[lesson].get(student, {})

    def penalty(self, student: str, lesson: str) -> float:
        """Return the points that a submission had lost by lateness before this run."""
        return self._penalties.get((student, lesson), 0.0)

    def write(self, student: str, lesson: str, verdicts: Sequence[Verdict], answered: Collection[str] = ()) -> None:
        """Record the verdicts on one submission in place of its earlier scores; manual scores stay.

        If its scores are the same, nothing is written, so that later changes by hand stay.

        Args:
            answered: the questions that the learner answered in words. They wait to be graded by hand; the others get
                no points.

        Raises:
            RefusedError: when the gradebook lacks rows of the submission.
        """
        scores: dict[str, float | None] = {verdict.exercise: verdict.score for verdict in verdicts}
        in_words = {name: None if name in answered else 0.0 for name in load_release(lesson).questions}
        scores |= in_words
        if self._scores[lesson].get(student) == scores:
            return
        with self._one_transaction() as book:
            try:
                book.find_student(student)
            except MissingEntry:
                book.add_student(student)
            grades = self._grades(book.update_or_create_submission(lesson, student), lesson)
            if not grades.keys() >= {*(f"check_{verdict.exercise}" for verdict in verdicts), *in_words}:
                raise RefusedError(
                    f"The gradebook is damaged: it lacks grades of {student} in {lesson}. Put a copy of it back, or "
                    "move it away and grade again, without the scores given by hand."
                )
            for verdict in verdicts:
                grade = grades[f"check_{verdict.exercise}"]
                grade.auto_score = verdict.score
                grade.needs_manual_grade = grade.manual_score is not None
            for name, score in in_words.items():  # as nbgrader's own SaveAutoGrades
                grade = grades[name]
                grade.auto_score = score
                grade.needs_manual_grade = grade.manual_score is not None or score is None
        self._scores[lesson][student] = scores

    @contextmanager
    def _one_transaction(self) -> Iterator[Gradebook]:
        """Make the changes of a block one transaction: by themselves nbgrader's methods commit each step.

        nbgrader also writes a page to standard error for an error that it then raises; that is left out.
        """
        session: Any = self.book.db
        session.commit = session.flush
        was_disabled, app_log.disabled = app_log.disabled, True
        try:
            yield self.book
        except BaseException:
            session.rollback()
            raise
        finally:
            app_log.disabled = was_disabled
            del session.commit
        session.commit()

    def _grades(self, submitted: SubmittedAssignment, lesson: str) -> dict[str, Grade]:
        """Return the grades of a submission by the names of their cells, read in one query."""
        rows = (
            self.book.db.query(GradeCell.name, Grade)
            .join(Grade, Grade.cell_id == GradeCell.id)
            .join(SubmittedNotebook, SubmittedNotebook.id == Grade.notebook_id)
            .join(Notebook, Notebook.id == SubmittedNotebook.notebook_id)
            .filter(SubmittedNotebook.assignment_id == submitted.id, Notebook.name == lesson)
        )
        return dict(map(tuple, rows))


def late_penalties(book: Gradebook) -> dict[tuple[str, str], float]:
    """Return the points lost by lateness, by student and lesson, of the submissions that lost any."""
    rows = (
        book.db.query(SubmittedAssignment.student_id, Assignment.name, SubmittedNotebook.late_submission_penalty)
        .join(Assignment, Assignment.id == SubmittedAssignment.assignment_id)
        .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .filter(SubmittedNotebook.late_submission_penalty > 0)
    )
    return {(student, lesson): penalty for student, lesson, penalty in rows}
