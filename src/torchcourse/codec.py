"""Plain values as a JSON header and raw bytes, for the disk and for the wire. Never pickle.

The same form carries a lesson's stored cases and observations, cases on their way into the sandbox (where the layout
of a tensor matters: strides, offset, what it is a view of) and observations on their way out (where nothing is
believed: sizes, dtypes and depth are checked before anything is allocated).
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import torch
from torch import Tensor

from torchcourse.observations import Raised, Value

__all__ = ["MalformedError", "decode", "encode", "pack", "unpack", "weight"]

DTYPES = {
    str(d).removeprefix("torch."): d
    for d in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
        torch.uint16, torch.uint32, torch.uint64,
    )
}  # fmt: skip
LONGEST_LIST = 100_000
DEEPEST = 16
MOST_DIMENSIONS = 32
HEAD = struct.Struct("<Q")
HEADER_WEIGHT = 16
"""How much more memory plain values take than the JSON that they are read from, about."""


class MalformedError(ValueError):
    """Bytes or a header that no honest writer makes."""


def encode(value: Value) -> tuple[Any, bytes]:
    """`value` as a JSON-able header and the bytes of its tensors, layout kept.

    Raises:
        TypeError: for a value that is not plain, or a tensor of a dtype that is not carried.
    """
    chunks: list[bytes] = []
    header = _encode(value, chunks, [0])
    return header, b"".join(chunks)


def _encode(value: Value, chunks: list[bytes], size: list[int]) -> Any:
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if abs(value) < 2**53 else {"int": str(value)}
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is complex:
        return {"complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, Tensor):
        return {"tensor": _encode_tensor(value, chunks, size)}
    if isinstance(value, Raised):
        return {"raised": [value.kind, value.message, value.reason]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_encode(item, chunks, size) for item in value]}
    if type(value) is dict:
        return {"dict": [[str(key), _encode(item, chunks, size)] for key, item in value.items()]}
    raise TypeError(f"{type(value).__name__} is not plain data")


def _encode_tensor(tensor: Tensor, chunks: list[bytes], size: list[int]) -> dict[str, Any]:
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind not in DTYPES:
        raise TypeError(f"a tensor of {tensor.dtype} is not carried")
    raw = torch.empty(0, dtype=torch.uint8, device="cpu").set_(tensor.untyped_storage()).numpy().tobytes()
    begin, size[0] = size[0], size[0] + len(raw)
    chunks.append(raw)
    header: dict[str, Any] = {"dtype": kind, "shape": list(tensor.shape), "at": [begin, len(raw)]}
    if not (tensor.is_contiguous() and len(raw) == tensor.nbytes):
        header["layout"] = [list(tensor.stride()), tensor.storage_offset()]
    flags = {"conj": tensor.is_conj(), "neg": tensor.is_neg(), "grad": tensor.requires_grad}
    return header | {name: True for name, set_ in flags.items() if set_}


def decode(header: Any, payload: bytes, *, trusted: bool = False) -> Value:
    """The value that `encode` was given.

    Raises:
        MalformedError: for anything that `encode` does not write; views and flags are accepted only when `trusted`.
    """
    try:
        return _decode(header, memoryview(payload), trusted, 0)
    except MalformedError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, RuntimeError, OverflowError, AttributeError) as error:
        raise MalformedError(f"{type(error).__name__}: {error}") from None


def _decode(header: Any, payload: memoryview, trusted: bool, depth: int) -> Value:
    if depth > DEEPEST:
        raise MalformedError("nested too deeply")
    if not isinstance(header, dict):
        return _decode_scalar(header)
    if len(header) != 1:
        raise MalformedError("a tagged value has one tag")
    ((tag, body),) = header.items()
    if tag in ("list", "tuple", "dict") and not trusted and len(body) > LONGEST_LIST:
        raise MalformedError(f"{len(body)} items")
    match tag:
        case "tensor":
            return _decode_tensor(body, payload, trusted)
        case "list":
            return [_decode(item, payload, trusted, depth + 1) for item in body]
        case "tuple":
            return tuple(_decode(item, payload, trusted, depth + 1) for item in body)
        case "dict":
            return {_text(key): _decode(item, payload, trusted, depth + 1) for key, item in body}
        case "int":
            return int(_text(body)[:400])
        case "float":
            return float(_text(body))
        case "complex":
            return complex(float(_text(body[0])), float(_text(body[1])))
        case "dtype":
            return DTYPES[body]
        case "raised":
            kind, message, reason = body
            return Raised(_text(kind)[:100], _text(message)[:1000], _text(reason)[:100])
    raise MalformedError(f"unknown tag {tag!r}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise MalformedError("a text was expected")
    return value


def _decode_scalar(value: Any) -> Value:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise MalformedError(f"an untagged {type(value).__name__}")


def _decode_tensor(body: dict[str, Any], payload: memoryview, trusted: bool) -> Tensor:
    dtype, shape, (begin, length) = DTYPES[body["dtype"]], body["shape"], body["at"]
    numbers = [*shape, begin, length]
    if len(shape) > MOST_DIMENSIONS or any(type(n) is not int or n < 0 for n in numbers):
        raise MalformedError("a shape is a short list of sizes")
    if begin + length > len(payload):
        raise MalformedError("a tensor reaches past the bytes that came")
    extra = body.keys() - {"dtype", "shape", "at"}
    if not trusted and (extra or math.prod(shape) * dtype.itemsize != length):
        raise MalformedError("a tensor's bytes do not fill its shape")
    if length == 0:
        flat = torch.empty(0, dtype=dtype, device="cpu")  # whatever a learner has made the default
    elif dtype is torch.bool:  # a byte that is neither 0 nor 1 would make a tensor that equals nothing
        flat = torch.frombuffer(bytearray(payload[begin : begin + length]), dtype=torch.uint8) != 0
    else:
        flat = torch.frombuffer(bytearray(payload[begin : begin + length]), dtype=dtype)
    if "layout" in body:
        stride, offset = body["layout"]
        tensor = flat.as_strided(shape, stride, offset)
    else:
        tensor = flat.view(shape)
    if body.get("conj"):
        tensor = tensor.conj()
    if body.get("neg"):
        tensor = torch._neg_view(tensor)
    return tensor.requires_grad_() if body.get("grad") else tensor


def pack(value: Value) -> bytes:
    """`value` as one run of bytes: the header's length, the header, the payload."""
    header, payload = encode(value)
    head = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    return HEAD.pack(len(head)) + head + payload


def unpack(data: bytes, *, trusted: bool = False) -> Value:
    """The value that `pack` was given.

    Raises:
        MalformedError: for bytes that `pack` does not write.
    """
    try:
        (length,) = HEAD.unpack_from(data)
        header = json.loads(data[HEAD.size : HEAD.size + length])
    except (struct.error, ValueError, RecursionError) as error:
        raise MalformedError(f"no header: {error}") from None
    return decode(header, data[HEAD.size + length :], trusted=trusted)


def weight(data: bytes) -> int:
    """About how many bytes of memory `unpack` takes for these bytes; `data` may be packed by anybody."""
    length = HEAD.unpack_from(data)[0] if len(data) >= HEAD.size else 0
    return len(data) + HEADER_WEIGHT * min(int(length), len(data))
