"""The exercise `flatten_reporting`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import COPIES, ERRORS, LEFT, on_the_cpu
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`view` either finds strides that walk through the same memory or refuses, so asking it is the test. A "
    "comparison with `is_contiguous` would be too strict: an expanded or sliced tensor may have a flat view "
    "without being contiguous."
)
"""Why the reference is written as it is."""
REQUIRED = ("always-copies", "view-on-noncontiguous", "copied-flag-wrong")
"""The mistakes that a check must always be able to name."""


def refuses_to_copy(t: Tensor) -> tuple[Tensor, bool]:
    return t.view(-1), False


def shares(flat: Tensor, t: Tensor) -> bool:
    return flat.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()


def flag_reversed(t: Tensor) -> tuple[Tensor, bool]:
    return t.reshape(-1), shares(t.reshape(-1), t)


def copies_what_requires_grad(t: Tensor) -> tuple[Tensor, bool]:
    return (t.detach().clone().reshape(-1), True) if t.requires_grad else (t.reshape(-1), not shares(t.reshape(-1), t))


def copies_expanded(t: Tensor) -> tuple[Tensor, bool]:
    return (t.contiguous().view(-1), True) if 0 in t.stride() else (t.reshape(-1), not shares(t.reshape(-1), t))


def copies_the_empty(t: Tensor) -> tuple[Tensor, bool]:
    return (t.reshape(-1), not shares(t.reshape(-1), t)) if t.numel() else (torch.empty_like(t).flatten(), True)


ALWAYS = (
    "For shape {shape} with strides {stride}, writing into the result left t as it was: a view was possible, but the "
    "elements were copied."
)
STRIDED = (
    "For shape {shape} with strides {stride}, writing into the result left t as it was: although t is not contiguous, "
    "a flat view of it is possible."
)
FLAG = "For shape {shape} with strides {stride}, `copied` is {copied}, while the result {shares} memory with t."
MISTAKES = [
    Mistake("always-copies", lambda t: (t.clone().reshape(-1), True), ALWAYS, COPIES),
    Mistake("always-copies", lambda t: (t.clone().reshape(-1), False), ALWAYS, COPIES),
    Mistake("copies-strided-views", lambda t: (t.contiguous().view(-1), not t.is_contiguous()), STRIDED, COPIES),
    Mistake("copies-strided-views", lambda t: (t.contiguous().view(-1), False), "For shape {shape} "
            "with strides {stride}, `copied` is {copied}, while the result {shares} memory with t: `contiguous()` "
            "copies all that is not contiguous, even where a flat view is possible.", COPIES),
    Mistake("copies-strided-views", copies_expanded, STRIDED, COPIES),
    Mistake("copies-what-requires-grad", copies_what_requires_grad, "In the case \"{case}\", writing into the result "
            "left t as it was: a tensor that requires grad has views like any other.", COPIES),
    Mistake("copies-the-empty", copies_the_empty, "For shape {shape} with strides {stride}, `copied` is {copied}: a "
            "tensor without elements has a flat view like any other.", COPIES),
    Mistake("view-on-noncontiguous", refuses_to_copy, "In the case \"{case}\" the call raised {error}: no view fits "
            "these strides, so here a copy is needed.", COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), not t.is_contiguous()), FLAG, COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), False), FLAG, COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), True), FLAG, COPIES),
    Mistake("copied-flag-wrong", lambda t: (t.reshape(-1), t.is_contiguous()), FLAG, COPIES),
    Mistake("copied-flag-wrong", flag_reversed, FLAG, COPIES),
    Mistake("ignores-strides", lambda t: (t.as_strided((t.numel(),), (1,), t.storage_offset()), False), "For shape "
            "{shape} with strides {stride}, the value at {at} is {got_at} and should be {want_at}: the storage was "
            "read straight through, but the strides of t jump about in it.", "Strides: one storage, many views"),
    Mistake("keeps-the-shape", lambda t: (t, False), "The result has shape {got_shape} where one dimension, "
            "{want_shape}, is wanted.", COPIES),
    Mistake("changes-its-input", lambda t: (t.add_(1).reshape(-1), not shares(t.reshape(-1), t)), "In the case "
            "\"{case}\" `{what}` is {got} where {want} is wanted: an operation that works in place wrote into the "
            "caller's own tensor.", COPIES),
    Mistake("made-on-cpu", on_the_cpu(lambda t: (t.reshape(-1), not shares(t.reshape(-1), t))), LEFT, ERRORS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, d = draw.size(2, 5), draw.size(3, 7)
    return [
        case("one number of a matrix", t=draw.normal(n, d)[1, 2]),
        case("a block of a matrix", t=draw.normal(n + 2, d + 2)[1:-1, 1:-1]),
        case("a permuted tensor of ones", t=draw.normal(1, n, 1).permute(2, 0, 1)),
        case("dimensions of one between", t=draw.normal(n, 1, d, 1)),
        case("integers, a strided column", t=draw.integers(0, 9, n, d)[:, 0]),
        case("the last dimension in steps", t=draw.normal(n, 2 * d)[:, ::2]),
        case("channels last", t=draw.normal(2, 3, n, d).to(memory_format=torch.channels_last)),
    ]


# Right answers unlike the reference


def flatten_by_storage(t: Tensor) -> tuple[Tensor, bool]:
    flat = t.reshape(-1)
    return flat, flat.untyped_storage().data_ptr() != t.untyped_storage().data_ptr()


def flatten_by_pointer(t: Tensor) -> list[Any]:
    flat = t.flatten() if t.dim() else t.unsqueeze(0)
    return [flat, flat.data_ptr() != t.data_ptr()]


def flatten_by_base(t: Tensor) -> tuple[Tensor, bool]:
    flat = t.reshape((t.numel(),))
    root = t if t._base is None else t._base
    shared = flat is t or flat._base is root
    return flat, not shared


def flatten_by_strides(t: Tensor) -> tuple[Tensor, bool]:
    axes = [(n, s) for n, s in zip(t.shape, t.stride(), strict=True) if n != 1]
    fits = all(s == n2 * s2 for (_, s), (n2, s2) in itertools.pairwise(axes))
    if not fits:
        return t.contiguous().view(-1), True
    stride = axes[-1][1] if axes else 1
    return torch.as_strided(t, (t.numel(),), (stride,), t.storage_offset()), False


def flatten_asking_forgiveness(t: torch.Tensor) -> tuple[torch.Tensor, bool]:
    copied = False
    try:
        flat = t.view(t.numel())
    except Exception:
        flat, copied = t.clone(memory_format=torch.contiguous_format).view(-1), True
    return flat, copied


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    flatten_by_storage,
    flatten_by_pointer,
    flatten_by_base,
    flatten_by_strides,
    flatten_asking_forgiveness,
]
