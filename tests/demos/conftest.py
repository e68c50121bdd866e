"""What holds for every picture that a test of a demonstration draws."""

from __future__ import annotations

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from torchcourse.demos import style
from torchcourse.demos.style import Picture


def _is_number(text: str) -> bool:
    return text.lstrip("-\N{MINUS SIGN}").replace(".", "").isdigit()


def _is_named(axes: Axes) -> bool:
    """Return whether each axis of axes that has numbers has a name too."""
    sides = [(axes.xaxis, axes.get_xticklabels()), (axes.yaxis, axes.get_yticklabels())]
    return all(axis.get_label_text() or not any(_is_number(t.get_text()) for t in ticks) for axis, ticks in sides)


@pytest.fixture(autouse=True)
def _axes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse pictures with numbers along an axis that has no name; a text with "by" may name those of small panels."""
    finish = style.finish

    def checked(figure: Figure, alt: str) -> Picture:
        panels = any(" by " in text.get_text() for axes in figure.axes for text in axes.texts)
        assert panels or all(_is_named(axes) for axes in figure.axes if axes.axison), alt
        return finish(figure, alt)

    monkeypatch.setattr(style, "finish", checked)
