"""Make the class report: one self-contained HTML page from grades.csv and the autograded notebooks beside it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from autograde.judge.verdict import clean, printable
from autograde.report.anonymous import anonymous
from autograde.report.charts import outcomes, scores, times
from autograde.report.class_overview import overview, shade
from autograde.report.enrolled import Enrolled, Roster, sharing, shown_names, with_absent
from autograde.report.item_statistics import (
    MIN_LEARNERS,
    MIN_UNLIKE,
    SUSPECT,
    LessonStatistics,
    MistakeCount,
    lesson_statistics,
)
from autograde.report.similarity import MIN_SHINGLES, SHINGLE, SIMILAR, Pair, similar_pairs
from autograde.results.answer_source import answer_source, read_autograded
from autograde.results.final_scores import FinalScores
from autograde.results.grades_table import Row, read_table
from autograde.results.html import page
from autograde.results.submission_times import HandedIn
from autograde.source.release import load_release
from torchcourse.model.catalogue import LESSONS

__all__ = ["ShownMistake", "answers_of", "report", "shown_mistake"]

MAX_PAIRS, MAX_MISTAKES, MAX_EXAMPLES, MAX_COMPLAINTS = 30, 25, 2, 20
MAX_EXAMPLE_LENGTH = 2000

Answers = dict[str, dict[str, str]]
"""The sources of answers, by exercise and learner."""


@dataclass(frozen=True)
class ShownMistake:
    """A common mistake: its count, its share of wrong answers, a message that explained it, and anonymous examples."""

    exercise: str
    name: str
    count: int
    of_wrong: float
    message: str
    examples: tuple[str, ...]


@dataclass(frozen=True)
class ShownLesson:
    """One lesson on the page; `compared` is the number of answers, `shared` whether notebooks of groups count once, and
    `more_mistakes` and `more_pairs` are shown folded."""

    statistics: LessonStatistics
    histogram: str
    bars: str
    mistakes: tuple[ShownMistake, ...]
    more_mistakes: tuple[MistakeCount, ...]
    compared: int
    pairs: tuple[Pair, ...]
    more_pairs: tuple[Pair, ...]
    shared: bool


def report(
    out: Path, target: Path | None = None, handed_in: Sequence[HandedIn] = (), final: FinalScores | None = None,
    roster: Roster | None = None,
) -> str:  # fmt: skip
    """Return the report on the results that `torchcourse grade` left in `out`.

    Args:
        target: where the page will lie, from which it links to feedback pages; in `out`, if not given.
        handed_in: when submissions were handed in, as far as that is known.
        final: the scores that count, if they are known; else the automatic ones do.
        roster: the students of the class, if it has a roster.

    Raises:
        BadTableError: when there is no grades.csv in `out`, or it is no table of grades.
    """
    table = read_table(out / "grades.csv")
    answers, roster = answers_of(out / "autograded", table.rows), roster or {}
    rows = with_absent(table.rows, roster)
    repeated = {lesson: sharing(own, roster) for lesson, own in answers.items()}
    lessons = [_lesson(one, answers.get(one.lesson, {}), repeated.get(one.lesson, set()), roster)
               for one in lesson_statistics(rows, repeated, final)]  # fmt: skip
    complaints, more = table.complaints[:MAX_COMPLAINTS], table.complaints[MAX_COMPLAINTS:]
    everything = overview(rows, {student: one.name for student, one in roster.items()}, final)
    aliases = {learner.student: learner.alias for learner in everything.learners}
    pages = _feedback_pages(out, (target or out / "report.html").absolute().parent)
    return page(
        "report.html", overview=everything, aliases=aliases, names=shown_names(list(aliases), roster), shade=shade,
        feedback=pages, lessons=lessons, times=times(handed_in) if handed_in else "", timed=len(handed_in),
        submissions=len({(row.student, row.lesson) for row in table.rows if row.status != "missing"}),
        folder=clean(out.resolve().name), complaints=complaints, more_complaints=more,
        learners_count=len(aliases), fewest=MIN_LEARNERS, unlike=MIN_UNLIKE, suspect=SUSPECT, similar=SIMILAR,
        final=bool(final), shingle=SHINGLE, shortest=MIN_SHINGLES, clean=clean,
    )  # fmt: skip


def _feedback_pages(out: Path, here: Path) -> dict[tuple[str, str], str]:
    """Return the links from a page in `here` to the feedback pages in `out`, by student and lesson."""
    pages = (out / "feedback").absolute().glob("*/*.html")
    return {(path.parent.name, path.stem): quote(os.path.relpath(path, here)) for path in pages}


def answers_of(autograded: Path, rows: Sequence[Row]) -> dict[str, Answers]:
    """Return the answers in the autograded notebooks, by lesson."""
    found: dict[str, Answers] = defaultdict(lambda: defaultdict(dict))
    keys = dict.fromkeys((row.student, row.lesson) for row in rows if row.lesson in LESSONS)
    for submission in read_autograded(autograded, keys):
        for exercise in submission.release.exercises:
            if source := answer_source(submission, exercise):
                found[submission.lesson][exercise][submission.student] = source
    return found


def _lesson(statistics: LessonStatistics, answers: Answers, repeated: Collection[str], roster: Roster) -> ShownLesson:
    stubs = {name: load_release(statistics.lesson).cells[name].source for name in answers}
    different = {exercise: {student: source for student, source in own.items() if student not in repeated}
                 for exercise, own in answers.items()}  # fmt: skip
    pairs = similar_pairs(different, stubs)
    shown = statistics.mistakes[:MAX_MISTAKES]
    return ShownLesson(
        statistics, scores(statistics), outcomes(statistics),
        tuple(shown_mistake(m, answers, roster) for m in shown), statistics.mistakes[MAX_MISTAKES:],
        sum(map(len, different.values())), tuple(pairs[:MAX_PAIRS]), tuple(pairs[MAX_PAIRS:]), bool(repeated),
    )  # fmt: skip


def shown_mistake(mistake: MistakeCount, answers: Mapping[str, Mapping[str, str]], roster: Roster) -> ShownMistake:
    """Return a mistake as it is shown: with a message that explained it, and examples without names."""
    sources = answers.get(mistake.exercise, {})
    examples: dict[str, None] = {}
    known = (row.student for row in mistake.rows if sources.get(row.student, "").strip())
    for student in sorted(known, key=lambda name: (len(sources[name]), name)):
        example = printable(anonymous(sources[student], [student, roster.get(student, Enrolled()).name]))
        if example and len(example) <= MAX_EXAMPLE_LENGTH:
            examples.setdefault(example)
    message = next((row.message for row in mistake.rows if row.message), "")
    return ShownMistake(
        mistake.exercise, mistake.name, mistake.count, mistake.of_wrong, clean(message), tuple(examples)[:MAX_EXAMPLES]
    )
