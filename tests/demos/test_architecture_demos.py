"""Demos of lesson 11: receptive fields, attention maps, and the parts that stand in for learners' own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from torchcourse.checking import failed_case
from torchcourse.checking.report import Report
from torchcourse.demos import attention_map, parts, receptive

LAYER = st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2))


@settings(deadline=None, max_examples=30)
@given(layers=st.lists(LAYER, max_size=3))
def test_the_pixels_that_are_reached_span_what_the_layers_say(layers: list[tuple[int, int, int]]) -> None:
    seen, apart = 1, 1
    for kernel, stride, dilation in layers:
        seen, apart = seen + dilation * (kernel - 1) * apart, apart * stride
    rows = (receptive.reached(layers, 40, 44).amax(1) > 0).nonzero().flatten()
    assert int(rows[-1] - rows[0]) + 1 == seen


def test_a_receptive_field_is_drawn_and_told_and_a_small_image_is_refused() -> None:
    picture = receptive.draw(torch.rand(16, 16), one_layer=[(3, 1, 1)], holes=[(3, 1, 2)])
    assert picture.alt == "What one output position sees. one layer: 9 pixels in 3 rows; holes: 9 pixels in 5 rows."
    assert picture.png
    with pytest.raises(ValueError, match="layers see more than an image of 3 by 3 pixels"):
        receptive.reached([(5, 1, 1)], 3, 3)


def test_an_attention_map_is_drawn_and_told_and_words_have_to_fit() -> None:
    picture = attention_map.draw(torch.tensor([[1.0, 0.0], [0.9, 0.1]]), ["the", "fox"], "one head")
    assert picture.alt == "one head: 'the' mostly at 'the', 'fox' mostly at 'the'."
    with pytest.raises(ValueError, match=r"weights have shape \(2, 2\), but 3 words need \(3, 3\)"):
        attention_map.draw(torch.eye(2), ["a", "b", "c"])


def test_a_part_is_the_learners_own_only_if_it_passes(capsys: pytest.CaptureFixture[str]) -> None:
    def receptive_field(layers: list[tuple[int, int, int]]) -> int:
        seen = 1
        for kernel, stride, dilation in reversed(layers):
            seen = (seen - 1) * stride + dilation * (kernel - 1) + 1
        return seen

    def wrong(layers: list[Any]) -> int:
        return len(layers)

    assert parts.yours("receptive_field", {"receptive_field": receptive_field}) is receptive_field
    assert parts.yours("receptive_field", {"receptive_field": wrong}) is None
    assert parts.yours("receptive_field", {}) is None
    assert capsys.readouterr().out.splitlines() == [
        "receptive_field: yours",
        *["receptive_field: yours does not pass yet, so torch's own stands in"] * 2,
    ]


def test_torchs_own_block_and_mask_keep_later_positions_out() -> None:
    real = torch.ones(2, 5, dtype=torch.bool)
    mask = parts.mask_of(real, causal=True)
    assert mask.shape == (1, 1, 5, 5)
    assert torch.equal(mask[0, 0], torch.ones(5, 5, dtype=torch.bool).tril())
    block, x = parts.Block(8, 2), torch.randn(2, 5, 8)
    changed = torch.cat([x[:, :-1], torch.randn(2, 1, 8)], 1)
    assert torch.allclose(block(x, mask)[:, :-1], block(changed, mask)[:, :-1], atol=1e-6)
    assert not torch.allclose(block(x)[:, :-1], block(changed)[:, :-1], atol=1e-6)
    assert isinstance(block, nn.TransformerEncoderLayer)


def test_the_sentences_follow_their_rules() -> None:
    text = parts.sentences(50)
    assert text == parts.sentences(50) != parts.sentences(50, seed=1)
    for line in text.split("\n"):
        the, kind, animal, verb, *_ = line.removesuffix(".").split()
        assert (the, kind in ("old", "small", "wet"), animal in parts.ANIMALS, verb in parts.VERBS) == (
            "the",
            True,
            True,
            True,
        )


def test_what_waits_for_an_answer_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def causal(t: int) -> None:
        raise AssertionError

    assert parts.still_open({"receptive_field": causal}, "receptive_field", "LSTMCell") == [
        "receptive_field",
        "LSTMCell",
    ]
    waits = "This waits for receptive_field and LSTMCell. Run the cell again when the check says right.\n"
    assert capsys.readouterr().out == waits


def test_an_answer_that_has_just_passed_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def passed(layers: list[Any]) -> int:
        return 0

    failed_case.remember(Report("receptive_field", "passed", ""), passed)
    assert parts.still_open({"receptive_field": passed}, "receptive_field") == []
    assert parts.still_open({"receptive_field": lambda layers: 0}, "receptive_field") == ["receptive_field"]


@pytest.mark.parametrize("stride", [1, 2])
def test_the_residual_block_that_stands_in_has_the_shape_of_the_exercises(stride: int) -> None:
    assert parts.Residual(8, 16, stride)(torch.randn(2, 8, 8, 8)).shape == (2, 16, 8 // stride, 8 // stride)
