"""The exercise `describe`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Each fact is asked of the tensor itself. The bytes are those of its own entries, `numel` times "
    "`element_size`: a slice may look at a storage that is far larger. `ndim` and not `len`, which is the size "
    "of the first axis and fails on a tensor without axes."
)
"""Why the reference is written as it is."""
REQUIRED = ("len-is-not-numel", "nbytes-counts-storage")
"""The mistakes that a check must always be able to name."""

WHAT = "What a tensor is"


def facts(t: Tensor) -> dict[str, Any]:
    """Return what is right, for mistakes to change one entry of."""
    return {
        "shape": tuple(t.shape),
        "dtype": t.dtype,
        "device": str(t.device),
        "ndim": t.ndim,
        "numel": t.numel(),
        "contiguous": t.is_contiguous(),
        "nbytes": t.numel() * t.element_size(),
    }


def strides_in_order(t: Tensor) -> tuple[int, ...]:
    return tuple(math.prod(t.shape[n + 1 :]) for n in range(t.ndim))


def strides_ignoring_ones(t: Tensor) -> bool:
    expected, in_order = 1, True
    for size, stride in zip(reversed(t.shape), reversed(t.stride()), strict=True):
        in_order &= size == 1 or stride == expected
        expected *= size
    return in_order


LEN = (
    "`numel` came out as {got} where the tensor of shape {shape} has {want} elements: the size of the first dimension "
    "is not the number of elements, and a tensor without dimensions does not even have it."
)
NOT_CALLED = "`{what}` came out as {got}: a method was named but not called; it needs its parentheses."
NO_STRING = "`dtype` came out as a string, {got}, where the torch.dtype itself is wanted."
NO_TUPLE = "`shape` came out as {got} where a plain tuple, {want}, is wanted."
MISTAKES = [
    Mistake("len-is-not-numel", lambda t: facts(t) | {"numel": len(t)}, LEN, WHAT),
    Mistake("len-is-not-numel", lambda t: facts(t) | {"numel": t.shape[0]}, LEN, WHAT),
    Mistake("dimensions-are-not-elements", lambda t: facts(t) | {"numel": t.dim()}, "`numel` came out as {got}, the "
            "number of dimensions; the tensor of shape {shape} has {want} elements.", WHAT),
    Mistake("len-is-not-ndim", lambda t: facts(t) | {"ndim": len(t)}, "`ndim` came out as {got} where the shape "
            "{shape} has {want} entries: `len(t)` is the first of them, not how many there are.", WHAT),
    Mistake("nbytes-counts-storage", lambda t: facts(t) | {"nbytes": t.untyped_storage().nbytes()}, "`nbytes` came out "
            "as {got} where the elements of this view take {want}: the storage behind it is larger than what the view "
            "shows.", WHAT),
    Mistake("nbytes-of-one-element", lambda t: facts(t) | {"nbytes": t.element_size()}, "`nbytes` came out as {got}, "
            "which is what a single element takes; all of them together take {want}.", WHAT),
    Mistake("four-bytes-assumed", lambda t: facts(t) | {"nbytes": t.numel() * 4}, "`nbytes` came out as {got} and "
            "should be {want}: an element takes 4 bytes in float32, and {item} in {dtype}.", WHAT),
    Mistake("shape-is-no-tuple", lambda t: facts(t) | {"shape": list(t.shape)}, NO_TUPLE, WHAT),
    Mistake("shape-is-no-tuple", lambda t: facts(t) | {"shape": str(t.shape)}, NO_TUPLE, WHAT),
    Mistake("device-is-no-string", lambda t: facts(t) | {"device": t.device}, "`{what}` came out as a device object, "
            "where its name is wanted: `str(t.device)`.", WHAT),
    Mistake("device-without-index", lambda t: facts(t) | {"device": t.device.type}, "On the second device `device` "
            "came out as {got}: that is the kind of device, and `str(t.device)` also says which one of them.", WHAT),
    Mistake("device-assumed", lambda t: facts(t) | {"device": "cpu"}, "`device` came out as {got} on the second device "
            "too: ask the tensor where it is.", WHAT),
    Mistake("dtype-is-a-string", lambda t: facts(t) | {"dtype": str(t.dtype)}, NO_STRING, WHAT),
    Mistake("dtype-is-a-string", lambda t: facts(t) | {"dtype": t.type()}, NO_STRING, WHAT),
    Mistake("contiguous-assumed", lambda t: facts(t) | {"contiguous": True}, "`contiguous` came out as {got} for the "
            "shape {shape} with strides {stride}, whose elements do not lie in reading order without gaps.", WHAT),
    Mistake("contiguous-by-strides", lambda t: facts(t) | {"contiguous": t.stride() == strides_in_order(t)},
            "`contiguous` came out as {got} for the shape {shape} with strides {stride}: no step is ever taken along "
            "an axis of size one, so its stride does not matter, and `t.is_contiguous()` says {want}.", WHAT),
    Mistake("contiguous-by-strides", lambda t: facts(t) | {"contiguous": strides_ignoring_ones(t)},
            "`contiguous` came out as {got} for the shape {shape} with strides {stride}: there are no elements that "
            "could lie in another order, and `t.is_contiguous()` says {want}.", WHAT),
    Mistake("method-not-called", lambda t: facts(t) | {"contiguous": t.is_contiguous}, NOT_CALLED, WHAT),
    Mistake("method-not-called", lambda t: facts(t) | {"numel": t.numel}, NOT_CALLED, WHAT),
    Mistake("method-not-called", lambda t: facts(t) | {"ndim": t.dim}, NOT_CALLED, WHAT),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    base = draw.normal(4, 6, dtype=draw.pick([torch.float16, torch.float32]))
    return [
        case("some whole rows", t=base[1:]),
        case("a diagonal", t=base.as_strided((4,), (7,))),
        case("every third element", t=draw.integers(0, 9, 20, dtype=draw.pick([torch.int8, torch.int16]))[::3]),
        case("four dimensions", t=draw.flags(2, 1, draw.size(2, 4), 3)),
        case("complex", t=draw.normal(3).to(draw.pick([torch.complex64, torch.complex128]))),
    ]


# Right answers unlike the reference


def describe_by_properties(t: Tensor) -> dict[str, object]:
    facts: dict[str, object] = {"shape": t.shape, "dtype": t.dtype, "device": f"{t.device}", "ndim": t.dim()}
    facts.update(numel=t.nelement(), contiguous=t.is_contiguous(), nbytes=t.nbytes)
    return facts


def describe_from_sizes(t: Tensor) -> OrderedDict[str, object]:
    sizes = tuple(int(s) for s in t.size())
    count = 1
    for size in sizes:
        count *= size
    facts: OrderedDict[str, object] = OrderedDict()
    facts["nbytes"] = count * torch.empty((), dtype=t.dtype).element_size()
    facts["numel"] = count
    facts["ndim"] = len(sizes)
    facts["device"] = str(t.device)
    facts["dtype"] = t.dtype
    facts["contiguous"] = t.is_contiguous()
    facts["shape"] = sizes
    return facts


class _Facts(NamedTuple):
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: str
    ndim: int
    numel: int
    contiguous: bool
    nbytes: int


def describe_with_a_named_tuple(t: Tensor) -> dict[str, object]:
    numel = math.prod(t.shape)
    facts = _Facts((*t.shape,), t.dtype, str(t.device), t.ndim, numel, bool(t.is_contiguous()), numel * t.itemsize)
    return facts._asdict()


def _strides_in_order(t: Tensor) -> bool:
    expected = 1
    for size, stride in zip(reversed(t.shape), reversed(t.stride()), strict=True):
        if size != 1 and stride != expected:
            return t.numel() == 0
        expected *= size
    return True


def describe_contiguity_by_hand(t: Tensor) -> dict[str, Any]:
    copy = t.clone(memory_format=torch.contiguous_format)
    return {
        "shape": tuple(t.shape),
        "dtype": copy.dtype,
        "device": str(copy.device),
        "ndim": np.empty(t.shape).ndim,
        "numel": np.prod(t.shape, dtype=int),
        "contiguous": _strides_in_order(t),
        "nbytes": copy.untyped_storage().nbytes(),
    }


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    describe_by_properties,
    describe_from_sizes,
    describe_with_a_named_tuple,
    describe_contiguity_by_hand,
]
