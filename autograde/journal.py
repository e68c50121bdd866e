"""What a batch has found out so far, kept below `--out`: a grader that was killed goes on where it was.

An entry is one small file a submission, written before anything is made of its verdicts. It is believed when its key
is that of the submission as it is read now and of everything else a verdict depends on; it lies in the grader's own
folder, where no submission can write.

What was found out is also kept by that key alone, whoever submitted it: who submits the same cells as somebody else, or
the same as some time before, is not examined for it.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Sequence
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
from autograde.slices import slices
from autograde.submission import Submission, release
from autograde.verdict import Verdict, without_examination
from torchcourse.exercise import LESSONS

__all__ = ["BusyError", "Entry", "Journal", "fingerprint", "key", "noted", "rows", "secrets", "verdicts"]

LIBRARIES = ("torch", "torchvision", "numpy", "scikit-learn", "ipython", "matplotlib")
"""What verdicts depend on beside the course's own files."""
FIELDS = ("exercise", "score", "max_score", "status", "misconception", "message", "read")
RESULTS = ".results"
"""The folder of what is kept by key; no student's name begins with a dot."""


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

    def lessons(self, student: str) -> set[str]:
        """The lessons of which anything is noted for a student."""
        return {path.stem for path in (self.folder / student).glob("*.json")}

    def read(self, student: str, lesson: str) -> Entry | None:
        """What is noted of a submission; None where there is nothing, or nothing whole."""
        try:
            plain = json.loads(self._path(student, lesson).read_text(encoding="utf-8"))
            return Entry(plain["key"], verdicts(plain["verdicts"], student, lesson), plain["good"], plain["files"])
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def write(self, student: str, lesson: str, entry: Entry) -> None:
        """Note an entry in place of the one before it."""
        plain = {"key": entry.key, "verdicts": rows(entry.verdicts), "good": entry.good, "files": entry.files}
        write_atomically(self._path(student, lesson), json.dumps(plain))

    def result(self, key: str, student: str, lesson: str) -> list[Verdict] | None:
        """What any submission of this key came to, as that of `student`; None where it is not known, or not whole."""
        try:
            found = verdicts(json.loads(self._result(key).read_text(encoding="utf-8")), student, lesson)
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return found if [v.exercise for v in found] == release(lesson).exercises else None

    def write_result(self, key: str, found: Sequence[Verdict]) -> None:
        """Keep what a submission of this key came to."""
        write_atomically(self._result(key), json.dumps(rows(found)))

    def _result(self, key: str) -> Path:
        return self.folder / RESULTS / key[:2] / f"{key}.json"


def noted(folder: Path, student: str, lesson: str) -> bool:
    """Whether the journal in a folder has an entry for a submission, of whatever key."""
    return (folder / student / f"{lesson}.json").exists()


def rows(found: Sequence[Verdict]) -> list[list[Any]]:
    """Verdicts as plain data, without whose they are."""
    return [[getattr(verdict, name) for name in FIELDS] for verdict in found]


def verdicts(plain: Iterable[Iterable[Any]], student: str, lesson: str) -> list[Verdict]:
    """What `rows` was given, as the verdicts on a submission of `student`.

    Raises:
        ValueError, TypeError: when it is something else.
    """
    return [Verdict(student, lesson, **dict(zip(FIELDS, row, strict=True))) for row in plain]


def key(
    submission: Submission,
    seed: int,
    limits: Limits,
    enclosure: Enclosure = Enclosure(),  # noqa: B008 - it cannot change
) -> str:
    """A hash of all that the verdicts on a submission depend on; who submitted it is no part of it.

    Of the hidden cases and known mistakes those of exercises that have to be examined count, and no others.
    """
    lesson = submission.lesson
    cells = [[cell.kind, cell.source, cell.grade_id] for cell in submission.cells]
    read = [cells, submission.problem, submission.reason, sorted(submission.tampered.items())]
    how = [dataclasses.astuple(limits), dataclasses.astuple(enclosure)]
    pending = [name for name in release(lesson).exercises if without_examination(submission, name) is None]
    return _hash([read, seed, how, fingerprint(lesson), [secrets(lesson)[name] for name in pending]])


@cache
def fingerprint(lesson: str) -> str:
    """A hash of the lesson as it is graded, the grader itself and the libraries.

    What prose and demonstrations say is no part of it, and neither are the answers, cases and mistakes of other
    lessons: changing those regrades nothing here. Hidden cases and known mistakes of this one are in `secrets`.
    """
    cells = read_script(course.SOLUTIONS / f"{lesson}.py")
    solved = [cell.source for cell in cells if cell.exercise or "setup" in cell.tags]
    versions = [platform.python_version(), *(metadata.version(name) for name in LIBRARIES)]
    files = [[str(path.relative_to(root)), _file(path)] for root, path in _files(lesson)]
    released = [dataclasses.astuple(cell) for cell in release(lesson).cells.values()]
    return _hash([lesson, solved, versions, files, released, sorted(release(lesson).demos)])


@cache
def secrets(lesson: str) -> dict[str, str]:
    """For each exercise a hash of its hidden cases and known mistakes, and of what they use."""
    text = (course.AUTOGRADE / "hidden" / f"{LESSONS[lesson]}.py").read_text(encoding="utf-8")
    parts = slices(text, ("MISTAKES", "MORE_CASES"), release(lesson).exercises)
    return {name: _hash(part) for name, part in parts.items()}


def _files(lesson: str) -> Iterator[tuple[Path, Path]]:
    """The files of the package and of the grader, each with the folder it is counted from."""
    others = {("exercises", f"{module}.py") for name, module in LESSONS.items() if name != lesson}
    others |= {("hidden", f"{module}.py") for module in LESSONS.values()}
    package = Path(torchcourse.__file__).parent
    for root in (package, course.AUTOGRADE):
        for path in sorted(p for suffix in ("py", "html", "csv") for p in root.rglob(f"*.{suffix}")):
            if (path.parent.name, path.name) not in others and course.BUILD not in path.parents:
                yield root, path


def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
