"""The exercise `select_scores`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autograde.hidden.common import ERRORS, LEFT, NUMPY_ONLY, on_the_cpu, with_floats
from autograde.hidden.tensors.shared import HANDED
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`gather` takes one entry for each index and wants the index to have as many axes as the scores: hence an "
    "axis more, and one less afterwards. The bare `squeeze()` would also drop a batch of one."
)
"""Why the reference is written as it is."""
REQUIRED = ("selects-rows", "python-loop", "detached")
"""The mistakes that a check must always be able to name."""


ONES = "Axes of size one: unsqueeze, squeeze, expand"
LOOP = "The number of {what} is {got}: a Python loop pays for each row what one call for all rows pays once."
INDEXING = "Indexing"


def at_labels(scores: Tensor, labels: Tensor) -> Tensor:
    return scores.gather(1, labels[:, None])[:, 0]


def select_loop(scores: Tensor, labels: Tensor) -> Tensor:
    return torch.stack([row[label] for row, label in zip(scores, labels, strict=True)])


def select_loop_filling_zeros(scores: Tensor, labels: Tensor) -> Tensor:
    result = torch.zeros(len(labels))
    for i, label in enumerate(labels):
        result[i] = scores[i, label]
    return result


def select_with_lists(scores: Tensor, labels: Tensor) -> Tensor:
    return scores[list(range(len(labels))), labels.tolist()]


def select_numbers(scores: Tensor, labels: Tensor) -> list[float]:
    return [row[label].item() for row, label in zip(scores, labels, strict=True)]


def select_from_lists(scores: Tensor, labels: Tensor) -> list[float]:
    return [row[label] for row, label in zip(scores.tolist(), labels.tolist(), strict=True)]


def select_in_numpy(scores: Tensor, labels: Tensor) -> Tensor:
    array = scores.detach().cpu().numpy()
    return torch.from_numpy(array[np.arange(len(labels)), labels.cpu().numpy()]).to(scores.device)


def multiplied_by_one_hot(scores: Tensor, labels: Tensor) -> Tensor:
    return (scores * nn.functional.one_hot(labels, scores.size(1))).sum(1)


def checked_first(scores: Tensor, labels: Tensor) -> Tensor:
    if labels.min() < 0 or labels.max() >= scores.shape[1]:
        raise ValueError("labels out of range")
    return at_labels(scores, labels)


def swapped_indices(scores: Tensor, labels: Tensor) -> Tensor:
    return scores[labels, torch.arange(len(labels), device=labels.device)]


DETACHED = (
    'In the case "{case}", `{what}` is {got} where {want} is wanted: the result is cut off from scores, so no '
    "gradient flows back."
)
OUT_OF_NUMBERS = (
    'In the case "{case}", `{what}` is {got} where {want} is wanted: a tensor made from Python numbers or a NumPy '
    "array is cut off from scores, so no gradient flows back."
)
MISTAKES = [
    Mistake("selects-rows", lambda scores, labels: scores[labels], "The result has shape {got_shape} where "
            "{want_shape} is wanted: `scores[labels]` picks whole rows, one for each label.", INDEXING),
    Mistake("selects-columns", lambda scores, labels: scores[:, labels], "The result has shape {got_shape} where "
            "{want_shape} is wanted: every row was read at every label, not only at its own.", INDEXING),
    Mistake("python-loop", select_loop, LOOP, INDEXING),
    Mistake("python-loop", select_loop_filling_zeros, LOOP, INDEXING),
    Mistake("python-loop", select_with_lists, HANDED, INDEXING),
    Mistake("detached", lambda scores, labels: at_labels(scores.detach(), labels), DETACHED, INDEXING),
    Mistake("detached", lambda scores, labels: at_labels(scores.detach(), labels).requires_grad_(), DETACHED, INDEXING),
    Mistake("detached", lambda scores, labels: at_labels(torch.tensor(scores.tolist()), labels), OUT_OF_NUMBERS,
            INDEXING),
    Mistake("detached", lambda scores, labels: torch.tensor(select_numbers(scores, labels)), OUT_OF_NUMBERS, INDEXING),
    Mistake("detached", lambda scores, labels: scores.new_tensor(select_numbers(scores, labels)), OUT_OF_NUMBERS,
            INDEXING),
    Mistake("detached", lambda scores, labels: torch.tensor(select_from_lists(scores, labels)), OUT_OF_NUMBERS,
            INDEXING),
    Mistake("detached", select_in_numpy, OUT_OF_NUMBERS, INDEXING),
    Mistake("detached", on_the_cpu(select_in_numpy), OUT_OF_NUMBERS, INDEXING),
    Mistake("detached", lambda scores, labels: scores.detach().cpu()[torch.arange(len(labels)), labels], DETACHED,
            INDEXING),
    Mistake("dimension-left-over", lambda scores, labels: scores.gather(1, labels[:, None]), "The result has shape "
            "{got_shape} where {want_shape} is wanted: the dimension that was picked along is still there, with size "
            "one, as `gather` leaves it.", INDEXING),
    Mistake("squeezes-batch-of-one", lambda scores, labels: scores.gather(1, labels[:, None]).squeeze(), "In the case "
            "\"{case}\" the result has shape {got_shape} where {want_shape} is wanted: a bare `squeeze` removes every "
            "dimension of size one.", ONES),
    Mistake("gathers-along-rows", lambda scores, labels: scores.gather(0, labels[:, None])[:, 0], "In the case "
            "\"{case}\" the value at {at} is {got_at} and should be {want_at}: the labels picked along dimension 0, so "
            "they were taken for row numbers.", INDEXING),
    Mistake("indices-swapped", swapped_indices, "In the case \"{case}\" the value at {at} is {got_at} and should be "
            "{want_at}: the first index is the row, the second the column.", INDEXING),
    Mistake("indexes-the-flat-tensor", lambda scores, labels: scores.take(labels), "The value at {at} is {got_at} and "
            "should be {want_at}: the labels counted through the whole tensor, where a label counts within its row.",
            INDEXING),
    Mistake("infinity-leaks", multiplied_by_one_hot, "In the case \"{case}\" the value at {at} is {got_at} and should "
            "be {want_at}: a product with zeros and ones also reads the other entries, and -inf * 0 is NaN.", INDEXING),
    Mistake("fails-without-rows", checked_first, "In the case \"{case}\" the call raised {error}: `min` and `max` have "
            "no answer for an empty tensor.", INDEXING),
    Mistake("largest-score", lambda scores, _labels: scores.amax(1), "The value at {at} is {got_at} and should be "
            "{want_at}: the largest score of the row was taken, not the one at the label.", INDEXING),
    *(m for m in with_floats(at_labels, 0) if m.sentence not in (LEFT, NUMPY_ONLY)),
    Mistake("made-on-cpu", on_the_cpu(at_labels), "On the second device the answer returned {got}: what is "
            "made on the CPU, or brought there, stays there unless it is moved to the input's device.", ERRORS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, c = draw.size(3, 9), draw.size(2, 9)
    scores = draw.normal(c, n).t().requires_grad_()
    return [
        case("a transposed matrix", scores=scores, labels=draw.integers(0, c, n), weights=draw.normal(n)),
        case("a single class", scores=draw.normal(n, 1).requires_grad_(), labels=draw.integers(0, 1, n),
             weights=draw.normal(n)),
        case("one label only", scores=draw.normal(n, c).requires_grad_(), labels=torch.full((n,), c - 1),
             weights=draw.normal(n)),
    ]  # fmt: skip


# Right answers unlike the reference


def select_by_pairs(scores: Tensor, labels: Tensor) -> Tensor:
    return scores[torch.arange(len(labels), device=scores.device), labels]


def select_by_mask(scores: Tensor, labels: Tensor) -> Tensor:
    at_label = torch.arange(scores.shape[1], device=labels.device) == labels[:, None]
    return torch.where(at_label, scores, 0).sum(1)


def select_by_boolean_index(scores: Tensor, labels: Tensor) -> Tensor:
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(1, labels.view(-1, 1), True)
    return scores[chosen]


def select_from_the_flat(scores: Tensor, labels: Tensor) -> Tensor:
    n, c = scores.shape
    places = labels + c * torch.arange(n, device=labels.device)
    return torch.take(scores, places)


def select_along_dim(scores: Tensor, labels: Tensor) -> Tensor:
    return torch.take_along_dim(scores, labels[:, None], dim=1).flatten()


def select_the_diagonal(scores: Tensor, labels: Tensor) -> Tensor:
    return scores[:, labels].diagonal()


def select_by_loss(scores: Tensor, labels: Tensor) -> Tensor:
    return -nn.functional.nll_loss(scores, labels, reduction="none")


def select_by_index_select(scores: Tensor, labels: Tensor) -> Tensor:
    flat = scores.reshape(-1)
    return flat.index_select(0, torch.arange(0, flat.numel(), scores.size(1)).to(labels.device) + labels)


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    select_by_pairs,
    select_by_mask,
    select_by_boolean_index,
    select_from_the_flat,
    select_along_dim,
    select_the_diagonal,
    select_by_loss,
    select_by_index_select,
]
