"""The only writer of nbgrader's gradebook."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
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
)
from sqlalchemy import Connection, create_engine, inspect, make_url, text
from sqlalchemy.exc import DBAPIError, SAWarning

from autograde.building import generate, newest_tables
from autograde.journal import BusyError
from autograde.remarks import Remark, remarks
from autograde.submission import release
from autograde.verdict import Verdict

__all__ = ["Writer", "gradebook_url", "sqlite_url"]

TURN = 7_086_110_511
"""The number of the lock that the only writer of a gradebook on a server holds."""


class Writer:
    """A gradebook that has the assignments of `lessons`, open for verdicts. Use it in one thread, as a context.

    It is a file, or a database of a PostgreSQL server by URL.
    """

    def __init__(self, place: Path | str, lessons: list[str], scratch: Path) -> None:
        self.url = sqlite_url(place) if isinstance(place, Path) else place
        self.lessons, self.scratch = lessons, scratch
        self.book: Gradebook
        self._turn: Connection | None = None

    def __enter__(self) -> Writer:
        # nbgrader 0.9.6 makes submissions in a way that SQLAlchemy 2 warns of; the rows come out right
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
            self._take_turn()
            self._finish_tables()
        elif not Path(place.database or "").exists():
            self._make(Path(place.database or ""))
        self.book = Gradebook(self.url)
        self._index()
        stale = [lesson for lesson in self.lessons if not self._is_as_released(lesson)]
        if stale:
            generate(stale, self.scratch, self.url)
        self._scores = {lesson: self._recorded(lesson) for lesson in self.lessons}
        self._remarks = {lesson: remarks(self.book, lesson) for lesson in self.lessons}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if hasattr(self, "book"):
            self.book.close()
        self._end_turn()
        self._quiet.__exit__(kind, error, trace)

    def _make(self, path: Path) -> None:
        """Make a new gradebook beside its place: one that is half made would never be completed by nbgrader."""
        part = path.with_name(f".{path.name}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        for left in part.parent.glob(f"{part.name}*"):
            left.unlink()
        generate(self.lessons, self.scratch, sqlite_url(part))
        part.replace(path)

    def _take_turn(self) -> None:
        """Lock a gradebook on a server for as long as this is open: graders of other folders may have the same one.

        Raises:
            BusyError: when another one has it.
        """
        self._turn = create_engine(self.url).connect()
        if not self._turn.scalar(text(f"select pg_try_advisory_lock({TURN})")):
            self._end_turn()
            raise BusyError("Another grader is writing to this gradebook: wait for it, or end it.")
        self._turn.commit()

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.close()
            self._turn.engine.dispose()
            self._turn = None

    def _finish_tables(self) -> None:
        """Make all tables and their stamp at once: nbgrader takes what lacks the stamp for complete."""
        assert self._turn is not None
        with self._turn.begin():
            Base.metadata.create_all(self._turn)
            if not inspect(self._turn).has_table("alembic_version"):
                self._turn.execute(text("create table alembic_version (version_num varchar(32) not null)"))
                stamp = text("insert into alembic_version (version_num) values (:version)")
                self._turn.execute(stamp, {"version": newest_tables()})

    def _index(self) -> None:
        """Let the rows of a submission be found without reading all others': nbgrader has no index for that.

        Who may not make one on his server goes on without: large classes take longer to write.
        """
        there = inspect(self.book.db.get_bind())
        for table, column in (("grade", "notebook_id"), ("submitted_notebook", "assignment_id")):
            name = f"torchcourse_{table}"
            if name in {index["name"] for index in there.get_indexes(table)}:
                continue
            try:
                self.book.db.execute(text(f"create index {name} on {table} ({column})"))
                self.book.db.commit()
            except DBAPIError:
                self.book.db.rollback()

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

    def remarks(self, student: str, lesson: str) -> dict[str, Remark]:
        """What was added to a submission by hand before this run, by exercise."""
        return self._remarks[lesson].get(student, {})

    def write(self, student: str, lesson: str, verdicts: Sequence[Verdict]) -> None:
        """Record the verdicts on one submission; an earlier score of it is replaced, a manual one stays.

        What is recorded already is left as it is, and with it what has been done by hand since.
        """
        scores: dict[str, float | None] = {verdict.exercise: verdict.score for verdict in verdicts}
        if self._scores[lesson].get(student) == scores:
            return
        with self._at_once() as book:
            try:
                book.find_student(student)
            except MissingEntry:
                book.add_student(student)
            grades = self._grades(book.update_or_create_submission(lesson, student), lesson)
            for verdict in verdicts:
                grade = grades[f"check_{verdict.exercise}"]
                grade.auto_score = verdict.score
                grade.needs_manual_grade = grade.manual_score is not None
        self._scores[lesson][student] = scores

    @contextmanager
    def _at_once(self) -> Iterator[Gradebook]:
        """The gradebook, for a block whose changes become one transaction: nbgrader's methods commit each step."""
        session: Any = self.book.db
        session.commit = session.flush
        try:
            yield self.book
        except BaseException:
            session.rollback()
            raise
        finally:
            del session.commit
        session.commit()

    def _grades(self, submitted: SubmittedAssignment, lesson: str) -> dict[str, Grade]:
        """The grades of a submission by the names of their cells, all read at once."""
        rows = (
            self.book.db.query(GradeCell.name, Grade)
            .join(Grade, Grade.cell_id == GradeCell.id)
            .join(SubmittedNotebook, SubmittedNotebook.id == Grade.notebook_id)
            .join(Notebook, Notebook.id == SubmittedNotebook.notebook_id)
            .filter(SubmittedNotebook.assignment_id == submitted.id, Notebook.name == lesson)
        )
        return dict(map(tuple, rows))


def gradebook_url(out: Path, named: str = "") -> str:
    """The URL of the gradebook that belongs to the results in `out`: the one that was named, else a file among them."""
    return named or sqlite_url(out / "gradebook.db")


def sqlite_url(path: Path) -> str:
    """The URL of a gradebook in a file."""
    return f"sqlite:///{path.absolute()}"  # nbgrader goes into other folders while it works
