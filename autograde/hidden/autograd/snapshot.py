"""The exercise `snapshot`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.autograd.shared import DTYPE
from autograde.hidden.common import ERRORS, LEFT, NUMPY_ONLY
from autograde.source.mistakes import Mistake
from torchcourse.exercises.autograd.gradient import INSIDE, LEAF, PLAIN
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`detach` alone shares memory, and what is written to `t` later would show in it; `clone` alone keeps the "
    "history, and with it the whole graph alive. Detached first, the copy is not recorded at all."
)
"""Why the reference is written as it is."""
REQUIRED = ("shares-memory", "keeps-graph")
"""The mistakes that a check must always be able to name."""

OFF = "Switching the recording off"
CUT = "Detach, clone and .data"


@torch.inference_mode()
def in_inference_mode(t: Tensor) -> Tensor:
    return t.clone()


SHARES = (
    'In the case "{case}" an entry of the copy was {at_first}, and became {later} when t was written to: the copy '
    "shares the memory of t, as after `detach()` or `.data` alone."
)
FLOATS = (
    'In the case "{case}" `{what}` is {got_at} at {at} and should be {want_at}: float64 holds some 16 digits of an '
    "integer, float32 some 7, and a tensor that has that dtype already is not even copied."
)
REQUIRES = 'In the case "{case}" the copy\'s `requires_grad` is {requires}: a snapshot is a value, nothing to train.'
MISTAKES = [
    Mistake("shares-memory", lambda t: t.detach(), SHARES, CUT),
    Mistake("shares-memory", lambda t: t.detach().contiguous(), SHARES, CUT),
    Mistake("shares-memory", lambda t: torch.from_numpy(t.detach().numpy()), SHARES, CUT),
    Mistake("keeps-graph", lambda t: t.clone(), "In the case \"{case}\" the copy's `requires_grad` is {requires}: the "
            "operation that makes the copy, `clone()` or another, is recorded; detach as well.", CUT),
    Mistake("still-requires-grad", lambda t: t.detach().clone().requires_grad_(t.requires_grad), REQUIRES, CUT),
    Mistake("still-requires-grad", copy.deepcopy, REQUIRES, CUT),
    Mistake("flag-on-a-non-leaf", lambda t: t.clone().requires_grad_(False), 'In the case "{case}" {what} raised '
            '{got}: `clone()` of a tracked tensor has a history, and a flag does not take that away; `detach()` does.',
            CUT),
    Mistake("returns-t-itself", lambda t: t, "In the case \"{case}\" an entry of the copy was {at_first} and became "
            "{later} when t was written to, and its history came along: this is t under another name.", CUT),
    Mistake("detaches-in-place", lambda t: t.detach_().clone(), "In the case \"{case}\" t's own `requires_grad` is "
            "{t_requires} afterwards: `detach_()` cuts the caller's tensor off, `detach()` makes another one.", CUT),
    Mistake("inference-tensor", in_inference_mode, "`{what}` is {got} where {want} is wanted: autograd will never save "
            "such a tensor for a backward pass.", OFF),
    Mistake("through-floats", lambda t: t.detach().double().to(t.dtype), FLOATS, CUT),
    Mistake("through-floats", lambda t: t.detach().float().to(t.dtype), FLOATS, CUT),
    Mistake("dtype-not-kept", lambda t: t.detach().clone().float(), DTYPE, CUT),
    Mistake("made-on-cpu", lambda t: t.detach().cpu().clone(), LEFT, ERRORS),
    Mistake("made-on-cpu", lambda t: torch.from_numpy(t.detach().numpy().copy()), NUMPY_ONLY, ERRORS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    return [
        case("bfloat16", values=draw.normal(n, dtype=torch.bfloat16), role=LEAF),
        case("three dimensions, permuted", values=draw.normal(2, n, 3).permute(2, 0, 1), role=INSIDE),
        case("no entries", values=torch.empty(0, n), role=PLAIN),
        case("complex", values=torch.complex(draw.normal(n), draw.normal(n)), role=LEAF),
        case("uint8", values=draw.integers(0, 200, n, dtype=torch.uint8), role=PLAIN),
    ]


# Right answers unlike the reference


def snapshot_clone_first(t: Tensor) -> Tensor:
    return t.clone().detach()


@torch.no_grad()
def snapshot_without_grad(t: Tensor) -> Tensor:
    return t.clone()


def snapshot_by_tensor(t: Tensor) -> Tensor:
    return torch.tensor(t)


def snapshot_by_copy(t: Tensor) -> Tensor:
    return torch.empty_like(t, requires_grad=False).copy_(t.detach())


def snapshot_by_deepcopy(t: Tensor) -> Tensor:
    return copy.deepcopy(t.detach())


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    snapshot_clone_first,
    snapshot_without_grad,
    snapshot_by_tensor,
    snapshot_by_copy,
    snapshot_by_deepcopy,
]
