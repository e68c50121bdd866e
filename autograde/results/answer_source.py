"""Find the autograded notebooks of learners, and in whatever cells of one the source of an answer is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from autograde.judge.submission import Submission, read_submission
from torchcourse.model.notebook_file import normalized

__all__ = ["answer_source", "read_autograded"]


def answer_source(submission: Submission, exercise: str) -> str:
    """Return the source of the learner's answer, or "" where there is none.

    That is the exercise's own cell, unless it is the unchanged stub, and added cells that bind the exercise's name.
    """
    stub = normalized(submission.release.cells[exercise].source)
    name = re.escape(exercise)
    binds = re.compile(rf"^(?:(?:async\s+)?def|class)\s+{name}\b|^{name}\s*(?::[^=\n]*)?=(?!=)", re.MULTILINE)
    sources = [
        cell.source
        for cell in submission.cells
        if cell.runs and (cell.grade_id == exercise or (not cell.grade_id and binds.search(cell.source)))
    ]
    return "\n\n".join(source.strip("\n") for source in sources if normalized(source) != stub)


def read_autograded(autograded: Path, keys: Iterable[tuple[str, str]]) -> Iterator[Submission]:
    """Yield the autograded notebooks of these students and lessons, but for those that are missing or cannot be read.

    Only existing folders are looked into, so that no name in a table can lead elsewhere.
    """
    folders = {path.name for path in autograded.iterdir()} if autograded.is_dir() else set()
    for student, lesson in keys:
        if student in folders:
            submission = read_submission(autograded / student / lesson / f"{lesson}.ipynb", student, lesson)
            if not submission.problem:
                yield submission
