"""Ranks in a notebook: run a function on them, see who holds what, and when each works and waits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture
from torchcourse.ranks.on_a_rank import Span, every_collective, recorded, span
from torchcourse.ranks.processes import HANGS, RETURNED, Outcome
from torchcourse.ranks.start import run_ranks, warm_up

__all__ = ["collectives", "draw", "explore", "explorer", "modelled", "run", "span", "timelines", "warm_up"]

COLOURS = {"work": style.SKY, "exchange": style.ORANGE}
WIDTH, LEFT, ROW = 6.6, 0.75, 0.34  # inches
BOX, GAP = 0.42, 0.09


def run(function: Callable[[], Any], ranks: int = 2) -> list[Any]:
    """Run a function on ranks, print what became of each, and return what they returned (None where they did not)."""
    outcomes = run_ranks(function, ranks)
    for number, outcome in enumerate(outcomes):
        for line in outcome.printed.splitlines():
            print(f"rank {number} | {line}")
        if outcome.ended != RETURNED or outcome.value is not None:
            print(f"rank {number}: {_words(outcome)}")
    return [outcome.value for outcome in outcomes]


def _words(outcome: Outcome) -> str:
    if outcome.ended == HANGS:
        return f"hangs in {outcome.call or 'a loop'}, {outcome.line}"
    if outcome.error is not None:
        text = str(outcome.error)
        return text if len(text) < 160 else f"{text[:157]}..."
    return str(outcome.value)


# Who holds what


def collectives(ranks: int = 3) -> Picture:
    """Run the collectives on ranks, and draw who holds what before and after each."""
    held = [outcome.value for outcome in run_ranks(every_collective, ranks)]
    names = list(held[0])
    height = 0.25 + (len(names) + 1) // 2 * (ranks * (BOX + GAP) * 0.62 + 0.55)
    figure, page = style.canvas(WIDTH + 0.4, height)
    words = []
    for place, name in enumerate(names):
        x, y = 0.15 + place % 2 * (WIDTH / 2 + 0.15), height - 0.3 - place // 2 * (ranks * (BOX + GAP) * 0.62 + 0.55)
        style.say(page, x, y, name, bold=True)
        for number in range(ranks):
            before, after = (t.tolist() for t in held[number][name])
            line = y - 0.25 - number * (BOX + GAP) * 0.62
            style.say(page, x, line, f"rank {number}", size=7.5, colour=style.GREY)
            for column, value in enumerate(before):
                style.cell(page, x + 0.5 + column * 0.38, line - 0.12, 0.36, 0.24, str(value), style.SKY, size=7.5)
            style.say(page, x + 1.72, line, "→", size=9)
            for column, value in enumerate(after):
                style.cell(page, x + 1.95 + column * 0.38, line - 0.12, 0.36, 0.24, str(value), style.ORANGE, size=7.5)
        words.append(f"{name}: " + ", ".join(str(held[n][name][1].tolist()) for n in range(ranks)))
    return style.finish(figure, f"What {ranks} ranks hold after each collective. " + "; ".join(words) + ".")


# When each works and waits


def timelines(function: Callable[[], object], ranks: int = 2) -> Picture:
    """Run a function that uses `span` on ranks, and draw their timelines."""

    found = [outcome.value or [] for outcome in run_ranks(functools.partial(recorded, function), ranks)]
    begun = min((start for spans in found for _, start, _ in spans), default=0.0)
    moved = [[(name, 1000 * (a - begun), 1000 * (b - begun)) for name, a, b in spans] for spans in found]
    return draw(moved, "ms, measured")


def draw(ranks: list[list[Span]], unit: str) -> Picture:
    """Draw what each rank does over time: work in blue; in orange the exchange, with the waiting in it."""
    height = 0.55 + (ROW + 0.1) * len(ranks) + 0.35
    figure, page = style.canvas(WIDTH, height)
    total = max((end for spans in ranks for _, _, end in spans), default=1.0) or 1.0
    scale = (WIDTH - LEFT - 0.2) / total
    words = []
    for number, spans in enumerate(ranks):
        y = height - 0.35 - (number + 1) * (ROW + 0.1) + 0.2
        style.say(page, 0.1, y + ROW / 2, f"rank {number}", size=8.5)
        for name, start, end in spans:
            style.cell(page, LEFT + start * scale, y, max((end - start) * scale, 0.01), ROW, "", COLOURS[name])
        worked = sum(end - start for name, start, end in spans if name == "work")
        words.append(f"rank {number} works {worked:.0f} of {total:.0f}")
    says = "; ".join(words)
    style.say(page, 0.1, 0.2, f"blue: work   orange: exchange, or waiting for it   {says} ({unit})", size=7.5,
              colour=style.GREY)  # fmt: skip
    return style.finish(figure, f"Timelines of {len(ranks)} ranks: {says} ({unit}).")


def modelled(rank_0: int, rank_1: int, exchange: int, buckets: int) -> list[list[Span]]:
    """Return the timelines of two steps under DDP: a backward of so many units on each rank, in buckets.

    A bucket's exchange begins when both ranks have its gradients and the exchange before it is over. Meanwhile a rank
    goes on with its backward. The next step begins when the last exchange is over.
    """
    works = (float(rank_0), float(rank_1))
    spans: list[list[Span]] = [[], []]
    now = 0.0
    for _ in range(2):
        link = now
        for bucket in range(1, buckets + 1):
            link = max(link, now + max(works) * bucket / buckets) + exchange / buckets
        for mine, work in zip(spans, works, strict=True):
            mine += [("work", now, now + work), ("exchange", now + work, link)]
        now = link
    return spans


def _from_controls(rank_0: int, rank_1: int, exchange: int, buckets: int) -> Picture:
    return draw(modelled(rank_0, rank_1, exchange, buckets), "units of time, modelled")


def explorer() -> Live:
    """Return the explorer without showing it."""
    return Live(_from_controls, rank_0=range(8, 21), rank_1=range(8, 21), exchange=range(4, 17), buckets=range(1, 9))


def explore() -> None:
    """Choose how long each rank's backward takes, how long the exchange, and in how many buckets it goes."""
    explorer().show()
