"""Give an exercise's three hints one at a time. The kernel remembers which were shown; grading does not use that."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from torchcourse.model.exercise import Exercise

__all__ = ["asked", "button", "next_hint"]

_asked: dict[str, int] = {}
_buttons: dict[str, Any] = {}
"""The button of each exercise's latest card; checking again removes the older one."""


def asked(exercise: Exercise) -> tuple[str, ...]:
    """Return the hints of an exercise that the learner has asked for so far."""
    return exercise.hints[: _asked.get(exercise.name, 0)]


def next_hint(exercise: Exercise) -> tuple[str, ...]:
    """Return the hints so far and the next one, if there is another."""
    _asked[exercise.name] = min(_asked.get(exercise.name, 0) + 1, len(exercise.hints))
    return asked(exercise)


def button(exercise: Exercise, pressed: Callable[[], None]) -> dict[str, Any] | None:
    """Return the MIME bundle of a button for the next hint; None without ipywidgets.

    Args:
        exercise: the exercise whose hints it gives.
        pressed: called after each press, when the hint already counts as asked for.
    """
    try:
        widgets = import_module("ipywidgets")
        made = widgets.Button(description=_label(exercise), layout={"width": "auto"})
    except Exception:  # not installed, or not usable: `hint` does the same
        return None

    def press(_: object) -> None:
        next_hint(exercise)
        made.description = _label(exercise)
        pressed()

    made.on_click(press)
    if exercise.name in _buttons:
        _buttons.pop(exercise.name).close()
    _buttons[exercise.name] = made
    shown: dict[str, Any] = made._repr_mimebundle_()
    return {**shown, "text/plain": f'hint("{exercise.name}") shows the next hint.'}


def _label(exercise: Exercise) -> str:
    # The button stays when no hint is left and can have the focus, so keyboard users do not lose their place.
    count, used = len(exercise.hints), len(asked(exercise))
    return f"Next hint ({used + 1} of {count})" if used < count else f"All {count} hints are shown above"
