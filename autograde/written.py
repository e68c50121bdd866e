"""What a learner wrote for an exercise, wherever in the notebook it stands."""

from __future__ import annotations

import re

from autograde.submission import Submission, release, squeezed

__all__ = ["written"]


def written(submission: Submission, exercise: str) -> str:
    """The source of the learner's answer: the exercise's cells, but for untouched stubs, and others that bind its name;
    "" where there is none."""
    stub = squeezed(release(submission.lesson).cells[exercise].source)
    name = re.escape(exercise)
    binds = re.compile(rf"^(?:(?:async\s+)?def|class)\s+{name}\b|^{name}\s*(?::[^=\n]*)?=(?!=)", re.MULTILINE)
    mine = [
        cell.source
        for cell in submission.cells
        if cell.runs and (cell.grade_id == exercise or (not cell.grade_id and binds.search(cell.source)))
    ]
    return "\n\n".join(source.strip("\n") for source in mine if squeezed(source) != stub)
