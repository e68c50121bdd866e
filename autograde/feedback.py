"""The feedback page of one learner and lesson: one self-contained HTML file with nothing in it that could run."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from autograde.pages import page, printable
from autograde.remarks import Remark
from autograde.sections import section, title
from autograde.submission import Submission
from autograde.verdict import Verdict, clean
from autograde.written import written

__all__ = ["WORDS", "feedback"]

WORDS = {
    "passed": "right", "failed": "not right yet", "error": "raised an exception", "timeout": "out of time",
    "memory": "out of memory", "crashed": "the process ended", "forbidden": "uses what the rules do not allow",
    "unattempted": "not attempted", "tampered": "the notebook's cells were changed", "missing": "not submitted",
    "unreadable": "could not be read",
}  # fmt: skip


@dataclass(frozen=True)
class Item:
    """One exercise as the page shows it; points are `score` of `max_score`, with what was done by hand counted in."""

    name: str
    status: str
    words: str
    score: float
    max_score: float
    message: str
    misconception: str
    read: str
    code: str
    remark: Remark | None


def feedback(submission: Submission, verdicts: Sequence[Verdict], remarks: Mapping[str, Remark] | None = None) -> str:
    """The page as text: score, each exercise's verdict, message and section to reread, the learner's own code, and
    what the instructor added.

    Args:
        remarks: comments and scores given by hand, by exercise.
    """
    items = [_item(submission, verdict, (remarks or {}).get(verdict.exercise)) for verdict in verdicts]
    headings = dict.fromkeys(item.read for item in items if item.read)
    sections = {heading: section(submission.lesson, heading) for heading in headings}
    return page(
        "feedback.html", student=clean(submission.student), lesson=submission.lesson, title=title(submission.lesson),
        reason=clean(submission.reason), items=items, score=sum(i.score for i in items),
        max_score=sum(i.max_score for i in items), right=sum(i.status == "passed" for i in items),
        sections={heading: Markup(text) for heading, text in sections.items() if text}, coded=coded,
        printable=printable,
    )  # fmt: skip


def _item(submission: Submission, verdict: Verdict, remark: Remark | None) -> Item:
    given = remark or Remark()
    score = (verdict.score if given.score is None else given.score) + given.extra
    said = clean(verdict.message).removeprefix(clean(submission.reason)).strip()
    return Item(
        verdict.exercise, verdict.status, _words(verdict), score, verdict.max_score, said, verdict.misconception,
        verdict.read, printable(written(submission, verdict.exercise)), remark,
    )  # fmt: skip


def _words(verdict: Verdict) -> str:
    half = verdict.status != "passed" and 0 < verdict.score < verdict.max_score
    return "right on the CPU alone" if half else WORDS[verdict.status]


def coded(text: str) -> Markup:
    """Escaped, with `backquoted` words as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text)))
