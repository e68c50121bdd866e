"""The loader timeline: which process waits for which, by number of workers and work per batch."""

from __future__ import annotations

from dataclasses import dataclass

from torchcourse.demos import style
from torchcourse.demos.live import Live
from torchcourse.demos.style import Picture

WIDTH, ROW, LEFT, TOP = 6.6, 0.3, 0.95, 0.42  # inches
BATCHES = 8


@dataclass(frozen=True)
class Span:
    """The time that one process spends on one batch."""

    process: str
    batch: int
    start: float
    end: float


def schedule(workers: int, load: float, step: float, prefetch: int = 2, batches: int = BATCHES) -> list[Span]:
    """Return when each batch is loaded, and when it is trained on.

    Without workers the training process loads as well. Worker k of w loads batches k, k + w and so on; at first it
    loads `prefetch` of them, and then one more for each of its batches that is taken.
    """
    spans: list[Span] = []
    free = dict.fromkeys(range(workers), 0.0)  # when each worker can begin its next batch
    taken: list[float] = []  # when each batch was taken by the training process
    ready: list[float] = []
    now = 0.0
    for batch in range(batches):
        if workers == 0:
            spans.append(Span("training", batch, now, now + load))
            now += load
        else:
            for b in range(len(ready), min(batches, batch + workers * prefetch)):
                allowed = taken[b - workers * prefetch] if b >= workers * prefetch else 0.0
                start = max(free[b % workers], allowed)
                free[b % workers] = start + load
                ready.append(start + load)
                spans.append(Span(f"worker {b % workers}", b, start, start + load))
            now = max(now, ready[batch])
        taken.append(now)
        spans.append(Span("training", batch, now, now + step))
        now += step
    return spans


def training(spans: list[Span], workers: int) -> tuple[float, float]:
    """Return the total time, and the share of it that the training process spent training."""
    mine = [span for span in spans if span.process == "training"]
    steps = mine[1::2] if workers == 0 else mine
    total = max(span.end for span in mine)
    return total, sum(span.end - span.start for span in steps) / total


def draw(workers: int = 2, load: float = 3, step: float = 1, prefetch: int = 2) -> Picture:
    """Draw the timeline: loading in blue, training in orange, waiting blank."""
    spans = schedule(workers, load, step, prefetch)
    total, busy = training(spans, workers)
    processes = [*(f"worker {k}" for k in range(workers)), "training"]
    height = TOP + (ROW + 0.08) * len(processes) + 0.42
    figure, page = style.canvas(WIDTH, height)
    scale = (WIDTH - LEFT - 0.15) / max(total, BATCHES * (load + step))
    style.say(page, 0.1, height - 0.18, f"{workers} workers, prefetch factor {prefetch}", bold=True)
    for place, process in enumerate(processes):
        y = height - TOP - (place + 1) * (ROW + 0.08)
        style.say(page, 0.1, y + ROW / 2, process, size=8.5)
        for turn, span in enumerate(s for s in spans if s.process == process):
            loading = process != "training" or (workers == 0 and turn % 2 == 0)
            fill = style.SKY if loading else style.ORANGE
            width = (span.end - span.start) * scale
            text = str(span.batch) if width > 0.16 else ""
            style.cell(page, LEFT + span.start * scale, y, width, ROW, text, fill=fill, size=8)
    verdict = f"{BATCHES} batches in {total:g} units of time; training {busy:.0%} of it, waiting the rest"
    style.say(page, 0.1, 0.2, f"blue: load a batch   orange: train on it      {verdict}", size=8, colour=style.GREY)
    return style.finish(figure, f"Loader timeline with {workers} workers: {verdict}.")


def explorer() -> Live:
    """Return the explorer without showing it."""
    return Live(draw, workers=range(0, 6), load=range(3, 9), step=range(1, 6), prefetch=range(2, 5))


def explore() -> None:
    """Show the explorer."""
    explorer().show()
