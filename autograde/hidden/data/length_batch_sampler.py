"""The exercise `LengthBatchSampler`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Sorting by length puts items alike into one batch, so little is padded; shuffling before the sort mixes "
    "equal lengths, and shuffling the batches afterwards keeps the training from going short to long. Seed and "
    "epoch together make the order, so any epoch can be made again."
)
"""Why the reference is written as it is."""
REQUIRED = ("drops-last-batch", "same-order-every-epoch", "reseeds-global-rng")
"""The mistakes that a check must always be able to name."""


class ByLength(Sampler[Any]):
    """A right sampler. Each mistake below is this one with one method written otherwise."""

    def __init__(self, lengths: list[int], batch_size: int, seed: int) -> None:
        self.lengths, self.size, self.seed, self.epoch = lengths, batch_size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def rng(self) -> Any:
        return random.Random(1000 * self.seed + self.epoch)

    def order(self, rng: Any) -> list[int]:
        order = list(range(len(self.lengths)))
        rng.shuffle(order)
        return sorted(order, key=self.lengths.__getitem__)

    def batches(self, order: list[int]) -> list[list[int]]:
        return [order[i : i + self.size] for i in range(0, len(order), self.size)]

    def __iter__(self) -> Iterator[Any]:
        rng = self.rng()
        batches = self.batches(self.order(rng))
        rng.shuffle(batches)
        yield from batches


class YieldsLengths(ByLength):
    def order(self, rng: Any) -> list[int]:
        return sorted(self.lengths)


class DropsLastBatch(ByLength):
    def batches(self, order: list[int]) -> list[list[int]]:
        return [batch for batch in super().batches(order) if len(batch) == self.size]


class FillsLastBatch(ByLength):
    def batches(self, order: list[int]) -> list[list[int]]:
        return [batch + order[: self.size - len(batch)] for batch in super().batches(order)]


class IgnoresLengths(ByLength):
    def order(self, rng: Any) -> list[int]:
        order = list(range(len(self.lengths)))
        rng.shuffle(order)
        return order


class SortsCoarsely(ByLength):
    def order(self, rng: Any) -> list[int]:
        order = list(range(len(self.lengths)))
        rng.shuffle(order)
        return sorted(order, key=lambda i: self.lengths[i] // 10)


class ForgetsTheEpoch(ByLength):
    def rng(self) -> Any:
        return random.Random(self.seed)


class TakesOrdersInTurn(ByLength):
    def rng(self) -> Any:
        return random.Random(1000 * self.seed + self.epoch % 4)


class ForgetsTheSeed(ByLength):
    def rng(self) -> Any:
        return random.Random(self.epoch)


class NeverShuffles(ByLength):
    def __iter__(self) -> Iterator[Any]:
        yield from self.batches(sorted(range(len(self.lengths)), key=self.lengths.__getitem__))


class ReseedsRandom(ByLength):
    def rng(self) -> Any:
        random.seed(1000 * self.seed + self.epoch)
        return random


class ReseedsTorch(ByLength):
    def rng(self) -> Any:
        torch.manual_seed(1000 * self.seed + self.epoch)
        return super().rng()


class ReseedsNumpy(ByLength):
    def rng(self) -> Any:
        np.random.seed(1000 * self.seed + self.epoch)
        return super().rng()


class SeedsNothing(ByLength):
    def rng(self) -> Any:
        return random


class GoesOnDrawing(ByLength):
    def __init__(self, lengths: list[int], batch_size: int, seed: int) -> None:
        super().__init__(lengths, batch_size, seed)
        self.own = random.Random(seed)

    def rng(self) -> Any:
        return self.own


class YieldsIndices(ByLength):
    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            yield from batch


class CountsEpochsItself(ByLength):
    def __iter__(self) -> Iterator[Any]:
        batches = list(super().__iter__())
        self.epoch += 1
        yield from batches


class NeedsSetEpoch(ByLength):
    def __init__(self, lengths: list[int], batch_size: int, seed: int) -> None:
        super().__init__(lengths, batch_size, seed)
        del self.epoch


class ReadOnce(ByLength):
    def __init__(self, lengths: list[int], batch_size: int, seed: int) -> None:
        super().__init__(lengths, batch_size, seed)
        self.made = super().__iter__()

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.made = super().__iter__()

    def __iter__(self) -> Iterator[Any]:
        return self.made


class SeededByHash(ByLength):
    def rng(self) -> Any:
        return random.Random(hash(f"{self.seed} {self.epoch}"))


LENGTHS = "Batches of similar lengths"
SAME = 'In the case "{case}" the order of the batches in epoch 1 is {order}: '
RESEEDED = (
    'In the case "{case}" the call changed the state of a global generator: {generators}. Give the sampler a generator '
    "of its own."
)
MISTAKES = [
    Mistake("drops-last-batch", DropsLastBatch, "In the case \"{case}\" {missing} of {count} indices never come up: "
            "the last batch is smaller, but belongs to the epoch too.", LENGTHS),
    Mistake("same-order-every-epoch", ForgetsTheEpoch, SAME + "it depends on the seed alone, but has to depend on the "
            "epoch as well.", LENGTHS),
    Mistake("orders-come-again", TakesOrdersInTurn, "In the case \"{case}\" there were {got} among the {what}: a few "
            "orders were used in turn, but each epoch should have a new one.", LENGTHS),
    Mistake("reseeds-global-rng", ReseedsRandom, RESEEDED, LENGTHS),
    Mistake("ignores-lengths", IgnoresLengths, "In the case \"{case}\" the padding is {padding}. Each batch should "
            "hold indices of similar lengths.", LENGTHS),
    Mistake("sorts-coarsely", SortsCoarsely, "In the case \"{case}\" the lengths in a batch are {neighbours}: within "
            "groups of about equal length they are in no order, so a batch holds longer and shorter ones than "
            "necessary.",
            LENGTHS),
    Mistake("counts-epochs-itself", CountsEpochsItself, "In the case \"{case}\" epoch 1, read twice in a row, had "
            "{reread} order the second time: either the epoch was counted up, or the generator went on drawing. Make "
            "the order anew from seed and epoch in `__iter__`.", LENGTHS),
    Mistake("can-be-read-once-only", ReadOnce, "In the case \"{case}\" epoch 1, read twice in a row, was {reread} the "
            "second time: what was made before is used up, so make the batches in `__iter__`.", LENGTHS),
    Mistake("needs-set-epoch", NeedsSetEpoch, "In the case \"{case}\" the call raised {error}: before `set_epoch` is "
            "called, the epoch is 0.", LENGTHS),
    Mistake("seeded-by-a-salted-hash", SeededByHash, "In the case \"{case}\" epoch 1 comes in {elsewhere} order in a "
            "new process: Python's `hash` of a string has a different value in each process.", LENGTHS),
    Mistake("same-order-every-epoch", NeverShuffles, SAME + "either the sorted batches were not shuffled, or always "
            "from the same seed.", LENGTHS),
    Mistake("reseeds-global-rng", ReseedsTorch, RESEEDED, LENGTHS),
    Mistake("reseeds-global-rng", ReseedsNumpy, RESEEDED, LENGTHS),
    Mistake("order-not-reproducible", GoesOnDrawing, "In the case \"{case}\" epoch 1 came in {rerun} order the second "
            "time: it has to depend on seed and epoch, and on nothing else.", LENGTHS),
    Mistake("seed-ignored", ForgetsTheSeed, "In the case \"{case}\" epoch 1 with another seed has {reseeded} order: "
            "the order has to depend on `seed`.",
            LENGTHS),
    Mistake("yields-indices-not-batches", YieldsIndices, "In the case \"{case}\" the sampler yields {yields}: each "
            "item it yields should be a batch, a list of indices.", LENGTHS),
    Mistake("yields-lengths", YieldsLengths, "In the case \"{case}\" the sampler yields {yields}: the lengths "
            "themselves were sorted and cut into batches; sort the indices by their lengths.", LENGTHS),
    Mistake("fills-the-last-batch", FillsLastBatch, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: "
            "the last batch may be smaller; do not fill it up.", LENGTHS),
    Mistake("draws-from-the-global-generators", SeedsNothing, "In the case \"{case}\" epoch 1 of a fresh sampler has "
            "{fresh} order: nothing was seeded.", LENGTHS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def lengths(count: int) -> list[int]:
        return [draw.size(1, 200) for _ in range(count)]

    common: dict[str, Any] = {"seed": draw.size(0, 400)}
    return [
        case("many tickets", **common, lengths=lengths(draw.size(300, 400)), batch_size=16),
        case("one more than a batch", **common, lengths=lengths(6 * 5 + 1), batch_size=6),
        case("batches of one", **common, lengths=lengths(20), batch_size=1),
    ]


# Right answers unlike the reference


class LengthsWithTorch(Sampler[Any]):
    def __init__(self, lengths: list[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed, self.epoch = torch.tensor(lengths), batch_size, seed, 0

    def set_epoch(self, e: int) -> None:
        self.epoch = e

    def __iter__(self) -> Iterator[Any]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        noise = torch.rand(len(self.lengths), generator=generator)
        batches = torch.split((self.lengths + noise).argsort(), self.batch_size)
        for i in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[i].tolist()


class LengthsInPools(Sampler[Any]):
    """Shuffles, then sorts within pools of many batches."""

    def __init__(self, lengths: list[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.set_epoch(0)

    def set_epoch(self, e: int) -> None:
        rng = np.random.default_rng([self.seed, e])
        order = rng.permutation(len(self.lengths)).tolist()
        pool = 50 * self.batch_size
        self.batches = []
        for start in range(0, len(order), pool):
            some = sorted(order[start : start + pool], key=lambda i: self.lengths[i])
            self.batches += [tuple(some[i : i + self.batch_size]) for i in range(0, len(some), self.batch_size)]
        rng.shuffle(self.batches)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        return (list(map(int, batch)) for batch in self.batches)


RIGHT_ANSWERS: list[Callable[..., Any]] = [LengthsWithTorch, LengthsInPools]
