"""Lesson 04's demos: the timeline's arithmetic, the digits, and their drawing without a display; and its tickets."""

from __future__ import annotations

import csv
from collections import Counter
from importlib import resources
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tools import tickets
from torchcourse.demos import digits, timeline

SETTINGS = {"workers": st.integers(0, 5), "load": st.integers(1, 9), "step": st.integers(1, 9),
            "prefetch": st.integers(1, 4)}  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(**SETTINGS)
def test_a_schedule_trains_on_each_batch_after_it_was_loaded(workers: int, load: int, step: int, prefetch: int) -> None:
    spans = timeline.schedule(workers, load, step, prefetch)
    mine = [s for s in spans if s.lane == "training"]
    steps = mine[1::2] if workers == 0 else mine
    loads = [s for s in spans if s not in steps]
    assert [s.batch for s in steps] == list(range(timeline.BATCHES))
    assert sorted(s.batch for s in loads) == list(range(timeline.BATCHES))
    ready = {s.batch: s.end for s in loads}
    assert all(s.start >= ready[s.batch] for s in steps)


@settings(deadline=None, max_examples=60)
@given(**SETTINGS)
def test_nobody_does_two_things_at_once(workers: int, load: int, step: int, prefetch: int) -> None:
    spans = timeline.schedule(workers, load, step, prefetch)
    for lane in {s.lane for s in spans}:
        own = sorted((s.start, s.end) for s in spans if s.lane == lane)
        assert all(one[1] <= other[0] for one, other in pairwise(own))


def test_without_workers_the_times_add_up_and_with_enough_only_training_is_left() -> None:
    alone, _ = timeline.training(timeline.schedule(0, 3, 1), 3, 0)
    many, busy = timeline.training(timeline.schedule(4, 3, 1), 3, 4)
    assert alone == timeline.BATCHES * 4
    assert many == 3 + timeline.BATCHES
    assert busy == timeline.BATCHES / many


@pytest.mark.parametrize("workers", [0, 1, 5])
def test_the_timeline_is_drawn(workers: int) -> None:
    picture = timeline.draw(workers)
    assert picture.png.startswith(b"\x89PNG")
    assert f"{workers} workers" in picture.alt


def test_the_explorer_follows_its_controls() -> None:
    live = timeline.explorer()
    live.set("workers", 3)
    assert "3 workers" in live.picture.alt


def test_a_mirrored_two_is_a_five() -> None:
    assert torch.equal(digits.seven_segment(2).flip(-1), digits.seven_segment(5))
    assert len({tuple(digits.seven_segment(n).flatten().tolist()) for n in range(10)}) == 10
    with pytest.raises(ValueError, match="number is 10"):
        digits.seven_segment(10)


def test_digits_are_drawn_from_bytes_and_from_floats() -> None:
    two = digits.seven_segment(2)
    assert digits.draw({"2": two, "as floats": two / 255}).png.startswith(b"\x89PNG")


def test_the_tickets_that_come_with_the_package_are_those_the_script_writes() -> None:
    path = resources.files("torchcourse") / "data" / "tickets.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["text", "label"]
    assert [tuple(row) for row in rows[1:]] == tickets.tickets()
    assert Counter(row[1] for row in rows[1:]) == tickets.COUNTS
    assert sum("\n" in row[0] for row in rows) > 30 and sum("," in row[0] for row in rows) > 200
