"""The quizzes to try again: those that went wrong on an earlier day, by the record of progress and nothing else.

The record has a line for each step forward. A quiz that was wrong before it was right has two since it was last
reset, "attempted" and "passed"; one that was right at once has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

from torchcourse.model.lessons import Lesson, address
from torchcourse.workspace import progress

__all__ = ["QUIZZES", "DueQuiz", "as_markdown", "find_due"]

QUIZZES = "15_quizzes"
DAYS = {progress.ATTEMPTED: 1, progress.PASSED: 3}
"""After how many days a quiz that went wrong is offered again: while it is not passed, and once it is."""
MAX_OFFERED = 4
"""How many are offered at a time: as many as fit into a break."""


@dataclass(frozen=True)
class DueQuiz:
    """A quiz to try again: how many days ago it was last recorded, and whether it was passed then."""

    exercise: str
    days: int
    passed: bool


def find_due(folder: Path, lessons: tuple[Lesson, ...], today: date) -> list[DueQuiz]:
    """Return the quizzes that are due in the working copy `folder`, those that have waited longest first.

    Raises:
        OSError: if the record cannot be read.
    """
    quizzes = {name for lesson in lessons if lesson.name == QUIZZES for name in lesson.exercises}
    rounds: dict[str, list[progress.Step]] = {}
    for step in progress.steps(folder):
        if step.state == progress.OPEN:
            rounds[step.exercise] = []
        elif step.exercise in quizzes:
            rounds.setdefault(step.exercise, []).append(step)
    due = [_due(steps, today) for steps in rounds.values()]
    return sorted(filter(None, due), key=lambda one: (-one.days, one.exercise))


def _due(steps: list[progress.Step], today: date) -> DueQuiz | None:
    """Return the offer after the steps since the last reset; None if the quiz was never wrong, or it is early."""
    if all(step.state != progress.ATTEMPTED for step in steps):
        return None
    last = steps[-1]
    passed = any(step.state == progress.PASSED for step in steps)
    days = (today - last.day).days
    return DueQuiz(last.exercise, days, passed) if days >= DAYS[progress.PASSED if passed else last.state] else None


def as_markdown(due: list[DueQuiz]) -> str:
    """Return the offer as Markdown, with links for a notebook in the same folder; "" if none is due."""
    if not due:
        return ""
    lines = ["**Quizzes to try again**, because an earlier answer was wrong:", ""]
    for one in due[:MAX_OFFERED]:
        link = f"[{one.exercise}]({address(QUIZZES, one.exercise)})"
        when = "yesterday" if one.days == 1 else f"{one.days} days ago"
        lines.append(f"- {link}, {'right at last' if one.passed else 'last wrong'} {when}")
    first = next((one.exercise for one in due[:MAX_OFFERED] if one.passed), "")
    reset = f"In a terminal, `torchcourse reset {QUIZZES} {first}` empties a cell and keeps what was in it in `aside/`."
    return "\n".join([*lines, "", reset] if first else lines)
