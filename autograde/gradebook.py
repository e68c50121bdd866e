"""The only writer of nbgrader's gradebook."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from nbgrader.api import Gradebook, MissingEntry
from sqlalchemy.exc import SAWarning

from autograde.building import generate
from autograde.verdict import Verdict

__all__ = ["Writer"]


class Writer:
    """A gradebook that has the assignments of `lessons`, open for verdicts. Use it in one thread, as a context."""

    def __init__(self, path: Path, lessons: list[str], scratch: Path) -> None:
        self.url, self.lessons, self.scratch = f"sqlite:///{path}", lessons, scratch
        self.book: Gradebook

    def __enter__(self) -> Writer:
        # nbgrader 0.9.6 makes submissions in a way that SQLAlchemy 2 warns of; the rows come out right
        self._quiet = warnings.catch_warnings()
        self._quiet.__enter__()
        warnings.simplefilter("ignore", SAWarning)
        generate(self.lessons, self.scratch, self.url)
        self.book = Gradebook(self.url)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.book.close()
        self._quiet.__exit__(kind, error, trace)

    def write(self, student: str, lesson: str, verdicts: Sequence[Verdict]) -> None:
        """Record the verdicts on one submission; an earlier score of it is replaced, a manual one stays."""
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
