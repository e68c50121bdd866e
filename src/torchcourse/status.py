"""How far a learner is, lesson by lesson: for the terminal and for the start page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from torchcourse import progress
from torchcourse.lessons import Lesson, lessons

__all__ = ["Standing", "as_markdown", "show", "standings"]


@dataclass(frozen=True)
class Standing:
    """How many exercises of a lesson have been passed, attempted but not passed, and neither."""

    lesson: Lesson
    passed: int
    attempted: int
    open: int

    @property
    def next(self) -> bool:
        """Whether something is left to do."""
        return self.passed < len(self.lesson.exercises)


def standings(desk: Path) -> list[Standing]:
    """How far the learner of the working copy `desk` is in each lesson.

    Raises:
        OSError: when what is noted there cannot be read.
    """
    noted = progress.read(desk)
    return [_standing(lesson, noted) for lesson in lessons()]


def _standing(lesson: Lesson, noted: Mapping[str, str]) -> Standing:
    states = [noted.get(exercise, progress.OPEN) for exercise in lesson.exercises]
    return Standing(lesson, *(states.count(s) for s in (progress.PASSED, progress.ATTEMPTED, progress.OPEN)))


def show(found: list[Standing], console: Console) -> None:
    """Print the standings: a table on a terminal, columns of plain text elsewhere."""
    if not console.is_terminal:
        wide = max(len(s.lesson.name) for s in found)
        console.out(f"{'lesson':<{wide}}  passed  attempted  open", highlight=False)
        for s in found:
            line = f"{s.lesson.name:<{wide}}  {s.passed:>6}  {s.attempted:>9}  {s.open:>4}"
            console.out(line, highlight=False)
        return
    table = Table("lesson", "passed", "attempted", "open", header_style="bold", show_footer=True)
    for column in table.columns[1:]:
        column.justify = "right"
    for s in found:
        counts = (str(number) if number else "" for number in (s.passed, s.attempted, s.open))
        table.add_row(s.lesson.name, *counts)
    totals = [sum(s.passed for s in found), sum(s.attempted for s in found), sum(s.open for s in found)]
    for column, total in zip(table.columns, ["all", *map(str, totals)], strict=True):
        column.footer = total
    console.print(table)


def as_markdown(found: list[Standing]) -> str:
    """The standings as a table with links to the notebooks, for a notebook that lies beside them."""
    lines = ["| lesson | takes about | exercises | passed | attempted | open |", "|:--|:--|--:|--:|--:|--:|"]
    for s in found:
        link = f"[{s.lesson.title}]({s.lesson.name}.ipynb)"
        counts = (len(s.lesson.exercises), s.passed, s.attempted, s.open)
        lines.append(f"| {link} | {s.lesson.takes} | {' | '.join(map(str, counts))} |")
    return "\n".join([*lines, "", _where_to_go_on(found)])


def _where_to_go_on(found: list[Standing]) -> str:
    begun = [s for s in found if s.next and s.passed + s.attempted]
    coming = begun[0] if begun else next((s for s in found if s.next), None)
    if coming is None:
        return "Every exercise is passed."
    words = "Go on with" if begun else "Begin with"
    return f"{words} [{coming.lesson.title}]({coming.lesson.name}.ipynb)."
