"""The exercise `seed_everything`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Three libraries have a state each, and `torch.manual_seed` seeds every device, also those not used yet. "
    "`PYTHONHASHSEED` is read when Python starts, so setting it here would do nothing."
)
"""Why the reference is written as it is."""
REQUIRED = ("forgets-numpy", "forgets-random")
"""The mistakes that a check must always be able to name."""

SEEDS = "The same numbers again: seeds"


def forgets_numpy(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)


def new_generator_of_numpy(seed: int) -> None:
    random.seed(seed)
    np.random.default_rng(seed)
    torch.manual_seed(seed)


def forgets_random(seed: int) -> None:
    np.random.seed(seed)
    torch.manual_seed(seed)


def forgets_torch(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)


def new_generator_of_torch(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.Generator().manual_seed(seed)


def only_the_cpus_generator(seed: int) -> None:
    np.random.seed(seed)
    random.seed(seed)
    torch.default_generator.manual_seed(seed)


def always_42(_seed: int) -> None:
    random.seed(42)
    np.random.seed(42)
    torch.manual_seed(42)


def numpy_always_42(seed: int) -> None:
    random.seed(seed)
    np.random.seed(42)
    torch.manual_seed(seed)


NOT_SEEDED = 'After `seed_everything`, "{what}" is {got} and should be {want}: '
MISTAKES = [
    Mistake("forgets-numpy", forgets_numpy, NOT_SEEDED + "NumPy has a generator of its own, which was "
            "not seeded with `seed`.", SEEDS),
    Mistake("forgets-numpy", new_generator_of_numpy, NOT_SEEDED + "`default_rng` makes a "
            "new generator; `np.random.rand` draws from the global one.", SEEDS),
    Mistake("forgets-random", forgets_random, NOT_SEEDED + "Python's `random` has a generator of its own, and "
            "transforms and samplers often draw from it.", SEEDS),
    Mistake("forgets-torch", forgets_torch, NOT_SEEDED + "torch draws weights, dropout and shuffles from "
            "a generator of its own.", SEEDS),
    Mistake("forgets-torch", new_generator_of_torch, NOT_SEEDED + "a new generator was "
            "seeded and dropped.", SEEDS),
    Mistake("forgets-gpus", only_the_cpus_generator, "The generators of GPUs "
            "were {got} and should be {want}: a device draws from a generator of its own. `torch.manual_seed` reaches "
            "all of them.", SEEDS),
    Mistake("ignores-the-seed", always_42, NOT_SEEDED + "every seed gave the "
            "same numbers.", SEEDS),
    Mistake("ignores-the-seed", numpy_always_42, NOT_SEEDED + "NumPy was seeded with the same number whatever `seed` "
            "is.", SEEDS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [case("drawn", seed=draw.size(20_001, 10**6), other=draw.size(1, 20_000)),
            case("the largest that NumPy takes", seed=2**32 - 1, other=2**32 - 2)]  # fmt: skip


# Right answers unlike the reference


def seed_with_offsets(seed: int) -> None:
    torch.manual_seed(seed + 2)
    np.random.seed((seed + 1) % 2**32)
    random.seed(f"run {seed}")


def seed_devices_by_name(seed: int) -> None:
    for seeding in (random.seed, np.random.seed, torch.random.manual_seed, torch.cuda.manual_seed_all):
        seeding(seed)


def seed_states(seed: int) -> None:
    random.setstate(random.Random(seed).getstate())
    np.random.set_state(np.random.RandomState(seed).get_state())
    torch.manual_seed(seed)


RIGHT_ANSWERS: list[Callable[..., Any]] = [seed_with_offsets, seed_devices_by_name, seed_states]
