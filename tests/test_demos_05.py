"""The pictures of lesson 05: the numbers behind them, and that they can be drawn without a screen."""

from __future__ import annotations

import math

import pytest
import torch

from torchcourse.demos import curves, live
from torchcourse.digits import SmallCNN, split


def test_curves_are_drawn_and_say_their_ends() -> None:
    picture = curves.draw({"train": [2.0, 1.0], "nothing": [], "broken": [1.0, math.nan]}, "loss")
    assert picture.png.startswith(b"\x89PNG")
    assert "train from 2 to 1" in picture.alt
    assert "nothing yet" in picture.alt


@pytest.mark.parametrize("shape", curves.SHAPES)
def test_each_schedule_climbs_to_its_peak(shape: str) -> None:
    assert curves.rate(shape, 0, 10, 100) == 0
    assert curves.rate(shape, 10, 10, 100) == 100
    assert curves.rate(shape, 110, 10, 100) <= 100


def test_the_explorer_redraws_when_a_control_moves() -> None:
    one = curves.explorer()
    before = one.picture.alt
    one.set("warmup", 20)
    assert one.picture.alt != before


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
