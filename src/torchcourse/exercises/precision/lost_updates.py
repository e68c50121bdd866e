"""The exercise `lost_updates`: its probe, visible cases and hints."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.mixed_precision import steps_of
from torchcourse.probes.observe import kept, look


def probe(answer: Watched, w: Tensor, update: Tensor, dtype: torch.dtype) -> dict[str, Any]:
    """Ask which updates are lost, and see whether the inputs are left as they were."""
    before = w.clone(), update.clone()
    lost = answer(w, update, dtype)
    return {**look(lost, w), **kept(w=(w, before[0]), update=(update, before[1]))}


def cases(draw: Draw) -> list[Case]:
    n = draw.size(12, 16)
    spread = steps_of(draw, n) * 2.0 ** -draw.integers(3, 16, n, dtype=torch.float32)
    below = torch.tensor([2.0**-26, -(2.0**-30), 1e-9, 0.0, 2.0**-12, 1.0, 1.0])
    return [
        case("bfloat16", w=draw.uniform(1, 2, n), update=spread, dtype=torch.bfloat16),
        case("float16", w=draw.uniform(-2, -1, n), update=spread, dtype=torch.float16),
        case("float32 loses little", w=draw.uniform(1, 2, n), update=spread * 2.0**-10, dtype=torch.float32),
        case("some updates are zero", w=draw.normal(2, 6), update=draw.flags(2, 6) * 2.0**-14, dtype=torch.bfloat16),
        case("updates that underflow, and a weight of inf",
             w=torch.tensor([0.0, 1.0, 0.5, 2.0, 0.25, 0.0, math.inf]), update=below, dtype=torch.float16),
        case("weights of many sizes", w=steps_of(draw, 14) * 2.0 ** torch.arange(-7.0, 7.0),
             update=torch.full((14,), 2.0**-7), dtype=torch.bfloat16),
        case("weights that lie between two numbers", w=1 + 2.0**-8 * torch.tensor([0.25, 0.375, 0.5625, 0.75]),
             update=2.0**-8 * torch.tensor([0.875, 0.75, 0.625, 0.5]), dtype=torch.bfloat16),
        case("updates that only float64 can hold", w=torch.tensor([1.0, 0.0, -0.5, 2.0, 0.0], dtype=torch.float64),
             update=torch.tensor([1e-50, -1e-60, 0.25, 0.0, 1e-3], dtype=torch.float64), dtype=torch.bfloat16),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    """Return as fields the weight and the update where the result first differs."""
    got, want = seen["result"], wanted["result"]
    place = int((got != want).flatten().nonzero()[0])
    return {"weight": inputs["w"].flatten()[place].item(), "step": inputs["update"].flatten()[place].item()}


EXERCISE = Exercise(
    "lost_updates",
    probe,
    cases,
    hints=(
        "The weight lives in `dtype`, and so does the update when it arrives. What is compared with what, once both "
        "have been cast and added?",
        "An update can be lost in two ways: it becomes zero when it is cast, or it is too small beside the weight. "
        "Does your comparison see both?",
        "Where nothing was to be added, nothing can be lost. In which dtype must you ask whether an update is zero?",
    ),
    quotes=quotes,
)
