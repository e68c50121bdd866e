"""The report on a class: one self-contained HTML page from grades.csv and the autograded notebooks beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograde.anonymous import anonymous
from autograde.likeness import ALIKE, SHINGLE, SHORTEST, Pair, alike
from autograde.measures import FEWEST_LEARNERS, FEWEST_UNLIKE, SUSPECT, LessonMeasures, MistakeCount, measure
from autograde.pages import page, printable
from autograde.pictures import outcomes, scores
from autograde.rows import Row, read_table
from autograde.submission import read_submission, release
from autograde.verdict import clean
from autograde.written import written
from torchcourse.exercise import LESSONS

__all__ = ["report"]

MOST_PAIRS, MOST_MISTAKES, MOST_EXAMPLES, MOST_COMPLAINTS = 30, 25, 2, 20
LONGEST_EXAMPLE = 2000

Answers = dict[str, dict[str, str]]
"""For each exercise, for each learner the source of the answer."""


@dataclass(frozen=True)
class ShownMistake:
    """A mistake that is common in the class: how often, what learners were told, and anonymised answers."""

    exercise: str
    name: str
    count: int
    of_wrong: float
    message: str
    examples: tuple[str, ...]


@dataclass(frozen=True)
class ShownLesson:
    """What the page says about one lesson."""

    measures: LessonMeasures
    histogram: str
    bars: str
    mistakes: tuple[ShownMistake, ...]
    more_mistakes: int
    compared: int
    pairs: tuple[Pair, ...]
    more_pairs: int


def report(out: Path) -> str:
    """The page on what `torchcourse grade` left in `out`.

    Raises:
        BadTableError: when there is no grades.csv in `out`, or it is something else.
    """
    table = read_table(out / "grades.csv")
    answers = _answers(out / "autograded", table.rows)
    lessons = [_lesson(measures, answers.get(measures.lesson, {})) for measures in measure(table.rows)]
    complaints, more = table.complaints[:MOST_COMPLAINTS], table.complaints[MOST_COMPLAINTS:]
    return page(
        "report.html", lessons=lessons, folder=clean(out.resolve().name), complaints=complaints,
        more_complaints=len(more), learners_count=len({row.student for row in table.rows}), fewest=FEWEST_LEARNERS,
        unlike=FEWEST_UNLIKE, suspect=SUSPECT, alike=ALIKE, shingle=SHINGLE, shortest=SHORTEST, clean=clean,
        clean_names=_names,
    )  # fmt: skip


def _names(students: Sequence[str]) -> str:
    return ", ".join(map(clean, students))


def _answers(autograded: Path, rows: Sequence[Row]) -> dict[str, Answers]:
    """The answers in the autograded notebooks, by lesson. Only folders that are there are opened, so that a name in
    the table cannot lead elsewhere."""
    there = {path.name for path in autograded.iterdir()} if autograded.is_dir() else set()
    found: dict[str, Answers] = defaultdict(lambda: defaultdict(dict))
    submissions = dict.fromkeys((row.student, row.lesson) for row in rows if row.lesson in LESSONS)
    for student, lesson in submissions:
        if student in there:
            submission = read_submission(autograded / student / lesson / f"{lesson}.ipynb", student, lesson)
            for exercise in [] if submission.problem else release(lesson).exercises:
                if source := written(submission, exercise):
                    found[lesson][exercise][student] = source
    return found


def _lesson(measures: LessonMeasures, answers: Answers) -> ShownLesson:
    stubs = {name: release(measures.lesson).cells[name].source for name in answers}
    pairs = alike(answers, stubs)
    shown = measures.mistakes[:MOST_MISTAKES]
    return ShownLesson(
        measures, scores(measures), outcomes(measures), tuple(_mistake(m, answers) for m in shown),
        len(measures.mistakes) - len(shown), sum(map(len, answers.values())), tuple(pairs[:MOST_PAIRS]),
        len(pairs[MOST_PAIRS:]),
    )  # fmt: skip


def _mistake(mistake: MistakeCount, answers: Mapping[str, Mapping[str, str]]) -> ShownMistake:
    sources = answers.get(mistake.exercise, {})
    examples: dict[str, None] = {}
    for row in sorted(mistake.rows, key=lambda r: (len(sources.get(r.student, "")), r.student)):
        example = printable(anonymous(sources.get(row.student, ""), [row.student]))
        if example and len(example) <= LONGEST_EXAMPLE:
            examples.setdefault(example)
    told = next((row.message for row in mistake.rows if row.message), "")
    return ShownMistake(
        mistake.exercise, mistake.name, mistake.count, mistake.of_wrong, clean(told), tuple(examples)[:MOST_EXAMPLES]
    )
