"""The exercise `causal_mask`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import LEFT, MIXED
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The mask is made on the device of `x` at once; made on the CPU it would either be refused or have to be "
    "copied in every step. `diagonal=1` leaves the diagonal free: a position may attend to itself."
)
"""Why the reference is written as it is."""
REQUIRED = ("made-on-cpu", "diagonal-masked", "mask-inverted")
"""The mistakes that a check must always be able to name."""


def right(x: Tensor) -> Tensor:
    t = x.shape[1]
    return torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)


def made_on_the_cpu(x: Tensor) -> Tensor:
    t = x.shape[1]
    return torch.ones(t, t, dtype=torch.bool).triu(1)


def mixes_devices(x: Tensor) -> Tensor:
    return right(x) & torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)


def masks_the_diagonal(x: Tensor) -> Tensor:
    t = x.shape[1]
    return torch.ones(t, t, dtype=torch.bool, device=x.device).triu()


def inverted(x: Tensor) -> Tensor:
    t = x.shape[1]
    return torch.ones(t, t, dtype=torch.bool, device=x.device).tril()


def forbids_the_past(x: Tensor) -> Tensor:
    t = x.shape[1]
    return torch.ones(t, t, dtype=torch.bool, device=x.device).tril(-1)


def size_of_the_features(x: Tensor) -> Tensor:
    d = x.shape[2]
    return torch.ones(d, d, dtype=torch.bool, device=x.device).triu(1)


def size_of_the_batch(x: Tensor) -> Tensor:
    b = x.shape[0]
    return torch.ones(b, b, dtype=torch.bool, device=x.device).triu(1)


def minus_infinity(x: Tensor) -> Tensor:
    t = x.shape[1]
    return torch.zeros(t, t, device=x.device).masked_fill(right(x), float("-inf"))


def for_each_sequence(x: Tensor) -> Tensor:
    b, t, _ = x.shape
    return right(x).expand(b, t, t)


MAKING = "Making things where the data is"
NEIGHBOURS = (
    'In the case "{case}" the entry for the next position is {future} and the one for the previous position is {past}: '
)
SIZE = (
    "The mask has shape {got_shape}, and {want_shape} is wanted: it has a row and a column for each position, and x "
    "has shape (b, t, d)."
)
NOT_BOOL = "The mask is {got_dtype} where {want_dtype} is wanted: True and False say what is forbidden."
MISTAKES = [
    Mistake("made-on-cpu", made_on_the_cpu, LEFT, MAKING),
    Mistake("diagonal-masked", masks_the_diagonal, 'In the case "{case}" the diagonal is {diagonal}: a position may '
            "look at itself, so only what lies above the diagonal is forbidden.", MAKING),
    Mistake("mask-inverted", inverted, NEIGHBOURS + "here True means forbidden, so it belongs to the future.", MAKING),
    Mistake("forbids-the-past", forbids_the_past, NEIGHBOURS + "row i is the position that attends and column j the "
            "one attended to, so the future, j > i, lies above the diagonal.",
            MAKING),
    Mistake("size-from-another-dimension", size_of_the_features, SIZE, MAKING),
    Mistake("size-from-another-dimension", size_of_the_batch, SIZE, MAKING),
    Mistake("not-bool", minus_infinity, NOT_BOOL, MAKING),
    Mistake("not-bool", lambda x: right(x).to(x.dtype), NOT_BOOL, MAKING),
    Mistake("not-bool", lambda x: right(x).float(), NOT_BOOL, MAKING),
    Mistake("not-bool", lambda x: made_on_the_cpu(x).float(), NOT_BOOL, MAKING),
    Mistake("one-for-each-sequence", for_each_sequence, "The mask has shape {got_shape}, and {want_shape} is wanted: "
            "all sequences of a batch share one mask.", MAKING),
    Mistake("made-on-cpu", mixes_devices, MIXED, MAKING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    t = draw.size(6, 9)
    return [
        case("drawn sizes", x=draw.normal(draw.size(1, 2), draw.size(70, 130), draw.size(1, 3))),
        case("an empty batch", x=torch.empty(0, 3, 2)),
        case("bfloat16", x=draw.normal(2, t, 3, dtype=torch.bfloat16)),
        case("x that requires grad", x=draw.normal(1, t, 2).requires_grad_()),
    ]


# Right answers unlike the reference


def mask_by_comparing(x: Tensor) -> Tensor:
    positions = torch.arange(x.size(1), device=x.device)
    return positions > positions.unsqueeze(1)


def mask_by_negation(x: Tensor) -> Tensor:
    _, t, _ = x.shape
    return ~torch.tril(x.new_ones((t, t), dtype=torch.bool))


def mask_by_filling(x: Tensor) -> Tensor:
    t = x.size(-2)
    mask = torch.zeros((t, t), device=x.device, dtype=torch.bool)
    for i in range(t):
        mask[i, i + 1 :] = True
    return mask


def mask_by_cumsum(x: Tensor) -> Tensor:
    return torch.eye(x.shape[1], device=x.device).cumsum(0).T.logical_not().T


RIGHT_ANSWERS: list[Callable[..., Any]] = [mask_by_comparing, mask_by_negation, mask_by_filling, mask_by_cumsum]
