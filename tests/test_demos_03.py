"""The demo of lesson 03: its numbers against theory, and its drawing without a display."""

from __future__ import annotations

import pytest
import torch

from torchcourse.demos import depth

KAIMING, SMALL, LARGE = next(iter(depth.STARTS)), "too small: 0.01", "too large: 0.3"


def test_kaiming_keeps_the_size_of_what_a_relu_passes_on() -> None:
    layers = depth.measure(KAIMING, "relu", 16)
    assert 0.3 < layers[-1].activation / layers[0].activation < 3
    assert 0.3 < layers[0].gradient / layers[-1].gradient < 3


def test_weights_too_small_or_too_large_change_it_by_powers_of_ten() -> None:
    small, large = depth.measure(SMALL, "relu", 8), depth.measure(LARGE, "relu", 8)
    assert small[-1].activation < 1e-6 * small[0].activation
    assert large[-1].activation > 1e2 * large[0].activation


def test_a_histogram_counts_powers_of_ten_and_leaves_zeros_out() -> None:
    bars = depth.histogram(torch.tensor([0.0, 0.0, 1.5, 1.6, 150.0]))
    assert len(bars) == depth.BINS
    assert sorted(bars)[-2:] == [0.5, 1.0]
    assert sum(bars) == 1.5
    assert sum(depth.histogram(torch.zeros(3))) == 0


@pytest.mark.parametrize("start", depth.STARTS)
@pytest.mark.parametrize("activation", depth.ACTIVATIONS)
def test_every_choice_can_be_drawn(start: str, activation: str) -> None:
    picture = depth.draw(start, activation, 4)
    assert picture.png.startswith(b"\x89PNG")
    assert len(picture.png) < 90_000
    assert picture.alt.startswith(f"4 layers with {activation}")


def test_the_explorer_redraws_when_a_control_moves() -> None:
    pytest.importorskip("ipywidgets")
    one = depth.explorer()
    before = one.picture.alt
    one.controls["start"].value = SMALL
    assert one.picture.alt != before
