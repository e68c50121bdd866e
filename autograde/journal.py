"""What a batch has found out so far, kept below `--out`: a grader that was killed goes on where it was.

An entry is one small file a submission, written before anything is made of its verdicts. It is believed when its key
is that of the submission as it is read now and of everything else a verdict depends on; it lies in the grader's own
folder, where no submission can write.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

import torchcourse
from autograde import course
from autograde.enclosure import Enclosure
from autograde.files import write_atomically
from autograde.script import read_script
from autograde.settings import Limits
from autograde.submission import Submission, release
from autograde.verdict import Verdict
from torchcourse.exercise import LESSONS

__all__ = ["BusyError", "Entry", "Journal", "fingerprint", "key"]

LIBRARIES = ("torch", "torchvision", "numpy", "scikit-learn", "ipython", "matplotlib")
"""What verdicts depend on beside the course's own files."""
FIELDS = ("exercise", "score", "max_score", "status", "misconception", "message", "read")


class BusyError(RuntimeError):
    """Another grader writes to the same folder."""


@dataclass(frozen=True)
class Entry:
    """The verdicts on one submission.

    `good` holds the scores, by exercise, of the last submission that could be read: of this one, or else of an earlier
    one. `files` holds the digests of what was made of the verdicts.
    """

    key: str
    verdicts: list[Verdict]
    good: dict[str, float]
    files: dict[str, str]


class Journal:
    """The entries below a folder, and the right to write them. Use it as a context; only one thread may write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> Journal:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.folder / ".lock").open("a")  # no student's name begins with a dot
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

    def read(self, student: str, lesson: str) -> Entry | None:
        """What is noted of a submission; None where there is nothing, or nothing whole."""
        try:
            noted = json.loads(self._path(student, lesson).read_text(encoding="utf-8"))
            verdicts = [Verdict(student, lesson, **dict(zip(FIELDS, row, strict=True))) for row in noted["verdicts"]]
            return Entry(noted["key"], verdicts, noted["good"], noted["files"])
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def write(self, student: str, lesson: str, entry: Entry) -> None:
        """Note an entry in place of the one before it."""
        rows = [[getattr(verdict, name) for name in FIELDS] for verdict in entry.verdicts]
        noted = {"key": entry.key, "verdicts": rows, "good": entry.good, "files": entry.files}
        write_atomically(self._path(student, lesson), json.dumps(noted))


def key(
    submission: Submission,
    seed: int,
    limits: Limits,
    enclosure: Enclosure = Enclosure(),  # noqa: B008 - it cannot change
) -> str:
    """A hash of all that the verdicts on a submission depend on."""
    cells = [[cell.kind, cell.source, cell.grade_id] for cell in submission.cells]
    read = [cells, submission.problem, submission.reason, sorted(submission.tampered.items())]
    how = [dataclasses.astuple(limits), dataclasses.astuple(enclosure)]
    return _hash([read, seed, how, fingerprint(submission.lesson)])


@cache
def fingerprint(lesson: str) -> str:
    """A hash of the lesson as it is graded, the grader itself and the libraries.

    What prose and demonstrations say is no part of it, and neither are the answers, cases and mistakes of other
    lessons: changing those regrades nothing here.
    """
    cells = read_script(course.SOLUTIONS / f"{lesson}.py")
    solved = [cell.source for cell in cells if cell.exercise or "setup" in cell.tags]
    versions = [platform.python_version(), *(metadata.version(name) for name in LIBRARIES)]
    files = [[str(path.relative_to(root)), _file(path)] for root, path in _files(lesson)]
    released = [dataclasses.astuple(cell) for cell in release(lesson).cells.values()]
    return _hash([lesson, solved, versions, files, released, sorted(release(lesson).demos)])


def _files(lesson: str) -> Iterator[tuple[Path, Path]]:
    """The files of the package and of the grader, each with the folder it is counted from."""
    others = {(kind, f"{module}.py") for name, module in LESSONS.items() if name != lesson
              for kind in ("exercises", "hidden")}  # fmt: skip
    package = Path(torchcourse.__file__).parent
    for root in (package, course.AUTOGRADE):
        for path in sorted(p for suffix in ("py", "html", "csv") for p in root.rglob(f"*.{suffix}")):
            if (path.parent.name, path.name) not in others and course.BUILD not in path.parents:
                yield root, path


def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
