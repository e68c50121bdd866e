"""A stand-in for the lesson grader, and submissions for it: no cell runs, and everything but the verdicts is real."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from autograde.batch import grading
from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.judge.lesson_grader import Graded
from autograde.judge.submission import Submission
from autograde.judge.verdict import Verdict, verdict_without_running

__all__ = ["DEADLY", "LESSON", "SOLVED", "AtOnce", "Quick", "examined", "submit", "use_stand_in", "with_gradebook"]

LESSON = "01_tensors"
SOLVED = "def row_softmax(x):\n    return x.softmax(-1)"
DEADLY = "# deadly"
"""A submission with this in a cell ends the process of a cluster's worker."""


class AtOnce:
    """A lesson grader that passes every attempted exercise at once."""

    def __init__(self, lesson: str, seed: int, gpu: bool = False, use_cache: bool = True) -> None:
        self.lesson = lesson

    def prepare(self, submission: Submission) -> Iterable[None]:
        """Do nothing: there is nothing to observe."""
        return ()

    def close(self) -> None:
        """Do nothing: there is nothing to save."""

    def grade(self, sandbox: object, submission: Submission, *_: object) -> Graded:
        return Graded(submission, [self.verdict(submission, name) for name in submission.release.exercises])

    def verdict(self, submission: Submission, name: str) -> Verdict:
        points = submission.release.points(name)
        passed = Verdict(submission.student, self.lesson, name, points, points, "passed", message="Right.")
        return verdict_without_running(submission, name) or passed


class Quick(AtOnce):
    """A lesson grader that passes every attempted exercise, and appends the student to the file `log`."""

    log: Path

    def grade(self, sandbox: object, submission: Submission, *_: object) -> Graded:
        with self.log.open("a") as file:
            file.write(f"{submission.student}\n")
        return super().grade(sandbox, submission)


def use_stand_in(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have the stand-in grade, also where nothing can be isolated; its log lies in `folder`.

    No process starts that loads what submissions import, as none runs.
    """
    patch.setattr(Quick, "log", folder / "examined", raising=False)
    patch.setattr(grading, "LessonGrader", Quick)
    patch.setattr(grading, "isolation_problem", lambda: "")
    patch.setattr("autograde.sandbox.template.start_template", lambda isolation: None)
    patch.setattr("autograde.sandbox.template.preload", lambda names: None)


def submit(folder: Path, student: str, answer: str | None) -> Path:
    """Write a submission with an answer to one exercise, or one that is no notebook if the answer is None."""
    data = b"no notebook" if answer is None else answered_notebook(LESSON, {"row_softmax": answer})
    return write_notebook(folder, student, LESSON, data)


def examined() -> list[str]:
    """Return whose submissions the stand-in has graded since the last call."""
    names = Quick.log.read_text().split() if Quick.log.exists() else []
    Quick.log.unlink(missing_ok=True)
    return sorted(names)


def with_gradebook(folder: Path, gradebook: Path) -> Path:
    """Make a folder for results, with a copy of a gradebook."""
    folder.mkdir()
    shutil.copyfile(gradebook, folder / "gradebook.db")
    return folder
