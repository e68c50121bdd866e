"""Grade on a disk that really fills up meanwhile: `tests/batch/test_preflight.py` runs this in a mount namespace.

    python -m tests.support.full_disk FOLDER

`FOLDER`/disk is a small file system of its own. While the second of three submissions is graded, another
program fills all but some bytes of it; then it makes room, and the same command continues.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

from autograde.batch import grading
from autograde.errors import RefusedError
from autograde.judge.lesson_grader import Graded
from autograde.judge.submission import Submission
from tests.support.results import recorded, tree
from tests.support.stand_ins import LESSON, Quick, submit, use_stand_in

ROOM = (0, 4096, 32 << 10, 96 << 10, 160 << 10)
"""Bytes that are left: enough for no file of a submission, for one, or for some."""


class Filling(Quick):
    """A stand-in that fills the disk except for `room` bytes when it grades the second submission."""

    disk: Path
    room = 0

    def grade(self, sandbox: object, submission: Submission, *_: object) -> Graded:
        if submission.student == "ben":
            fill(self.disk / "ballast", self.room)
        return super().grade(sandbox, submission)


def fill(ballast: Path, room: int) -> None:
    """Write until the disk is full, and give `room` bytes back."""
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(max(0, file.tell() - room))


def main(folder: Path) -> None:
    """Fill the disk for each amount of room; an error ends this."""
    warnings.simplefilter("ignore")
    use_stand_in(pytest.MonkeyPatch(), folder)
    Filling.disk = folder / "disk"
    for student in ("ada", "ben", "cleo"):
        submit(folder / "class", student, f"def row_softmax(x): return x.softmax(-1)  # {student}")
    with grading.Writer(folder / "gradebook.db", [LESSON], folder / "scratch"):
        pass
    undisturbed = _graded(folder, folder / "disk" / "undisturbed")
    for room in ROOM:
        out, Filling.room = folder / "disk" / f"with{room}", room
        grading.LessonGrader = Filling  # type: ignore[misc]
        try:
            _graded(folder, out)
            raise AssertionError(f"{room} bytes were enough")
        except RefusedError as error:
            assert "The disk that holds" in str(error) and "\n" not in str(error), str(error)
        assert not list(out.rglob(".*.part")), list(out.rglob(".*"))
        (folder / "disk" / "ballast").unlink()
        grading.LessonGrader = Quick  # type: ignore[misc]
        assert _graded(folder, out) == undisturbed
        print(f"{room} bytes: refused in one line, and gone on with")


def _graded(folder: Path, out: Path) -> object:
    """Grade, and return the content of the folder and of the gradebook."""
    out.mkdir(exist_ok=True)
    if not (out / "gradebook.db").exists():
        (out / "gradebook.db").write_bytes((folder / "gradebook.db").read_bytes())
    grading.grade_class([LESSON], folder / "class", out)
    return tree(out), recorded(out, LESSON)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
