"""What a probe saw, as plain data: the only thing that leaves an answer's process, and the only thing compared."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

__all__ = ["EXACT", "Observations", "Raised", "Tolerance", "Value", "agree", "differing", "plain", "raised"]

Value: TypeAlias = Any
"""None, bool, int, float, complex, str, torch.dtype, Tensor, `Raised`, or a list, tuple or str-keyed dict of them."""
Observations: TypeAlias = dict[str, Value]

MISMATCH = (
    "to be on the same device", "on the same device as the indexed tensor", "device type tensor to numpy",
    "is on cpu, different from other tensors", "Expected out tensor to have device",
)  # fmt: skip
"""Words in torch's messages about tensors of two devices in one call."""


@dataclass(frozen=True)
class Raised:
    """An exception as an observation. Two agree when kind and reason do; the wording is for people.

    `reason` is empty unless the engine recognises the cause ("device mismatch"); with a reason the exception says
    as much as a value would, without one it is a mere exception.
    """

    kind: str
    message: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


@dataclass(frozen=True)
class Tolerance:
    """Two floats agree when they differ by at most `atol + rtol * |wanted|`."""

    rtol: float = 1e-4
    atol: float = 1e-5


EXACT = Tolerance(0.0, 0.0)


OBJECT = re.compile(r"<(?:[\w.]*\.)?(\w+) object at 0x[0-9a-f]+>")
"""How Python shows an object that has no words of its own: where it lies differs from run to run."""


def raised(error: BaseException) -> Raised:
    """The observation that `error` is, its reason recognised where that is possible."""
    try:
        message = str(error)
    except Exception:  # an answer's own exception class can do anything
        message = ""
    text = OBJECT.sub(r"<\1 object>", message.strip().split("\n")[0][:300]).rstrip(".")
    mismatch = any(words in message for words in MISMATCH)
    return Raised(type(error).__name__, text, "device mismatch" if mismatch else "")


def plain(value: object) -> Value:
    """`value` as plain data that shares nothing with the original; what has no plain form becomes its type's name.

    Tensors are detached, brought to the CPU and made contiguous; subclasses of numbers and strings become the base
    type, so that nothing an answer returns can later run code of its own.
    """
    if isinstance(value, Tensor):
        return _plain_tensor(value)
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    if isinstance(value, np.generic):
        return plain(value.item())
    if value is None or isinstance(value, torch.dtype | Raised):
        return value
    if isinstance(value, bool | int | float | complex | str):
        return _base_value(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return f"<{type(value).__name__}>"


def _base_value(value: bool | int | float | complex | str) -> Value:
    """A number or string as its base type's, whatever a subclass overrides."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    return float.__float__(value) if isinstance(value, float) else complex.__complex__(value)


def _plain_tensor(tensor: Tensor) -> Tensor:
    with torch._C.DisableTorchFunctionSubclass():  # a subclass may answer for itself
        copy = Tensor.cpu(Tensor.detach(tensor))
        copy = Tensor.resolve_neg(Tensor.resolve_conj(copy))
        return Tensor.clone(copy, memory_format=torch.contiguous_format).as_subclass(Tensor)


def _plain_array(array: np.ndarray[Any, Any]) -> Value:
    try:
        return torch.from_numpy(np.ascontiguousarray(array).copy()).reshape(array.shape)
    except TypeError:
        return f"<ndarray of {array.dtype}>"


def agree(seen: Value, wanted: Value, tolerance: Tolerance = EXACT) -> bool:
    """Whether two plain values are the same: kinds, shapes and dtypes exactly, floats within `tolerance`."""
    if isinstance(seen, Tensor) and isinstance(wanted, Tensor):
        return _tensors_agree(seen, wanted, tolerance)
    if isinstance(seen, Raised) and isinstance(wanted, Raised):
        return (seen.kind, seen.reason) == (wanted.kind, wanted.reason)
    if type(seen) is not type(wanted):
        return False
    if isinstance(seen, dict):
        return seen.keys() == wanted.keys() and all(agree(seen[k], wanted[k], tolerance) for k in wanted)
    if isinstance(seen, list | tuple):
        return len(seen) == len(wanted) and all(agree(s, w, tolerance) for s, w in zip(seen, wanted, strict=True))
    if isinstance(seen, float):
        return _floats_agree(seen, wanted, tolerance)
    return bool(seen == wanted)


def _tensors_agree(seen: Tensor, wanted: Tensor, tolerance: Tolerance) -> bool:
    if seen.shape != wanted.shape or seen.dtype != wanted.dtype:
        return False
    if not (seen.is_floating_point() or seen.is_complex()):
        return torch.equal(seen, wanted)
    wide = torch.complex128 if seen.is_complex() else torch.float64
    return torch.allclose(
        seen.to(wide), wanted.to(wide), rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True
    )


def _floats_agree(seen: float, wanted: float, tolerance: Tolerance) -> bool:
    if math.isnan(seen) or math.isnan(wanted):
        return math.isnan(seen) and math.isnan(wanted)
    if math.isinf(seen) or math.isinf(wanted):
        return seen == wanted
    return abs(seen - wanted) <= tolerance.atol + tolerance.rtol * abs(wanted)


def differing(seen: Observations, wanted: Observations, tolerance: Tolerance = EXACT) -> list[str]:
    """The names under which two sets of observations differ, in the order of `wanted`."""
    names = [*wanted, *(name for name in seen if name not in wanted)]
    return [n for n in names if n not in seen or n not in wanted or not agree(seen[n], wanted[n], tolerance)]
