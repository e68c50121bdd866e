"""The exercise `make_loader`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, Subset

from autograde.hidden.common import one
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Shuffling and a dropped last batch belong to training; evaluation wants every item once. The generator "
    "seeds the order and the workers. Pinned memory serves copies to CUDA alone, and persistent workers are "
    "refused where there are none."
)
"""Why the reference is written as it is."""
REQUIRED = ("shuffles-evaluation", "pins-without-cuda", "drops-evaluation-samples", "identical-worker-rng")
"""The mistakes that a check must always be able to name."""


def load(
    dataset: Any, batch_size: int, *, train: bool, seed: int, device: torch.device, num_workers: int = 0,
    **otherwise: Any,
) -> Any:  # fmt: skip
    """A right loader, but for what `otherwise` hands to DataLoader."""
    right: dict[str, Any] = {
        "shuffle": train,
        "drop_last": train,
        "generator": torch.Generator().manual_seed(seed),
        "pin_memory": device.type == "cuda",
        "num_workers": num_workers,
        "persistent_workers": num_workers > 0,
    }
    return DataLoader(dataset, batch_size, **(right | otherwise))


def shuffles_the_other_way_round(dataset: Any, batch_size: int, *, train: bool, **given: Any) -> Any:
    return load(dataset, batch_size, train=train, shuffle=not train, **given)


def shuffles_once(dataset: Any, batch_size: int, *, train: bool, seed: int, **given: Any) -> Any:
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(seed)).tolist()
    subset = Subset(dataset, order) if train else dataset
    return load(subset, batch_size, train=train, seed=seed, shuffle=False, **given)


def always_seed_0(dataset: Any, batch_size: int, *, seed: int, **given: Any) -> Any:
    return load(dataset, batch_size, seed=0, **given)


def no_workers(dataset: Any, batch_size: int, *, num_workers: int = 0, **given: Any) -> Any:
    return load(dataset, batch_size, num_workers=0, **given)


def a_single_worker_ends(dataset: Any, batch_size: int, *, num_workers: int = 0, **given: Any) -> Any:
    return load(dataset, batch_size, num_workers=num_workers, persistent_workers=num_workers > 1, **given)


def seed_numpy(seed: int, worker: int) -> None:
    np.random.seed(seed)
    random.seed(seed + worker)


def seed_random(seed: int, worker: int) -> None:
    np.random.seed(seed + worker)
    random.seed(seed)


def seed_both(seed: int, worker: int) -> None:
    np.random.seed(seed)
    random.seed(seed)


def seed_from_the_clock(seed: int, worker: int) -> None:
    np.random.seed()
    random.seed()


def with_workers_that(seeding: Callable[[int, int], None]) -> Callable[..., Any]:
    """An answer with a `worker_init_fn` that does this."""

    def answer(dataset: Any, batch_size: int, *, seed: int, **given: Any) -> Any:
        return load(dataset, batch_size, seed=seed, worker_init_fn=functools.partial(seeding, seed), **given)

    return answer


def seeds_the_global_generator(dataset: Any, batch_size: int, *, seed: int, **given: Any) -> Any:
    torch.manual_seed(seed)
    return load(dataset, batch_size, seed=seed, **given, generator=None)


WORKERS = "Workers"
TWINS = (
    'In the case "{case}" NumPy {numpy} and `random` {python} in the {workers} workers: a `worker_init_fn` that sets '
    "the same seed everywhere makes every worker augment alike."
)
SIZES = 'In the case "{case}" the batches have {sizes} items where {wanted_sizes} are wanted: '
MISTAKES = [
    one("shuffles-evaluation", load, "In the case \"{case}\" the order is {order}, where evaluation goes through the "
        "data from first to last: shuffling is for training only.", WORKERS, shuffle=True),
    one("pins-without-cuda", load, "In the case \"{case}\" `pin_memory` is {pins}: pinned memory speeds up copies to a "
        "CUDA device; elsewhere it costs time or raises a warning.", WORKERS, pin_memory=True),
    one("drops-evaluation-samples", load, SIZES + "an evaluation that leaves samples out measures something else.",
        WORKERS, drop_last=True),
    one("identical-worker-rng", with_workers_that(seed_both), TWINS, WORKERS),
    one("never-shuffles", load, "In the case \"{case}\" the order is {order}: in training it has to be shuffled.",
        WORKERS, shuffle=False),
    one("keeps-the-last-training-batch", load, SIZES + "in training the small last batch is dropped.", WORKERS,
        drop_last=False),
    one("never-pins", load, 'In the case "{case}" `pin_memory` is {pins}: for a CUDA device batches are pinned. A '
        '`torch.device` never equals a string, so compare its `type`.', WORKERS, pin_memory=False),
    one("one-order-for-all-epochs", shuffles_once, "In the case \"{case}\" the {what} is {got}: the items were put in "
        "a new order once, when the loader was made, but each epoch has to shuffle anew.", WORKERS),
    one("order-not-seeded", load, "In the case \"{case}\" a second run with the same seed has {rerun} order: it was "
        "drawn from the global generator, so pass one made from `seed`.", WORKERS, generator=None),
    one("order-not-seeded", seeds_the_global_generator, "In the case \"{case}\" a second run with the same seed has "
        "{rerun} order: `torch.manual_seed` moves the global generator, from which others draw before the loader does. "
        "Pass a generator made from `seed`.", WORKERS),
    one("seed-ignored", always_seed_0, "In the case \"{case}\" another seed gave {reseeded} order.", WORKERS),
    one("workers-do-not-persist", load, "In the case \"{case}\" the workers of epoch 2 are {later}: they are started "
        "again in every epoch unless they persist.", WORKERS, persistent_workers=False),
    one("workers-do-not-persist", a_single_worker_ends, "In the case \"{case}\" the workers of epoch 2 are {later}: a "
        "single one has to persist, too.", WORKERS),
    one("crashes-without-workers", load, "In the case \"{case}\" the call raised {error}: persistent workers are "
        "refused where there are none.", WORKERS, persistent_workers=True),
    one("num-workers-ignored", no_workers, "In the case \"{case}\" {workers} workers took part, although the caller "
        "asked for workers.", WORKERS),
    one("workers-not-seeded", with_workers_that(seed_from_the_clock), "In the case \"{case}\" NumPy {numpy_rerun} in a "
        "second run with the same seed: the seeds of the workers have to come from `seed`, in evaluation as well.",
        WORKERS),
    one("shuffles-evaluation", shuffles_the_other_way_round, "In the case \"{case}\" the order is {order}: `shuffle` "
        "says the opposite of what is wanted.", WORKERS),
    one("identical-worker-rng", with_workers_that(seed_numpy), TWINS, WORKERS),
    one("identical-worker-rng", with_workers_that(seed_random), TWINS, WORKERS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    common: dict[str, Any] = {"batch_size": draw.size(2, 5), "seed": draw.size(0, 999), "num_workers": None}
    return [
        case("a whole number of batches", **{**common, "batch_size": 3}, device="cpu", count=12, train=True),
        case("fewer than a batch, evaluation", **common, device="cpu", count=1, train=False),
        case("evaluation for CUDA", **common, device="cuda:0", count=9, train=False),
        case("for MPS", **common, device="mps", count=9, train=False),
    ]


# Right answers unlike the reference


def loader_with_samplers(
    dataset: Any, batch_size: int, *, train: bool, seed: int, device: torch.device, num_workers: int = 0
) -> Any:
    generator = torch.Generator()
    generator.manual_seed(seed)
    sampler = RandomSampler(dataset, generator=generator) if train else SequentialSampler(dataset)
    more: dict[str, Any] = {"persistent_workers": True} if num_workers else {}
    return DataLoader(
        dataset, batch_sampler=BatchSampler(sampler, batch_size, drop_last=train), num_workers=num_workers,
        pin_memory=str(device).startswith("cuda"), generator=torch.Generator().manual_seed(seed + 1), **more,
    )  # fmt: skip


def _seed_worker(worker: int) -> None:
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def loader_with_worker_init(
    dataset: Any, batch_size: int, *, train: bool, seed: int, device: torch.device, num_workers: int = 0
) -> Any:
    options: dict[str, Any] = {"batch_size": batch_size, "num_workers": num_workers, "worker_init_fn": _seed_worker}
    if num_workers > 0:
        options.update(persistent_workers=True, prefetch_factor=4)
    if torch.device(device).type == "cuda":
        options.update(pin_memory=True)
    if train:
        options.update(shuffle=True, drop_last=True)
    return DataLoader(dataset, generator=torch.Generator().manual_seed(seed), **options)


class _SeedBy:
    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, worker: int) -> None:
        random.seed(self.seed * 1009 + worker)
        np.random.seed([self.seed, worker])


def loader_with_seeds_of_its_own(
    dataset: Any, batch_size: int, *, train: bool, seed: int, device: torch.device, num_workers: int = 0
) -> Any:
    order = Subset(dataset, range(len(dataset)))
    return DataLoader(
        order, batch_size, shuffle=train, num_workers=num_workers, drop_last=train, worker_init_fn=_SeedBy(seed),
        generator=torch.Generator().manual_seed(seed), pin_memory=device.type == "cuda",
        persistent_workers=bool(num_workers), multiprocessing_context=None,
    )  # fmt: skip


RIGHT_ANSWERS: list[Callable[..., Any]] = [loader_with_samplers, loader_with_worker_init, loader_with_seeds_of_its_own]
