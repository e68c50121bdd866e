"""The words for how an observation differs from the wanted one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from torchcourse.checking.differences import relation
from torchcourse.model.observations import Tolerance

WANTED = torch.tensor([[1.0, -2.0, 3.0], [4.0, 0.0, 6.5]])


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (2 * WANTED, "every value is 2 times as large"),
        (WANTED / 255, "every value is 0.003922 times as large"),
        (-WANTED, "the sign of every value is the other one"),
        (WANTED + 1, "every value is too large by 1"),
        (WANTED - 0.5, "every value is too small by 0.5"),
        (WANTED.flip(1), "the same values, in reverse order along dimension 1"),
        (WANTED.T, "the same values, with dimensions 0 and 1 swapped"),
        (WANTED.T.reshape(2, 3), ""),
        (WANTED[:, :2], ""),
        (torch.zeros(2, 3), ""),
        (WANTED / 0, ""),
        (WANTED.double(), ""),
    ],
)
def test_a_simple_relation_to_what_is_wanted_is_said(got: Tensor, words: str) -> None:
    assert relation(got, WANTED, Tolerance()) == words


def test_whole_numbers_are_related_too_and_a_few_values_are_not() -> None:
    assert relation(torch.tensor([2, 3, 4]), torch.tensor([1, 2, 3]), Tolerance()) == "every value is too large by 1"
    assert relation(torch.tensor([2.0, 4.0]), torch.tensor([1.0, 2.0]), Tolerance()) == ""
