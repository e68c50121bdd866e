"""What stands on a card beside the outcome: hints that were asked for, the two answers, a word about the notebook."""

from __future__ import annotations

from dataclasses import dataclass

from torchcourse import hints
from torchcourse.exercise import Exercise, UnknownExerciseError, find
from torchcourse.references import Reference, reference
from torchcourse.reporting import Report
from torchcourse.working_copy import cell_of, changed_since

__all__ = ["Beside", "beside"]


@dataclass(frozen=True)
class Beside:
    """Everything may be missing: then a card is an outcome alone.

    `exercise` is there where hints are offered; `fresh` says that the last of `hints` has just been asked for.
    `reference` is there only after passing, `own` is the learner's text to stand beside it.
    """

    exercise: Exercise | None = None
    hints: tuple[str, ...] = ()
    fresh: bool = False
    reference: Reference | None = None
    own: str = ""
    note: str = ""


def beside(report: Report, answer: object, fresh: bool = False) -> Beside:
    """What there is to show beside `report` on `answer`."""
    try:
        lesson, exercise = find(report.exercise)
    except UnknownExerciseError:
        return Beside()
    try:
        note = changed_since(answer)
        if report.passed:
            found = reference(lesson, exercise.name)
            return Beside(reference=found, own=cell_of(answer) if found else "", note=note)
        return Beside(exercise, hints.asked(exercise), fresh, note=note)
    except Exception:  # an answer can be any object, and looking at one can raise anything
        return Beside()
