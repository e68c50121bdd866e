"""What nbgrader's autograde does beside scoring: it notes the time of submission, and takes points from late ones.

The penalty is nbgrader's plugin, applied by nbgrader's own step, also to scores that `torchcourse grade` has given.
"""

from __future__ import annotations

import math
import os
import stat
import warnings
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import nbformat
from nbgrader.api import Assignment, Gradebook, SubmittedAssignment
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import parse_utc
from sqlalchemy.exc import SAWarning
from traitlets import Float
from traitlets.config import Config, PyFileConfigLoader

from autograde.files import write_atomically

__all__ = ["PerDay", "class_config", "settle"]

DAY = 24 * 60 * 60
TIME, SECRET = "timestamp.txt", "submission_secret.txt"
"""What the exchange leaves beside a notebook: when it was submitted, and what its feedback is fetched by."""
LONGEST = 500


class PerDay(LateSubmissionPlugin):  # type: ignore[misc]
    """Takes a share of the score for each day that has begun since the due date."""

    share = Float(0.1, min=0.0, max=1.0, help="of the score, for each day begun").tag(config=True)
    most = Float(1.0, min=0.0, max=1.0, help="of the score, however late").tag(config=True)
    grace_minutes = Float(0.0, min=0.0, help="that cost nothing").tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """The points to take away; None where the submission is not late."""
        late = total_seconds_late - 60 * self.grace_minutes
        return score * min(self.most, self.share * math.ceil(late / DAY)) if late > 0 else None


def class_config(folder: Path) -> Config:
    """What a class folder's nbgrader_config.py says."""
    return PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()


def settle(folder: Path, url: str, submitted: Path, graded: Iterable[tuple[str, str]]) -> list[str]:
    """Record when submissions were made, and give late ones their penalty, as `nbgrader autograde` does.

    Args:
        folder: a class folder.
        url: the gradebook that holds the scores.
        submitted: where `timestamp.txt` and `submission_secret.txt` lie beside a notebook that came through the
            exchange; they are copied to the autograded one, as nbgrader's release_feedback wants it.
        graded: student and lesson of each submission.

    Returns:
        A sentence for each file that could not be read, and each time that is none.
    """
    known = set(graded)
    complaints: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SAWarning)
        with Gradebook(url) as book:
            for submission, lesson in _submissions(book):
                if (submission.student_id, lesson) not in known:
                    continue
                place = Path(submission.student_id) / lesson
                time, faults = _taken_over(submitted / place, folder / "autograded" / place)
                complaints += [f"{submission.student_id}, {lesson}: {fault}" for fault in faults]
                if time != submission.timestamp:
                    submission.timestamp = time
            book.db.commit()
            late = [(s.student_id, lesson) for s, lesson in _submissions(book) if (s.student_id, lesson) in known
                    and (s.total_seconds_late > 0 or any(n.late_submission_penalty for n in s.notebooks))]  # fmt: skip
        step = AssignLatePenalties(config=class_config(folder))
        for student, lesson in late:
            where = {"notebook": lesson, "assignment": lesson, "student": student, "db_url": url}
            step.preprocess(nbformat.v4.new_notebook(), {"nbgrader": where})
    return complaints


def _submissions(book: Gradebook) -> Iterator[tuple[SubmittedAssignment, str]]:
    query = book.db.query(SubmittedAssignment, Assignment.name)
    yield from query.join(Assignment, Assignment.id == SubmittedAssignment.assignment_id).all()


def _taken_over(here: Path, there: Path) -> tuple[datetime | None, list[str]]:
    """Copy what the exchange has left beside a notebook. The time it says, if any, and what is wrong with either file:
    a student may have written them, and one that is spoilt must not make the other count for nothing."""
    time: datetime | None = None
    faults: list[str] = []
    for name in (TIME, SECRET):
        try:
            text = _line(here / name)
            if text is not None and there.is_dir():
                write_atomically(there / name, text)
            if text is not None and name == TIME:
                time = _time(text)
        except ValueError as error:
            faults.append(str(error))
    return time, faults


def _time(text: str) -> datetime:
    """The time that a text says.

    Raises:
        ValueError: when it says none.
    """
    try:
        time: datetime = parse_utc(text.strip())
    except (ValueError, OverflowError):
        raise ValueError(f"{TIME} holds no time, and the submission counts as in time.") from None
    return time


def _line(path: Path) -> str | None:
    """A short text that a student may have written; None where there is none.

    Raises:
        ValueError: when it is no short text in an ordinary file.
    """
    if path.parent.is_symlink() or path.parent.parent.is_symlink():
        return None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read ({error.strerror}).") from None
    with os.fdopen(handle, "rb") as file:
        data = file.read(LONGEST + 1) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    if not data.isascii() or not 0 < len(data) <= LONGEST:
        raise ValueError(f"{path.name} is no short text.")
    return data.decode("ascii")
