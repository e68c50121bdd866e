"""The exercise `last_real`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.modules import gradients
from torchcourse.probes.observe import costs, growth, kept, look, numbers_of_rows, other_rows


def probe(answer: Watched, outputs: Tensor, lengths: Tensor) -> Observations:
    """Observe the steps chosen, the gradient that flows back, and what a call costs for fewer and more sequences."""
    before = outputs.clone(), lengths.clone()
    seen = look(answer(outputs, lengths), outputs)
    seen |= kept(outputs=(outputs, before[0]), lengths=(lengths, before[1]))
    unchanged = "changed" not in (seen["outputs afterwards"], seen["lengths afterwards"])
    if unchanged and outputs.numel():
        seen |= gradients(answer(outputs.requires_grad_(), lengths), outputs=outputs)
    order = before[1].argsort(stable=True)
    order = torch.cat([order[:1], order[1:].flip(0)])  # so that the shortest and the longest are among the fewer, too
    rows = before[0][order], before[1][order]
    more = [(other_rows(rows[0], n), other_rows(rows[1], n)) for n in numbers_of_rows(len(order))]
    return {**seen, "cost": costs(answer, more)}


def padded(draw: Draw, lengths: list[int], t: int, d: int, fill: float | None = None, **options: Any) -> Tensor:
    """Draw outputs `(b, t, d)`; with `fill`, what stands after the last real step has this value."""
    outputs = draw.normal(len(lengths), t, d, **options)
    if fill is not None:
        outputs[torch.arange(t) >= torch.tensor(lengths)[:, None]] = fill
    return outputs


def cases(draw: Draw) -> list[Case]:
    t, d = draw.size(5, 6), draw.size(2, 3)

    def one(name: str, lengths: list[int], t: int = t, d: int = d, **options: Any) -> Case:
        return case(name, outputs=padded(draw, lengths, t, d, **options), lengths=torch.tensor(lengths))

    def exactly(name: str, outputs: Tensor, lengths: list[int]) -> Case:
        return case(name, rtol=0, atol=0, outputs=outputs, lengths=torch.tensor(lengths))

    odd = draw.normal(2, t, d)
    odd[0, 1, 0], odd[1, 0, 0] = torch.inf, torch.nan
    return [
        one("sequences of several lengths", [2, t, 1, 3]),
        one("one sequence", [3]),
        one("an empty sequence", [2, 0, 4]),
        one("NaN after the end", [3, 1, t], fill=torch.nan),
        one("an empty sequence of NaN", [0, 2], fill=torch.nan),
        one("as many sequences as steps", [2, 1, 3, 2, 4], 5),
        one("one feature", [4, 2], d=1),
        one("no steps at all", [0, 0], 0),
        exactly("float64", padded(draw, [2, 3], t, d, dtype=torch.float64), [2, 3]),
        exactly("infinite at a last real step, NaN at an earlier one", odd, [2, 3]),
    ]


EXERCISE = Exercise(
    "last_real",
    probe,
    cases,
    hints=(
        "A sequence of length n: which index has its last real step? And which pairs of indices pick one step for "
        "each row of the batch in a single call?",
        "For a length of 0 that index is -1, which Python and torch take for the last column. What could stand in "
        "front of the sequence so that every length finds something right?",
        "Zero times NaN is NaN, so a mask that multiplies does not keep NaN out. What chooses instead of computing?",
    ),
    measures=True,
    derive=growth,
)
