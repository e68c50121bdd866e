"""The exercise `seed_everything`: its probe, visible cases and hints."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import numpy as np
import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case


def _drawn() -> dict[str, list[float]]:
    """Draw three numbers from each of the three libraries."""
    return {
        "random": [random.random() for _ in range(3)],
        "NumPy": np.random.rand(3).tolist(),
        "torch": torch.rand(3).tolist(),
    }


def probe(answer: Watched, seed: int, other: int) -> dict[str, Any]:
    """Observe what repeats with the same seed and differs with another; GPUs are stood in for by a mock."""
    with mock.patch.object(torch.cuda, "manual_seed_all") as on_gpus:
        answer(seed)
        seeded = on_gpus.called
        first = _drawn()
        _drawn()
        answer(seed)
        again = _drawn()
        answer(other)
        different = _drawn()
    return {
        **{f"{name} draws the same again": first[name] == again[name] for name in first},
        **{f"{name} draws otherwise with another seed": first[name] != different[name] for name in first},
        "generators of GPUs": "seeded" if seeded else "not seeded",
    }


def cases(draw: Draw) -> list[Case]:
    return [
        case("two seeds", seed=draw.size(1, 10_000), other=draw.size(10_001, 20_000)),
        case("seed 0", seed=0, other=1),
        case("a large seed", seed=2**31 + draw.size(0, 1000), other=7),
    ]


EXERCISE = Exercise(
    "seed_everything",
    probe,
    cases,
    hints=(
        "Three libraries draw random numbers in a training script, each from a generator of its own. Which three?",
        "`np.random.default_rng(seed)` returns a new generator. Does it change what `np.random.rand` draws?",
        "`torch.manual_seed` seeds the CPU and the generators of every accelerator. Is there anything else of torch "
        "that you need to seed?",
    ),
    any_device=False,
)
