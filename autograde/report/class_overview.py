"""A class over all its lessons: learners by lesson and exercise, who is falling behind, mistakes that persist."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from autograde.files import digest
from autograde.results.final_scores import FinalScores
from autograde.results.grades_table import Row
from torchcourse.model.catalogue import in_order

__all__ = ["Learner", "Mark", "Overview", "PersistingMistake", "overview", "shade"]

FALL = 0.25
"""A learner is falling behind if their distance below the class median has grown by at least this share of the
points."""
LOW = 0.5
"""A learner is low whose points are below this share of the class's median."""
STEPS = 5
"""The number of shades for shares of points."""
KINDS = {"passed": "right", "unattempted": "open", "missing": "none"}


@dataclass(frozen=True)
class Mark:
    """One exercise of one learner: `kind` is right, half, wrong, open (not attempted) or none (nothing handed in)."""

    kind: str
    status: str = ""
    misconception: str = ""


@dataclass(frozen=True)
class Learner:
    """One learner.

    Attributes:
        alias: what stands on the page where names are hidden.
        shares: the share of the points in each lesson; None where nothing was handed in.
        share: the share of the points of all lessons together.
        behind: why the learner seems to fall behind; "" if they do not.
        order: the place of the learner in each order: by name, by points, then by each lesson, weakest first.
    """

    student: str
    alias: str
    shares: tuple[float | None, ...]
    points: float
    share: float
    behind: str
    order: tuple[int, ...]


@dataclass(frozen=True)
class PersistingMistake:
    """A mistake made in several lessons: learners by lesson, and the learners who made it in two lessons or more."""

    name: str
    counts: tuple[int, ...]
    students: tuple[str, ...]


@dataclass(frozen=True)
class Overview:
    """A class over all its lessons, in the order of the course.

    Attributes:
        medians: the median share of the points of those who handed something in, by lesson.
        learners: by points, weakest first.
        marks: by lesson, student and exercise.
        exercises: by lesson.
    """

    lessons: tuple[str, ...]
    medians: tuple[float, ...]
    max_score: float
    learners: tuple[Learner, ...]
    marks: Mapping[str, Mapping[str, Mapping[str, Mark]]]
    exercises: Mapping[str, tuple[str, ...]]
    persisting: tuple[PersistingMistake, ...]


def overview(rows: Sequence[Row], names: Mapping[str, str] | None = None, final: FinalScores | None = None) -> Overview:
    """Return the overview of the grades in `rows`.

    Args:
        names: those of students, as far as they are known.
        final: the scores that count, as far as they are known.
    """
    lessons = in_order({r.lesson for r in rows})
    marks: dict[str, dict[str, dict[str, Mark]]] = {lesson: defaultdict(dict) for lesson in lessons}
    points: dict[tuple[str, str], float] = defaultdict(float)
    most: dict[tuple[str, str], float] = {}
    for r in rows:
        marks[r.lesson][r.student][r.exercise] = _mark(r)
        most[r.lesson, r.exercise] = r.max_score
        points[r.student, r.lesson] += r.score
    exercises = {lesson: tuple(name for own, name in most if own == lesson) for lesson in lessons}
    totals = {lesson: sum(most[lesson, name] for name in exercises[lesson]) for lesson in lessons}
    for (student, lesson), (score, max_score) in (final or {}).items():
        if student in marks.get(lesson, ()):
            points[student, lesson], totals[lesson] = score, max_score
    students = sorted({r.student for r in rows}, key=lambda s: (((names or {}).get(s) or s).casefold(), s))
    shares = {
        student: tuple(_share(marks[lesson].get(student), points[student, lesson], totals[lesson])
                       for lesson in lessons) for student in students
    }  # fmt: skip
    medians = tuple(median(_known(own[i] for own in shares.values()) or [0.0]) for i in range(len(lessons)))
    graded = tuple(2 * len(_known(own[i] for own in shares.values())) >= len(students) for i in range(len(lessons)))
    sums = {student: sum(points[student, lesson] for lesson in lessons) for student in students}
    all_points = sum(totals.values())
    orders = _orders(students, sums, shares, len(lessons))
    aliases = _places(sorted(students, key=digest))  # an order that says nothing about names
    learners = [
        Learner(
            s, f"learner {1 + aliases[s]}", shares[s], sums[s],
            max(0.0, sums[s]) / all_points if all_points > 0 else 0.0,
            _behind(shares[s], medians, graded, lessons), tuple(order[s] for order in orders),
        )
        for s in sorted(students, key=orders[1].__getitem__)
    ]  # fmt: skip
    return Overview(tuple(lessons), medians, all_points, tuple(learners), marks, exercises, _persisting(rows, lessons))


