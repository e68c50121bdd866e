"""Give an exercise's three hints one at a time, and then its answer.

The kernel remembers which hints were shown, and the progress file that an answer was shown; grading uses neither.
"""

from __future__ import annotations

from torchcourse.model.exercise import Exercise
from torchcourse.workspace.progress import record_reference_shown

__all__ = ["asked", "asked_for_reference", "has_more", "label", "next_hint"]

_asked: dict[str, int] = {}
"""How many hints of each exercise were asked for; one more than it has means that its answer was."""


def asked(exercise: Exercise) -> tuple[str, ...]:
    """Return the hints of an exercise that the learner has asked for so far."""
    return exercise.hints[: _asked.get(exercise.name, 0)]


def asked_for_reference(exercise: Exercise) -> bool:
    """Return whether the learner has asked for the answer of an exercise, after all of its hints."""
    return _asked.get(exercise.name, 0) > len(exercise.hints)


def has_more(exercise: Exercise, has_reference: bool) -> bool:
    """Return whether there is a hint, or else an answer, that the learner has not asked for yet."""
    return _asked.get(exercise.name, 0) < len(exercise.hints) + has_reference


def next_hint(exercise: Exercise, has_reference: bool = False) -> tuple[str, ...]:
    """Return the hints so far and the next one, if there is another; after the last one, count the answer as shown.

    Args:
        exercise: the exercise.
        has_reference: whether this installation has a reference to show.
    """
    most = len(exercise.hints) + has_reference
    _asked[exercise.name] = min(_asked.get(exercise.name, 0) + 1, most)
    if asked_for_reference(exercise):
        record_reference_shown(exercise.name)
    return asked(exercise)


def label(exercise: Exercise, has_reference: bool) -> str:
    """Return the words on the button for hints."""
    # The button stays when no hint is left and can have the focus, so keyboard users do not lose their place.
    count, used = len(exercise.hints), len(asked(exercise))
    if used < count:
        return f"Next hint ({used + 1} of {count})"
    if asked_for_reference(exercise):
        return "The answer is shown above"
    return "Show the answer" if has_reference else f"All {count} hints are shown above"
