"""Observations: what a probe saw, as plain data. Only these leave an answer's process and are compared."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torchcourse.model.own_code import is_own

__all__ = [
    "EXACT",
    "Observations",
    "Raised",
    "Tolerance",
    "Value",
    "agree",
    "base_containers",
    "differing",
    "is_foreign",
    "kind",
    "plain",
    "raised",
    "refuse_foreign",
]

Value: TypeAlias = Any
"""None, bool, int, float, complex, str, torch.dtype, Tensor, `Raised`, or a list, tuple or str-keyed dict of them."""
Observations: TypeAlias = dict[str, Value]

FORBIDDEN = "forbidden calls"
"""The name of an observation: which calls an answer made that its exercise does not allow."""

UNUSABLE = "nothing: the check could not use it"
"""How an observation `returned` begins if the probe stopped before the answer had returned anything."""

MISMATCH = (
    "to be on the same device", "on the same device as the indexed tensor", "device type tensor to numpy",
    "is on cpu, different from other tensors", "Expected out tensor to have device",
)  # fmt: skip
"""Parts of torch's messages about tensors of two devices in one call."""


@dataclass(frozen=True)
class Raised:
    """An exception as an observation. Two agree if `kind` and `reason` do.

    Attributes:
        kind: the name of its class.
        message: its wording, for people.
        reason: its cause ("device mismatch") if recognised, else "". An exception with a reason is as strong evidence
            as a wrong value.
    """

    kind: str
    message: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


@dataclass(frozen=True)
class Tolerance:
    """Two floats agree if they differ by at most `atol + rtol * |wanted|`."""

    rtol: float = 1e-4
    atol: float = 1e-5


EXACT = Tolerance(0.0, 0.0)


COMPILER_ERROR = "CompilerError"
"""The kind of exception whose message is what a compiler wrote, in lines of its own."""
LIBRARIES = ("builtins", "collections", "torch", "torchvision", "torchcourse")
"""Packages whose subclasses of Tensor, list, tuple and dict an answer may return."""
GENERATED = "<string>"
"""The file of methods that Python writes for named tuples and data classes."""
MAX_VALUES = 100_000
"""The most values that a result may hold; walking through more could take arbitrarily long."""
MAX_BITS = 10_000
"""From so many bits on, an int is described: Python refuses to write out one of more than 4,300 digits."""

OBJECT = re.compile(r"<(?:[\w.]*\.)?(\w+) object at 0x[0-9a-f]+>")
"""Python's default repr of an object, with its address, which differs from run to run."""


def raised(error: BaseException) -> Raised:
    """Return an exception as an observation, with its reason if that is recognised."""
    try:
        message = str(error)
    except Exception:  # an answer may define its own exception class
        message = ""
    first, *more = message.strip().split("\n")
    if first.endswith("raised:") and more:  # Dynamo's, about a backend: the next line says what
        first = f"{first} {more[0].strip()}"
    text = OBJECT.sub(r"<\1 object>", first[:300]).rstrip(".")
    mismatch = any(words in message for words in MISMATCH)
    return Raised(type(error).__name__, text, "device mismatch" if mismatch else "")


def kind(value: object) -> str:
    """Describe what sort of thing an answer returned."""
    if value is None:
        return "nothing: a `return` is missing, or has no value"
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"a value of type {type(value).__name__}"


def is_foreign(tensor: Tensor) -> bool:
    """Return whether a tensor is of a class that neither torch nor the course defines.

    Such a class may compute when it is looked at, and say of itself what it likes.
    """
    return type(tensor) not in (Tensor, torch.nn.Parameter) and _is_own(type(tensor))


def _is_own(cls: type) -> bool:
    """Return whether a class is a learner's own, whatever it says of itself, and wherever it was put."""
    defined = vars(sys.modules.get(cls.__module__, object)).get(cls.__qualname__)
    if defined is not cls or cls.__module__.split(".")[0] not in LIBRARIES:
        return True
    functions = (getattr(member, "__func__", member) for member in vars(cls).values())
    codes = (function.__code__ for function in functions if type(function) is FunctionType)
    return any(code.co_filename != GENERATED and is_own(code.co_filename) for code in codes)


