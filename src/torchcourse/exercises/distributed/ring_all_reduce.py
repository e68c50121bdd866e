"""The exercise `ring_all_reduce`: its probe, visible cases and hints."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, kind
from torchcourse.probes.on_ranks import MODULES, Exchanges, on_ranks, rank

RANKS = 3
SPARE = 16
"""Elements that a rank may send beyond its share: lengths, flags, padding."""


def program(answer: Callable[..., Any], xs: list[Tensor]) -> Observations:
    """Observe the result on this rank, how much it sent, and which other calls it made."""
    x = xs[rank()]
    before = x.clone()
    with Exchanges() as exchanges:
        found = answer(x)
    if not isinstance(found, Tensor):
        return {"returned": kind(found)}
    return {
        "result": found,
        **kept(x=(x, before)),
        "elements sent": exchanges.sent / x.element_size(),
        "other calls": sorted({name for name in exchanges.calls if name not in ("send", "recv")}),
    }


def probe(answer: Watched, xs: list[Tensor]) -> Observations:
    """Observe what happens on three ranks."""
    return on_ranks(answer, program, {"xs": xs}, RANKS)


def derive(case: Case, seen: Observations) -> Observations:
    """Derive whether each rank sent at most its share of `2 * (w - 1) / w` of the tensor."""
    limit = 1.05 * 2 * (RANKS - 1) * math.ceil(case.inputs["xs"][0].numel() / RANKS) + SPARE
    found = dict(seen)
    for number in range(RANKS):
        sent = found.pop(f"elements sent, rank {number}", None)
        if sent is not None:
            found[f"elements that leave rank {number}"] = "within the limit" if sent <= limit else "too many"
    return found


def cases(draw: Draw) -> list[Case]:
    def each(*shape: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        return [draw.normal(*shape, dtype=dtype) for _ in range(RANKS)]

    return [
        case("three chunks of one size", xs=each(3 * draw.size(30, 60))),
        case("a size that 3 does not divide", xs=each(draw.size(20, 40), 3 * draw.size(1, 3) + 1)),
        case("four elements", xs=each(4)),
        case("one number", xs=each()),
        case("a strided view", xs=[x[::2, :5].T for x in each(12, 8, dtype=torch.float64)]),
        case("integers", xs=[draw.integers(-(2**60), 2**60, 5, 7) for _ in range(RANKS)]),
        case("integers of 32 bits", xs=[draw.integers(-(2**28), 2**28, 60, dtype=torch.int32) for _ in range(RANKS)]),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"n": inputs["xs"][0].numel(), "limit": "2 (w - 1) / w"}
    hanging = [n for n in range(RANKS) if seen.get(f"rank {n}") != "returned"]
    fields |= {"hanging": f"{len(hanging)} of {RANKS} ranks", "how": seen.get(f"rank {hanging[0]}") if hanging else ""}
    others = [name for n in range(RANKS) for name in seen.get(f"other calls, rank {n}", [])]
    return fields | {"others": others[0] if others else "none"}


EXERCISE = Exercise(
    "ring_all_reduce",
    probe,
    cases,
    hints=(
        "Cut the tensor into as many chunks as there are ranks; `tensor_split` copes with any size. Draw three ranks "
        "on paper and follow one chunk round the ring: who has added it when it comes to its last rank?",
        "There are two rounds of w - 1 steps. In the first, a rank adds what it receives to its own chunk; in the "
        "second it takes over what it receives. Which chunk does rank r send in step s?",
        "If every rank first waits until its `send` is through, nobody receives. `isend` returns at once with "
        "something to `wait` for; what it sends must be contiguous, and stay as it is until then.",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
    imports=MODULES,
)
