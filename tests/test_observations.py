"""What a probe saw becomes plain data, and two observations agree or do not."""

from __future__ import annotations

import collections
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchcourse.observations import EXACT, Raised, Tolerance, agree, differing, plain, raised

QUICK = settings(max_examples=100, deadline=None)


class Point(NamedTuple):
    x: int
    y: Tensor


class Lying(float):
    def __float__(self) -> float:
        raise AssertionError("code of the answer's own ran")

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__


class Shouting(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Sub(torch.Tensor):
    pass


def test_a_plain_tensor_is_a_copy_on_the_cpu_without_history() -> None:
    original = torch.ones(2, 3, requires_grad=True)
    copy = plain(original.t())
    assert not copy.requires_grad
    assert copy.is_contiguous()
    with torch.no_grad():
        original.add_(1)
    assert copy.tolist() == torch.ones(3, 2).tolist()


def test_a_plain_tensor_holds_what_conjugate_and_negative_views_promise() -> None:
    waves = torch.tensor([1 + 2j, 3 - 4j])
    assert plain(waves.conj()).tolist() == [1 - 2j, 3 + 4j]
    assert plain(waves.conj().imag).tolist() == [-2, 4]
    assert not plain(waves.conj()).is_conj()


def test_a_subclass_becomes_what_it_is_a_subclass_of() -> None:
    assert type(plain(Lying(0.5))) is float
    assert plain(Shouting("text")) == "text"
    assert type(plain(Shouting("text"))) is str
    assert type(plain(torch.Size([2, 3]))) is tuple
    assert type(plain(collections.OrderedDict(a=1))) is dict
    assert type(plain(Point(1, torch.ones(1)))) is tuple
    assert type(plain(torch.ones(2).as_subclass(Sub))) is Tensor
    assert type(plain(torch.nn.Parameter(torch.ones(2)))) is Tensor


def test_values_of_numpy_become_values_of_torch_and_python() -> None:
    assert plain(np.float32(0.5)) == 0.5
    assert type(plain(np.int64(3))) is int
    assert plain(np.bool_(True)) is True
    array = np.arange(6.0).reshape(2, 3).T
    assert agree(plain(array), torch.arange(6.0, dtype=torch.float64).reshape(2, 3).T)
    assert plain(np.array(2.5)).shape == ()
    assert plain(np.arange(4)[::-1]).tolist() == [3, 2, 1, 0]
    assert plain(np.array(["a"])) == "<ndarray of <U1>"


@pytest.mark.parametrize("value", [object(), len, {1, 2}, (i for i in range(3)), torch.device("cpu"), type])
def test_what_has_no_plain_form_becomes_the_name_of_its_type(value: object) -> None:
    assert plain(value) == f"<{type(value).__name__}>"


def test_containers_are_plain_all_through() -> None:
    seen = plain({1: [np.float64(1.0), (torch.ones(1), None)], "b": {"c": True}})
    assert agree(seen, {"1": [1.0, (torch.ones(1), None)], "b": {"c": True}})


def test_kinds_shapes_and_dtypes_agree_exactly() -> None:
    pairs: list[tuple[Any, Any]] = [
        (1, 1.0), (1, True), ("1", 1), ([1], (1,)), (None, 0), ({"a": 1}, {"b": 1}), ({"a": 1}, {"a": 1, "b": 1}),
        (torch.ones(2), torch.ones(2, 1)), (torch.ones(2), torch.ones(2).double()), (torch.ones(1), 1.0),
        (torch.float32, torch.float64), (torch.float32, "torch.float32"), (Raised("A"), "A"), ([1, 2], [1]),
    ]  # fmt: skip
    for one, other in pairs:
        assert not agree(one, other, Tolerance(10, 10))
        assert not agree(other, one, Tolerance(10, 10))
        assert agree(one, one)
        assert agree(other, other)


floats = st.floats(width=32)


@QUICK
@given(floats, floats)
def test_numbers_agree_as_tensors_do(seen: float, wanted: float) -> None:
    for tolerance in (EXACT, Tolerance(1e-3, 1e-3), Tolerance(0.0, 1.0)):
        as_tensors = agree(torch.tensor(seen).double(), torch.tensor(wanted).double(), tolerance)
        assert agree(seen, wanted, tolerance) is as_tensors
        assert agree(complex(seen, 0), complex(seen, 0)) or math.isnan(seen)


def test_nan_agrees_with_nan_and_with_nothing_else() -> None:
    nan, number = torch.tensor([math.nan, 1.0]), torch.tensor([0.0, 1.0])
    assert agree(nan, nan)
    assert not agree(nan, number, Tolerance(1e9, 1e9))
    assert agree(math.nan, math.nan)
    assert not agree(math.nan, 0.0, Tolerance(1e9, 1e9))
    assert not agree(math.inf, 1e30, Tolerance(1e9, 1e9))
    assert not agree(torch.tensor(math.inf), torch.tensor(-math.inf), Tolerance(1e9, 1e9))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_the_tolerance_counts_from_what_is_wanted(dtype: torch.dtype) -> None:
    wanted = torch.tensor([2.0, -4.0], dtype=dtype)
    assert agree(wanted * 1.0625, wanted, Tolerance(0.0625, 0.0))
    assert not agree(wanted * 1.125, wanted, Tolerance(0.0625, 0.0))
    assert agree(wanted + 0.125, wanted, Tolerance(0.0, 0.125))


def test_integers_and_flags_agree_exactly_whatever_the_tolerance() -> None:
    assert not agree(torch.tensor([1, 2]), torch.tensor([1, 3]), Tolerance(1.0, 10.0))
    assert not agree(torch.tensor([True]), torch.tensor([False]), Tolerance(1.0, 10.0))
    assert not agree(1, 2, Tolerance(1.0, 10.0))


def test_exceptions_agree_by_kind_and_reason_and_not_by_their_words() -> None:
    assert agree(Raised("ValueError", "one way to say it"), Raised("ValueError", "another"))
    assert not agree(Raised("ValueError"), Raised("TypeError"))
    assert not agree(Raised("RuntimeError", "", "device mismatch"), Raised("RuntimeError"))


@pytest.mark.parametrize(
    "words",
    [
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "Expected all tensors to be on the same device, but got index is on cpu, different from other tensors",
        "indices should be either on cpu or on the same device as the indexed tensor (cpu)",
        "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
        "Expected out tensor to have device cuda:0, but got cpu instead",
    ],
)
def test_a_mixture_of_devices_is_recognised_in_what_torch_says(words: str) -> None:
    assert raised(RuntimeError(words)).reason == "device mismatch"


def test_other_exceptions_have_no_reason() -> None:
    for words in ("can't convert np.ndarray of type numpy.object_", "mat1 and mat2 shapes cannot be multiplied", ""):
        assert raised(RuntimeError(words)).reason == ""


def test_of_an_exception_the_first_line_is_kept() -> None:
    assert raised(ValueError("size is 0.\nand more")) == Raised("ValueError", "size is 0")
    assert len(raised(ValueError("x" * 10_000)).message) <= 300


def test_an_exception_that_cannot_say_what_it_is_does_no_harm() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    assert raised(MuteError()) == Raised("MuteError")


def test_what_differs_is_told_in_the_order_of_what_is_wanted() -> None:
    wanted = {"result": 1.0, "device": "the input's", "contiguous": True}
    seen = {"contiguous": False, "extra": 0, "result": 1.5, "device": "the input's"}
    assert differing(seen, wanted) == ["result", "contiguous", "extra"]
    assert differing(seen, wanted, Tolerance(1.0, 0.0)) == ["contiguous", "extra"]
    assert differing({}, wanted) == ["result", "device", "contiguous"]
    assert differing(wanted, wanted) == []