def _hides_its_class(cls: type) -> bool:
    """Return whether a class of a learner's own decides what its objects say of their class, with code of its own."""
    return any("__class__" in vars(base) and _is_own(base) for base in cls.__mro__[:-1])


def refuse_foreign(value: object) -> None:
    """Check that a result can be inspected quickly, without running a learner's code.

    Raises:
        TypeError: if it is a tensor of a foreign class, or holds one.
        ValueError: if it holds more than `MAX_VALUES` values, or itself.
    """
    pending: list[Iterator[Any]] = [iter((value,))]
    left = MAX_VALUES
    while pending:
        for item in pending[-1]:
            cls = type(item)  # `isinstance` would ask the object
            if _hides_its_class(cls) or (issubclass(cls, Tensor) and is_foreign(item)):
                raise TypeError(f"the result has to be a torch.Tensor, and {cls.__name__} is a class of its own")
            if issubclass(cls, Tensor):
                _refuse_computing_later(item)
            left -= 1
            if left < 0:
                raise ValueError(f"the result holds more than {MAX_VALUES:,} values, or itself")
            if issubclass(cls, list | tuple | dict):
                pending.append(_inside(item))
                break
        else:
            pending.pop()


LATER = ("Python", "FuncTorchGradWrapper", "FuncTorchBatched", "Functionalize")
"""Dispatch keys of tensors that hold another one, which may be of a class that computes when it is looked at."""


def _refuse_computing_later(tensor: Tensor) -> None:
    """Check that looking at a tensor runs no code of a learner's: that none of its attributes hides one of Tensor's,
    and that it holds no foreign tensor.

    Raises:
        TypeError: otherwise.
    """
    if hidden := [name for name in vars(tensor) if hasattr(Tensor, name)]:
        raise TypeError(f"the result has an attribute of its own in place of Tensor's {hidden[0]}")
    if type(tensor) in (Tensor, torch.nn.Parameter):
        keys = torch._C._dispatch_keys(tensor)
        if any(keys.has(getattr(torch._C.DispatchKey, name)) for name in LATER):
            raise TypeError("the result has to be a plain torch.Tensor, and wraps another one")
    elif flatten := getattr(type(tensor), "__tensor_flatten__", None):
        for name in flatten(tensor)[0]:
            refuse_foreign(getattr(tensor, name))


def _inside(container: Any) -> Iterator[Any]:
    """Return what a container holds, whatever its class overrides."""
    if isinstance(container, dict):
        return iter(dict.values(container))
    return list.__iter__(container) if isinstance(container, list) else tuple.__iter__(container)


def base_containers(value: Any) -> Any:
    """Return a result with containers of a learner's own class as the base type, which computes nothing later.

    Everything else in it stays the same object. It has passed `refuse_foreign`.
    """
    if isinstance(value, set | frozenset) and _is_own(type(value)):
        return set(set.__iter__(value)) if isinstance(value, set) else frozenset(frozenset.__iter__(value))
    if not isinstance(value, list | tuple | dict):
        return value
    if isinstance(value, dict):
        inside = {key: base_containers(item) for key, item in dict.items(value)}
        same = all(item is inside[key] for key, item in dict.items(value))
        return value if same and not _is_own(type(value)) else inside
    items = [base_containers(item) for item in _inside(value)]
    if not _is_own(type(value)) and all(new is old for new, old in zip(items, _inside(value), strict=True)):
        return value
    return items if isinstance(value, list) else tuple(items)


