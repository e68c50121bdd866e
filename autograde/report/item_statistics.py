"""Statistics of a class from its grades: scores, pass rates, mistakes, item-rest correlations."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import correlation as pearson
from statistics import mean, median

from autograde.results.final_scores import FinalScores
from autograde.results.grades_table import Row

__all__ = [
    "MIN_LEARNERS", "MIN_UNLIKE", "SUSPECT", "ItemStatistics", "LessonStatistics", "MistakeCount", "Trouble",
    "lesson_statistics",
]  # fmt: skip

MIN_LEARNERS = 20
"""The fewest learners for which a correlation is given: its standard error is about 1/sqrt(n - 1)."""
MIN_UNLIKE = 3
"""The fewest learners above and below an exercise's mean for which a correlation is given."""
SUSPECT = 0.1
"""Exercises with an item-rest correlation below this are marked."""
TROUBLES = ("timeout", "memory", "crashed", "forbidden", "tampered")
NOT_READ = ("missing", "unreadable")


@dataclass(frozen=True)
class ItemStatistics:
    """One exercise, over learners whose submission could be read; a notebook that a group shares counts once.

    Attributes:
        counts: learners by status, with "half" for those right on the CPU alone.
        share: mean share of the points, from 0 to 1.
        correlation: item-rest correlation; if None, `why_not` gives the reason.
        low, high: bounds of its 95 % confidence interval.
    """

    exercise: str
    max_score: float
    learners: int
    attempted: int
    passed: int
    half: int
    counts: dict[str, int]
    share: float
    correlation: float | None
    low: float
    high: float
    why_not: str

    @property
    def suspect(self) -> bool:
        return self.correlation is not None and self.correlation < SUSPECT


@dataclass(frozen=True)
class MistakeCount:
    """A known mistake, or "forbidden": how many learners made it, their share of the wrong ones, and their rows."""

    exercise: str
    name: str
    count: int
    of_wrong: float
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Trouble:
    """An exercise, one of the statuses `TROUBLES`, and the students who got it."""

    exercise: str
    status: str
    students: tuple[str, ...]


@dataclass(frozen=True)
class LessonStatistics:
    """One lesson.

    Attributes:
        not_read: students by the reason, "missing" or "unreadable"; of the other fields only `learners` counts them.
        totals: points of the other students, ascending.
        unexplained: wrong answers that no known mistake explains, by exercise.
    """

    lesson: str
    max_score: float
    learners: int
    not_read: dict[str, tuple[str, ...]]
    totals: tuple[float, ...]
    items: tuple[ItemStatistics, ...]
    mistakes: tuple[MistakeCount, ...]
    unexplained: tuple[Row, ...]
    troubles: tuple[Trouble, ...]

    @property
    def mean(self) -> float:
        return mean(self.totals) if self.totals else 0.0

    @property
    def median(self) -> float:
        return median(self.totals) if self.totals else 0.0


def lesson_statistics(
    rows: Sequence[Row], repeated: Mapping[str, Collection[str]] | None = None, final: FinalScores | None = None
) -> list[LessonStatistics]:
    """Return the statistics of each lesson in `rows`, in their order.

    Args:
        repeated: the students, by lesson, whose notebook is another student's too, and counts there for its exercises.
        final: the scores that count, as far as they are known.
    """
    lessons: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        lessons[row.lesson].append(row)
    return [_lesson(lesson, own, (repeated or {}).get(lesson, ()), final or {}) for lesson, own in lessons.items()]


