"""What a probe saw becomes plain data, and two observations agree or do not."""

from __future__ import annotations

import collections
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchcourse.model.observations import (
    EXACT,
    Raised,
    Tolerance,
    agree,
    base_containers,
    differing,
    plain,
    raised,
    refuse_foreign,
)

QUICK = settings(max_examples=100, deadline=None)


def test_a_plain_tensor_is_a_copy_on_the_cpu_without_history_or_flags() -> None:
    original = torch.ones(2, 3, requires_grad=True)
    copy = plain(original.t())
    assert not copy.requires_grad
    assert copy.is_contiguous()
    with torch.no_grad():
        original.add_(1)
    assert copy.tolist() == torch.ones(3, 2).tolist()
    waves = torch.tensor([1 + 2j, 3 - 4j])
    assert plain(waves.conj()).tolist() == [1 - 2j, 3 + 4j]
    assert plain(waves.conj().imag).tolist() == [-2, 4]
    assert not plain(waves.conj()).is_conj()


class Lying(float):
    def __float__(self) -> float:
        raise AssertionError("code of the answer's own ran")


class Shouting(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Sub(torch.Tensor):
    pass


Point = collections.namedtuple("Point", ["x", "y"])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Lying(0.5), float),
        (Shouting("text"), str),
        (torch.Size([2, 3]), tuple),
        (collections.OrderedDict(a=1), dict),
        (Point(1, torch.ones(1)), tuple),
        (torch.nn.Parameter(torch.ones(2)), Tensor),
        (np.int64(3), int),
        (np.bool_(True), bool),
        (np.float32(0.5), float),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_subclass_becomes_what_it_is_a_subclass_of(value: Any, kind: type) -> None:
    assert type(plain(value)) is kind
    assert plain(Shouting("text")) == "text"


def test_a_tensor_of_a_class_of_ones_own_is_not_read() -> None:
    assert plain(torch.ones(2).as_subclass(Sub)) == "<Sub>"
    with pytest.raises(TypeError, match="Sub is a class of its own"):
        refuse_foreign({"a": [torch.ones(2).as_subclass(Sub)]})
    refuse_foreign([torch.ones(2), torch.nn.Parameter(torch.ones(2))])


def test_a_result_that_is_too_much_to_look_at_is_refused_at_once() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for wide in ([[[]] * 90_000 for _ in range(12)], {"a": ((0,) * 100_001,)}, endless):
        with pytest.raises(ValueError, match="more than 100,000 values, or itself"):
            refuse_foreign(wide)
    refuse_foreign([0] * 90_000)


class Later(tuple[Any, ...]):
    def __iter__(self) -> Any:
        raise AssertionError("code of the answer's own ran")

    __getitem__ = __len__ = __iter__


def test_a_container_of_a_class_of_ones_own_becomes_its_base_type_and_runs_nothing() -> None:
    x = torch.ones(2)
    later = Later((x, [1]))
    refuse_foreign({"a": later})
    inside = base_containers({"a": later})["a"]
    assert type(inside) is tuple
    assert inside[0] is x
    for same in ([1, (x,)], {"a": {1: x}}, collections.OrderedDict(a=x), torch.ones(2, 3).max(0)):
        assert base_containers(same) is same


def test_containers_and_values_of_numpy_are_plain_all_through() -> None:
    seen = plain({1: [np.float64(1.0), (torch.ones(1), None)], "b": {"c": np.bool_(True)}})
    assert agree(seen, {"1": [1.0, (torch.ones(1), None)], "b": {"c": True}})
    array = np.arange(6.0).reshape(2, 3).T
    assert agree(plain(array), torch.arange(6.0, dtype=torch.float64).reshape(2, 3).T)
    assert plain(np.array(2.5)).shape == ()
    assert plain(np.arange(4)[::-1]).tolist() == [3, 2, 1, 0]
    assert plain(np.array(["a"])) == "<ndarray of <U1>"


