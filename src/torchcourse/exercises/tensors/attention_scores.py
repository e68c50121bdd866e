"""The exercise `attention_scores`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import float32_digits, kept, look


def probe(answer: Watched, q: Tensor, k: Tensor) -> dict[str, Any]:
    """Observe the scores, and that `q` and `k` stay as they were."""
    before = q.clone(), k.clone()
    return {**look(answer(q, k), q), **kept(q=(q, before[0]), k=(k, before[1]))}


def cases(draw: Draw) -> list[Case]:
    b, h, t, s, d = 2, draw.size(2, 3), draw.size(3, 4), draw.size(5, 6), draw.size(7, 9)
    split = draw.normal(b, t, h * d).view(b, t, h, d).transpose(1, 2)
    return [
        case("t and s differ", q=draw.normal(b, h, t, d), k=draw.normal(b, h, s, d)),
        case("t equals s", q=draw.normal(b, h, t, d), k=draw.normal(b, h, t, d)),
        case("as many steps as features", q=draw.normal(b, h, d, d), k=draw.normal(b, h, d, d)),
        case("all sizes equal", q=draw.normal(3, 3, 3, 3), k=draw.normal(3, 3, 3, 3)),
        case("one head, one query", q=draw.normal(1, 1, 1, d), k=draw.normal(1, 1, s, d)),
        case("heads split from one tensor", q=split, k=draw.normal(b, h, s, d)),
        case("float64", q=draw.normal(b, h, t, d, dtype=torch.float64), k=draw.normal(b, h, s, d, dtype=torch.float64)),
        case("bfloat16", rtol=0.05, atol=0.1, q=draw.normal(b, h, t, d, dtype=torch.bfloat16),
             k=draw.normal(b, h, s, d, dtype=torch.bfloat16)),
        # nine features: a root of 9 that somebody takes in float32 is right as well
        case("float64, to ten digits", rtol=1e-10, atol=1e-12, q=draw.normal(b, h, t, 9, dtype=torch.float64),
             k=draw.normal(b, h, s, 9, dtype=torch.float64)),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    d = inputs["q"].shape[-1]
    fields: dict[str, object] = {"d": d, "root": d**0.5, "t": inputs["q"].shape[-2], "s": inputs["k"].shape[-2]}
    fields |= {"h": inputs["q"].shape[1]}
    if seen["result"].shape == wanted["result"].shape:
        fields["ratio"] = (seen["result"].norm() / wanted["result"].norm()).item()
    return fields


EXERCISE = Exercise(
    "attention_scores",
    probe,
    cases,
    hints=(
        "Which dimension is summed over in q·k, and which two remain for each head of each example?",
        "For a matrix product, k's last two dimensions have to change places. What would `.T` do to a tensor of four "
        "dimensions?",
        "The dot product of two random vectors of d numbers has a standard deviation that grows with d. By what do you "
        "divide to bring it back to 1?",
    ),
    derive=float32_digits,
    quotes=quotes,
)
