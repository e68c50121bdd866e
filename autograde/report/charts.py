"""Draw charts of a class as inline SVG, whose text stays text and takes the colour of the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import matplotlib
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from autograde.files import digest
from autograde.judge.verdict import clean
from autograde.report.item_statistics import ItemStatistics, LessonStatistics
from autograde.results.submission_times import HandedIn
from torchcourse.model.catalogue import in_order

__all__ = ["outcomes", "scores", "times"]

INK = "#010203"
"""A placeholder, replaced by the colour of the page's text."""
GOOD, HALF, BAD, NEW = "#009e73", "#e69f00", "#d55e00", "#0072b2"  # Okabe and Ito's palette for the colour-blind
PARTS = {"right": GOOD, "right on the CPU alone": HALF, "not right": BAD, "not attempted": NEW}
MAX_BINS = 24
DAY, YEAR = timedelta(days=1), timedelta(days=366)
MAX_LABEL_LENGTH = 40
STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "torchcourse", "font.family": "sans-serif", "font.size": 10,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "text.parse_math": False,
}  # fmt: skip


def scores(lesson: LessonStatistics) -> Markup:
    """Draw a histogram of learners' points in a lesson."""
    bins = max(1, min(MAX_BINS, round(lesson.max_score)))
    top = max([lesson.max_score, *lesson.totals, 1e-9])
    bottom = min([0.0, *lesson.totals])

    def draw(axes: Axes) -> None:
        axes.hist(lesson.totals, bins=bins, range=(bottom, top), color=GOOD, rwidth=0.9)
        axes.set_xlabel(f"points, of {lesson.max_score:g}")
        axes.set_ylabel("learners")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))

    who = "1 learner" if len(lesson.totals) == 1 else f"{len(lesson.totals)} learners"
    alt = (
        f"Histogram of the points of {who}: from {min(lesson.totals, default=0):g} to "
        f"{max(lesson.totals, default=0):g} of {lesson.max_score:g}, half of them at least {lesson.median:g}."
    )
    return _figure(f"scores {lesson.lesson}", draw, 3.0, alt)


def outcomes(lesson: LessonStatistics) -> Markup:
    """Draw bars for each exercise: learners right, right on the CPU alone, not right, and not attempted."""
    items = lesson.items

    def draw(axes: Axes) -> None:
        left = [0] * len(items)
        for (label, colour), counts in zip(PARTS.items(), _parts(items), strict=True):
            axes.barh(range(len(items)), counts, left=left, color=colour, label=label, height=0.7)
            left = [a + b for a, b in zip(left, counts, strict=True)]
        axes.set_yticks(range(len(items)), [_short(item.exercise) for item in items])
        axes.invert_yaxis()
        axes.set_xlabel("learners")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, borderpad=0)

    counts = "; ".join(f"{_short(i.exercise)} {i.passed} of {i.learners} right" for i in items)
    alt = f"Bars of outcomes by exercise: {counts}."
    return _figure(f"outcomes {lesson.lesson}", draw, 0.9 + 0.3 * len(items), alt)


def times(handed_in: Sequence[HandedIn]) -> Markup:
    """Draw how many learners had handed in each lesson, over time, and when it was due."""
    lessons = in_order({one.lesson for one in handed_in})
    by_lesson = {lesson: sorted(one.time for one in handed_in if one.lesson == lesson) for lesson in lessons}
    first, last = min(one.time for one in handed_in), max(one.time for one in handed_in)
    due = {one.lesson: one.due for one in handed_in if one.due and first - YEAR <= one.due <= last + YEAR}

    def draw(axes: Axes) -> None:
        for place, (lesson, seen) in enumerate(by_lesson.items()):
            colour, line = f"C{place % 10}", "-" if place < 10 else "--"
            counts = range(1, len(seen) + 1)
            axes.plot(seen, counts, line, color=colour, drawstyle="steps-post", marker=".", label=_short(lesson))  # type: ignore[arg-type]
            if lesson in due:
                axes.axvline(due[lesson], color=colour, linestyle=":")  # type: ignore[arg-type]
        axes.set_ylim(bottom=0)
        axes.set_xlim(min([first, *due.values()]) - DAY, max([last, *due.values()]) + DAY)  # type: ignore[arg-type]
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.set_ylabel("learners who handed in")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, title="dotted: due" if due else None)

    described = [
        f"{_short(lesson)} {len(seen)}, from {seen[0]:%Y-%m-%d} to {seen[-1]:%Y-%m-%d}"
        + (f", due {due[lesson]:%Y-%m-%d}" if lesson in due else "")
        for lesson, seen in by_lesson.items()
    ]
    alt = f"Learners who handed in, over time: {'; '.join(described)}."
    return _figure("times", draw, max(2.6, 0.24 * len(lessons)), alt)


def _parts(items: Sequence[ItemStatistics]) -> list[list[int]]:
    wrong = [i.attempted - i.passed - i.half for i in items]
    return [[i.passed for i in items], [i.half for i in items], wrong, [i.learners - i.attempted for i in items]]


def _short(text: str) -> str:
    text = clean(text)
    return text if len(text) <= MAX_LABEL_LENGTH else text[: MAX_LABEL_LENGTH - 1] + "…"


def _figure(name: str, draw: Callable[[Axes], None], height: float, alt: str) -> Markup:
    """Return a figure of `height` inches; `name`, unique on the page, makes the ids in the figure unique."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # names may have letters that the font lacks
        figure = Figure(figsize=(8.4, height), layout="constrained")
        draw(figure.add_subplot())
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Type": None,
                                                                       "Format": None})  # fmt: skip
    svg = file.getvalue()[file.getvalue().index("<svg") :].replace(INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>p{digest(name)[:8]}-", svg)
    svg = svg.replace("<svg ", '<svg aria-hidden="true" ', 1)
    return Markup(f'<figure role="img" aria-label="{escape(alt)}">{svg}</figure>')
