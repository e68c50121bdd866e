"""A learner's progress, lesson by lesson: as a table for the terminal and as Markdown for the start page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from torchcourse.model import path
from torchcourse.model.lessons import Lesson, lessons
from torchcourse.workspace import progress

__all__ = ["Standing", "as_markdown", "show", "standings"]


@dataclass(frozen=True)
class Standing:
    """The number of exercises of a lesson that are passed, attempted but not passed, and neither (`open`)."""

    lesson: Lesson
    passed: int
    attempted: int
    open: int


def standings(folder: Path) -> list[Standing]:
    """Return the learner's standing in each lesson, as recorded in the working copy `folder`.

    Raises:
        OSError: if the record cannot be read.
    """
    recorded = progress.read(folder)
    counted = []
    for lesson in lessons():
        states = [recorded.get(exercise, progress.OPEN) for exercise in lesson.exercises]
        counts = (states.count(state) for state in (progress.PASSED, progress.ATTEMPTED, progress.OPEN))
        counted.append(Standing(lesson, *counts))
    return counted


def show(standings: list[Standing], console: Console) -> None:
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


def as_markdown(standings: list[Standing]) -> str:
    """Return the standings as a table with links to the notebooks, for a notebook in the same folder."""
    by_name = {s.lesson.name: s for s in standings}
    head = "| lesson | needs | takes about | exercises | passed | attempted | open |"
    lines = [head, "|:--|:--|:--|--:|--:|--:|--:|"]
    for stage, names in path.stages(by_name).items():
        lines.append(f"| **{stage}** | | | | | | |")
        for name in names:
            s = by_name[name]
            link = f"[{s.lesson.title}]({name}.ipynb)"
            after = path.numbers(path.needs(name, by_name))
            counts = (len(s.lesson.exercises), s.passed, s.attempted, s.open)
            lines.append(f"| {link} | {after} | {s.lesson.duration} | {' | '.join(map(str, counts))} |")
    return "\n".join([*lines, "", _next_lesson(standings)])


def _next_lesson(standings: list[Standing]) -> str:
    unfinished = [s for s in standings if s.attempted + s.open]
    begun = [s for s in unfinished if s.passed + s.attempted]
    if not unfinished:
        return "You have passed every exercise."
    words, lesson = ("Continue with", begun[0].lesson) if begun else ("Begin with", unfinished[0].lesson)
    return f"{words} [{lesson.title}]({lesson.name}.ipynb)."
