"""The exercise `pad_collate`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The block is as long as the longest item of this batch, not of the data. The mask comes from the lengths "
    "and not from the padding id, which may be a real token too."
)
"""Why the reference is written as it is."""
REQUIRED = ("mask-inverted", "mask-from-values", "pads-left")
"""The mistakes that a check must always be able to name."""


Batch = list[tuple[Tensor, int]]


def right(batch: Batch, pad_id: int = 0) -> dict[str, Any]:
    lengths = torch.tensor([len(ids) for ids, _ in batch])
    width = int(lengths.max())
    padded = [F.pad(ids, (0, width - len(ids)), value=pad_id) for ids, _ in batch]
    return {
        "ids": torch.stack(padded).to(torch.int64),
        "mask": torch.arange(width) < lengths[:, None],
        "labels": torch.tensor([label for _, label in batch]),
    }


def mask_inverted(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    return made | {"mask": ~made["mask"]}


def mask_from_values(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    return made | {"mask": made["ids"] != pad_id}


def mask_where_not_zero(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    return made | {"mask": made["ids"] != 0}


def mask_of_ints(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    return made | {"mask": made["mask"].long()}


def mask_of_floats(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    return made | {"mask": made["mask"].float()}


def pads_left(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    width = made["ids"].shape[1]
    padded = [F.pad(ids, (width - len(ids), 0), value=pad_id) for ids, _ in batch]
    return made | {"ids": torch.stack(padded).to(torch.int64), "mask": made["mask"].flip(1)}


def pads_with_zero(batch: Batch, pad_id: int = 0) -> Any:
    return right(batch, pad_id=0)


def cut_to_the_shortest(batch: Batch, pad_id: int = 0) -> Any:
    made, shortest = right(batch, pad_id), min(len(ids) for ids, _ in batch)
    return made | {"ids": made["ids"][:, :shortest], "mask": made["mask"][:, :shortest]}


def cut_at_512(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    return made | {"ids": made["ids"][:, :512], "mask": made["mask"][:, :512]}


def padded_to_eight(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    more = (0, max(0, 8 - made["ids"].shape[1]))
    return made | {"ids": F.pad(made["ids"], more, value=pad_id), "mask": F.pad(made["mask"], more)}


def at_least_one_column(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    more = (0, max(0, 1 - made["ids"].shape[1]))
    return made | {"ids": F.pad(made["ids"], more, value=pad_id), "mask": F.pad(made["mask"], more)}


def stacks_without_padding(batch: Batch, pad_id: int = 0) -> Any:
    ids = torch.stack([ids for ids, _ in batch])
    return {"ids": ids, "mask": torch.ones_like(ids, dtype=torch.bool), "labels": torch.tensor([y for _, y in batch])}


def sorted_by_length(batch: Batch, pad_id: int = 0) -> Any:
    return right(sorted(batch, key=lambda item: -len(item[0])), pad_id)


def time_first(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    return made | {"ids": made["ids"].mT, "mask": made["mask"].mT}


def ids_in_int32(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    return made | {"ids": made["ids"].int()}


def labels_as_floats(batch: Batch, pad_id: int = 0) -> Any:
    made = right(batch, pad_id)
    return made | {"labels": made["labels"].float()}


def labels_in_a_list(batch: Batch, pad_id: int = 0) -> Any:
    return right(batch, pad_id) | {"labels": [label for _, label in batch]}


PADDING = "Padding and masks"
REAL = 'In the case "{case}" the lengths are {lengths}, and the mask says that {real} tokens are real: '
PLACE = 'In the case "{case}" the value of `{what}` at {at} is {got_at} where {want_at} is wanted: '
SHAPE = 'In the case "{case}" `{what}` has shape {got_shape} where {want_shape} is wanted: '
MISTAKES = [
    Mistake("mask-inverted", mask_inverted, REAL + "True should mean real, as in lesson 1, but here it marks the "
            "padding.",
            PADDING),
    Mistake("mask-from-values", mask_from_values, REAL + "a real token may have the id of the padding, so the mask has "
            "to come from the lengths.", PADDING),
    Mistake("pads-left", pads_left, PLACE + "the padding stands before the tokens, but belongs after them.", PADDING),
    Mistake("pad-id-ignored", pads_with_zero, PLACE + "the padding should be `pad_id`, whatever that is.", PADDING),
    Mistake("labels-as-floats", labels_as_floats, "The labels are {got_dtype} where {want_dtype} is wanted: cross "
            "entropy takes class numbers as integers.", PADDING),
    Mistake("mask-of-ints", mask_of_ints, "The mask is {got_dtype} where {want_dtype} is wanted: an integer tensor "
            "used as an index picks rows 0 and 1.", PADDING),
    Mistake("mask-of-floats", mask_of_floats, "The mask is {got_dtype} where {want_dtype} is wanted.", PADDING),
    Mistake("ids-in-int32", ids_in_int32, "The ids are {got_dtype} where {want_dtype} is wanted.", PADDING),
    Mistake("labels-are-a-list", labels_in_a_list, "`{what}` is {got} where {want} is wanted: labels have to be an "
            "int64 tensor.", PADDING),
    Mistake("cut-to-the-shortest", cut_to_the_shortest, SHAPE + "the longest ticket sets the width, so that no token "
            "is lost.", PADDING),
    Mistake("cut-at-a-maximum", cut_at_512, SHAPE + "no ticket is cut, however long it is.", PADDING),
    Mistake("padded-to-a-fixed-width", padded_to_eight, SHAPE + "the longest of this batch sets the width.", PADDING),
    Mistake("at-least-one-column", at_least_one_column, SHAPE + "where no ticket has a word there is no column.",
            PADDING),
    Mistake("order-changed", sorted_by_length, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the "
            "tickets were sorted by length, but have to stay in the batch's order.", PADDING),
    Mistake("time-first", time_first, SHAPE + "the batch is the first axis.", PADDING),
    Mistake("mask-from-values", mask_where_not_zero, REAL + "it was made from the ids that are not 0, but only the "
            "lengths tell which tokens are real.", PADDING),
    Mistake("stacks-without-padding", stacks_without_padding, "In the case \"{case}\", with tickets of the lengths "
            "{lengths}, the call raised {error}: a tensor is a block, so the shorter ones have to be padded first.",
            PADDING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    lengths = [draw.size(0, 12) for _ in range(9)]
    ids = [draw.integers(0, 4, length) for length in lengths]
    return [
        case("nine tickets", ids=ids, labels=[draw.size(0, 9) for _ in ids], pad_id=draw.size(0, 3)),
        case("a negative pad_id", ids=ids[:4], labels=[3, 0, 1, 1], pad_id=-100),
        case("one empty ticket", ids=[torch.empty(0, dtype=torch.int64)], labels=[2], pad_id=None),
    ]


# Right answers unlike the reference


def collate_with_pad_sequence(batch: list[Any], pad_id: int = 0) -> dict[str, Tensor]:
    ids, labels = zip(*batch, strict=True)
    padded = nn.utils.rnn.pad_sequence(list(ids), batch_first=True, padding_value=pad_id)
    real = nn.utils.rnn.pad_sequence([torch.ones_like(one, dtype=torch.bool) for one in ids], batch_first=True)
    return {"ids": padded, "mask": real, "labels": torch.tensor(labels)}


def collate_with_lists(batch: list[Any], pad_id: int = 0) -> dict[str, Tensor]:
    rows = [ids.tolist() for ids, _ in batch]
    width = len(max(rows, key=len))
    filled = [[*row, *[pad_id] * (width - len(row))] for row in rows]
    return {
        "labels": torch.LongTensor([label for _, label in batch]),
        "mask": torch.tensor([[i < len(row) for i in range(width)] for row in rows], dtype=torch.bool),
        "ids": torch.tensor(filled, dtype=torch.int64).view(len(rows), width),
    }


def collate_with_f_pad(batch: list[Any], pad_id: int = 0) -> dict[str, Tensor]:
    width = max(ids.numel() for ids, _ in batch)
    ids = torch.stack([F.pad(one, (0, width - one.numel()), value=pad_id) for one, _ in batch])
    mask = torch.stack([torch.arange(width).lt(one.numel()) for one, _ in batch])
    return {"ids": ids, "mask": mask, "labels": torch.stack([torch.tensor(label) for _, label in batch])}


RIGHT_ANSWERS: list[Callable[..., Any]] = [collate_with_pad_sequence, collate_with_lists, collate_with_f_pad]
