"""The common style of the course's pictures: palette, background, and how they are shown.

Colours are Okabe and Ito's, which colour-blind readers can tell apart. The paper is light and opaque, so that
the ink stays readable on a dark theme too. A figure is drawn without pyplot and kept as a PNG.
"""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

INK, PAPER, GREY, FAINT = "#1f2328", "#fcfcfa", "#6f747c", "#e9e9e4"
BLUE, ORANGE, GREEN, VERMILION = "#0072b2", "#e69f00", "#009e73", "#d55e00"
SKY, PURPLE, YELLOW = "#56b4e9", "#cc79a7", "#f0e442"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW, GREY)
MONO, SANS = "DejaVu Sans Mono", "DejaVu Sans"
PIXELS_PER_INCH = 100
LOOK = "border-radius:6px;max-width:100%"
NO_DEAD_CONTROLS = (
    "<style>.jp-OutputArea-child:has(+ .jp-OutputArea-child .tc-picture) div.lm-Panel.jupyter-widgets:not(:has(*))"
    "{display:none}</style>"
)
"""Hides the error that JupyterLab shows in place of controls whose kernel is gone."""
SHARPNESS = 1.6  # pixels drawn for each pixel shown


@dataclass(frozen=True)
class Picture:
    """A finished picture: PNG bytes, a text alternative, and the width to show it at."""

    png: bytes = field(repr=False)
    alt: str
    width: int

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return what a notebook shows: an image with its text alternative, or that text alone."""
        data = base64.b64encode(self.png).decode("ascii")
        attributes = f'alt="{html.escape(self.alt)}" width="{self.width}"'
        image = f'<img class="tc-picture" style="{LOOK}" src="data:image/png;base64,{data}" {attributes}>'
        return {"text/html": NO_DEAD_CONTROLS + image, "text/plain": self.alt}


def canvas(width: float = 6.0, height: float = 2.5) -> tuple[Figure, Axes]:
    """Return an empty figure, in inches, with bare axes in inches from the lower left corner."""
    figure = Figure(figsize=(width, height), dpi=PIXELS_PER_INCH * SHARPNESS, facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    return figure, axes


def chart(
    width: float = 6.0,
    height: float = 2.6,
    place: tuple[float, float, float, float] = (0.1, 0.18, 0.86, 0.68),
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
) -> tuple[Figure, Axes]:
    """Return a figure, in inches, with axes for curves at `place` (left, bottom, width, height, as shares of it)."""
    figure, axes = canvas(width, height)
    axes.set_axis_on()
    axes.set_position(place)
    axes.autoscale()
    style_axes(axes)
    axes.set_title(title, fontsize=9, loc="left", color=INK, family=SANS)
    name_axes(axes, xlabel, ylabel)
    return figure, axes


def name_axes(axes: Axes, xlabel: str, ylabel: str) -> None:
    """Write below and beside axes what they show."""
    axes.set_xlabel(xlabel, fontsize=8, color=INK, family=SANS)
    axes.set_ylabel(ylabel, fontsize=8, color=INK, family=SANS)


def style_axes(axes: Axes) -> None:
    """Style the background, ticks and lines of axes, whatever style the notebook has chosen for its own figures."""
    axes.set_facecolor(PAPER)
    axes.grid(False)
    axes.tick_params(which="both", labelsize=8, labelcolor=INK, color=GREY, labelfontfamily=SANS)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.spines[["top", "right"]].set_visible(False)


def legend(axes: Axes, beside: bool = True) -> None:
    """Draw the legend: right of the axes, or in their lower left corner."""
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if beside else {"loc": "lower left"}
    look: dict[str, Any] = {"facecolor": PAPER, "edgecolor": PAPER, "framealpha": 0.85, "labelcolor": INK}
    axes.legend(prop={"size": 8, "family": SANS}, **look, **where)


def finish(figure: Figure, alt: str) -> Picture:
    """Render a figure as a picture."""
    paper, buffer = FigureCanvasAgg(figure), io.BytesIO()
    paper.draw()  # type: ignore[no-untyped-call]
    drawn = Image.fromarray(np.asarray(paper.buffer_rgba()))  # type: ignore[no-untyped-call]
    drawn.convert("RGB").save(buffer, "png", compress_level=3)  # the paper is opaque; half the time of savefig
    width = round(figure.get_figwidth() * PIXELS_PER_INCH)
    figure.clear()
    return Picture(buffer.getvalue(), alt, width)


@lru_cache
def ink_on(colour: str) -> str:
    """Return the text colour, white or dark, that is readable on this colour."""
    red, green, blue = to_rgb(colour)
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.53 else INK


def cell(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    text: str = "",
    fill: str = PAPER,
    edge: str = GREY,
    dashed: bool = False,
    size: float = 9,
) -> None:
    """Draw a box with its lower left corner at (x, y) and a short text in its middle."""
    line = "dashed" if dashed else "solid"
    axes.add_patch(Rectangle((x, y), width, height, facecolor=fill, edgecolor=edge, linewidth=1, linestyle=line))
    if text:
        ink = GREY if dashed else ink_on(fill)
        say(axes, x + width / 2, y + height / 2, text, size=size, colour=ink, align="center", mono=True)


def say(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    size: float = 9,
    colour: str = INK,
    align: str = "left",
    mono: bool = False,
    bold: bool = False,
) -> None:
    """Draw a line of text, vertically centred on y."""
    family, weight = MONO if mono else SANS, "bold" if bold else "normal"
    font: dict[str, Any] = {"fontsize": size, "family": family, "weight": weight, "color": colour}
    axes.text(x, y, text, ha=align, va="center_baseline", parse_math=False, **font)
