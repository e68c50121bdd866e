"""The buttons below a card: next hint, check again, reset. `hint`, `check` and a command do the same."""

from __future__ import annotations

import html
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from torchcourse.checking import hints
from torchcourse.checking.answer_cell import is_saved, running_cell
from torchcourse.model.catalogue import find
from torchcourse.model.exercise import Exercise
from torchcourse.model.notebook_file import WorkspaceError
from torchcourse.workspace import session
from torchcourse.workspace.jupyter_settings import is_ours
from torchcourse.workspace.page_script import page_script
from torchcourse.workspace.reset import SetAside, reset

__all__ = ["card_buttons", "reset_here"]

SCRIPT = Path(__file__).with_name("reset_on_screen.js")
RELOAD = "When JupyterLab says that the file has changed, choose Revert; or choose File, Reload Notebook from Disk."
IN_TERMINAL = "The cell could not be reached: torchcourse reset {} {} resets it in the file."
"""What is said until the script has found the cell."""

_shown: dict[str, list[Any]] = {}
"""The widgets below the latest card of each exercise and cell; checking again there removes the older ones."""


def card_buttons(
    exercise: Exercise,
    has_reference: bool,
    *,
    more_hints: Callable[[], None] | None,
    again: Callable[[], bool] | None,
) -> dict[str, Any] | None:
    """Return the MIME bundle of the buttons below a card; None without ipywidgets.

    Args:
        exercise: the exercise that the card is about.
        has_reference: whether this installation has a reference to show.
        more_hints: shows the card with the hint that was just asked for; None if no hints are offered.
        again: checks the answer again, shows the outcome on the same card, and returns whether hints are offered.
    """
    try:
        widgets = import_module("ipywidgets")
        button = partial(widgets.Button, layout={"width": "auto"})
        made: list[Any] = []
        more = button(description=hints.label(exercise, has_reference))
        if more_hints is not None and hints.has_more(exercise, has_reference):

            def press(_: Any) -> None:
                hints.next_hint(exercise, has_reference)
                more.description = hints.label(exercise, has_reference)
                more_hints()

            more.on_click(press)
            made.append(more)
        if again is not None:
            repeat, restart = button(description="Check again"), button(description="Reset this exercise")
            repeat.on_click(lambda _: setattr(more.layout, "display", "" if again() else "none"))
            # a widget of its own: changing the card would leave unsaved changes, and saving them would undo the reset
            said = widgets.Output()
            restart.on_click(lambda _: setattr(said, "outputs", (_as_output(reset_here(exercise.name)),)))
            made += [repeat, restart, said]
        row = widgets.HBox(made, layout={"flex_flow": "row wrap"})
    except Exception:  # not installed, or not usable: the card says what to type
        return None
    place = f"{exercise.name} {running_cell()}".strip()
    for widget in _shown.pop(place, []):
        widget.close()
    _shown[place] = [*made, row]
    bundle: dict[str, Any] = row._repr_mimebundle_()
    return {**bundle, "text/plain": _calls(exercise, more in made)} if made else None


def _calls(exercise: Exercise, offers_hints: bool) -> str:
    """Return what to type in place of the buttons, for a program that does not show them."""
    more = "shows the next hint" if len(hints.asked(exercise)) < len(exercise.hints) else "shows the answer"
    lesson, _ = find(exercise.name)
    asking = f'hint("{exercise.name}") {more}, ' if offers_hints else ""
    return f'{asking}check("{exercise.name}") checks again, and torchcourse reset {lesson} {exercise.name} starts over.'


def reset_here(exercise: str) -> str:
    """Put an exercise of the running notebook back as it was released; return what happened, as HTML.

    In our JupyterLab a script puts the stub on the screen, and JupyterLab saves it; elsewhere the file is changed.
    """
    path = session.notebook_file()
    if path is None:
        return f"In a terminal, torchcourse reset NOTEBOOK {exercise} puts it back as it was released."
    try:
        if not is_saved(exercise, path):
            return "Save the notebook and press the button again: your answer is set aside as it is in the file."
        kept = reset(path, exercise, in_file=not is_ours())
    except (WorkspaceError, OSError) as error:
        return html.escape(str(error))
    if kept is None:
        return f"{exercise} is as it was released."
    where = html.escape(f"Your answer to {exercise} is in {kept.file.parent.name}/{kept.file.name}")
    if not is_ours():
        return f"{where}, and the cell is as it was released. {RELOAD}"
    return f"<span>{where}.<span> {IN_TERMINAL.format(path.name, exercise)}</span></span>{_script(kept)}"


def _script(kept: SetAside) -> str:
    now = round(1000 * time.time())  # as browsers count
    said = " The cell is as it was released."
    return page_script(SCRIPT, cell_id=kept.cell, source=kept.stub, said=said, reset_at=now)


def _as_output(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/html": text, "text/plain": text}, "metadata": {}}
