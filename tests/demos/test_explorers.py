"""Every demo with controls: it reacts at once, looks like the others, and stays a picture without a kernel."""

from __future__ import annotations

import importlib
import io
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import matplotlib
import matplotlib.image
import pytest
import torch

import torchcourse.demos
from torchcourse.demos import broadcasting, live, strides, style
from torchcourse.demos.live import Live

MODULES = {m.name: importlib.import_module(f"torchcourse.demos.{m.name}")
           for m in pkgutil.iter_modules(torchcourse.demos.__path__)}  # fmt: skip
EXPLORERS: dict[str, Callable[[], Live]] = {
    name: module.explorer for name, module in MODULES.items() if hasattr(module, "explorer")
}
TYPED = {"a": "7, 7", "b": "7, 1", "expression": "sin(a) * b + c", "number": "-2.5e-3"}
REACTION = 0.1
"""Seconds, on a machine that draws a plain chart in a third of it; a slower machine has the time of three charts."""


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


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is displayed in a notebook, and what it is then replaced by."""
    things: list[Any] = []

    def display(thing: object, **_: object) -> SimpleNamespace:
        things.append(thing)
        return SimpleNamespace(update=things.append)

    monkeypatch.setattr(live, "notebook", SimpleNamespace(display=display))
    return things


def test_every_lesson_with_something_to_play_with_is_here() -> None:
    assert len(EXPLORERS) == 15


def chart_time() -> float:
    """Return the CPU time of drawing a plain chart."""
    begun = time.process_time()
    figure, axes = style.chart(title="title", xlabel="across", ylabel="up")
    axes.plot([1, 2, 3], label="line")
    style.legend(axes)
    style.finish(figure, "")
    return time.process_time() - begun


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_demo_reacts_in_under_a_tenth_of_a_second(name: str) -> None:
    """Of CPU time, at the median move; and what it then shows has words and the common paper, and is not blank."""
    pytest.importorskip("ipywidgets")
    one, limit, reaction = EXPLORERS[name](), REACTION, 0.0
    changing, texts = set(), {one.picture.alt}
    for _ in range(3):  # others use this machine too
        limit = max(REACTION, 3 * median(chart_time() for _ in range(3)))
        times = []
        for control, value in moves(one):
            before, begun = one.picture.png, time.process_time()
            one.set(control, value)
            times.append(time.process_time() - begun)
            changing |= {control} if one.picture.png != before else set()
            texts.add(one.picture.alt)
            assert one.values[control] == value
        reaction = median(times)
        if reaction < limit:
            break
    assert reaction < limit
    assert changing == set(one.controls), "each control changes the picture"
    assert len(texts) > 1
    shown = pixels(one.picture)
    paper = pixels(style.finish(style.canvas(1, 1)[0], ""))[0, 0]
    assert (shown[0, 0] == paper).all() and (shown[-1, -1] == paper).all()
    assert (shown != paper).any()
    assert one.picture.width <= 760
    assert len(one.picture.png) < 200_000


@pytest.mark.parametrize("name", EXPLORERS)
def test_colours_come_from_the_one_palette(name: str) -> None:
    source = Path(str(MODULES[name].__file__)).read_text()
    assert not re.findall(r"#[0-9a-fA-F]{6}\b|colou?r=\"", source)


def test_without_a_kernel_the_controls_are_words_and_the_picture_stays(shown: list[Any]) -> None:
    pytest.importorskip("ipywidgets")
    EXPLORERS["broadcasting"]().show()
    controls, picture = shown
    assert controls["text/plain"] == "Controls (they need a kernel and ipywidgets): a, b"
    assert "application/vnd.jupyter.widget-view+json" in controls
    bundle = style.Picture(picture.png, 'a < "b"', 10)._repr_mimebundle_()
    assert bundle["text/plain"] == 'a < "b"'
    assert 'src="data:image/png;base64,' in bundle["text/html"]
    assert 'alt="a &lt; &quot;b&quot;" width="10"' in bundle["text/html"]


def test_a_chart_keeps_its_look_in_a_notebook_with_another_style() -> None:
    plain = MODULES["calls"].explorer().picture
    with matplotlib.rc_context({"axes.facecolor": "black", "text.color": "white", "axes.grid": True,
                                "xtick.color": "white", "ytick.color": "white", "font.family": "serif"}):  # fmt: skip
        styled = MODULES["calls"].explorer().picture
    assert (pixels(plain) == pixels(styled)).mean() > 0.99


def test_what_is_on_show_is_replaced_and_not_added_to(shown: list[Any]) -> None:
    one = broadcasting.explorer()
    one.show()
    (before,) = [each for each in shown if isinstance(each, style.Picture)]
    one.set("b", "5")
    assert [each.alt for each in shown if isinstance(each, style.Picture)] == [before.alt, one.picture.alt]


def test_without_widgets_the_picture_remains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "ipywidgets", None)
    monkeypatch.setattr(live, "notebook", None)
    strides.explore()
    assert capsys.readouterr().out.startswith("x: shape (3, 4)")


def test_ink_can_be_read_on_every_colour() -> None:
    assert style.ink_on(style.BLUE) == "white"
    assert style.ink_on(style.PAPER) == style.ink_on(style.YELLOW) == style.ink_on(style.ORANGE) == style.INK


def test_drawing_needs_no_pyplot_and_keeps_no_figure() -> None:
    for _ in range(25):
        strides.draw(torch.arange(12).view(3, 4))
    pyplot = matplotlib.pyplot if hasattr(matplotlib, "pyplot") else None
    assert pyplot is None or pyplot.get_fignums() == []
