"""Detect lessons that changed after their release to a class, and how scores would change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from autograde.classroom.compare import Change, changes, read_grades
from autograde.results.grades_table import Row
from autograde.source.release import load_release, released_to

__all__ = ["changed_lessons", "consequences"]


def changed_lessons(folder: Path, lessons: Iterable[str]) -> dict[str, str]:
    """Return the lessons whose exercises or points are not those released to a class, with what differs."""
    released = {lesson: released_to(folder, lesson) for lesson in lessons}
    differences = {lesson: load_release(lesson).difference(each) for lesson, each in released.items() if each}
    return {lesson: difference for lesson, difference in differences.items() if difference}


def consequences(folder: Path, lessons: Sequence[str]) -> list[Change]:
    """Return which rows of a class's grades.csv change with these lessons: each keeps its share of the points.

    Raises:
        BadTableError: when there is no table of grades, or it cannot be read.
    """
    before = read_grades(folder)
    rows = {key: row for key, row in before.items() if row.lesson in lessons}
    after: dict[tuple[str, str, str], Row] = {}
    for student, lesson in dict.fromkeys((row.student, row.lesson) for row in rows.values()):
        release = load_release(lesson)
        for name in release.exercises:
            points = release.points(name)
            row = rows.get((student, lesson, name))
            new = Row(student, lesson, name, 0.0, points, "unattempted")
            after[student, lesson, name] = replace(row, score=row.share * points, max_score=points) if row else new
    return changes(rows, after)
