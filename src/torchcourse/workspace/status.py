"""A learner's progress, lesson by lesson: as a table for the terminal and as Markdown for the start page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from torchcourse.model import path
from torchcourse.model.lessons import Lesson, address, lessons
from torchcourse.workspace import progress

__all__ = ["LessonProgress", "as_markdown", "read_lesson_progress", "show"]


BAR = 12
"""Characters of a lesson's bar."""
TICKS = {progress.PASSED: "✓", progress.ATTEMPTED: "·", progress.OPEN: "○"}


@dataclass(frozen=True)
class LessonProgress:
    """Where each exercise of a lesson stands: passed, attempted but not passed, or neither (`open`)."""

    lesson: Lesson
    states: tuple[str, ...]

    @property
    def passed(self) -> int:
        return self.states.count(progress.PASSED)

    @property
    def attempted(self) -> int:
        return self.states.count(progress.ATTEMPTED)

    @property
    def open(self) -> int:
        return self.states.count(progress.OPEN)


def read_lesson_progress(folder: Path) -> list[LessonProgress]:
    """Return the learner's standing in each lesson, as recorded in the working copy `folder`.

    Raises:
        OSError: if the record cannot be read.
    """
    recorded = progress.read(folder)
    every = lessons()
    return [LessonProgress(x, tuple(recorded.get(name, progress.OPEN) for name in x.exercises)) for x in every]


def show(standings: list[LessonProgress], console: Console) -> None:
    """Print the standings: a table on a terminal, columns of plain text elsewhere."""
    if not console.is_terminal:
        width = max(len(s.lesson.name) for s in standings)
        console.out(f"{'lesson':<{width}}  passed  attempted  open", highlight=False)
        for s in standings:
            line = f"{s.lesson.name:<{width}}  {s.passed:>6}  {s.attempted:>9}  {s.open:>4}"
            console.out(line, highlight=False)
        return
    table = Table("lesson", "passed", "attempted", "open", header_style="bold", show_footer=True)
    for column in table.columns[1:]:
        column.justify = "right"
    for s in standings:
        counts = (str(number) if number else "" for number in (s.passed, s.attempted, s.open))
        table.add_row(s.lesson.name, *counts)
    totals = [sum(s.passed for s in standings), sum(s.attempted for s in standings), sum(s.open for s in standings)]
    for column, total in zip(table.columns, ["all", *map(str, totals)], strict=True):
        column.footer = total
    console.print(table)


def as_markdown(standings: list[LessonProgress]) -> str:
    """Return what comes next, and the standings as a table with links, for a notebook in the same folder."""
    by_name = {s.lesson.name: s for s in standings}
    lines = [
        _next_exercise(standings),
        "",
        "| lesson | needs | takes about | passed | exercises |",
        "|:--|:--|:--|:--|:--|",
    ]
    for stage, names in path.stages(by_name).items():
        lines.append(f"| **{stage}** | | | | |")
        for name in names:
            s = by_name[name]
            link = f"[{s.lesson.title}]({name}.ipynb)"
            after = path.numbers(path.needs(name, by_name))
            lines.append(f"| {link} | {after} | {s.lesson.duration} | {_bar(s)} | {_ticks(s)} |")
    return "\n".join([*lines, "", "✓ passed, · attempted, ○ open: each is a link to its exercise."])


def _bar(standing: LessonProgress) -> str:
    """Return a bar of text, which every theme and an untrusted notebook show; "" for a lesson without exercises."""
    count = len(standing.states)
    if not count:
        return ""
    full = BAR * standing.passed // count
    return f"{'■' * full}{'□' * (BAR - full)} {standing.passed} of {count}"


def _ticks(standing: LessonProgress) -> str:
    """Return a mark for each exercise, which links to it and names it."""
    lesson = standing.lesson
    pairs = zip(lesson.exercises, standing.states, strict=True)
    return " ".join(f'[{TICKS[state]}]({address(lesson.name, name)} "{name}: {state}")' for name, state in pairs)


def _next_exercise(standings: list[LessonProgress]) -> str:
    """Return where to go on: the first exercise left in the lesson that was begun, or in the first one left."""
    unfinished = [s for s in standings if s.attempted + s.open]
    begun = [s for s in unfinished if s.passed + s.attempted]
    if not unfinished:
        return "You have passed every exercise."
    lesson, states = (begun or unfinished)[0].lesson, (begun or unfinished)[0].states
    title = f"[{lesson.title}]({lesson.name}.ipynb)"
    if not begun:
        return f"Begin with {title}."
    name = next(n for n, state in zip(lesson.exercises, states, strict=True) if state != progress.PASSED)
    return f"Continue with [{name}]({address(lesson.name, name)}) in {title}."
