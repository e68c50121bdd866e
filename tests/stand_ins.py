"""A stand-in for examining, and submissions for it: everything around a verdict is real, and nothing is run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from autograde import course
from autograde.examiner import Graded
from autograde.submission import Submission, release
from autograde.verdict import Verdict, without_examination

__all__ = ["DEADLY", "LESSON", "Quick", "submit"]

LESSON = "01_tensors"
DEADLY = "# deadly"
"""A submission with this in a cell takes the whole process of a cluster's worker with it."""


class Quick:
    """Passes what is attempted, and notes for whom in the file that `log` names."""

    log: Path

    def __init__(self, lesson: str, seed: int, gpu: bool = False, anew: bool = False) -> None:
        self.lesson = lesson

    def prepare(self, submission: Submission) -> Iterable[None]:
        """Nothing has to be found out."""
        return ()

    def close(self) -> None:
        """Nothing of it is to be kept."""

    def grade(self, sandbox: object, submission: Submission) -> Graded:
        with self.log.open("a") as file:
            file.write(f"{submission.student}\n")
        return Graded(submission, [self.verdict(submission, name) for name in release(self.lesson).exercises])

    def verdict(self, submission: Submission, name: str) -> Verdict:
        points = release(self.lesson).points(name)
        passed = Verdict(submission.student, self.lesson, name, points, points, "passed", message="Right.")
        return without_examination(submission, name) or passed


def submit(folder: Path, student: str, answer: str | None) -> Path:
    """A submission with an answer to one exercise; one that is no notebook, where the answer is None."""
    notebook = json.loads((course.NOTEBOOKS / f"{LESSON}.ipynb").read_text())
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "row_softmax":
            cell["source"] = answer
    path = folder / student / LESSON / f"{LESSON}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("no notebook" if answer is None else json.dumps(notebook))
    return path
