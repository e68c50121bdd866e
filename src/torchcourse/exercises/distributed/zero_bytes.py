"""The exercise `zero_bytes`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind


def probe(answer: Watched, num_params: int, world_size: int, **options: Any) -> Observations:
    """Observe the number of bytes."""
    found = answer(num_params, world_size, **options)
    return {"bytes": found if isinstance(found, int) and not isinstance(found, bool) else kind(found)}


def cases(draw: Draw) -> list[Case]:
    many, ranks = draw.size(10**9, 10**10), draw.pick([8, 16, 64])
    uneven = ranks * draw.size(1000, 9999) + 1
    return [
        *(case(f"7 billion parameters on 8 ranks, stage {stage}", num_params=7 * 10**9, world_size=8, stage=stage)
          for stage in range(4)),
        *(case(f"one parameter too many, stage {stage}", num_params=uneven, world_size=ranks, stage=stage)
          for stage in (1, 2, 3)),
        case("float32 parameters, stage 1", num_params=many, world_size=4, stage=1, param_dtype=torch.float32),
        case("float32 parameters, stage 3", num_params=many + 1, world_size=3, stage=3, param_dtype=torch.float32),
        case("float16 parameters, stage 2", num_params=many, world_size=8, stage=2, param_dtype=torch.float16),
        case("float64 parameters, stage 2", num_params=many, world_size=8, stage=2, param_dtype=torch.float64),
        case("a single rank, stage 3", num_params=1001, world_size=1, stage=3),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    got, want, n = seen.get("bytes"), wanted.get("bytes"), inputs["num_params"]
    if not isinstance(got, int) or not isinstance(want, int):
        return {}
    fields: dict[str, object] = {"got_each": got / n, "want_each": want / n, "gap": abs(want - got)}
    return fields | {"exact": str(want), "returned": str(got)}


EXERCISE = Exercise(
    "zero_bytes",
    probe,
    cases,
    hints=(
        "List what one rank holds of a parameter: the parameter, its gradient, AdamW's two averages, the master copy. "
        "How many bytes is each, and which of them follow `param_dtype`?",
        "Each stage splits everything that the stage before it splits, and one thing more. Which of the four is split "
        "first: the largest, or the one that every forward needs?",
        "A share is a whole number of parameters, and nobody may be left over: 10 parameters on 4 ranks are shares "
        "of 3. `-(-a // b)` rounds up without a float.",
    ),
    any_device=False,
    quotes=quotes,
)
