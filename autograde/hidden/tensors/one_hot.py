"""The exercise `one_hot`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import CHANGED, COPIES, ERRORS, LEFT, MIXED, on_the_cpu
from autograde.hidden.tensors.shared import SAYS_LITTLE
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`scatter` writes a one where the label says, along a last axis of `num_classes`. The zeros are made on the"
    " labels' device. The check comes first, because a label out of range is an unreadable error on a GPU."
)
"""Why the reference is written as it is."""
REQUIRED = ("made-on-cpu", "out-of-range-accepted")
"""The mistakes that a check must always be able to name."""

INDEXING = "Indexing"
FLOAT = torch.float32


def hot(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    return (labels.unsqueeze(-1) == torch.arange(num_classes, device=labels.device)).to(dtype)


def refusing(error: Callable[[int], Exception], low: bool = True, high: bool = True) -> Callable[..., Tensor]:
    """Return a `one_hot` that raises `error(label)` for a label that is too low or too high."""

    def one_hot(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
        bad = labels[(labels < 0) & low | (labels >= num_classes) & high]
        if len(bad):
            raise error(int(bad[0]))
        return hot(labels, num_classes, dtype)

    return one_hot


def in_full(label: int) -> Exception:
    return ValueError(f"labels holds {label}, wanted 0 <= label < num_classes")


one_hot = refusing(in_full)


def compared_on_cpu(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    one_hot(labels, num_classes)
    return (labels.unsqueeze(-1) == torch.arange(num_classes)).to(dtype)


def scattered_unchecked(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    zeros = torch.zeros(*labels.shape, num_classes, dtype=dtype, device=labels.device)
    return zeros.scatter_(-1, labels.unsqueeze(-1), 1)


def indexed_unchecked(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    zeros = torch.zeros(labels.numel(), num_classes, dtype=dtype, device=labels.device)
    zeros[torch.arange(labels.numel(), device=labels.device), labels.flatten()] = 1
    return zeros.view(*labels.shape, num_classes)


def only_vectors(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    one_hot(labels, num_classes)
    zeros = torch.zeros(len(labels), num_classes, dtype=dtype, device=labels.device)
    zeros[torch.arange(len(labels), device=labels.device), labels] = 1
    return zeros


def unsqueezed_at_one(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    one_hot(labels, num_classes)
    return (labels.unsqueeze(1) == torch.arange(num_classes, device=labels.device)).to(dtype)


def always(fixed: torch.dtype) -> Callable[..., Tensor]:
    """Return a `one_hot` whose result is of the dtype `fixed`."""

    def fixed_dtype(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
        return one_hot(labels, num_classes, fixed)

    return fixed_dtype


def flattened(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    return one_hot(labels.flatten(), num_classes, dtype)


def classes_first(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    return one_hot(labels, num_classes, dtype).movedim(-1, 0).contiguous()


def up_to_the_largest_label(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    width = int(labels.max()) + 1 if labels.numel() else num_classes
    return one_hot(labels, num_classes, dtype)[..., :width]


def only_classes_that_occur(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    return one_hot(labels, num_classes, dtype)[..., torch.unique(labels)]


def fails_without_labels(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(f"labels holds {int(labels.min())} to {int(labels.max())}, wanted 0 to {num_classes - 1}")
    return hot(labels, num_classes, dtype)


def flat_if_empty(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    if labels.numel() == 0:
        return torch.zeros(0, num_classes, device=labels.device)
    return one_hot(labels, num_classes, dtype)


def flat_if_empty_with_dtype(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    return flat_if_empty(labels, num_classes, dtype).to(dtype)


def float_if_empty(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    if labels.numel() == 0:
        return torch.zeros(*labels.shape, num_classes, device=labels.device)
    return one_hot(labels, num_classes, dtype)


def checked_on_the_cpu_only(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    return (one_hot if labels.device.type == "cpu" else hot)(labels, num_classes, dtype)


def unsqueezed_in_place(labels: Tensor, num_classes: int, dtype: torch.dtype = FLOAT) -> Tensor:
    one_hot(labels, num_classes)
    return (labels.unsqueeze_(-1) == torch.arange(num_classes, device=labels.device)).to(dtype)


EMPTY = (
    'In the case "{case}" the result has shape {got_shape} and dtype {got_dtype} where {want_shape} and {want_dtype} '
    "are wanted: a tensor without entries has a shape all the same, and the result is of the dtype asked for."
)
ACCEPTED = "With {bad} among the labels, a ValueError is wanted; the outcome was {refused}."
WIDTH = (
    'In the case "{case}" the result has shape {got_shape} where {want_shape} is wanted: the labels that occur do not '
    "say how many classes there are; `num_classes` does."
)
NO_DTYPE = "The result is {got_dtype} where {want_dtype} is wanted: the argument `dtype` was not used."
VECTORS = (
    'In the case "{case}" the outcome was {got}: labels may have any number of dimensions, and the classes come '
    "after all of them."
)
MISTAKES = [
    Mistake("made-on-cpu", compared_on_cpu, MIXED, ERRORS),
    Mistake("made-on-cpu", on_the_cpu(one_hot), LEFT, ERRORS),
    Mistake("out-of-range-accepted", hot, ACCEPTED, INDEXING),
    Mistake("out-of-range-accepted", refusing(in_full, low=False), ACCEPTED, INDEXING),
    Mistake("out-of-range-accepted", refusing(in_full, high=False), ACCEPTED, INDEXING),
    Mistake("out-of-range-accepted", indexed_unchecked, ACCEPTED, INDEXING),
    Mistake("accepted-on-the-second-device", checked_on_the_cpu_only, "On the second device, with {bad} among the "
            "labels, a ValueError is wanted; the outcome was {refused}.", INDEXING),
    Mistake("wrong-exception", scattered_unchecked, ACCEPTED, INDEXING),
    Mistake("wrong-exception", refusing(lambda label: IndexError(in_full(label))), ACCEPTED, INDEXING),
    Mistake("wrong-exception", refusing(lambda label: AssertionError(in_full(label))), ACCEPTED, INDEXING),
    Mistake("wrong-exception", refusing(lambda label: TypeError(in_full(label))), ACCEPTED, INDEXING),
    Mistake("wrong-exception", refusing(lambda label: Exception(in_full(label))), ACCEPTED, INDEXING),
    Mistake("message-says-too-little", refusing(lambda _label: ValueError("out of range")), SAYS_LITTLE, INDEXING),
    Mistake("message-says-too-little", refusing(lambda _label: ValueError("bad labels")), SAYS_LITTLE, INDEXING),
    Mistake("message-says-too-little", refusing(lambda label: ValueError(f"bad {label}")), SAYS_LITTLE, INDEXING),
    Mistake("message-says-too-little", refusing(lambda label: ValueError(f"labels: {label}")), SAYS_LITTLE, INDEXING),
    *(Mistake("dtype-ignored", always(fixed), NO_DTYPE, INDEXING) for fixed in (FLOAT, torch.int64, torch.bool)),
    Mistake("shape-flattened", flattened, "The result has shape {got_shape} where {want_shape} is wanted: the labels' "
            "own shape was flattened away.", INDEXING),
    Mistake("classes-first", classes_first, "In the case \"{case}\" the result has shape {got_shape} where "
            "{want_shape} is wanted: the classes are the last dimension.", INDEXING),
    Mistake("width-from-labels", up_to_the_largest_label, WIDTH, INDEXING),
    Mistake("width-from-labels", only_classes_that_occur, WIDTH, INDEXING),
    Mistake("only-vectors", unsqueezed_at_one, VECTORS, INDEXING),
    Mistake("only-vectors", only_vectors, VECTORS, INDEXING),
    Mistake("fails-without-labels", fails_without_labels, "In the case \"{case}\" the call raised {error}: `min` and "
            "`max` have no answer for an empty tensor.", INDEXING),
    Mistake("empty-labels-apart", flat_if_empty, EMPTY, INDEXING),
    Mistake("empty-labels-apart", flat_if_empty_with_dtype, EMPTY, INDEXING),
    Mistake("empty-labels-apart", float_if_empty, EMPTY, INDEXING),
    Mistake("changes-its-input", unsqueezed_in_place, CHANGED, COPIES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, c = draw.size(2, 8), draw.size(2, 9)
    bad = draw.integers(0, c, 3, n)
    bad[1, 0] = 2**32 + 1  # which int32 does not hold
    return [
        case("three dimensions", labels=draw.integers(0, c, 2, 3, n), num_classes=c, dtype=torch.float64, refused=""),
        case("bool", labels=draw.integers(0, c, n), num_classes=c, dtype=torch.bool, refused=""),
        case("a single class", labels=torch.zeros(n, dtype=torch.int64), num_classes=1, dtype=None, refused=""),
        case("transposed labels", labels=draw.integers(0, c, 4, n).t(), num_classes=c, dtype=None, refused=""),
        case("a bad label in a matrix", labels=bad, num_classes=c, dtype=None, refused=str(2**32 + 1)),
        case("a very negative label", labels=torch.tensor(-c), num_classes=c, dtype=None, refused=str(-c)),
    ]


# Right answers unlike the reference


def _check_labels(labels: Tensor, num_classes: int) -> None:
    for label in labels.flatten().tolist():
        if not 0 <= label < num_classes:
            raise ValueError(f"`labels` must lie in 0..{num_classes - 1}, but one of them is {label}.")


def one_hot_by_comparison(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    _check_labels(labels, num_classes)
    return torch.eq(labels.unsqueeze(-1), torch.arange(num_classes, device=labels.device)).to(dtype)


def one_hot_by_indexing_an_identity(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    if labels.numel() and (labels.amin() < 0 or labels.amax() >= num_classes):
        low, high = int(labels.min()), int(labels.max())
        raise ValueError(f"labels go from {low} to {high}: they have to be in [0, {num_classes})")
    identity = torch.diag(torch.ones(num_classes, dtype=dtype, device=labels.device))
    return identity[labels.long()]


def one_hot_filled(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    bad = torch.logical_or(labels < 0, labels >= num_classes)
    if bad.any():
        raise ValueError(f"expected labels below {num_classes} and not negative, got {labels[bad].tolist()}")
    flat = labels.reshape(-1).long()
    result = labels.new_zeros((flat.numel(), num_classes), dtype=dtype)
    result[torch.arange(flat.numel(), device=labels.device), flat] = 1
    return result.reshape([*labels.shape, num_classes])


def one_hot_one_by_one(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    if labels.dim():
        if len(labels) == 0:
            return torch.empty(*labels.shape, num_classes, dtype=dtype, device=labels.device)
        return torch.stack([one_hot_one_by_one(part, num_classes, dtype) for part in labels])
    label = labels.item()
    if label < 0 or label >= num_classes:
        raise ValueError("labels has %d in it, allowed are 0 to %d" % (label, num_classes - 1))  # noqa: UP031
    return torch.tensor([float(i == label) for i in range(num_classes)], device=labels.device).to(dtype)


def one_hot_scattered(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    _check_labels(labels, num_classes)
    shape = [*labels.shape, num_classes]
    empty = torch.zeros(shape, device=labels.device, dtype=dtype)
    return empty.scatter_(dim=-1, index=labels[..., None].to(torch.int64), value=1)


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    one_hot_by_comparison,
    one_hot_by_indexing_an_identity,
    one_hot_filled,
    one_hot_one_by_one,
    one_hot_scattered,
]
