"""The exercise `flatten_reporting`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, kind, look
from torchcourse.simulated import shares_memory


def probe(answer: Watched, t: Tensor) -> dict[str, Any]:
    """Observe the pair, and whether writing into the flat tensor shows in `t`."""
    before = t.clone()
    returned = answer(t)
    if not (isinstance(returned, tuple | list) and len(returned) == 2 and isinstance(returned[0], Tensor)):
        return {"returned": f"{kind(returned)}, where a pair of a tensor and a flag is wanted"}
    flat, copied = returned
    seen = {**look(flat.detach().clone(), t), "copied": copied, **kept(t=(t, before))}
    if flat.numel():
        flat.detach().reshape(-1)[0] += 1  # a view writes into t, a copy does not
    return {**seen, "t after flat[0] += 1": t.detach(), "shares memory": shares_memory(flat, t)}


def cases(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 4), draw.size(5, 6)
    return [
        case("a matrix", t=draw.normal(n, d)),
        case("a transposed matrix", t=draw.normal(n, d).t()),
        case("every second row", t=draw.normal(2 * n, d)[::2]),
        case("one column, kept as a matrix", t=draw.normal(n, d)[:, 1:2]),
        case("every second element", t=draw.normal(2 * d)[::2]),
        case("some whole rows", t=draw.normal(n, d)[1:]),
        case("a matrix that requires grad", t=draw.normal(n, d).requires_grad_()),
        case("one number, expanded", t=draw.normal(1).expand(d)),
        case("one number", t=draw.normal()),
        case("no elements", t=torch.empty(0, d)),
        case("three dimensions, the last two swapped", t=draw.normal(2, n, d).transpose(1, 2)),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {
        "shape": tuple(inputs["t"].shape),
        "stride": inputs["t"].stride(),
        "copied": seen.get("copied"),
        "shares": "shares" if seen.get("shares memory") else "does not share",
    }


EXERCISE = Exercise(
    "flatten_reporting",
    probe,
    cases,
    hints=(
        "Which of `view`, `reshape` and `flatten` refuses to copy, and how does it tell you?",
        "`is_contiguous()` is a sufficient condition for a flat view, not a necessary one. What of a single column, "
        "whose elements lie a whole row apart?",
        "Either try the view and catch the refusal, or flatten first and find out whether both tensors use the same "
        "storage.",
    ),
    quotes=quotes,
)  # fmt: skip
