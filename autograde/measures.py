"""What a table of grades says about a class: scores, pass rates, mistakes, and how exercises go with the rest."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from autograde.rows import Row

__all__ = [
    "FEWEST_LEARNERS", "FEWEST_UNLIKE", "SUSPECT", "ItemMeasures", "LessonMeasures", "MistakeCount", "Trouble",
    "measure",
]  # fmt: skip

FEWEST_LEARNERS = 20
"""With fewer learners a correlation says nothing: its standard error is about 1/sqrt(n - 1)."""
FEWEST_UNLIKE = 3
"""Of learners above and of learners below an exercise's mean there have to be so many."""
SUSPECT = 0.1
"""Below this item-rest correlation an exercise's discrimination looks wrong."""
TROUBLES = ("timeout", "memory", "crashed", "forbidden", "tampered")
NOT_READ = ("missing", "unreadable")


@dataclass(frozen=True)
class ItemMeasures:
    """One exercise. `counts` are learners by outcome; `correlation` is None where `why_not` says why there is none;
    `low` and `high` bound its 95 % confidence interval."""

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
    """How many learners made a known mistake, the share of those who were wrong, and who."""

    exercise: str
    name: str
    count: int
    of_wrong: float
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Trouble:
    """An exercise that ended in one of `TROUBLES`, and for whom."""

    exercise: str
    status: str
    students: tuple[str, ...]


@dataclass(frozen=True)
class LessonMeasures:
    """One lesson. `totals` are the points of learners whose submission could be read, in ascending order;
    `unexplained` are the wrong answers that no known mistake explains, by exercise."""

    lesson: str
    max_score: float
    learners: int
    not_read: dict[str, tuple[str, ...]]
    totals: tuple[float, ...]
    items: tuple[ItemMeasures, ...]
    mistakes: tuple[MistakeCount, ...]
    unexplained: tuple[Row, ...]
    troubles: tuple[Trouble, ...]

    @property
    def mean(self) -> float:
        return mean(self.totals) if self.totals else 0.0

    @property
    def median(self) -> float:
        return median(self.totals) if self.totals else 0.0


def measure(rows: Sequence[Row]) -> list[LessonMeasures]:
    """The measures of each lesson in `rows`, in their order."""
    lessons: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        lessons[row.lesson].append(row)
    return [_lesson(lesson, mine) for lesson, mine in lessons.items()]


def _lesson(lesson: str, rows: list[Row]) -> LessonMeasures:
    not_read: dict[str, tuple[str, ...]] = {}
    for status in NOT_READ:
        who = tuple(dict.fromkeys(row.student for row in rows if row.status == status))
        not_read |= {status: who} if who else {}
    out = {student for who in not_read.values() for student in who}
    read = [row for row in rows if row.student not in out]
    exercises: dict[str, list[Row]] = {row.exercise: [] for row in rows}
    totals: dict[str, float] = defaultdict(float)
    shares: dict[str, float] = defaultdict(float)
    for row in read:
        exercises[row.exercise].append(row)
        totals[row.student] += row.score
        shares[row.student] += row.share
    best = {row.exercise: row.max_score for row in rows}
    return LessonMeasures(
        lesson, sum(best.values()), len({row.student for row in rows}), not_read, tuple(sorted(totals.values())),
        tuple(_item(name, best[name], mine, shares) for name, mine in exercises.items()), tuple(_mistakes(exercises)),
        tuple(_unexplained(exercises)), tuple(_troubles(exercises)),
    )  # fmt: skip


def _item(name: str, max_score: float, rows: list[Row], shares: dict[str, float]) -> ItemMeasures:
    """One exercise among learners whose submission could be read; `shares` are their sums over all exercises."""
    counts = Counter("half" if 0 < r.share < 1 else r.status for r in rows)
    mine = [row.share for row in rows]
    rest = [shares[row.student] - row.share for row in rows]
    r, why_not = correlation(mine, rest)
    low, high = (r, r) if r is None else interval(r, len(rows))
    return ItemMeasures(
        name, max_score, len(rows), len(rows) - counts["unattempted"], counts["passed"], counts["half"], dict(counts),
        mean(mine) if mine else 0.0, r, low or 0.0, high or 0.0, why_not,
    )  # fmt: skip


def correlation(mine: Sequence[float], rest: Sequence[float]) -> tuple[float | None, str]:
    """Pearson's correlation of an exercise's shares with the sums of the other exercises', or why there is none."""
    if len(mine) < FEWEST_LEARNERS:
        return None, f"fewer than {FEWEST_LEARNERS} learners"
    centre, other = mean(mine), mean(rest)
    if min(sum(x > centre for x in mine), sum(x < centre for x in mine)) < FEWEST_UNLIKE:
        return None, "nearly all did equally well"
    across = math.fsum((x - centre) * (y - other) for x, y in zip(mine, rest, strict=True))
    spread = math.fsum((x - centre) ** 2 for x in mine) * math.fsum((y - other) ** 2 for y in rest)
    if spread <= 1e-18:
        return None, "the other exercises are alike for all"
    return max(-1.0, min(1.0, across / math.sqrt(spread))), ""


def interval(r: float, count: int) -> tuple[float, float]:
    """The 95 % confidence interval of a correlation among `count` pairs (Fisher's transformation, 1921)."""
    centre, width = math.atanh(max(-0.999999, min(0.999999, r))), 1.96 / math.sqrt(count - 3)
    return math.tanh(centre - width), math.tanh(centre + width)


def _mistakes(exercises: dict[str, list[Row]]) -> list[MistakeCount]:
    """Most frequent first. Mistakes made together count as each of them."""
    found: list[MistakeCount] = []
    for exercise, rows in exercises.items():
        made: dict[str, list[Row]] = defaultdict(list)
        wrong = [row for row in rows if row.status not in ("passed", "unattempted", "tampered")]
        for row in wrong:
            for name in filter(None, row.misconception.split("+")):
                made[name].append(row)
        found += [MistakeCount(exercise, m, len(who), len(who) / len(wrong), tuple(who)) for m, who in made.items()]
    return sorted(found, key=lambda m: (-m.count, m.exercise, m.name))


def _unexplained(exercises: dict[str, list[Row]]) -> list[Row]:
    wrong = (row for rows in exercises.values() for row in rows if row.status in ("failed", "error"))
    return [row for row in wrong if not row.misconception]


def _troubles(exercises: dict[str, list[Row]]) -> list[Trouble]:
    return [
        Trouble(exercise, status, who)
        for status in TROUBLES
        for exercise, rows in exercises.items()
        if (who := tuple(row.student for row in rows if row.status == status))
    ]
