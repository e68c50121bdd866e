"""The feedback page of one learner and lesson: one self-contained HTML file with nothing in it that could run."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from autograde.submission import Submission
from autograde.verdict import Verdict, clean

__all__ = ["feedback"]

WORDS = {
    "passed": "right", "failed": "not right yet", "error": "raised an exception", "timeout": "out of time",
    "memory": "out of memory", "crashed": "the process ended", "forbidden": "uses what the rules do not allow",
    "unattempted": "not attempted", "tampered": "the notebook's cells were changed", "missing": "not submitted",
    "unreadable": "could not be read",
}  # fmt: skip


def feedback(submission: Submission, verdicts: Sequence[Verdict]) -> str:
    """The page as text: score, each exercise's verdict, message and section to reread, and the learner's own code."""
    environment = Environment(
        loader=PackageLoader("autograde", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    sources = {cell.grade_id: cell.source for cell in submission.cells if cell.grade_id}
    return environment.get_template("feedback.html").render(
        student=submission.student, lesson=submission.lesson, reason=clean(submission.reason), verdicts=verdicts,
        words=WORDS, score=sum(v.score for v in verdicts), max_score=sum(v.max_score for v in verdicts),
        sources=sources,
    )  # fmt: skip