def plain(value: object) -> Value:
    """Return `value` as plain data that shares no memory with it; any other object becomes the name of its type.

    Tensors are detached, copied to the CPU and made contiguous. Subclasses of numbers and strings become the base
    type, so that nothing an answer returns can run code of its own later.
    """
    if isinstance(value, Tensor) and not is_foreign(value):
        return _plain_tensor(value)
    if isinstance(value, np.ndarray):
        return _plain_array(value)
    if isinstance(value, np.generic):
        return plain(np.generic.item(value))
    if value is None or isinstance(value, torch.dtype | Raised):
        return value
    if isinstance(value, bool | int | float | complex | str):
        return _base_value(value)
    if isinstance(value, dict):
        return {_name_of(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return f"<{type(value).__name__}>"


def _name_of(key: object) -> str:
    """Return the key of a dict as text; one of a learner's own class only by the name of that."""
    if _is_own(type(key)):
        return f"<{type(key).__name__}>"
    try:
        return str(key)
    except ValueError:  # an int of more digits than Python writes out
        return f"<{type(key).__name__}>"


def _base_value(value: bool | int | float | complex | str) -> Value:
    """Return a number or string as its base type, whatever a subclass overrides."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        bits = int.bit_length(value)
        return int.__int__(value) if bits < MAX_BITS else f"<an int of {bits} bits>"
    return float.__float__(value) if isinstance(value, float) else complex.__complex__(value)


def _plain_tensor(tensor: Tensor) -> Tensor:
    with torch._C.DisableTorchFunctionSubclass():  # a subclass may override these methods
        copy = Tensor.cpu(Tensor.detach(tensor))
        copy = Tensor.resolve_neg(Tensor.resolve_conj(copy))
        return Tensor.clone(copy, memory_format=torch.contiguous_format).as_subclass(Tensor)


def _plain_array(array: np.ndarray[Any, Any]) -> Value:
    try:
        return torch.from_numpy(np.ascontiguousarray(array).copy()).reshape(array.shape)
    except TypeError:
        return f"<ndarray of {array.dtype}>"


def agree(seen: Value, wanted: Value, tolerance: Tolerance = EXACT) -> bool:
    """Return whether two plain values agree: types, shapes and dtypes exactly, floats within `tolerance`."""
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


QUICKLY_EQUAL = (torch.float32, torch.float64)
"""Types for which asking for equality first takes a thirtieth of the time; for some others torch cannot say."""


def _tensors_agree(seen: Tensor, wanted: Tensor, tolerance: Tolerance) -> bool:
    if seen.shape != wanted.shape or seen.dtype != wanted.dtype:
        return False
    if not (seen.is_floating_point() or seen.is_complex()):
        return torch.equal(seen, wanted)
    if seen.dtype in QUICKLY_EQUAL and torch.equal(seen, wanted):  # most are
        return True
    return _arrays_agree(_as_array(seen), _as_array(wanted), tolerance)


def _as_array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Return a tensor of floats, or of complex numbers, as an array of double precision."""
    if tensor.dtype in QUICKLY_EQUAL:
        return tensor.numpy(force=True).astype(np.float64, copy=False)
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64).numpy(force=True)


def _arrays_agree(seen: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], tolerance: Tolerance) -> bool:
    """Return what `torch.allclose` with `equal_nan` does, in less time where arrays are small."""
    with np.errstate(all="ignore"):  # infinity less infinity
        error = np.abs(seen - wanted)
        near = (error <= tolerance.atol + tolerance.rtol * np.abs(wanted)) & np.isfinite(error)
    return bool(near.all()) or bool((near | (seen == wanted) | (np.isnan(seen) & np.isnan(wanted))).all())


def _floats_agree(seen: float, wanted: float, tolerance: Tolerance) -> bool:
    if math.isnan(seen) or math.isnan(wanted):
        return math.isnan(seen) and math.isnan(wanted)
    if math.isinf(seen) or math.isinf(wanted):
        return seen == wanted
    return abs(seen - wanted) <= tolerance.atol + tolerance.rtol * abs(wanted)


def differing(seen: Observations, wanted: Observations, tolerance: Tolerance = EXACT) -> list[str]:
    """Return the names of the observations that differ, in the order of `wanted`."""
    names = [*wanted, *(name for name in seen if name not in wanted)]
    return [n for n in names if n not in seen or n not in wanted or not agree(seen[n], wanted[n], tolerance)]
