"""Hints: three for each exercise, one more each time. Which were asked for is remembered while the kernel runs; it is
never held against anybody."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from torchcourse.exercise import Exercise

__all__ = ["asked", "button", "next_hint"]

_asked: dict[str, int] = {}
_buttons: dict[str, Any] = {}
"""The button of each exercise's latest card: an older one goes when the exercise is checked again."""


def asked(exercise: Exercise) -> tuple[str, ...]:
    """The hints of an exercise that were asked for so far."""
    return exercise.hints[: _asked.get(exercise.name, 0)]


def next_hint(exercise: Exercise) -> tuple[str, ...]:
    """Ask for one more; all that were asked for by then. After the last one it stays at all of them."""
    _asked[exercise.name] = min(_asked.get(exercise.name, 0) + 1, len(exercise.hints))
    return asked(exercise)


def button(exercise: Exercise, pressed: Callable[[], None]) -> dict[str, Any] | None:
    """What a notebook displays as the button for the next hint, None without ipywidgets.

    `pressed` is called after each press, when the hint counts as asked for.
    """
    try:
        widgets = import_module("ipywidgets")
        made = widgets.Button(description=_label(exercise), layout={"width": "auto"})
    except Exception:  # not installed, or in no state to be used: `hint` does the same
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
    """It stays a button that can be focused when nothing is left, so that a keyboard does not lose its place."""
    count, used = len(exercise.hints), len(asked(exercise))
    return f"Next hint ({used + 1} of {count})" if used < count else f"All {count} hints are shown above"
