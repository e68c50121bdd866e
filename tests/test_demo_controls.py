"""Every demo with controls: it reacts at once, looks like the others, and stays a picture where nothing listens."""

from __future__ import annotations

import importlib
import io
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib.image
import pytest

import torchcourse.demos
from torchcourse.demos import live, style
from torchcourse.demos.live import Live

MODULES = {m.name: importlib.import_module(f"torchcourse.demos.{m.name}")
           for m in pkgutil.iter_modules(torchcourse.demos.__path__)}  # fmt: skip
EXPLORERS: dict[str, Callable[[], Live]] = {
    name: module.explorer for name, module in MODULES.items() if hasattr(module, "explorer")
}
TYPED = {"a": "7, 7", "b": "7, 1", "expression": "sin(a) * b + c", "number": "-2.5e-3"}
REACTION = 0.1
"""Seconds."""


def moves(one: Live) -> Iterator[tuple[str, str | int]]:
    """Each control moved to a few of its values: the second, the middle and the last."""
    for name, widget in one.controls.items():
        if hasattr(widget, "options"):
            values: list[str | int] = list(widget.options)
        elif hasattr(widget, "max"):
            values = list(range(widget.min, widget.max + 1, widget.step))
        else:
            values = [widget.value, TYPED[name]]
        for value in dict.fromkeys((values[1], values[len(values) // 2], values[-1])):
            yield name, value


def pixels(picture: style.Picture) -> Any:
    return matplotlib.image.imread(io.BytesIO(picture.png), format="png")


def test_every_lesson_with_something_to_play_with_is_here() -> None:
    assert len(EXPLORERS) == 13


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_demo_reacts_in_under_a_tenth_of_a_second(name: str) -> None:
    """Of CPU time, at the median move; and what it then shows has words and the common paper, and is not blank."""
    pytest.importorskip("ipywidgets")
    one, rounds = EXPLORERS[name](), list[float]()
    said = {one.picture.alt}
    while not rounds or (rounds[-1] >= REACTION and len(rounds) < 3):  # others use this machine too
        times = []
        for control, value in moves(one):
            begun = time.process_time()
            one.set(control, value)
            times.append(time.process_time() - begun)
            said.add(one.picture.alt)
            assert one.values[control] == value
        rounds.append(median(times))
    assert rounds[-1] < REACTION, rounds
    assert len(said) > 1, "no control changes anything"
    shown = pixels(one.picture)
    paper = pixels(style.finish(style.canvas(1, 1)[0], ""))[0, 0]
    assert (shown[0, 0] == paper).all() and (shown[-1, -1] == paper).all()
    assert (shown != paper).any()
    assert one.picture.width <= 760


@pytest.mark.parametrize("name", EXPLORERS)
def test_colours_come_from_the_one_palette(name: str) -> None:
    source = Path(str(MODULES[name].__file__)).read_text()
    assert not re.findall(r"#[0-9a-fA-F]{6}\b|colou?r=\"", source)


def test_without_a_kernel_the_controls_are_words_and_the_picture_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipywidgets")
    shown: list[Any] = []

    class NotebookDisplay:
        def display(self, thing: Any, **_: object) -> None:
            shown.append(thing)

    monkeypatch.setattr(live, "notebook", NotebookDisplay())
    EXPLORERS["broadcasting"]().show()
    controls, picture = shown
    assert controls["text/plain"] == "Controls, where a kernel and widgets are: a, b"
    assert "application/vnd.jupyter.widget-view+json" in controls
    bundle = picture._repr_mimebundle_()
    assert 'src="data:image/png;base64,' in bundle["text/html"]
    assert bundle["text/plain"] == picture.alt
    assert "<script" not in bundle["text/html"]


def test_a_chart_keeps_its_look_in_a_notebook_with_another_style() -> None:
    plain = MODULES["calls"].explorer().picture
    with matplotlib.rc_context({"axes.facecolor": "black", "text.color": "white", "axes.grid": True,
                                "xtick.color": "white", "ytick.color": "white", "font.family": "serif"}):  # fmt: skip
        styled = MODULES["calls"].explorer().picture
    assert (pixels(plain) == pixels(styled)).mean() > 0.99
