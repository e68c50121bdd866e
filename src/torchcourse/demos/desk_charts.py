"""The pictures of lesson 14: the desk's tickets, a training log, the threshold, and a ticket to type."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

__all__ = ["ask", "lengths", "log", "threshold"]

COLOURS = (style.BLUE, style.VERMILION, style.SKY)


def lengths(rows: Sequence[tuple[str, str]]) -> Picture:
    """Draw how many tickets each class has, by number of words."""
    figure, axes = style.chart(6.4, 2.6, (0.1, 0.18, 0.62, 0.68), xlabel="words", ylabel="tickets")
    names = sorted({label for _, label in rows})
    counts = [[min(len(text.split()), 60) for text, label in rows if label == name] for name in names]
    axes.hist(counts, bins=range(0, 64, 4), stacked=True, color=COLOURS[: len(names)],
              label=[f"{name} ({len(own)})" for name, own in zip(names, counts, strict=True)])  # fmt: skip
    style.legend(axes)
    told = ", ".join(f"{name} {len(own)}" for name, own in zip(names, counts, strict=True))
    return style.finish(figure, f"Tickets by number of words, 60 or more in one bar. {told}.")


def log(path: str | Path) -> Picture:
    """Draw the losses and the macro F1 of a training log."""
    records = [json.loads(line) for line in Path(path).read_text().splitlines()]
    figure, axes = style.chart(6.4, 2.6, (0.1, 0.18, 0.62, 0.68), xlabel="epoch", ylabel="loss, or macro F1")
    for key, colour in zip(("train_loss", "val_loss", "macro_f1"), COLOURS, strict=True):
        axes.plot([r["epoch"] for r in records], [r[key] for r in records], color=colour, marker=".", label=key)
    style.legend(axes)
    last = ", ".join(f"{key} {records[-1][key]:.3f}" for key in ("train_loss", "val_loss", "macro_f1"))
    return style.finish(figure, f"A training log of {len(records)} epochs. At the end {last}.")


def threshold(logits: Tensor, labels: Tensor, wrong: float = 6.0, human: float = 1.0) -> Live:
    """Move the threshold, and see what is routed, how often that is right, and what a ticket costs on average."""
    probabilities = logits.softmax(-1)
    confidence, predicted = probabilities.max(-1)
    right = predicted == labels

    def draw(percent: int) -> Picture:
        figure, axes = style.chart(6.4, 2.6, (0.1, 0.18, 0.62, 0.68), xlabel="threshold in percent", ylabel="share")
        steps = range(34, 101)
        routed = [confidence >= step / 100 for step in steps]
        shares = [r.double().mean().item() for r in routed]
        good = [(r & right).sum().item() / max(int(r.sum()), 1) for r in routed]
        axes.plot(steps, shares, color=COLOURS[0], label="routed automatically")
        axes.plot(steps, good, color=COLOURS[1], label="of these, right")
        axes.axvline(percent, color=style.GREY, linewidth=0.8)
        style.legend(axes)
        at = percent - 34
        costs = shares[at] * (1 - good[at]) * wrong + (1 - shares[at]) * human
        words = f"{shares[at]:.0%} routed, {good[at]:.1%} of them right; a ticket costs {costs:.2f} on average"
        axes.set_title(words, fontsize=9, loc="left", color=style.INK)
        return style.finish(figure, f"Threshold {percent} %: {words}.")

    return Live(draw, percent=range(34, 100))


def ask(server: Any, text: str) -> Live:
    """Type a ticket, and see its queue, how sure that is, and the words that mattered most."""

    def draw(ticket: str) -> Picture:
        found = server.answer(ticket)
        figure, axes = style.canvas(6.4, 1.1)
        where = "a human" if found["human"] else found["queue"]
        style.say(axes, 3.2, 0.75, f"to {where} ({found['queue']}, {found['confidence']:.0%})", size=12)
        words = ", ".join(found["words"]) or "no single one"
        style.say(axes, 3.2, 0.3, f"words that mattered: {words}", size=9)
        return style.finish(figure, f"{ticket!r} goes to {where}: {found['confidence']:.0%}; words: {words}.")

    return Live(draw, ticket=text)
