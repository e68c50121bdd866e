"""What a card shows besides the outcome: hints so far, the reference next to the answer, a warning."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torchcourse.checking import hints
from torchcourse.checking.answer_cell import cell_of, changed_since
from torchcourse.checking.cell_on_screen import script_for
from torchcourse.checking.references import Reference, reference
from torchcourse.checking.report import Report
from torchcourse.checking.run_record import RunRecord
from torchcourse.model.catalogue import UnknownExerciseError, find
from torchcourse.model.exercise import Exercise, InterviewQuestion
from torchcourse.workspace.standing import Standing, standing

__all__ = ["CardDetails", "card_details"]


@dataclass(frozen=True)
class CardDetails:
    """What a card shows besides the outcome; each part may be missing.

    Attributes:
        exercise: the exercise, if there is one of that name.
        offers_hints: whether hints are offered: as long as the answer is not right.
        hints: the hints that the learner has asked for so far.
        new_hint: whether they have just asked for the last of them.
        reference: the reference answer, if this installation has it.
        shows_reference: whether it is shown: after passing, or when asked for after all hints.
        answer: the source of the learner's answer, to show next to the reference.
        warning: a sentence if the checked cell has changed since it was run.
        interview: the question behind the exercise, with its answer, only after passing.
        standing: where the exercise stands in its lesson.
        record: what the answer printed, and where it raised.
        lesson: the lesson of the exercise.
        script: a script that tells when the cell on the screen has changed; not part of the card itself.
    """

    exercise: Exercise | None = None
    offers_hints: bool = False
    hints: tuple[str, ...] = ()
    new_hint: bool = False
    reference: Reference | None = None
    shows_reference: bool = False
    answer: str = ""
    warning: str = ""
    interview: InterviewQuestion | None = None
    standing: Standing | None = None
    record: RunRecord = field(default_factory=RunRecord)
    lesson: str = ""
    script: str = ""


def card_details(report: Report, answer: object, record: RunRecord | None = None) -> CardDetails:
    """Return the details to show with `report` on `answer`. Never raises."""
    details = CardDetails(record=record or RunRecord())
    try:
        lesson, exercise = find(report.exercise)
    except UnknownExerciseError:
        return details
    try:
        shown = reference(lesson, exercise.name)
        cell = cell_of(answer)
        details = replace(
            details, exercise=exercise, lesson=lesson, reference=shown, answer=cell if shown else "",
            script=script_for(cell),
            warning=changed_since(answer, exercise.name), standing=standing(exercise.name, report.passed),
        )  # fmt: skip
        if report.passed:
            return replace(details, shows_reference=True, interview=exercise.interview)
        asked = hints.asked(exercise)
        return replace(details, offers_hints=True, hints=asked, shows_reference=hints.asked_for_reference(exercise))
    except Exception:  # an answer can be any object, and inspecting one can raise anything
        return details
