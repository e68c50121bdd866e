"""Plain values on the disk and on the wire: they come back as they were, and bytes of strangers do no harm."""

from __future__ import annotations

import contextlib
import json
import math
import random
import re
import struct
import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchcourse.model.codec import DTYPES, MalformedError, decode, encode, pack, unpack
from torchcourse.model.observations import Raised, agree

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


@QUICK
@given(values)
def test_what_is_packed_comes_back(value: Any) -> None:
    back = unpack(pack(value), trusted=True)
    assert repr(back) == repr(value)  # to the last bit, NaN included
    assert agree(back, value) or "nan" in repr(value)


def place(tensor: Tensor) -> list[Any]:
    """Offset and strides as far as they matter: where there are elements, and a next one in a dimension."""
    if not tensor.numel():
        return []
    return [tensor.storage_offset(), *(s for n, s in zip(tensor.shape, tensor.stride(), strict=True) if n > 1)]


@QUICK
@given(tensors())
def test_the_layout_of_a_tensor_comes_back_in_memory_of_its_own(tensor: Tensor) -> None:
    back = unpack(pack(tensor), trusted=True)
    assert back.shape == tensor.shape
    assert place(back) == place(tensor)
    assert back.untyped_storage().nbytes() == tensor.untyped_storage().nbytes()
    flags = [(t.is_conj(), t.is_neg(), t.requires_grad, t.dtype) for t in (back, tensor)]
    assert flags[0] == flags[1]
    assert not tensor.numel() or back.data_ptr() != tensor.data_ptr()


def test_a_stranger_may_not_choose_strides_or_flags() -> None:
    for tensor in (torch.ones(2, 3).triu().t(), torch.zeros(3).requires_grad_(), torch.arange(4)[1:]):
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


@MANY
@given(jsons.map(lambda header: json.dumps(header).encode()) | st.binary(max_size=64), st.binary(max_size=64))
def test_any_header_gives_a_value_or_malformed_error(head: bytes, payload: bytes) -> None:
    for data in (struct.pack("<Q", len(head)) + head + payload, head + payload):
        with contextlib.suppress(MalformedError):
            unpack(data)


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
    with contextlib.suppress(MalformedError):
        unpack(bytes(packed[: data.draw(st.integers(0, len(packed)))]))


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


def test_tensors_that_claim_the_same_bytes_are_refused() -> None:
    """4 MB that 3,900 tensors claimed each became 16 GB in the grader."""
    one = {"tensor": {"dtype": "uint8", "shape": [8], "at": [0, 8]}}
    assert torch.equal(decode(one, bytes(8)), torch.zeros(8, dtype=torch.uint8))
    for trusted in (False, True):
        with pytest.raises(MalformedError, match="one after another"):
            decode({"list": [one, one]}, bytes(16), trusted=trusted)


def size(value: Any) -> int:
    """Return about how many bytes of memory a value takes."""
    if isinstance(value, Tensor):
        return value.untyped_storage().nbytes() + 500
    if isinstance(value, dict | list | tuple):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return sys.getsizeof(value) + sum(map(size, parts))
    return sys.getsizeof(value) + (200 if isinstance(value, Raised) else 0)


def test_no_reply_takes_more_memory_than_a_multiple_of_its_bytes_or_raises_another_error() -> None:
    """20,000 replies: values as the sandbox sends them, half of them with numbers and tags of the header exchanged."""
    chance = random.Random(1)
    parts = [
        "tensor",
        "list",
        "dict",
        "int",
        "float",
        "raised",
        "uint8",
        "bool",
        "[0,4]",
        "[2]",
        "[[]]",
        "0",
        "7",
        "-1",
    ]
    tensor = torch.arange(8, dtype=torch.uint8)
    seeds = [pack({"seen": {"result": [tensor] * n, "kind": Raised("E", "x" * n), "n": [1, 2.5, None] * n}})
             for n in range(12)]  # fmt: skip
    refused = 0
    for _ in range(20_000):
        data = chance.choice(seeds)
        length = struct.unpack_from("<Q", data)[0]
        head, payload = data[8 : 8 + length].decode(), data[8 + length :]
        for _ in range(chance.choice([0, 0, 1, 2, 8])):
            tokens = re.split(r"(\w+)", head)
            tokens[chance.randrange(len(tokens))] = chance.choice(parts)
            head = "".join(tokens)
        broken = struct.pack("<Q", len(head)) + head.encode() + payload
        try:
            value = unpack(broken)
        except MalformedError:
            refused += 1
        else:
            assert size(value) <= 32 * len(broken) + 1000
    assert 2_000 < refused < 18_000


@pytest.mark.parametrize("place", ["json.loads", "torch.frombuffer"])
def test_what_does_not_fit_into_memory_is_malformed(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's reply that is too large costs its own exercise, and not the batch."""

    def refuse(*_: object, **__: object) -> None:
        raise MemoryError

    data = pack({"seen": torch.ones(3)})
    monkeypatch.setattr(place, refuse)
    with pytest.raises(MalformedError):
        unpack(data)