@pytest.mark.parametrize("value", [object(), len, {1, 2}, (i for i in range(3)), torch.device("cpu"), type])
def test_what_has_no_plain_form_becomes_the_name_of_its_type(value: object) -> None:
    assert plain(value) == f"<{type(value).__name__}>"


def test_an_int_too_long_to_write_out_is_described() -> None:
    assert plain([2**10_000, 2**9_000, True]) == ["<an int of 10001 bits>", 2**9_000, True]
    assert plain({2**20_000: 1, 2: 1}) == {"<int>": 1, "2": 1}


NAN = math.nan
DIFFERENT: list[tuple[Any, Any]] = [
    (1, 1.0), (1, True), ("1", 1), ([1], (1,)), (None, 0), ({"a": 1}, {"b": 1}), ({"a": 1}, {"a": 1, "b": 1}),
    (torch.ones(2), torch.ones(2, 1)), (torch.ones(2), torch.ones(2).double()), (torch.ones(1), 1.0),
    (torch.float32, torch.float64), (torch.float32, "torch.float32"), (Raised("A"), "A"), ([1, 2], [1]),
    (torch.tensor([1, 2]), torch.tensor([1, 3])), (torch.tensor([True]), torch.tensor([False])), (1, 2),
    (torch.tensor([NAN, 1.0]), torch.tensor([0.0, 1.0])), (NAN, 0.0), (math.inf, 1e30),
    (torch.tensor(math.inf), torch.tensor(-math.inf)), (Raised("ValueError"), Raised("TypeError")),
    (Raised("RuntimeError", "", "device mismatch"), Raised("RuntimeError")),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_kinds_shapes_dtypes_and_what_is_no_number_agree_exactly(one: Any, other: Any) -> None:
    assert not agree(one, other, Tolerance(1e9, 1e9))
    assert not agree(other, one, Tolerance(1e9, 1e9))
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_the_tolerance_counts_from_what_is_wanted(dtype: torch.dtype) -> None:
    wanted = torch.tensor([2.0, -4.0], dtype=dtype)
    assert agree(wanted * 1.0625, wanted, Tolerance(0.0625, 0.0))
    assert not agree(wanted * 1.125, wanted, Tolerance(0.0625, 0.0))
    assert agree(wanted + 0.125, wanted, Tolerance(0.0, 0.125))


MIXTURE = "device mismatch"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!", MIXTURE),
        ("Expected all tensors to be on the same device, but got index is on cpu, different from others", MIXTURE),
        ("indices should be either on cpu or on the same device as the indexed tensor (cpu)", MIXTURE),
        ("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor first.", MIXTURE),
        ("Expected out tensor to have device cuda:0, but got cpu instead", MIXTURE),
        ("can't convert np.ndarray of type numpy.object_", ""),
        ("mat1 and mat2 shapes cannot be multiplied", ""),
        ("", ""),
    ],
)
def test_a_mixture_of_devices_is_recognised_in_what_torch_says(words: str, reason: str) -> None:
    assert raised(RuntimeError(words)).reason == reason


def test_of_an_exception_the_first_line_is_kept_and_no_two_agree_or_differ_by_their_words() -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    assert raised(ValueError("size is 0.\nand more")) == Raised("ValueError", "size is 0")
    assert len(raised(ValueError("x" * 10_000)).message) <= 300
    assert raised(MuteError()) == Raised("MuteError")
    assert agree(Raised("ValueError", "one way to say it"), Raised("ValueError", "another"))


def test_what_differs_is_told_in_the_order_of_what_is_wanted() -> None:
    wanted = {"result": 1.0, "device": "the input's", "contiguous": True}
    seen = {"contiguous": False, "extra": 0, "result": 1.5, "device": "the input's"}
    assert differing(seen, wanted) == ["result", "contiguous", "extra"]
    assert differing(seen, wanted, Tolerance(1.0, 0.0)) == ["contiguous", "extra"]
    assert differing({}, wanted) == ["result", "device", "contiguous"]
    assert differing(wanted, wanted) == []
