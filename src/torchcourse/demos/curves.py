"""Training curves: several series in one plot, a plot that grows while training runs, and a schedule explorer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torchcourse.demos import style
from torchcourse.demos.live import Live, notebook
from torchcourse.demos.style import Picture

SHAPES = ["warm-up and cosine", "constant", "steps", "straight line"]


def draw(
    series: Mapping[str, Sequence[float]],
    title: str = "",
    log: bool = False,
    xlabel: str = "step",
    ylabel: str = "loss",
) -> Picture:
    """Draw lists of numbers over their index."""
    figure, axes = style.chart(place=(0.12, 0.18, 0.58, 0.68), title=title, xlabel=xlabel, ylabel=ylabel)
    words = []
    for (name, values), colour in zip(series.items(), style.CYCLE * 2, strict=False):
        shown = [v if math.isfinite(v) else math.nan for v in values]
        axes.plot(range(len(shown)), shown, color=colour, label=name)
        words.append(f"{name} from {values[0]:.3g} to {values[-1]:.3g}" if len(values) else f"{name}: nothing yet")
    axes.set_xlim(0, max([len(values) - 1 for values in series.values()] + [1]))
    if log:
        axes.set_yscale("log")
    else:
        axes.relim()
        axes.autoscale(axis="y")
    style.legend(axes)
    return style.finish(figure, f"{title}: {'; '.join(words)}." if title else f"{'; '.join(words)}.")


class LossPlot:
    """A plot that follows a training: `add(train=…, val=…)` after every epoch redraws it in place."""

    def __init__(self, title: str = "loss") -> None:
        self.title, self.series = title, dict[str, list[float]]()
        self.picture: Picture | None = None
        self._shown: Any = None

    def add(self, **values: float) -> None:
        """Append a number to each of the named series and redraw the plot."""
        for name, value in values.items():
            self.series.setdefault(name, []).append(value)
        self.picture = draw(self.series, self.title)
        if notebook is None:
            return
        if self._shown is None:
            self._shown = notebook.display(self.picture, display_id=True)
        else:
            self._shown.update(self.picture)


def rate(shape: str, step: int, warmup: int, total: int) -> float:
    """Return the learning rate at a step, in percent of the peak."""
    ahead = max(total - step, 0) / (total - warmup)
    if ahead > 1:
        return 100 * step / warmup
    if shape == "constant":
        return 100.0
    if shape == "steps":
        return 100 * 0.1 ** int(3 - 3 * ahead)
    return 100 * ahead if shape == "straight line" else 100 * math.sin(math.pi / 2 * ahead) ** 2


def schedule(shape: str, warmup: int) -> Picture:
    """Draw a schedule over a hundred steps, in percent of the peak."""
    rates = [rate(shape, step, warmup, 100) for step in range(121)]
    return draw({shape: rates}, f"learning rate; warm-up {warmup} of 100 steps", ylabel="% of the peak")


def explorer() -> Live:
    """Return the schedule explorer without showing it."""
    return Live(schedule, shape=SHAPES, warmup=range(10, 60, 5))


def explore() -> None:
    """Choose a shape and a warm-up."""
    explorer().show()
