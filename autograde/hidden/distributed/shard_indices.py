"""The exercise `shard_indices`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A generator of its own, seeded with what all ranks know, gives every rank the same order without a message and "
    "leaves the global generator alone. The rank only chooses a part of it. The order is first made as long as equal "
    "shares need: ranks that take different numbers of steps wait for each other for ever."
)
"""Why the reference is written as it is."""
REQUIRED = ("unequal-shares", "order-differs-by-rank", "same-order-every-epoch", "reseeds-global-rng")
"""The mistakes that a check must always be able to name."""

SHARES = "Shares of the data"


class Sharing:
    """A right program; a mistake overrides one of its methods."""

    def __call__(
        self, n: int, rank: int, world_size: int, *, epoch: int, seed: int, drop_last: bool = False
    ) -> list[int]:
        order = self.order(n, self.seed_of(seed, epoch, rank))
        length = self.length(n, world_size, drop_last)
        return self.deal(self.fit(order, length), rank, world_size, length)

    def seed_of(self, seed: int, epoch: int, rank: int) -> int:
        return 1000 * seed + epoch

    def order(self, n: int, seed: int) -> list[int]:
        order: list[int] = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
        return order

    def length(self, n: int, world_size: int, drop_last: bool) -> int:
        return world_size * (n // world_size if drop_last else math.ceil(n / world_size))

    def fit(self, order: list[int], length: int) -> list[int]:
        return list(islice(cycle(order), length))

    def deal(self, order: list[int], rank: int, world_size: int, length: int) -> list[int]:
        return order[rank::world_size]


def sharing(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Sharing, **methods)()
    return program


def order_of_the_global_generator(_self: Sharing, n: int, seed: int) -> list[int]:
    torch.manual_seed(seed)
    order: list[int] = torch.randperm(n).tolist()
    return order


def order_of_random(_self: Sharing, n: int, seed: int) -> list[int]:
    random.seed(seed)
    order = list(range(n))
    random.shuffle(order)
    return order


def order_of_numpy(_self: Sharing, n: int, seed: int) -> list[int]:
    np.random.seed(seed)
    order: list[int] = np.random.permutation(n).tolist()
    return order


def unseeded(_self: Sharing, n: int, seed: int) -> list[int]:
    order: list[int] = torch.randperm(n).tolist()
    return order


def padded_once(_self: Sharing, order: list[int], length: int) -> list[int]:
    return (order + order[: max(0, length - len(order))])[:length]


def same_part_for_all(_self: Sharing, order: list[int], rank: int, world_size: int, length: int) -> list[int]:
    return order[: length // world_size]


def cut_before_shuffling(
    n: int, rank: int, world_size: int, *, epoch: int, seed: int, drop_last: bool = False
) -> list[int]:
    kept = n // world_size * world_size if drop_last else n
    return Sharing()(kept, rank, world_size, epoch=epoch, seed=seed)


def shuffles_its_part(
    n: int, rank: int, world_size: int, *, epoch: int, seed: int, drop_last: bool = False
) -> list[int]:
    unshuffled = sharing(order=lambda self, n, seed: list(range(n)))
    part = unshuffled(n, rank, world_size, epoch=epoch, seed=seed, drop_last=drop_last)
    return [part[i] for i in Sharing().order(len(part), 1000 * seed + epoch)]


LENGTHS = 'In the case "{case}" the shares are {lengths} long where {right} is wanted: '
MISTAKES = [
    Mistake("unequal-shares", sharing(fit=lambda self, order, length: order), LENGTHS + "a rank with one batch more "
            "than the others would wait for them for ever.", SHARES),
    Mistake("unequal-shares", sharing(length=lambda self, n, w, drop: w * math.ceil(n / w) if not drop else n,
            fit=lambda self, order, length: order[:length]), LENGTHS + "a rank with one batch more than the others "
            "would wait for them for ever.", SHARES),
    Mistake("pads-once-only", sharing(fit=padded_once), LENGTHS + "with fewer samples than ranks, repeating them once "
            "is not enough.", SHARES),
    Mistake("ignores-drop-last", sharing(length=lambda self, n, w, drop: w * math.ceil(n / w)), LENGTHS + "with "
            "`drop_last` the order has to be cut, not padded.", SHARES),
    Mistake("cuts-before-shuffling", cut_before_shuffling, 'In the case "{case}", {what}: {got}. The '
            "last samples were cut off before the order was drawn, and are never seen. Shuffle all samples, then cut.",
            SHARES),
    Mistake("shuffles-its-own-part", shuffles_its_part, 'In the case "{case}" rank 0 has the same samples in every '
            "epoch: each rank shuffled a part of its own. Shuffle all samples first, then deal them out.", SHARES),
    Mistake("always-drops", sharing(length=lambda self, n, w, drop: w * (n // w)), LENGTHS + "without `drop_last` no "
            "sample may be lost: repeat some instead.", SHARES),
    Mistake("order-differs-by-rank", sharing(seed_of=lambda self, seed, epoch, rank: 1000 * seed + epoch + 7919 * rank),
            'In the case "{case}" {missing} of {n} samples are in no share, and others in several: each rank drew an '
            "order of its own, so the seed must not depend on the rank.", SHARES),
    Mistake("order-differs-by-rank", sharing(seed_of=lambda self, seed, epoch, rank: 1000 * seed + epoch + 7919 * rank,
            fit=lambda self, order, length: order), 'In the case "{case}" {missing} of {n} samples are in no share, '
            "and others in several: each rank drew an order of its own, so the seed must not depend on the rank. Where "
            "the number does not divide, the shares are not equally long either.", SHARES),
    Mistake("same-share-for-all", sharing(deal=same_part_for_all), 'In the case "{case}" {missing} of {n} samples are '
            "in no share: all {ranks} ranks got the same part of the order.", SHARES),
    Mistake("same-order-every-epoch", sharing(seed_of=lambda self, seed, epoch, rank: seed), 'In the case "{case}" the '
            "{what} is {got}: the seed has to depend on the epoch, as `set_epoch` does for a `DistributedSampler`.",
            SHARES),
    Mistake("orders-come-again", sharing(seed_of=lambda self, seed, epoch, rank: 1000 * seed + epoch % 4), 'In the '
            'case "{case}" {what}: {got}. A few orders were used in turn, and each epoch should have one of its own.',
            SHARES),
    Mistake("seed-times-epoch", sharing(seed_of=lambda self, seed, epoch, rank: seed * (epoch + 1)), 'In the case '
            '"{case}" the {what} is {got}: seed and epoch were multiplied, and 0 times any epoch is 0.', SHARES),
    Mistake("ignores-seed", sharing(seed_of=lambda self, seed, epoch, rank: epoch), 'In the case "{case}" the {what} '
            "is {got}: here `seed` changes nothing. The order follows from both, seed and epoch.", SHARES),
    Mistake("not-shuffled", sharing(order=lambda self, n, seed: list(range(n))), 'In the case "{case}" {what}: {got}. '
            "The samples were dealt out in their own order, where a shuffled one is wanted.", SHARES),
    Mistake("draws-without-a-seed", sharing(order=unseeded), 'In the case "{case}" {missing} of {n} samples are in no '
            "share, and the same call gives another share the second time: the ranks agree only if the order follows "
            "from seed and epoch.", SHARES),
    *(Mistake("reseeds-global-rng", sharing(order=order), 'In the case "{case}" the call changed {generators} global '
              "generator, which dropout and augmentation draw from: use a generator of your own.", SHARES)
      for order in (order_of_the_global_generator, order_of_random, order_of_numpy)),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def order(n: int, world_size: int, **options: Any) -> dict[str, Any]:
        seed = draw.size(0, 10**6)
        return {"n": n, "world_size": world_size, "epochs": [draw.size(0, 50), 51, 52], "seed": seed,
                "other_seed": seed + 10**7, "options": options}  # fmt: skip

    return [
        case("drawn sizes", **order(draw.size(40, 90), draw.size(2, 9))),
        case("drawn sizes, drop_last", **order(draw.size(40, 90), draw.size(2, 9), drop_last=True)),
        case("one sample", **order(1, draw.size(2, 5))),
        case("one rank, drop_last", **order(17, 1, drop_last=True)),
    ]


# Right answers unlike the reference


def shares_of_the_sampler(
    n: int, rank: int, world_size: int, *, epoch: int, seed: int, drop_last: bool = False
) -> list[int]:
    if drop_last and n < world_size:
        return []
    samples: Any = range(n)
    sampler: Any = torch.utils.data.DistributedSampler(
        samples, world_size, rank, shuffle=True, seed=seed, drop_last=drop_last
    )
    sampler.set_epoch(epoch)
    return list(sampler)


def shares_in_blocks(
    n: int, rank: int, world_size: int, *, epoch: int, seed: int, drop_last: bool = False
) -> list[int]:
    own = random.Random(f"{seed}/{epoch}")
    order = own.sample(range(n), n)
    size = n // world_size if drop_last else (n + world_size - 1) // world_size
    return [order[i % n] for i in range(rank * size, rank * size + size)]


def shares_by_numpy(n: int, rank: int, world_size: int, *, epoch: int, seed: int, drop_last: bool = False) -> list[int]:
    order = np.random.default_rng([seed, epoch]).permutation(n)
    whole = n - n % world_size if drop_last else n + -n % world_size
    picked: list[int] = np.resize(order, whole).reshape(-1, world_size)[:, rank].tolist()
    return picked


RIGHT_ANSWERS: list[Callable[..., Any]] = [shares_of_the_sampler, shares_in_blocks, shares_by_numpy]
