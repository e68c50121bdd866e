"""Record when submissions were made and deduct points from late ones, as nbgrader's autograde does besides scoring.

The penalty is a plugin for nbgrader. nbgrader's step applies it, also to scores from `torchcourse grade`; ours puts the
extensions of single students first.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Assignment, Gradebook, SubmittedAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy.exc import SAWarning
from traitlets import Float

from autograde.classroom.class_config import class_config
from autograde.classroom.due_dates import read_extensions
from autograde.files import write_atomically
from autograde.results.exchange_files import SECRET_FILE, TIME_FILE, parse_time, read_short_text
from autograde.results.gradebook import late_penalties

__all__ = ["ExtendedLatePenalties", "PerDay", "apply_lateness"]

DAY = 24 * 60 * 60


class PerDay(LateSubmissionPlugin):  # type: ignore[misc]
    """Deducts a share of the score for each day that has begun since the due date."""

    share = Float(0.1, min=0.0, max=1.0, help="of the score, for each day begun").tag(config=True)
    most = Float(1.0, min=0.0, max=1.0, help="of the score, however late").tag(config=True)
    grace_minutes = Float(0.0, min=0.0, help="that cost nothing").tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """Return the points to deduct; None if the submission is not late."""
        late = total_seconds_late - 60 * self.grace_minutes
        return score * min(self.most, self.share * math.ceil(late / DAY)) if late > 0 else None


class ExtendedLatePenalties(AssignLatePenalties):  # type: ignore[misc]
    """nbgrader's step for late submissions, with the extensions that the class folder grants."""

    def preprocess(self, nb: Any, resources: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        where = resources["nbgrader"]
        extended = read_extensions(Path(CourseDirectory(parent=self).root))
        with Gradebook(where["db_url"]) as book:
            _extend(book.find_submission(where["assignment"], where["student"]), extended)
            book.db.commit()
        done: tuple[Any, dict[str, Any]] = super().preprocess(nb, resources)
        return done


def _extend(submission: SubmittedAssignment, extended: Mapping[tuple[str, str], datetime]) -> None:
    """Give a submission the extension that its student has for the lesson, if any."""
    due, later = submission.assignment.duedate, extended.get((submission.student_id, submission.assignment.name))
    if due and later:
        submission.extension = max(later - due, timedelta())


def apply_lateness(
    folder: Path, url: str, submitted: Path, graded: Iterable[tuple[str, str]]
) -> tuple[list[str], set[tuple[str, str]]]:
    """Record when submissions were made, and set the penalty of late ones, as `nbgrader autograde` does.

    Args:
        folder: a class folder.
        url: the gradebook that holds the scores.
        submitted: the folder of submissions. The exchange leaves `timestamp.txt` and `submission_secret.txt` beside a
            notebook; they are copied beside the autograded one, where nbgrader's release_feedback looks for them.
        graded: student and lesson of each submission.

    Returns:
        A sentence for each file that could not be read or holds no valid time; student and lesson of each submission
        whose penalty has changed.
    """
    known, extended = set(graded), read_extensions(folder)
    complaints: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)
        with Gradebook(url) as book:
            before = late_penalties(book)
            for submission, lesson in _submissions(book):
                if (submission.student_id, lesson) not in known:
                    continue
                relative = Path(submission.student_id) / lesson
                time, faults = _copy_files(submitted / relative, folder / "autograded" / relative)
                complaints += [f"{submission.student_id}, {lesson}: {fault}" for fault in faults]
                submission.timestamp = time
                _extend(submission, extended)
            book.db.commit()
            late = [(s.student_id, lesson) for s, lesson in _submissions(book) if (s.student_id, lesson) in known
                    and (s.total_seconds_late > 0 or any(n.late_submission_penalty for n in s.notebooks))]  # fmt: skip
        step = ExtendedLatePenalties(config=class_config(folder))
        for student, lesson in late:
            where = {"notebook": lesson, "assignment": lesson, "student": student, "db_url": url}
            step.preprocess(nbformat.v4.new_notebook(), {"nbgrader": where})
        with Gradebook(url) as book:
            after = late_penalties(book)
    return complaints, {key for key in known if before.get(key) != after.get(key)}


def _submissions(book: Gradebook) -> Iterator[tuple[SubmittedAssignment, str]]:
    query = book.db.query(SubmittedAssignment, Assignment.name)
    yield from query.join(Assignment, Assignment.id == SubmittedAssignment.assignment_id).all()


def _copy_files(here: Path, there: Path) -> tuple[datetime | None, list[str]]:
    """Copy the files that the exchange leaves beside a notebook; a bad one does not keep the other from being copied.

    Returns:
        The time of submission, if there is one, and a sentence for each bad file.
    """
    time: datetime | None = None
    faults: list[str] = []
    if here.is_symlink() or here.parent.is_symlink():
        return time, faults
    for name in (TIME_FILE, SECRET_FILE):
        try:
            text = read_short_text(here / name)
            if text is not None and there.is_dir():
                write_atomically(there / name, text)
            if text is not None and name == TIME_FILE:
                time = parse_time(text)
        except ValueError as error:
            faults.append(str(error))
    return time, faults
