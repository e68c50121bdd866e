"""What a card shows besides the outcome: hints so far, the reference next to the answer, a warning."""

from __future__ import annotations

from dataclasses import dataclass

from torchcourse.checking import hints
from torchcourse.checking.answer_cell import cell_of, changed_since
from torchcourse.checking.references import Reference, reference
from torchcourse.checking.report import Report
from torchcourse.model.catalogue import UnknownExerciseError, find
from torchcourse.model.exercise import Exercise, Spoken
from torchcourse.workspace.place import Place, place

__all__ = ["CardDetails", "card_details"]


@dataclass(frozen=True)
class CardDetails:
    """What a card shows besides the outcome; each part may be missing.

    Attributes:
        exercise: the exercise, if hints are offered.
        hints: the hints that the learner has asked for so far.
        new_hint: whether they have just asked for the last of them.
        reference: the reference answer, if this installation has it.
        shows_reference: whether it is shown: after passing, or when asked for after all hints.
        answer: the source of the learner's answer, to show next to the reference.
        warning: a sentence if the checked cell has changed since it was run.
        spoken: the question behind the exercise, with its answer, only after passing.
        place: where the exercise stands in its lesson, only after passing.
    """

    exercise: Exercise | None = None
    hints: tuple[str, ...] = ()
    new_hint: bool = False
    reference: Reference | None = None
    shows_reference: bool = False
    answer: str = ""
    warning: str = ""
    spoken: Spoken | None = None
    place: Place | None = None


def card_details(report: Report, answer: object) -> CardDetails:
    """Return the details to show with `report` on `answer`. Never raises."""
    try:
        lesson, exercise = find(report.exercise)
    except UnknownExerciseError:
        return CardDetails()
    try:
        warning = changed_since(answer)
        shown = reference(lesson, exercise.name)
        own = cell_of(answer) if shown else ""
        if report.passed:
            where = place(exercise.name)
            return CardDetails(None, (), False, shown, True, own, warning, exercise.spoken, where)
        asked = hints.asked(exercise)
        return CardDetails(exercise, asked, False, shown, hints.asked_for_answer(exercise), own, warning)
    except Exception:  # an answer can be any object, and inspecting one can raise anything
        return CardDetails()
