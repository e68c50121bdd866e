"""The journal of a batch, below `--out`: it lets a grader that was killed continue where it stopped.

An entry is one small file for a submission, written before anything is made from its verdicts. It is used if its key,
a hash of all that the verdicts depend on, is still the same; it is in the grader's folder, where no submission can
write.

Verdicts are also stored by key alone: the same cells, submitted by somebody else or once more, are not graded again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from autograde.errors import BusyError
from autograde.files import digest, write_atomically
from autograde.judge.submission import Submission
from autograde.judge.verdict import Verdict
from autograde.source.release import Release, load_release, release_of
from torchcourse.model.files import check_target

__all__ = ["Entry", "Journal", "from_rows", "is_recorded", "to_rows"]

FIELDS = ("exercise", "score", "max_score", "status", "misconception", "message", "section")
RESULTS, RELEASES = ".results", ".releases"
"""The folders of verdicts by key and of releases; no student's name begins with a dot."""
DAMAGED = (OSError, ValueError, LookupError, TypeError, RecursionError)
"""What reading a file may raise that is not as it was written."""


@dataclass(frozen=True)
class Entry:
    """The verdicts on one submission.

    Attributes:
        key: `submission_key` of the submission.
        good: the scores, by exercise, of the last submission that could be read: this one or an earlier one.
        files: the digests of the submission and of the files made from the verdicts, by kind.
    """

    key: str
    verdicts: list[Verdict]
    good: dict[str, float]
    files: dict[str, str]


class Journal:
    """The entries below a folder, as a context manager that locks them for this process; only one thread may write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Journal:
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = self.folder / ".lock"  # no student's name begins with a dot
        check_target(lock)
        self._lock = lock.open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise BusyError(f"Another grader is writing to {self.folder.parent}: wait for it, or end it.") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.close()

    def _path(self, student: str, lesson: str) -> Path:
        return self.folder / student / f"{lesson}.json"

    def students(self) -> set[str]:
        """Return the students that have entries."""
        return {path.name for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith(".")}

    def lessons(self, student: str) -> set[str]:
        """Return the lessons that a student has entries for."""
        return {path.stem for path in (self.folder / student).glob("*.json")}

    def read(self, student: str, lesson: str) -> Entry | None:
        """Return the entry of a submission; None if there is none or it is damaged."""
        try:
            plain = json.loads(self._path(student, lesson).read_text(encoding="utf-8"))
            entry = Entry(plain["key"], from_rows(plain["verdicts"], student, lesson), plain["good"], plain["files"])
            return entry if isinstance(entry.good, dict) and isinstance(entry.files, dict) else None
        except DAMAGED:
            return None

    def write(self, student: str, lesson: str, entry: Entry) -> None:
        """Write an entry in place of the earlier one."""
        plain = {"key": entry.key, "verdicts": to_rows(entry.verdicts), "good": entry.good, "files": entry.files}
        write_atomically(self._path(student, lesson), json.dumps(plain))

    def result(self, key: str, submission: Submission) -> list[Verdict] | None:
        """Return the verdicts stored for this key, as verdicts on `submission`; None if there are none or they are
        damaged."""
        try:
            plain = json.loads(self._result_path(key).read_text(encoding="utf-8"))
            found = from_rows(plain, submission.student, submission.lesson)
        except DAMAGED:
            return None
        return found if [v.exercise for v in found] == submission.release.exercises else None

    def write_result(self, key: str, found: Sequence[Verdict]) -> None:
        """Store the verdicts on submissions with this key."""
        write_atomically(self._result_path(key), json.dumps(to_rows(found)))

    def keep_release(self, release: Release) -> None:
        """Store a release, so that submissions that were made from it are recognised after the lesson has changed."""
        text = json.dumps(release.notebook, ensure_ascii=False, sort_keys=True)
        path = self.folder / RELEASES / release.lesson / f"{digest(text)}.ipynb"
        if not path.exists():
            write_atomically(path, text)

    def earlier(self, lesson: str) -> list[Release]:
        """Return the releases of a lesson that were stored, without the present one."""
        found, present = [], load_release(lesson).notebook
        for path in sorted((self.folder / RELEASES / lesson).glob("*.ipynb")):
            with contextlib.suppress(*DAMAGED):
                found.append(release_of(lesson, json.loads(path.read_text(encoding="utf-8"))))
        return [release for release in found if release.notebook != present]

    def _result_path(self, key: str) -> Path:
        return self.folder / RESULTS / key[:2] / f"{key}.json"


def is_recorded(folder: Path, student: str, lesson: str) -> bool:
    """Return whether the journal in a folder has an entry for a submission, with any key."""
    return (folder / student / f"{lesson}.json").exists()


def to_rows(found: Sequence[Verdict]) -> list[list[Any]]:
    """Return verdicts as plain data, without the student."""
    return [[getattr(verdict, name) for name in FIELDS] for verdict in found]


def from_rows(rows: Iterable[Iterable[Any]], student: str, lesson: str) -> list[Verdict]:
    """Return the verdicts in the data that `to_rows` returned, as verdicts on a submission of `student`.

    Raises:
        ValueError, TypeError: when the data is anything else.
    """
    verdicts = [Verdict(student, lesson, **dict(zip(FIELDS, row, strict=True))) for row in rows]
    if not all(isinstance(verdict.score, int | float) and isinstance(verdict.message, str) for verdict in verdicts):
        raise TypeError("a score is no number, or a message no text")
    return verdicts
