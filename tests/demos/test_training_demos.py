"""Demos of lessons 04, 05, 09 and 10: schedules, curves, trainings that are killed or ill; data of 04 and 05."""

from __future__ import annotations

import csv
import math
from collections import Counter
from importlib import resources
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tools import tickets
from torchcourse.data.digits import SmallCNN, split
from torchcourse.demos import clinic, curves, digits, live, resuming, timeline


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 5), st.integers(1, 9), st.integers(1, 9), st.integers(1, 4))
def test_each_batch_is_loaded_and_then_trained_on_and_no_process_does_two_things_at_once(
    workers: int, load: int, step: int, prefetch: int
) -> None:
    spans = timeline.schedule(workers, load, step, prefetch)
    processes = {s.process: sorted((p for p in spans if p.process == s.process), key=lambda p: p.start) for s in spans}
    mine = processes["training"]
    steps = mine[1::2] if workers == 0 else mine
    ready = {s.batch: s.end for s in spans if s not in steps}
    assert [s.batch for s in steps] == sorted(ready) == list(range(timeline.BATCHES))
    assert all(s.start >= ready[s.batch] for s in steps)
    assert all(one.end <= other.start for own in processes.values() for one, other in pairwise(own))


def test_without_workers_the_times_add_up_and_with_enough_only_training_is_left() -> None:
    alone, _ = timeline.training(timeline.schedule(0, 3, 1), 0)
    many, busy = timeline.training(timeline.schedule(4, 3, 1), 4)
    assert alone == timeline.BATCHES * 4
    assert many == 3 + timeline.BATCHES
    assert busy == timeline.BATCHES / many
    assert "5 workers" in timeline.draw(5).alt


def test_a_mirrored_two_is_a_five() -> None:
    two = digits.seven_segment(2)
    assert torch.equal(two.flip(-1), digits.seven_segment(5))
    assert len({tuple(digits.seven_segment(n).flatten().tolist()) for n in range(10)}) == 10
    with pytest.raises(ValueError, match="number is 10"):
        digits.seven_segment(10)
    assert digits.draw({"2": two, "as floats": two / 255}).alt


def test_the_tickets_that_come_with_the_package_are_those_the_script_writes() -> None:
    path = resources.files("torchcourse") / "data" / "tickets.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["text", "label"]
    assert [tuple(row) for row in rows[1:]] == tickets.tickets()
    assert Counter(row[1] for row in rows[1:]) == tickets.COUNTS
    assert sum("\n" in row[0] for row in rows) > 30 and sum("," in row[0] for row in rows) > 200


def test_curves_are_drawn_and_say_their_ends() -> None:
    picture = curves.draw({"train": [2.0, 1.0], "nothing": [], "broken": [1.0, math.nan]}, "loss")
    assert "train from 2 to 1" in picture.alt
    assert "nothing yet" in picture.alt


@pytest.mark.parametrize("shape", curves.SHAPES)
def test_each_schedule_climbs_to_its_peak(shape: str) -> None:
    assert curves.rate(shape, 0, 10, 100) == 0
    assert curves.rate(shape, 10, 10, 100) == 100
    assert curves.rate(shape, 110, 10, 100) <= 100


def test_a_loss_plot_grows_without_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "notebook", None)
    plot = curves.LossPlot()
    plot.add(train=1.0, val=2.0)
    plot.add(train=0.5)
    assert plot.series == {"train": [1.0, 0.5], "val": [2.0]}
    assert plot.picture is not None
    assert live.optional("no_such_module") is None


def test_the_digits_are_divided_without_overlap() -> None:
    parts = split()
    assert [len(labels) for _, labels in parts.values()] == [1200, 300, 297]
    images, labels = parts["train"]
    assert images.dtype == torch.float32
    assert 0 <= images.min() < images.max() == 1
    assert SmallCNN()(images[:2]).shape == (2, 10)
    assert labels.dtype == torch.int64


def test_a_killed_training_leaves_the_checkpoints_from_before_its_death() -> None:
    assert sorted(resuming.left_behind()) == [30, 60, 90]


@pytest.mark.parametrize("step", [30, 90])
def test_with_everything_brought_back_every_later_loss_is_the_same_to_the_last_bit(step: int) -> None:
    assert resuming.resumed(step, "everything") == resuming.never_killed()[step:]


@pytest.mark.parametrize("restored", list(resuming.CHOICES)[1:])
def test_with_less_it_is_not(restored: str) -> None:
    assert resuming.resumed(90, restored) != resuming.never_killed()[90:]


def test_the_picture_says_what_it_shows_and_leaves_the_random_state_alone() -> None:
    before = torch.get_rng_state()
    picture = resuming.draw()
    assert "60 of 60 later losses equal to the last bit" in picture.alt
    assert torch.equal(before, torch.get_rng_state())


def test_without_a_fault_the_clinics_net_learns_and_with_one_it_is_worse_or_starts_wrong() -> None:
    healthy = clinic.train_with("nothing")
    assert healthy.losses[0] == pytest.approx(math.log(clinic.CLASSES), abs=0.1)
    assert healthy.accuracy > 0.95
    for name in clinic.HIDDEN:
        ill = clinic.train_with(name)
        assert ill.losses[0] > 5 or ill.losses[-1] > healthy.losses[-1] + 0.3, name


def test_the_clinics_gradients_tell_flat_curves_apart() -> None:
    dead, slow = clinic.train_with("a layer of dead units"), clinic.train_with("learning rate 1000 times too low")
    assert dead.gradients[:3] == [0, 0, 0] and min(slow.gradients) > 1e-3
    small = clinic.train_with("weights far too small").gradients
    assert small[0] < 1e-3 * small[-1]


def test_the_clinic_shows_letters_first_and_names_on_request() -> None:
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    assert not any(name in clinic.page().alt for name in clinic.FAULTS)
    assert clinic.draw(clinic.HIDDEN[2]).alt.startswith(f"C: {clinic.HIDDEN[2]}")
    assert torch.equal(before, torch.get_rng_state()) and threads == torch.get_num_threads()
