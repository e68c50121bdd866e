"""Plain values on the disk and on the wire: they come back as they were, and bytes of strangers do no harm."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchcourse.codec import DTYPES, MalformedError, decode, encode, pack, unpack
from torchcourse.observations import Raised, agree

QUICK = settings(max_examples=40, deadline=None)
MANY = settings(max_examples=250, deadline=None)

texts = st.text(max_size=20)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), texts, st.complex_numbers(),
    st.sampled_from([*DTYPES.values()]), st.builds(Raised, texts, texts, texts),
)  # fmt: skip


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    """Tensors of every dtype, dense or as some view: transposed, sliced, expanded, conjugate, negative."""
    dtype = draw(st.sampled_from([*DTYPES.values()]))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    raw = draw(st.binary(min_size=math.prod(shape), max_size=math.prod(shape)))
    tensor = torch.tensor([*raw], dtype=torch.int64).reshape(shape).to(dtype)
    if tensor.dim() and draw(st.booleans()):
        tensor = tensor.transpose(0, -1)
    if tensor.dim() and draw(st.booleans()):
        tensor = tensor[1:] if draw(st.booleans()) else tensor[::2]
    if draw(st.booleans()):
        tensor = tensor.unsqueeze(0).expand(3, *tensor.shape)
    if tensor.is_complex() and draw(st.booleans()):
        tensor = tensor.conj()
    if tensor.is_floating_point() and draw(st.booleans()):
        tensor = torch._neg_view(tensor)
    if (tensor.is_floating_point() or tensor.is_complex()) and draw(st.booleans()):
        tensor = tensor.detach().requires_grad_()
    return tensor


values = st.recursive(
    st.one_of(scalars, tensors()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(texts, inner, max_size=3)
    ),
    max_leaves=5,
)


def same_text(one: Any, other: Any) -> bool:
    """Equal to the last bit, NaN included."""
    return repr(one) == repr(other)


@QUICK
@given(values)
def test_what_is_packed_comes_back(value: Any) -> None:
    back = unpack(pack(value), trusted=True)
    assert same_text(back, value)
    assert agree(back, value) or "nan" in repr(value)


def place(tensor: Tensor) -> list[Any]:
    """Offset and strides as far as they matter: where there are elements, and a next one in a dimension."""
    if not tensor.numel():
        return []
    return [tensor.storage_offset(), *(s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1)]


@QUICK
@given(tensors())
def test_the_layout_of_a_tensor_comes_back(tensor: Tensor) -> None:
    back = unpack(pack(tensor), trusted=True)
    assert back.shape == tensor.shape
    assert place(back) == place(tensor)
    assert back.untyped_storage().nbytes() == tensor.untyped_storage().nbytes()
    flags = [(t.is_conj(), t.is_neg(), t.requires_grad, t.dtype) for t in (back, tensor)]
    assert flags[0] == flags[1]


def test_a_tensor_that_came_back_shares_no_memory() -> None:
    tensor = torch.zeros(3)
    unpack(pack(tensor)).add_(1)
    assert tensor.tolist() == [0, 0, 0]


def test_a_stranger_may_not_choose_strides_or_flags() -> None:
    for tensor in (torch.zeros(2, 3).t(), torch.zeros(3).requires_grad_(), torch.zeros(4)[1:]):
        with pytest.raises(MalformedError):
            unpack(pack(tensor))
        assert agree(unpack(pack(tensor), trusted=True), tensor)


UNPLAIN = [object(), {1, 2}, b"bytes", torch.zeros(2).to_sparse(), torch.zeros(2, device="meta")]


@pytest.mark.parametrize("value", UNPLAIN)
def test_what_is_not_plain_is_not_carried(value: object) -> None:
    with pytest.raises((TypeError, RuntimeError, NotImplementedError)):
        pack(value)


tags = st.sampled_from(["tensor", "list", "tuple", "dict", "int", "float", "complex", "dtype", "raised"])
jsons = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(tags, texts), inner, max_size=2)),
    max_leaves=12,
)


def unpack_or_refuse(data: bytes) -> None:
    """Either a value comes out, or `MalformedError` does."""
    with contextlib.suppress(MalformedError):
        unpack(data)


@MANY
@given(jsons, st.binary(max_size=64))
def test_any_header_gives_a_value_or_malformed_error(header: Any, payload: bytes) -> None:
    head = json.dumps(header).encode()
    unpack_or_refuse(struct.pack("<Q", len(head)) + head + payload)


@MANY
@given(tag=tags, body=jsons, payload=st.binary(max_size=32))
def test_any_body_of_a_known_tag_gives_a_value_or_malformed_error(tag: str, body: Any, payload: bytes) -> None:
    with contextlib.suppress(MalformedError):
        decode({tag: body}, payload)


numbers = st.one_of(st.integers(-2, 9), st.integers(), st.sampled_from([2**31, 2**62, 2**63, 2**64]), st.floats())


@MANY
@given(
    dtype=st.one_of(st.sampled_from([*DTYPES]), texts), shape=st.lists(numbers, max_size=4),
    at=st.lists(numbers, max_size=3),
    layout=st.none() | st.tuples(st.lists(numbers, max_size=3), numbers).map(list), payload=st.binary(max_size=64),
)  # fmt: skip
def test_any_tensor_header_gives_a_tensor_of_its_bytes_or_malformed_error(
    dtype: str, shape: list[Any], at: list[Any], layout: Any, payload: bytes
) -> None:
    body = {"dtype": dtype, "shape": shape, "at": at} | ({} if layout is None else {"layout": layout})
    try:
        tensor = decode({"tensor": body}, payload)
    except MalformedError:
        return
    assert tensor.is_contiguous()
    assert tensor.nbytes <= len(payload)


@MANY
@given(values, st.data())
def test_flipped_and_missing_bytes_give_a_value_or_malformed_error(value: Any, data: st.DataObject) -> None:
    packed = bytearray(pack(value))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    unpack_or_refuse(bytes(packed[: data.draw(st.integers(0, len(packed)))]))


@given(st.binary(max_size=100))
@QUICK
def test_noise_gives_a_value_or_malformed_error(noise: bytes) -> None:
    unpack_or_refuse(noise)


def test_nesting_without_end_is_refused() -> None:
    header: Any = 1
    for _ in range(50):
        header = {"list": [header]}
    with pytest.raises(MalformedError, match="deep"):
        decode(header, b"")
    head = b'{"list":[' * 5000 + b"]}" * 5000
    with pytest.raises(MalformedError):
        unpack(struct.pack("<Q", len(head)) + head)


def test_a_list_without_end_is_refused() -> None:
    header, payload = encode([0] * 100_001)
    with pytest.raises(MalformedError, match="100001"):
        decode(header, payload)
    assert len(decode(header, payload, trusted=True)) == 100_001


def test_a_tensor_of_more_than_came_is_refused_before_anything_is_allocated() -> None:
    for shape, at in (([2**40], [0, 2**42]), ([3], [0, 12]), ([-1], [0, 4]), ([1] * 33, [0, 4])):
        with pytest.raises(MalformedError):
            decode({"tensor": {"dtype": "float32", "shape": shape, "at": at}}, b"\0" * 8)
