"""A picture with controls: it follows them while a kernel listens, and stays as it is where none does.

The controls are widgets; the picture beneath them is an ordinary output that each change replaces. So a saved
notebook, a page without a kernel or an installation without ipywidgets still shows the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from torchcourse.demos.style import Picture


def optional(name: str) -> Any:
    """Import a module; return None on a machine without Jupyter, where pictures can still be made."""
    try:
        return import_module(name)
    except ImportError:
        return None


ipywidgets, notebook = optional("ipywidgets"), optional("IPython.display")

TRACK, READOUT, LETTER = 200, 120, 8
"""Widths in pixels: of a slider's track, of the number beside it and the gaps, and of a letter of its label."""

Control = Sequence[str] | range | str
"""The values of a control: a list of strings is a menu, a range a slider, a string a text field."""


def first_value(control: Control) -> str | int:
    """Return the initial value of a control."""
    return control if isinstance(control, str) else control[0]


def widget_for(name: str, control: Control) -> Any:
    """Return the ipywidget of one control, labelled with its name, in words."""
    label: dict[str, Any] = {"description": name.replace("_", " "), "style": {"description_width": "initial"}}
    if isinstance(control, str):
        return ipywidgets.Text(value=control, layout={"width": "95%", "max_width": "640px"}, **label)
    if isinstance(control, range):
        ends = {"min": control[0], "max": control[-1], "step": control.step}
        width = f"{TRACK + READOUT + LETTER * len(name)}px"
        return ipywidgets.IntSlider(value=control[0], layout={"width": width}, **ends, **label)
    return ipywidgets.Dropdown(options=list(control), layout={"width": "330px"}, **label)


class Live:
    """The picture `draw(**values)` under a control for each argument."""

    def __init__(self, draw: Callable[..., Picture], **controls: Control) -> None:
        self.draw = draw
        self.values = {name: first_value(control) for name, control in controls.items()}
        self.picture = draw(**self.values)
        self.controls: dict[str, Any] = {}
        self._shown: Any = None
        if ipywidgets is not None:
            self.controls = {name: widget_for(name, control) for name, control in controls.items()}
        for name, widget in self.controls.items():
            widget.observe(lambda change, name=name: self.set(name, change["new"]), names="value")

    def set(self, name: str, value: str | int) -> None:
        """Redraw with one value changed; if the picture is displayed, replace it."""
        self.values[name] = value
        self.picture = self.draw(**self.values)
        if self._shown is not None:
            self._shown.update(self.picture)

    def show(self) -> None:
        """Show the controls and the picture under them."""
        if notebook is None:
            print(self.picture.alt)
            return
        if self.controls:
            rows = ipywidgets.Layout(flex_flow="row wrap")
            box = ipywidgets.Box(list(self.controls.values()), layout=rows)
            words = f"Controls (they need a kernel and ipywidgets): {', '.join(self.controls)}"
            notebook.display({**box._repr_mimebundle_(), "text/plain": words}, raw=True)
        self._shown = notebook.display(self.picture, display_id=True)
