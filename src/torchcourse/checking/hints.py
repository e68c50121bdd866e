"""Give an exercise's three hints one at a time, and then its answer.

The kernel remembers what was shown, and the progress file that an answer was; grading uses neither.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from torchcourse.model.exercise import Exercise
from torchcourse.workspace.progress import record_answer_shown

__all__ = ["asked", "asked_for_answer", "button", "is_more_left", "next_hint"]

_asked: dict[str, int] = {}
"""How often each exercise was asked for a hint; once more than it has hints, and its answer is asked for."""
_buttons: dict[str, Any] = {}
"""The button of each exercise's latest card; checking again removes the older one."""


def asked(exercise: Exercise) -> tuple[str, ...]:
    """Return the hints of an exercise that the learner has asked for so far."""
    return exercise.hints[: _asked.get(exercise.name, 0)]


def asked_for_answer(exercise: Exercise) -> bool:
    """Return whether the learner has asked for the answer of an exercise, after all of its hints."""
    return _asked.get(exercise.name, 0) > len(exercise.hints)


def is_more_left(exercise: Exercise, has_answer: bool) -> bool:
    """Return whether there is a hint, or else an answer, that the learner has not asked for yet."""
    return _asked.get(exercise.name, 0) < len(exercise.hints) + has_answer


def next_hint(exercise: Exercise, has_answer: bool = False) -> tuple[str, ...]:
    """Return the hints so far and the next one, if there is another; after the last one, count the answer as shown.

    Args:
        exercise: the exercise.
        has_answer: whether this installation has an answer to show.
    """
    most = len(exercise.hints) + has_answer
    _asked[exercise.name] = min(_asked.get(exercise.name, 0) + 1, most)
    if asked_for_answer(exercise):
        record_answer_shown(exercise.name)
    return asked(exercise)


def button(exercise: Exercise, has_answer: bool, pressed: Callable[[], None]) -> dict[str, Any] | None:
    """Return the MIME bundle of a button for the next hint, and then the answer; None without ipywidgets.

    Args:
        exercise: the exercise whose hints it gives.
        has_answer: whether this installation has an answer to show.
        pressed: called after each press, when the hint already counts as asked for.
    """
    try:
        widgets = import_module("ipywidgets")
        made = widgets.Button(description=_label(exercise, has_answer), layout={"width": "auto"})
    except Exception:  # not installed, or not usable: `hint` does the same
        return None

    def press(_: object) -> None:
        next_hint(exercise, has_answer)
        made.description = _label(exercise, has_answer)
        pressed()

    made.on_click(press)
    if exercise.name in _buttons:
        _buttons.pop(exercise.name).close()
    _buttons[exercise.name] = made
    shown: dict[str, Any] = made._repr_mimebundle_()
    return {**shown, "text/plain": f'hint("{exercise.name}") shows the next hint.'}


def _label(exercise: Exercise, has_answer: bool) -> str:
    # The button stays when no hint is left and can have the focus, so keyboard users do not lose their place.
    count, used = len(exercise.hints), len(asked(exercise))
    if used < count:
        return f"Next hint ({used + 1} of {count})"
    if asked_for_answer(exercise):
        return "The answer is shown above"
    return "Show the answer" if has_answer else f"All {count} hints are shown above"
