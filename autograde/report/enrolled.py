"""What a class's roster adds to its report: names, members who handed nothing in, and groups who share a notebook."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autograde.judge.verdict import clean
from autograde.results.grades_table import Row

__all__ = ["Enrolled", "Roster", "sharing", "shown_names", "with_absent"]


@dataclass(frozen=True)
class Enrolled:
    """A student on the roster: their name, as "Lovelace, Ada", and the group they hand in with; "" where not known."""

    name: str = ""
    group: str = ""


Roster = Mapping[str, Enrolled]
"""The students on the roster of a class, by id; empty where there is none."""


def with_absent(rows: Sequence[Row], roster: Roster) -> list[Row]:
    """Return the rows, and "missing" ones for each student on the roster who has none in a lesson."""
    there = {(row.student, row.lesson) for row in rows}
    exercises: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        exercises[row.lesson][row.exercise] = row.max_score
    return [*rows, *(
        Row(student, lesson, exercise, 0.0, most, "missing")
        for lesson, own in exercises.items() for student in roster if (student, lesson) not in there
        for exercise, most in own.items()
    )]  # fmt: skip


def shown_names(students: Sequence[str], roster: Roster) -> dict[str, str]:
    """Return what stands on a page for each student: the id, and the name if the roster has it."""
    names = {student: roster[student].name for student in students if student in roster}
    return {s: clean(f"{s} ({names[s]})" if names.get(s) else s) for s in students}


def sharing(answers: Mapping[str, Mapping[str, str]], roster: Roster) -> set[str]:
    """Return the students whose answers to a lesson all equal those of an earlier member of their group.

    Args:
        answers: the sources of answers, by exercise and student.
    """
    by_student: dict[str, dict[str, str]] = defaultdict(dict)
    for exercise, sources in answers.items():
        for student, source in sources.items():
            by_student[student][exercise] = source
    seen, found = set[tuple[str, tuple[tuple[str, str], ...]]](), set[str]()
    for student in sorted(by_student):
        group = roster[student].group if student in roster else ""
        notebook = group, tuple(sorted(by_student[student].items()))
        if group and notebook in seen:
            found.add(student)
        seen.add(notebook)
    return found
