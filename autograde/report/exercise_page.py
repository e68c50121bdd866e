"""Make a page that shows one exercise across a class: everybody's answer, those with the same outcome together.

For a question that is answered in words the page begins with its rubric, and the answers stand in the order of names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograde.judge.verdict import clean, printable, shown
from autograde.report.class_overview import overview
from autograde.report.enrolled import Roster, shown_names, with_absent
from autograde.results.answer_source import answer_source, read_autograded
from autograde.results.grades_table import Row, read_table
from autograde.results.html import page
from autograde.source import paths
from autograde.source.release import built_lessons, load_release
from autograde.source.script import rubrics
from torchcourse.model.catalogue import find

__all__ = ["exercise_page"]


@dataclass(frozen=True)
class ShownAnswer:
    """A learner's answer, with the verdict on it; a question has none."""

    student: str
    source: str
    row: Row | None = None


@dataclass(frozen=True)
class Group:
    """The answers with one outcome: its name, a message that tells it, and whether they are right."""

    title: str
    message: str
    is_right: bool
    answers: tuple[ShownAnswer, ...]


def exercise_page(out: Path, name: str, roster: Roster | None = None) -> str:
    """Return the page on an exercise or a question, from the results that `torchcourse grade` left in `out`.

    Args:
        roster: the students of the class, if it has a roster.

    Raises:
        BadTableError: when there is no grades.csv in `out`, or it is no table of grades.
        UnknownExerciseError: when no lesson has an exercise or a question of this name.
    """
    rows = with_absent(read_table(out / "grades.csv").rows, roster or {})
    lesson = _lesson_of(name)
    verdicts = {row.student: row for row in rows if (row.lesson, row.exercise) == (lesson, name)}
    learners = {row.student for row in rows if row.lesson == lesson}
    answers = [
        ShownAnswer(student, source, verdicts.get(student))
        for student, source in sorted(_sources(out / "autograded", lesson, name, learners))
    ]
    without = sorted(learners - {answer.student for answer in answers})
    aliases = {learner.student: learner.alias for learner in overview(rows).learners}
    return page(
        "exercise.html", name=name, lesson=lesson, rubric=printable(rubrics(paths.script(lesson)).get(name, "")),
        groups=_groups(answers), without=without, count=len(learners), aliases=aliases,
        names=shown_names(list(aliases), roster or {}), folder=clean(out.resolve().name), clean=clean,
    )  # fmt: skip


def _lesson_of(name: str) -> str:
    for lesson in built_lessons():
        if name in load_release(lesson).questions:
            return lesson
    return find(name)[0]


def _sources(autograded: Path, lesson: str, name: str, students: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield those students who wrote something, with what they wrote."""
    for submission in read_autograded(autograded, ((student, lesson) for student in students)):
        asks = name in submission.release.questions
        known = asks or name in submission.release.exercises
        source = "" if not known else submission.answer_in_words(name) if asks else answer_source(submission, name)
        if source.strip():
            yield submission.student, shown(source)


def _groups(answers: Iterable[ShownAnswer]) -> list[Group]:
    """Return the answers by outcome: wrong ones first, the most frequent outcome first."""
    found: dict[tuple[str, str], list[ShownAnswer]] = defaultdict(list)
    for answer in answers:
        found[(answer.row.status, answer.row.misconception) if answer.row else ("", "")].append(answer)
    groups = [
        Group(
            misconception or status, next((a.row.message for a in own if a.row and a.row.message), ""),
            status == "passed", tuple(own),
        )
        for (status, misconception), own in found.items()
    ]  # fmt: skip
    return sorted(groups, key=lambda group: (group.is_right, -len(group.answers), group.title))
