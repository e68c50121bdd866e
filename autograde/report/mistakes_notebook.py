"""Make a notebook of a class's most frequent mistakes, to go through them in front of the class.

It names nobody, and runs nothing of what learners wrote: their answers are quoted as text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import nbformat

from autograde.judge.verdict import printable
from autograde.report.class_report import ShownMistake, answers_of, shown_mistake
from autograde.report.enrolled import Roster
from autograde.report.item_statistics import MistakeCount, lesson_statistics
from autograde.report.mistake_card import mistake_card
from autograde.results.grades_table import read_table
from autograde.results.lesson_sections import section
from autograde.source.private_half import private_half
from autograde.source.release import load_release
from torchcourse.model.catalogue import LESSONS

__all__ = ["mistakes_notebook"]

MAX_MISTAKES = 10
INTRODUCTION = """# {title}

The answers are learners' own, laid out anew, without comments and names; read them before you show them. The cell
below each takes an answer that you write together, and checks it."""


def mistakes_notebook(
    out: Path, lessons: Collection[str] = (), since: date | None = None, recent: Collection[tuple[str, str]] = (),
    roster: Roster | None = None,
) -> str:  # fmt: skip
    """Return a notebook of the most frequent mistakes in the results in a folder.

    Args:
        lessons: the lessons to look at; all, if none is given.
        since: count only what was handed in on this day or later.
        recent: student and lesson of what was handed in since then; needed with `since`.
        roster: the students of the class, if it has a roster: answers are shown without their names.

    Raises:
        BadTableError: when there is no grades.csv in `out`, or it is no table of grades.
    """
    rows = [row for row in read_table(out / "grades.csv").rows if row.lesson in (lessons or LESSONS)]
    if since:
        rows = [row for row in rows if (row.student, row.lesson) in recent]
    counted = [(one.lesson, mistake) for one in lesson_statistics(rows) for mistake in one.mistakes]
    counted = [(lesson, mistake) for lesson, mistake in counted if mistake.exercise in load_release(lesson).exercises]
    chosen = sorted(counted, key=lambda found: (-found[1].count, -found[1].of_wrong))[:MAX_MISTAKES]
    answers = answers_of(out / "autograded", rows)
    title = "One mistake of this class" if len(chosen) == 1 else f"{len(chosen) or 'No'} mistakes of this class"
    title += f" since {since}" if since else ""
    cells = [nbformat.v4.new_markdown_cell(INTRODUCTION.format(title=title), id="introduction")]
    for lesson in dict.fromkeys(lesson for lesson, _ in chosen):
        setup = enumerate(_setup(lesson))
        cells += [nbformat.v4.new_code_cell(source, id=f"setup-{lesson}-{n}") for n, source in setup]
    for number, (lesson, mistake) in enumerate(chosen, 1):
        shown = shown_mistake(mistake, answers.get(lesson, {}), roster or {})
        card = mistake_card(mistake.exercise, mistake.name)
        if shown.message in card.get("text/plain", ""):
            shown = replace(shown, message="")
        text = _described(number, lesson, mistake, shown)
        cells.append(nbformat.v4.new_markdown_cell(text, id=f"mistake-{number}"))
        if card:
            cells.append(_card(number, f"show_mistake({mistake.exercise!r}, {mistake.name!r})", card))
        cells.append(nbformat.v4.new_code_cell(_stub(lesson, mistake.exercise), id=f"answer-{number}"))
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    text = nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}))
    return f"{text}\n"


def _described(number: int, lesson: str, mistake: MistakeCount, shown: ShownMistake) -> str:
    """Return what the notebook says about a mistake, as Markdown in which nothing of a learner's acts."""
    learners = "1 learner" if mistake.count == 1 else f"{mistake.count} learners"
    parts = [f"## {number}. {_plain(mistake.name)}\n\n{learners}, in `{mistake.exercise}` of lesson {lesson[:2]}"
             f" ({100 * mistake.of_wrong:.0f} % of those who were wrong)"]  # fmt: skip
    if shown.examples:
        fence = "`" * (1 + max(map(len, re.findall("`+", shown.examples[0])), default=2))
        parts.append(f"{fence}python\n{shown.examples[0]}\n{fence}")
    if shown.message:
        parts.append(f"> {_plain(shown.message)}")
    heading = next((m.section for m in private_half(lesson, mistake.exercise).mistakes if m.name == mistake.name), "")
    prose = section(load_release(lesson), heading) if heading else ""
    if prose:
        unbroken = re.sub(r"\n\n+", "\n&#10;", prose)  # an empty line would end the HTML
        parts.append(f"<details><summary>Read again: {heading}</summary>\n{unbroken}\n</details>")
    return "\n\n".join(parts)


def _card(number: int, call: str, card: dict[str, str]) -> Any:
    """Return a cell with the card that a mistake gets in the notebook; `call` shows it again."""
    return nbformat.v4.new_code_cell(
        f"from autograde.report.mistake_card import show_mistake\n\n{call}", id=f"card-{number}",
        outputs=[nbformat.v4.new_output("display_data", card)], metadata={"jupyter": {"source_hidden": True}},
    )  # fmt: skip


def _plain(text: str) -> str:
    """Return a learner's text as Markdown that shows it as it is, with `code` as code."""
    parts = re.split(r"(`[^`]+`)", " ".join(printable(text).split()))
    return "".join(p if place % 2 else re.sub(r"([^\w\s])", r"\\\1", p) for place, p in enumerate(parts))


def _setup(lesson: str) -> list[str]:
    """Return the cells of a lesson that import what its answers need."""
    cells = load_release(lesson).notebook["cells"]
    return ["".join(cell["source"]) for cell in cells if "setup" in cell["metadata"].get("tags", ())]


def _stub(lesson: str, exercise: str) -> str:
    return f'{load_release(lesson).cells[exercise].source.rstrip()}\n\n\ncheck("{exercise}")'
