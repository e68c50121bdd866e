"""The picture of lesson 09: a training that really is killed, and the numbers of the one that goes on."""

from __future__ import annotations

import pytest
import torch

from torchcourse.demos import resuming


def test_a_killed_training_leaves_the_checkpoints_from_before_its_death() -> None:
    assert sorted(resuming.left_behind()) == [30, 60, 90]


@pytest.mark.parametrize("step", [30, 90])
def test_with_everything_brought_back_every_later_loss_is_the_same_to_the_last_bit(step: int) -> None:
    assert resuming.resumed(step, "everything") == resuming.never_killed()[step:]


@pytest.mark.parametrize("brought", list(resuming.CHOICES)[1:])
def test_with_less_it_is_not(brought: str) -> None:
    assert resuming.resumed(90, brought) != resuming.never_killed()[90:]


def test_the_picture_says_what_it_shows_and_leaves_the_random_state_alone() -> None:
    before = torch.get_rng_state()
    picture = resuming.draw()
    assert picture.png.startswith(b"\x89PNG")
    assert "60 of 60 later losses equal to the last bit" in picture.alt
    assert torch.equal(before, torch.get_rng_state())


def test_the_explorer_redraws_when_a_menu_moves() -> None:
    live = resuming.explorer()
    before = live.picture.alt
    live.set("brought", "the weights alone")
    assert live.picture.alt != before
