"""Make the feedback page of one learner and lesson: one self-contained HTML file in which nothing can run."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markupsafe import Markup

from autograde.judge.submission import Submission
from autograde.judge.verdict import Verdict, clean, printable, shown
from autograde.results.answer_source import answer_source
from autograde.results.grader_comments import GraderComment
from autograde.results.html import page
from autograde.results.lesson_sections import section, title

__all__ = ["WORDS", "feedback"]

MARKDOWN = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table").disable("image")
WORDS = {
    "passed": "right", "failed": "not right yet", "error": "raised an exception", "timeout": "out of time",
    "memory": "out of memory", "crashed": "the process ended", "forbidden": "uses what the rules do not allow",
    "unattempted": "not attempted", "tampered": "the notebook's cells were changed", "missing": "not submitted",
    "unreadable": "could not be read",
}  # fmt: skip


@dataclass(frozen=True)
class Item:
    """One exercise as the page shows it; `score` includes manual scores and extra credit."""

    name: str
    status: str
    words: str
    score: float
    max_score: float
    message: str
    output: str
    misconception: str
    section: str
    code: str
    comment: GraderComment | None


def feedback(
    submission: Submission, verdicts: Sequence[Verdict], comments: Mapping[str, GraderComment] | None = None,
    penalty: float = 0.0,
) -> str:  # fmt: skip
    """Return the page: for each exercise score, verdict, message, section to reread, the learner's code and comments;
    then the questions that were answered in words, which the sum leaves out until they are graded.

    Args:
        comments: what the instructor added by hand, by exercise.
        penalty: the points lost by lateness, which are taken off the sum as in exports.
    """
    items = [_item(submission, verdict, (comments or {}).get(verdict.exercise)) for verdict in verdicts]
    headings = dict.fromkeys(item.section for item in items if item.section)
    sections = {heading: section(submission.release, heading) for heading in headings}
    questions = _questions(submission, comments or {})
    counted: list[Item | Question] = [*items, *(question for question in questions if question.graded)]
    raw = sum(c.score for c in counted)
    return page(
        "feedback.html", student=clean(submission.student), lesson=submission.lesson, title=title(submission.release),
        reason=clean(submission.reason), items=items, questions=questions, raw=raw, penalty=penalty,
        score=max(0.0, raw - penalty), max_score=sum(c.max_score for c in counted),
        right=sum(i.status == "passed" for i in items),
        sections={heading: Markup(text) for heading, text in sections.items() if text}, coded=coded,
        prose=prose,
    )  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A question as the page shows it: answered in words, or not (""), and `graded` once somebody has given a score."""

    name: str
    answer: str
    max_score: float
    comment: GraderComment

    @property
    def graded(self) -> bool:
        return self.comment.score is not None

    @property
    def score(self) -> float:
        return (self.comment.score or 0.0) + self.comment.extra


def _questions(submission: Submission, comments: Mapping[str, GraderComment]) -> list[Question]:
    release = submission.release
    return [
        Question(
            name,
            shown(submission.answer_in_words(name)),
            release.points(name),
            comments.get(name) or GraderComment(),
        )
        for name in release.questions
    ]


def _item(submission: Submission, verdict: Verdict, comment: GraderComment | None) -> Item:
    given = comment or GraderComment()
    score = (verdict.score if given.score is None else given.score) + given.extra
    first, _, output = verdict.message.partition("\n")
    message = clean(first).removeprefix(clean(submission.reason)).strip()
    return Item(
        verdict.exercise, verdict.status, _words(verdict), score, verdict.max_score, message, printable(output),
        verdict.misconception, verdict.section, shown(answer_source(submission, verdict.exercise)), comment,
    )  # fmt: skip


def _words(verdict: Verdict) -> str:
    half = verdict.status != "passed" and 0 < verdict.score < verdict.max_score
    return "right on the CPU alone" if half else WORDS[verdict.status]


def prose(text: str) -> Markup:
    """Return an instructor's Markdown as HTML; HTML in it is shown as text, and no picture is loaded."""
    return Markup(MARKDOWN.render(printable(text)))


def coded(text: str) -> Markup:
    """Return a text as HTML, with `backquoted` words as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text)))
