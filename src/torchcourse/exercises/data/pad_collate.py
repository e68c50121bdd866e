"""The exercise `pad_collate`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind


def probe(answer: Watched, ids: list[Tensor], labels: list[int], pad_id: int | None) -> dict[str, Any]:
    """Pad a batch, and see whether the items are left as they were."""
    before = [one.clone() for one in ids]
    batch = list(zip(ids, labels, strict=True))
    made = answer(batch) if pad_id is None else answer(batch, pad_id=pad_id)
    if not isinstance(made, dict):
        return {"returned": f"{kind(made)}, where a dict is wanted"}
    same = len(batch) == len(before) and all(torch.equal(a, b[0]) for a, b in zip(before, batch, strict=True))
    names = ("ids", "mask", "labels")
    return {
        **{name: made[name] if isinstance(made[name], Tensor) else kind(made[name]) for name in names if name in made},
        "batch afterwards": "as before" if same else "changed",
    }


def cases(draw: Draw) -> list[Case]:
    def batch(name: str, *lengths: int, low: int = 1, pad_id: int | None = None) -> Case:
        ids = [draw.integers(low, 50, length) for length in lengths]
        labels = [draw.size(0, 2) for _ in lengths]
        return case(name, ids=ids, labels=labels, pad_id=pad_id)

    zeros = batch("an id that is 0 too", 4, 2, 3)
    zeros.inputs["ids"][0][:2] = 0
    return [
        batch("three tickets", 2, 5, 3),
        batch("the longest first", 6, 1, 4, 2),
        zeros,
        batch("another pad_id", 3, 5, 2, pad_id=draw.size(60, 90)),
        batch("all of one length", 4, 4),
        batch("a ticket without words", 3, 0, 2),
        batch("a very long ticket", 2, 600),
        batch("a batch of one", draw.size(3, 6)),
        batch("no words at all", 0, 0),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"lengths": [len(one) for one in inputs["ids"]]}
    mask = seen.get("mask")
    if isinstance(mask, Tensor):
        fields |= {"real": int(mask.sum()), "wanted_real": int(wanted["mask"].sum())}
    return fields


EXERCISE = Exercise(
    "pad_collate",
    probe,
    cases,
    hints=(
        "Start from a full tensor of `pad_id` and an all-False mask, both of shape (B, T). What do you write into "
        "row i of each?",
        "Could a real token have the same id as the padding? Then from what must the mask be made, if not from the "
        "values?",
        "`nn.utils.rnn.pad_sequence` pads on the right and takes `batch_first`. Or compare `torch.arange(T)` with the "
        "lengths. What are dtype and shape when every ticket is empty?",
    ),
    any_device=False,
    quotes=quotes,
)
