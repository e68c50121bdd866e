"""What a card shows besides the outcome: hints so far, the reference next to the answer, a warning."""

from __future__ import annotations

from dataclasses import dataclass

from torchcourse.checking import hints
from torchcourse.checking.answer_cell import cell_of, changed_since
from torchcourse.checking.references import Reference, reference
from torchcourse.checking.report import Report
from torchcourse.model.catalogue import UnknownExerciseError, find
from torchcourse.model.exercise import Exercise, Spoken

__all__ = ["CardDetails", "card_details"]


@dataclass(frozen=True)
class CardDetails:
    """What a card shows besides the outcome; each part may be missing.

    Attributes:
        exercise: the exercise, if hints are offered.
        hints: the hints that the learner has asked for so far.
        new_hint: whether they have just asked for the last of them.
        reference: the reference answer, only after passing.
        answer: the source of the learner's answer, to show next to the reference.
        warning: a sentence if the checked cell has changed since it was run.
        spoken: the question behind the exercise, with its answer, only after passing.
    """

    exercise: Exercise | None = None
    hints: tuple[str, ...] = ()
    new_hint: bool = False
    reference: Reference | None = None
    answer: str = ""
    warning: str = ""
    spoken: Spoken | None = None


def card_details(report: Report, answer: object) -> CardDetails:
    """Return the details to show with `report` on `answer`. Never raises."""
    try:
        lesson, exercise = find(report.exercise)
    except UnknownExerciseError:
        return CardDetails()
    try:
        warning = changed_since(answer)
        if report.passed:
            shown = reference(lesson, exercise.name)
            own = cell_of(answer) if shown else ""
            return CardDetails(reference=shown, answer=own, spoken=exercise.spoken, warning=warning)
        return CardDetails(exercise, hints.asked(exercise), warning=warning)
    except Exception:  # an answer can be any object, and inspecting one can raise anything
        return CardDetails()
