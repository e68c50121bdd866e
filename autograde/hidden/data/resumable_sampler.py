"""The exercise `ResumableSampler`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import Sampler

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The order follows from seed and epoch, so the position is all that has to be saved. It is moved before the"
    " `yield`: what stands after it runs only when the next item is asked for, and a state saved in between "
    "would repeat one."
)
"""Why the reference is written as it is."""
REQUIRED = ("restarts-epoch", "reshuffles-on-resume")
"""The mistakes that a check must always be able to name."""


class Resumable(Sampler[int]):
    """A right sampler. Each mistake below is this one with one method written otherwise."""

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed = n, seed
        self.now = {"epoch": 0, "position": 0}

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.now["epoch"]:
            self.now.update(epoch=epoch, position=0)

    def state_dict(self) -> dict[str, Any]:
        return dict(self.now)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.now = {**self.now, **state}

    def __len__(self) -> int:
        return self.n

    def shuffled(self, number: int) -> list[int]:
        order = list(range(self.n))
        random.Random(number).shuffle(order)
        return order

    def order(self) -> list[int]:
        return self.shuffled(1000 * self.seed + self.now["epoch"])

    def __iter__(self) -> Iterator[int]:
        for index in self.order()[self.now["position"] :]:
            self.now["position"] += 1
            yield index
        self.now["position"] = 0


class RestartsTheEpoch(Resumable):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.now = {"epoch": state["epoch"], "position": 0}


class LoadsNothing(Resumable):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class ShufflesAnew(Resumable):
    def order(self) -> list[int]:
        return torch.randperm(self.n).tolist()


class ShufflesAnewByRandom(Resumable):
    def order(self) -> list[int]:
        order = list(range(self.n))
        random.shuffle(order)
        return order


class ShufflesByPosition(Resumable):
    def order(self) -> list[int]:
        return self.shuffled(1000 * self.seed + self.now["epoch"] + 77 * self.now["position"])


class ForgetsTheEpoch(Resumable):
    def order(self) -> list[int]:
        return self.shuffled(self.seed)


class TakesOrdersInTurn(Resumable):
    def order(self) -> list[int]:
        return self.shuffled(1000 * self.seed + self.now["epoch"] % 4)


class ForgetsTheSeed(Resumable):
    def order(self) -> list[int]:
        return self.shuffled(self.now["epoch"])


class NeverShuffles(Resumable):
    def order(self) -> list[int]:
        return list(range(self.n))


class AlwaysResets(Resumable):
    def set_epoch(self, epoch: int) -> None:
        self.now.update(epoch=epoch, position=0)


class NeverResets(Resumable):
    def set_epoch(self, epoch: int) -> None:
        self.now["epoch"] = epoch


class DrawsFromOneGenerator(Resumable):
    def __init__(self, n: int, seed: int) -> None:
        super().__init__(n, seed)
        self.generator = torch.Generator().manual_seed(seed)

    def order(self) -> list[int]:
        return torch.randperm(self.n, generator=self.generator).tolist()


class SavesTheGenerator(DrawsFromOneGenerator):
    def state_dict(self) -> dict[str, Any]:
        return {**self.now, "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.now = {name: state[name] for name in ("epoch", "position")}
        self.generator.set_state(state["generator"])


class DrawsForEachNewEpoch(DrawsFromOneGenerator):
    def __init__(self, n: int, seed: int) -> None:
        super().__init__(n, seed)
        self.drawn = super().order()

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.now["epoch"]:
            self.now.update(epoch=epoch, position=0)
            self.drawn = super().order()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.set_epoch(state["epoch"])
        self.now = {**self.now, **state}

    def order(self) -> list[int]:
        return self.drawn


class CountsAllAtOnce(Resumable):
    def __iter__(self) -> Iterator[int]:
        left = self.order()[self.now["position"] :]
        self.now["position"] = self.n
        yield from left
        self.now["position"] = 0


class CountsAfterTheYield(Resumable):
    def __iter__(self) -> Iterator[int]:
        for index in self.order()[self.now["position"] :]:
            yield index
            self.now["position"] += 1
        self.now["position"] = 0


class CountsSinceTheResume(Resumable):
    def __iter__(self) -> Iterator[int]:
        for done, index in enumerate(self.order()[self.now["position"] :], 1):
            self.now["position"] = done
            yield index
        self.now["position"] = 0


class SavesThePositionOnly(Resumable):
    def state_dict(self) -> dict[str, Any]:
        return {"position": self.now["position"]}


class HandsOutItsOwnDict(Resumable):
    def state_dict(self) -> dict[str, Any]:
        return self.now


class SeededByHash(Resumable):
    def order(self) -> list[int]:
        return self.shuffled(hash(f"{self.seed} {self.now['epoch']}"))


class KeepsTheCallersState(Resumable):
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.now = state


STOPPING = "Stopping in the middle of an epoch"
JOINED = 'In the case "{case}", stopped after {stops} and taken up again, the epoch had {joined}: '
MISTAKES = [
    Mistake("restarts-epoch", RestartsTheEpoch, JOINED + "after loading, the epoch began again at its first index.",
            STOPPING),
    *(Mistake("reshuffles-on-resume", program, JOINED + "the order was shuffled anew instead of being made from seed "
              "and epoch.", STOPPING) for program in (ShufflesAnew, ShufflesAnewByRandom)),
    Mistake("set-epoch-resets-position", AlwaysResets, JOINED + "`set_epoch` with the present epoch has to keep the "
            "position that was loaded.", STOPPING),
    Mistake("same-order-every-epoch", ForgetsTheEpoch, "In the case \"{case}\" the order of the next epoch is "
            "{following}: it has to depend on the epoch as well as on the seed.", STOPPING),
    *(Mistake("drawn-from-one-generator", program, "In the case \"{case}\" the {what} came out as {got}: the orders "
              "were drawn one after another from a generator that was seeded once, so a fresh sampler begins again "
              "with the first of them, whatever the epoch. Seed from `seed` and the epoch for each order.", STOPPING)
      for program in (DrawsFromOneGenerator, SavesTheGenerator, DrawsForEachNewEpoch)),
    Mistake("counted-all-at-once", CountsAllAtOnce, JOINED + "the position was moved to the end before the indices "
            "were handed out. Count each index before its `yield`.", STOPPING),
    Mistake("orders-come-again", TakesOrdersInTurn, "In the case \"{case}\" there were {got} among the {what}: a few "
            "orders were used in turn, but each epoch should have one of its own.", STOPPING),
    Mistake("counts-after-the-yield", CountsAfterTheYield, JOINED + "the saved position was one behind. Count "
            "an index before its `yield`: what stands after it runs only when the next one is asked for.", STOPPING),
    Mistake("seeded-by-a-salted-hash", SeededByHash, "In the case \"{case}\" the {what} is {got} where {want} is "
            "wanted: Python's `hash` of a string has a different value in each process, and it is a new process that "
            "resumes.",
            STOPPING),
    Mistake("keeps-the-callers-state", KeepsTheCallersState, "In the case \"{case}\" the {what} is {got}, and should "
            "be {want}: the sampler went on counting in the dict that it was given to load.", STOPPING),
    Mistake("restarts-epoch", LoadsNothing, JOINED + "the state was either not saved or not loaded.", STOPPING),
    Mistake("reshuffles-on-resume", ShufflesByPosition, JOINED + "the order depends on the position at which it is "
            "taken up.", STOPPING),
    Mistake("position-since-the-resume", CountsSinceTheResume, JOINED + "the position was counted from the last "
            "resume, not from the start of the epoch.", STOPPING),
    Mistake("epoch-not-saved", SavesThePositionOnly, JOINED + "the epoch was either not saved or not loaded, so the "
            "order was a different one.", STOPPING),
    Mistake("state-changes-later", HandsOutItsOwnDict, JOINED + "`state_dict` returned the sampler's own dict, which "
            "went on counting.", STOPPING),
    Mistake("new-epoch-keeps-position", NeverResets, "In the case \"{case}\" the {what}, is {got}: a new epoch has to "
            "begin at its first index.", STOPPING),
    Mistake("unshuffled", NeverShuffles, "In the case \"{case}\" the order of the {n} indices is {order}, where a "
            "shuffled one is wanted.", STOPPING),
    Mistake("seed-ignored", ForgetsTheSeed, "In the case \"{case}\" `{what}` is {got} where {want} is wanted.",
            STOPPING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    common: dict[str, Any] = {"seed": draw.size(0, 900)}
    n = draw.size(40, 90)
    return [
        case("stopped before the last", **common, n=n, epoch=draw.size(1, 9), stops=[n - 1], set_again=True),
        case("stopped five times", **common, n=n, epoch=0, stops=[1, 2, 3, 4, 5], set_again=False),
        case("stopped at once, twice", **common, n=n, epoch=4, stops=[0, 3, 0, 7], set_again=True),
    ]


# Right answers unlike the reference


class ResumableWithTorch(Sampler[int]):
    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed, self.epoch, self.done = n, seed, 0, 0

    def set_epoch(self, e: int) -> None:
        self.done = self.done if e == self.epoch else 0
        self.epoch = e

    def state_dict(self) -> dict[str, Any]:
        return {"state": json.dumps([self.seed, self.epoch, self.done])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seed, self.epoch, self.done = json.loads(state["state"])

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(hash((self.seed, self.epoch)) % 2**31)
        order = torch.randperm(self.n, generator=generator).tolist()
        while self.done < self.n:
            self.done += 1
            yield order[self.done - 1]


class _Walk:
    def __init__(self, owner: Any, order: list[int]) -> None:
        self.owner, self.order = owner, order

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if not self.order:
            raise StopIteration
        self.owner.left = len(self.order) - 1
        return self.order.pop()


class ResumableByItsRest(Sampler[int]):
    """Keeps how many are left, and hands out from the end."""

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed = n, seed
        self.epoch, self.left = 0, n

    def set_epoch(self, e: int) -> None:
        if self.epoch != e:
            self.epoch, self.left = e, self.n

    def state_dict(self) -> Any:
        return {"numbers": torch.tensor([self.epoch, self.left])}

    def load_state_dict(self, state: Any) -> None:
        self.epoch, self.left = state["numbers"].tolist()

    def __iter__(self) -> Any:
        order = np.random.default_rng((self.seed, self.epoch)).permutation(self.n).tolist()
        return _Walk(self, order[: self.left])


class ResumableByIslice(Sampler[int]):
    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed, self.state = n, seed, (0, 0)

    def set_epoch(self, e: int) -> None:
        if e != self.state[0]:
            self.state = (e, 0)

    def state_dict(self) -> Any:
        return {"state": self.state}

    def load_state_dict(self, state: Any) -> None:
        self.state = tuple(state["state"])

    def __len__(self) -> int:
        return self.n - self.state[1]

    def __iter__(self) -> Iterator[int]:
        epoch, begin = self.state
        order = random.Random(self.seed * 7919 + epoch).sample(range(self.n), self.n)
        for place, index in itertools.islice(enumerate(order, 1), begin, None):
            self.state = (epoch, place)
            yield index


RIGHT_ANSWERS: list[Callable[..., Any]] = [ResumableWithTorch, ResumableByItsRest, ResumableByIslice]
