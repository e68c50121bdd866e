"""The inputs of a failed case, for learners to look at."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from torchcourse import case, check


def row_softmax(x: Tensor) -> Tensor:
    weights = (x - x.amax(dim=0, keepdim=True)).exp()
    return weights / weights.sum(dim=0, keepdim=True)


def test_the_inputs_of_the_first_failed_case_are_new_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    check(row_softmax)
    capsys.readouterr()
    inputs = case("row_softmax")
    assert capsys.readouterr().out == 'row_softmax: the case "a matrix", on the CPU.\n'
    assert not torch.allclose(row_softmax(**inputs).sum(-1), torch.ones(()))
    inputs["x"].zero_()
    assert case(row_softmax)["x"].any()


def test_a_case_that_fails_on_the_second_device_alone_comes_with_tensors_there() -> None:
    def causal_mask(x: Tensor) -> Tensor:
        return torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).triu(1)

    check(causal_mask)
    assert case("causal_mask")["x"].device.type != "cpu"


def test_what_was_not_checked_or_was_right_has_none() -> None:
    with pytest.raises(LookupError, match="`describe` has not been checked yet"):
        case("describe")

    def row_softmax(x: Tensor) -> Tensor:
        return (x - x.logsumexp(-1, keepdim=True)).exp()

    check(row_softmax)
    with pytest.raises(LookupError, match="No case of `row_softmax` failed"):
        case("row_softmax")
