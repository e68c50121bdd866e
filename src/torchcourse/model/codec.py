"""Encode plain values as a JSON header and raw bytes, for files and sockets. Never pickle.

It serves the stored cases and observations of lessons, cases sent into the sandbox (with the layout of tensors:
strides, offset, the storage they are views of), and observations that come out of it. The latter are not trusted:
sizes, dtypes and depth are checked before anything is allocated.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import torch
from torch import Tensor

from torchcourse.model.observations import COMPILER_ERROR, Raised, Value

__all__ = ["MalformedError", "decode", "encode", "pack", "unpack", "unpacked_bytes"]

DTYPES = {
    str(d).removeprefix("torch."): d
    for d in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
        torch.uint16, torch.uint32, torch.uint64,
    )
}  # fmt: skip
MAX_LIST_LENGTH = 100_000
MAX_OUTPUT_LENGTH = 1 << 18
"""Characters of what a compiler wrote, which the message of a `COMPILER_ERROR` holds."""
MAX_LEVELS = 16
MAX_DIMENSIONS = 32
LENGTH = struct.Struct("<Q")
HEADER_FACTOR = 16
"""Typical memory of decoded values as a multiple of their JSON; the worst case, lists of empty lists, takes 26
times."""


class MalformedError(ValueError):
    """Data that `encode` or `pack` never produces."""


def encode(value: Value) -> tuple[Any, bytes]:
    """Return `value` as a JSON-able header and the bytes of its tensors, with their layout.

    Raises:
        TypeError: for a value that is not plain, or a tensor of an unsupported dtype.
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
        raise TypeError(f"tensors of {tensor.dtype} are not supported")
    raw = torch.empty(0, dtype=torch.uint8, device="cpu").set_(tensor.untyped_storage()).numpy().tobytes()
    begin, size[0] = size[0], size[0] + len(raw)
    chunks.append(raw)
    header: dict[str, Any] = {"dtype": kind, "shape": list(tensor.shape), "at": [begin, len(raw)]}
    if not (tensor.is_contiguous() and len(raw) == tensor.nbytes):
        header["layout"] = [list(tensor.stride()), tensor.storage_offset()]
    flags = {"conj": tensor.is_conj(), "neg": tensor.is_neg(), "grad": tensor.requires_grad}
    return header | {name: True for name, is_set in flags.items() if is_set}


def decode(header: Any, payload: bytes, *, trusted: bool = False) -> Value:
    """Return the value that `encode` was given.

    Raises:
        MalformedError: for what `encode` does not write and, unless `trusted`, for views, flags and long lists; and for
            what does not fit into memory.
    """
    try:
        return _Decoder(memoryview(payload), trusted).value(header, 0)
    except MalformedError:
        raise
    except (TypeError, ValueError, LookupError, RuntimeError, OverflowError, AttributeError, MemoryError) as error:
        raise MalformedError(f"{type(error).__name__}: {error}") from None


class _Decoder:
    """Decodes one value; the bytes of its tensors lie one after another in `payload`, as `encode` writes them.

    Tensors may not share bytes: a small message could then decode to many times its size.
    """

    def __init__(self, payload: memoryview, trusted: bool) -> None:
        self.payload, self.trusted, self.used = payload, trusted, 0

    def value(self, header: Any, depth: int) -> Value:
        """Decode the value that `header` describes, at this level of nesting."""
        if depth > MAX_LEVELS:
            raise MalformedError("nested too deeply")
        if not isinstance(header, dict):
            return _decode_scalar(header)
        if len(header) != 1:
            raise MalformedError("a tagged value has one tag")
        ((tag, body),) = header.items()
        if tag in ("list", "tuple", "dict") and not self.trusted and len(body) > MAX_LIST_LENGTH:
            raise MalformedError(f"{len(body)} items")
        match tag:
            case "tensor":
                return self.tensor(body)
            case "list":
                return [self.value(item, depth + 1) for item in body]
            case "tuple":
                return tuple(self.value(item, depth + 1) for item in body)
            case "dict":
                return {_text(key): self.value(item, depth + 1) for key, item in body}
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
                longest = MAX_OUTPUT_LENGTH if kind == COMPILER_ERROR else 1000
                return Raised(_text(kind)[:100], _text(message)[:longest], _text(reason)[:100])
        raise MalformedError(f"unknown tag {tag!r}")

    def tensor(self, body: dict[str, Any]) -> Tensor:
        """Decode a tensor, with its layout and flags where the data is trusted."""
        dtype, shape, (begin, length) = DTYPES[body["dtype"]], body["shape"], body["at"]
        numbers = [*shape, begin, length]
        if len(shape) > MAX_DIMENSIONS or any(type(n) is not int or n < 0 for n in numbers):
            raise MalformedError("a shape is a short list of sizes")
        if begin != self.used or begin + length > len(self.payload):
            raise MalformedError("tensors lie one after another in the bytes that came")
        self.used += length
        extra = body.keys() - {"dtype", "shape", "at"}
        if not self.trusted and (extra or math.prod(shape) * dtype.itemsize != length):
            raise MalformedError("a tensor's bytes do not fill its shape")
        flat = _flat(self.payload[begin : begin + length], dtype)
        tensor = flat.as_strided(shape, *body["layout"]) if "layout" in body else flat.view(shape)
        if body.get("conj"):
            tensor = tensor.conj()
        if body.get("neg"):
            tensor = torch._neg_view(tensor)
        return tensor.requires_grad_() if body.get("grad") else tensor


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise MalformedError("a text was expected")
    return value


def _decode_scalar(value: Any) -> Value:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise MalformedError(f"an untagged {type(value).__name__}")


def _flat(data: memoryview, dtype: torch.dtype) -> Tensor:
    if not data:
        return torch.empty(0, dtype=dtype, device="cpu")  # also if a learner has set another default
    if dtype is torch.bool:  # a byte that is neither 0 nor 1 would make a tensor that equals nothing
        return torch.frombuffer(bytearray(data), dtype=torch.uint8) != 0
    return torch.frombuffer(bytearray(data), dtype=dtype)


def pack(value: Value) -> bytes:
    """Return `value` as bytes: the header's length, the header, the payload."""
    header, payload = encode(value)
    head = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    return LENGTH.pack(len(head)) + head + payload


def unpack(data: bytes, *, trusted: bool = False) -> Value:
    """Return the value that `pack` was given.

    Raises:
        MalformedError: for bytes that `pack` does not write, or whose value does not fit into memory.
    """
    try:
        (length,) = LENGTH.unpack_from(data)
        header = json.loads(data[LENGTH.size : LENGTH.size + length])
    except (struct.error, ValueError, RecursionError, MemoryError) as error:
        raise MalformedError(f"no header: {error}") from None
    return decode(header, data[LENGTH.size + length :], trusted=trusted)


def unpacked_bytes(data: bytes) -> int:
    """Estimate how many bytes of memory `unpack` needs for `data`, which need not be well-formed."""
    length = LENGTH.unpack_from(data)[0] if len(data) >= LENGTH.size else 0
    return len(data) + HEADER_FACTOR * min(int(length), len(data))
