"""The words for how an observation differs from the wanted one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from torchcourse.checking.differences import difference, relation, worst
from torchcourse.checking.result import compare_derived
from torchcourse.model.exercise import case
from torchcourse.model.observations import Tolerance

WANTED = torch.tensor([[1.0, -2.0, 3.0], [4.0, 0.0, 6.5]])


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (2 * WANTED, "every value is 2 times as large"),
        (1.0001 * WANTED, "every value is 1.0001 times as large"),
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


def test_float8_is_compared_with_other_types() -> None:
    got, want = (torch.tensor([1.0, other, 3.0, 5.0]).to(torch.float8_e4m3fn) for other in (2.0, 4.0))
    assert worst(got, want.float()) == worst(got, want) == (1,)
    assert relation(2 * want.float(), want, Tolerance()) == ""
    assert relation((2 * want.float()).to(want.dtype), want, Tolerance()) == "every value is 2 times as large"


def test_whole_numbers_are_related_too_and_a_few_values_are_not() -> None:
    assert relation(torch.tensor([2, 3, 4]), torch.tensor([1, 2, 3]), Tolerance()) == "every value is too large by 1"
    assert relation(torch.tensor([2.0, 4.0]), torch.tensor([1.0, 2.0]), Tolerance()) == ""


def test_the_digits_of_a_float32_are_told_where_float64_is_wanted() -> None:
    exactly = WANTED.double() / 3
    says = "the first digits agree, as when something is computed in float32"
    assert relation((WANTED / 3).double(), exactly, Tolerance(1e-10, 1e-12)) == says
    assert relation(exactly + 1e-8, exactly, Tolerance(1e-10, 1e-12)) == "every value is too large by 1e-08"
    one_wrong = exactly.clone()
    one_wrong[0, 0] += 1e-7
    assert relation(one_wrong, exactly, Tolerance(1e-10, 1e-12)) == ""
    assert relation(WANTED / 3 * (1 + 2**-22), WANTED / 3, Tolerance(0, 0)) != says


@pytest.mark.parametrize(
    ("got", "want", "texts"),
    [
        (2.5020491, 2.5020582, ["2.50205", "2.50206"]),
        (1.000049, 1.000051, ["1.000049", "1.000051"]),
        ([1.0] * 9 + [0.5], [1.0] * 10, ["0.5 at [9]", "1"]),
        ([WANTED, 2 * WANTED], [WANTED, WANTED], ["13 at [1, 2] in item [1]", "6.5"]),
        ({"a": 1, "b": [1.0, 2]}, {"a": 1, "b": [1.0004, 2]}, ["1 at ['b'][0]", "1.0004"]),
        (torch.tensor([1.0, 2.50201]).double(), torch.tensor([1.0, 2.50202]).double(), ["2.50201 at [1]", "2.50202"]),
        ([torch.ones(0)], [torch.ones(0).double()], ["[] of float32 at [0]", "[] of float64"]),
    ],
)
def test_values_that_look_alike_are_told_where_and_with_the_digits_in_which_they_differ(
    got: object, want: object, texts: list[str]
) -> None:
    fields = difference(compare_derived(case("any"), 0, "cpu", {"result": got}, {"result": want}), "result")
    assert [fields["got"], fields["want"]] == texts