def shade(share: float) -> int:
    """Return the shade of a share of points, from 0 to `STEPS` - 1."""
    return max(0, min(STEPS - 1, int(share * STEPS)))


def _mark(row: Row) -> Mark:
    kind = "half" if 0 < row.share < 1 else KINDS.get(row.status, "wrong")
    return Mark(kind, row.status, row.misconception)


def _share(marks: Mapping[str, Mark] | None, points: float, total: float) -> float | None:
    if not marks or any(mark.status == "missing" for mark in marks.values()):
        return None
    return min(1.0, max(0.0, points / total)) if total > 0 else 0.0


def _known(shares: Iterable[float | None]) -> list[float]:
    return [share for share in shares if share is not None]


def _orders(
    students: Sequence[str], sums: Mapping[str, float], shares: Mapping[str, Sequence[float | None]], lessons: int
) -> list[dict[str, int]]:
    """Return the place of each student in each order; equals are in an order that says nothing about names."""

    def weakest(i: int) -> dict[str, int]:
        def key(student: str) -> tuple[float, str]:
            share = shares[student][i]
            return (-1.0 if share is None else share), digest(student)

        return _places(sorted(students, key=key))

    by_points = _places(sorted(students, key=lambda s: (sums[s], digest(s))))
    return [_places(students), by_points, *(weakest(i) for i in range(lessons))]


def _places(students: Sequence[str]) -> dict[str, int]:
    return {student: place for place, student in enumerate(students)}


def _behind(
    shares: Sequence[float | None], medians: Sequence[float], graded: Sequence[bool], lessons: Sequence[str]
) -> str:
    """Return why a learner seems to fall behind, from the lessons that half of the class or more handed in."""
    seen = [(share, middle, name) for share, middle, name, counts
            in zip(shares, medians, lessons, graded, strict=True) if counts]  # fmt: skip
    if not seen:
        return ""
    share, middle, name = seen[-1]
    if share is None:
        since = name
        for earlier, _, other in reversed(seen):
            if earlier is not None:
                break
            since = other
        return f"nothing handed in for {name}" if since == name else f"nothing handed in from {since} on"
    before = [(earlier, at) for earlier, at, _ in seen[:-1] if earlier is not None]
    if share >= middle:
        return ""
    if before and (middle - share) - mean(at - earlier for earlier, at in before) >= FALL:
        shown = [f"{100 * x:.0f} %" for x in (share, mean(earlier for earlier, _ in before), middle)]
        return f"{shown[0]} in {name} after {shown[1]} before, where the class's median is {shown[2]}"
    if share < LOW * middle and all(earlier < LOW * at for earlier, at in before[-1:]):
        return f"less than half of the class's median in {' and '.join(n for _, _, n in seen[-2:])}"
    return ""


def _persisting(rows: Sequence[Row], lessons: Sequence[str]) -> tuple[PersistingMistake, ...]:
    """Return the mistakes that were made in two lessons or more, first those that most learners repeated."""
    made: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        for name in filter(None, row.misconception.split("+")):
            made[name][row.lesson].add(row.student)
    found = []
    for name, by_lesson in made.items():
        people = sorted(set().union(*by_lesson.values()))
        again = tuple(s for s in people if sum(s in own for own in by_lesson.values()) > 1)
        if len(by_lesson) > 1:
            found.append(PersistingMistake(name, tuple(len(by_lesson.get(n, ())) for n in lessons), again))
    return tuple(sorted(found, key=lambda m: (-len(m.students), -sum(m.counts), m.name)))
