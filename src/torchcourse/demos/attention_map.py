"""The attention weights of one head, drawn as a table: a row for each query, a column for each key."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from torchcourse.demos import style
from torchcourse.demos.style import Picture

SIDE = 0.27


def draw(weights: Tensor, words: Sequence[str], title: str = "") -> Picture:
    """Draw weights `(t, t)` in [0, 1]; the darker a cell, the more its query takes from its key.

    Raises:
        ValueError: when there are more or fewer words than rows or columns.
    """
    t = len(words)
    if tuple(weights.shape) != (t, t):
        raise ValueError(f"weights have shape {tuple(weights.shape)}, but {t} words need ({t}, {t})")
    left = 0.35 + 0.085 * max(map(len, words), default=0)
    figure, page = style.canvas(max(left + t * SIDE + 0.3, 3.2), t * SIDE + 0.95)
    top = t * SIDE + 0.35
    style.say(page, 0.12, top + 0.42, title, bold=True)
    shown = weights.detach().float().cpu()
    extent = (left, left + t * SIDE, top - t * SIDE, top)
    page.imshow(shown.numpy(), cmap="Blues", vmin=0, vmax=1, extent=extent, aspect="auto")
    for i, word in enumerate(words):
        style.say(page, left - 0.08, top - (i + 0.5) * SIDE, word, size=8, align="right", mono=True)
        style.say(page, left + (i + 0.5) * SIDE, top + 0.13, word, size=8, align="center", mono=True)
    style.say(page, 0.12, 0.17, "a row for each query, a column for each key", size=8, colour=style.GREY)
    page.set(xlim=(0, figure.get_figwidth()), ylim=(0, figure.get_figheight()))
    most = [f"{words[i]!r} mostly at {words[int(shown[i].argmax())]!r}" for i in range(t)]
    return style.finish(figure, f"{title}: {', '.join(most)}.")