def _lesson(lesson: str, rows: list[Row], repeated: Collection[str], final: FinalScores) -> LessonStatistics:
    not_read: dict[str, tuple[str, ...]] = {}
    for status in NOT_READ:
        students = tuple(dict.fromkeys(row.student for row in rows if row.status == status))
        not_read |= {status: students} if students else {}
    out = {student for students in not_read.values() for student in students}
    read = [row for row in rows if row.student not in out]
    exercises: dict[str, list[Row]] = {row.exercise: [] for row in rows}
    totals: dict[str, float] = defaultdict(float)
    shares: dict[str, float] = defaultdict(float)
    for row in read:
        exercises[row.exercise].append(row)
        totals[row.student] += row.score
        shares[row.student] += row.share
    once = {name: [row for row in own if row.student not in repeated] for name, own in exercises.items()}
    max_scores = {row.exercise: row.max_score for row in rows}
    known = {student: final[student, lesson] for student in totals if (student, lesson) in final}
    totals |= {student: score for student, (score, _) in known.items()}
    max_score = max((most for _, most in known.values()), default=sum(max_scores.values()))
    return LessonStatistics(
        lesson, max_score, len({row.student for row in rows}), not_read, tuple(sorted(totals.values())),
        tuple(_item(name, max_scores[name], own, shares) for name, own in once.items()), tuple(_mistakes(exercises)),
        tuple(_unexplained(exercises)), tuple(_troubles(exercises)),
    )  # fmt: skip


def _item(name: str, max_score: float, rows: list[Row], shares: dict[str, float]) -> ItemStatistics:
    """Return the statistics of an exercise; `shares` are each student's shares summed over all exercises."""
    counts = Counter("half" if 0 < r.share < 1 else r.status for r in rows)
    item = [row.share for row in rows]
    rest = [shares[row.student] - row.share for row in rows]
    r, why_not = correlation(item, rest)
    low, high = (r, r) if r is None else interval(r, len(rows))
    return ItemStatistics(
        name, max_score, len(rows), len(rows) - counts["unattempted"], counts["passed"], counts["half"], dict(counts),
        mean(item) if item else 0.0, r, low or 0.0, high or 0.0, why_not,
    )  # fmt: skip


def correlation(item: Sequence[float], rest: Sequence[float]) -> tuple[float | None, str]:
    """Return Pearson's correlation of shares in an exercise with sums over the others, or None and the reason."""
    if len(item) < MIN_LEARNERS:
        return None, f"fewer than {MIN_LEARNERS} learners"
    centre = mean(item)
    if min(sum(x > centre for x in item), sum(x < centre for x in item)) < MIN_UNLIKE:
        return None, "nearly all did equally well"
    if max(rest) - min(rest) < 1e-9:
        return None, "the other exercises are alike for all"
    return max(-1.0, min(1.0, pearson(item, rest))), ""


def interval(r: float, count: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a correlation of `count` pairs (Fisher's transformation, 1921)."""
    centre, width = math.atanh(max(-0.999999, min(0.999999, r))), 1.96 / math.sqrt(count - 3)
    return math.tanh(centre - width), math.tanh(centre + width)


def _mistakes(exercises: dict[str, list[Row]]) -> list[MistakeCount]:
    """Return the mistakes, most frequent first; mistakes made together count as each of them.

    An answer that uses what its exercise forbids counts as the mistake "forbidden".
    """
    found: list[MistakeCount] = []
    for exercise, rows in exercises.items():
        made: dict[str, list[Row]] = defaultdict(list)
        wrong = [row for row in rows if row.status not in ("passed", "unattempted", "tampered")]
        for row in wrong:
            forbidden = "forbidden" if row.status == "forbidden" else ""
            for name in filter(None, (row.misconception or forbidden).split("+")):
                made[name].append(row)
        found += [MistakeCount(exercise, m, len(own), len(own) / len(wrong), tuple(own)) for m, own in made.items()]
    return sorted(found, key=lambda m: (-m.count, m.exercise, m.name))


def _unexplained(exercises: dict[str, list[Row]]) -> list[Row]:
    wrong = (row for rows in exercises.values() for row in rows if row.status in ("failed", "error"))
    return [row for row in wrong if not row.misconception]


def _troubles(exercises: dict[str, list[Row]]) -> list[Trouble]:
    return [
        Trouble(exercise, status, students)
        for status in TROUBLES
        for exercise, rows in exercises.items()
        if (students := tuple(row.student for row in rows if row.status == status))
    ]
