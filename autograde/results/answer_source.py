"""Find the source of a learner's answer, in whatever cells it is."""

from __future__ import annotations

import re

from autograde.judge.submission import Submission
from torchcourse.model.notebook_file import normalized

__all__ = ["answer_source"]


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
