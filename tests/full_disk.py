"""Grading on a disk that is really full on the way: `tests/test_preflight.py` runs this in a namespace of mounts.

    python -m tests.full_disk FOLDER

`FOLDER`/disk is a small file system of its own. Another program leaves so and so many bytes of it while the second of
three submissions is graded; then it makes room, and the same command goes on.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from autograde import grading
from autograde.examiner import Graded
from autograde.preflight import RefusedError
from autograde.submission import Submission
from benchmarks.interrupted import recorded, tree
from tests.stand_ins import LESSON, Quick, submit

ROOM = (0, 4096, 32 << 10, 96 << 10, 160 << 10)
"""Bytes that are left: for nothing, for one of the files of a submission, for some of them."""


class Filling(Quick):
    """Has the disk filled, but for `room` bytes, when the second submission is examined."""

    disk: Path
    room = 0

    def grade(self, sandbox: object, submission: Submission) -> Graded:
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
    grading.blocker = lambda: ""  # type: ignore[attr-defined]
    Quick.log, Filling.disk = folder / "examined", folder / "disk"
    for student in ("ada", "ben", "cleo"):
        submit(folder / "class", student, f"def row_softmax(x): return x.softmax(-1)  # {student}")
    grading.Examiner = Quick  # type: ignore[misc]
    with grading.Writer(folder / "gradebook.db", [LESSON], folder / "scratch"):
        pass
    undisturbed = _graded(folder, folder / "disk" / "undisturbed")
    for room in ROOM:
        out, Filling.room = folder / "disk" / f"with{room}", room
        grading.Examiner = Filling  # type: ignore[misc]
        try:
            _graded(folder, out)
            raise AssertionError(f"{room} bytes were enough")
        except RefusedError as error:
            assert "The disk is full where" in str(error) and "\n" not in str(error), str(error)
        assert not list(out.rglob(".*.part")), list(out.rglob(".*"))
        (folder / "disk" / "ballast").unlink()
        grading.Examiner = Quick  # type: ignore[misc]
        assert _graded(folder, out) == undisturbed
        print(f"{room} bytes: refused in one line, and gone on with")


def _graded(folder: Path, out: Path) -> object:
    """Grade; what is then in the folder and in the gradebook."""
    out.mkdir(exist_ok=True)
    if not (out / "gradebook.db").exists():
        (out / "gradebook.db").write_bytes((folder / "gradebook.db").read_bytes())
    grading.run([LESSON], folder / "class", out)
    return tree(out), recorded(out, LESSON)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
