"""The exercise `ShardedStream`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Every worker of every rank runs the same iterator, so each takes its own share: it is reader number `rank "
    "* workers + worker` of `world_size * workers`, and takes one item in that many. Nothing has to be agreed "
    "upon at run time."
)
"""Why the reference is written as it is."""
REQUIRED = ("duplicates-across-workers", "ignores-rank")
"""The mistakes that a check must always be able to name."""


class Stream(IterableDataset[Any]):
    """A right stream. Each mistake below is this one with one method written otherwise."""

    def __init__(self, items: Any, rank: int = 0, world_size: int = 1) -> None:
        self.items, self.rank, self.world_size = items, rank, world_size

    def worker(self) -> tuple[int, int]:
        info = get_worker_info()
        return (info.id, info.num_workers) if info else (0, 1)

    def reader(self) -> tuple[int, int]:
        """This reader's number, and how many there are."""
        worker, workers = self.worker()
        return self.rank * workers + worker, self.world_size * workers

    def __iter__(self) -> Iterator[Any]:
        reader, readers = self.reader()
        return islice(self.items, reader, None, readers)


class IgnoresWorkers(Stream):
    def worker(self) -> tuple[int, int]:
        return 0, 1


class AssumesWorkers(Stream):
    def worker(self) -> tuple[int, int]:
        info: Any = get_worker_info()
        return info.id, info.num_workers


class IgnoresRank(Stream):
    def reader(self) -> tuple[int, int]:
        return self.worker()


class IgnoresRankInWorkers(Stream):
    def reader(self) -> tuple[int, int]:
        return (self.rank, self.world_size) if get_worker_info() is None else self.worker()


class IgnoresRankAndWorkers(Stream):
    def reader(self) -> tuple[int, int]:
        return 0, 1


class AddsRankToWorker(Stream):
    def reader(self) -> tuple[int, int]:
        worker, workers = self.worker()
        return self.rank + worker, self.world_size * workers


class CountsRanksForWorkers(Stream):
    def reader(self) -> tuple[int, int]:
        worker, workers = self.worker()
        return self.rank * self.world_size + worker, self.world_size * workers


class DividesTwiceByPosition(Stream):
    def __iter__(self) -> Iterator[Any]:
        worker, workers = self.worker()
        for position, item in enumerate(self.items):
            if position % workers == worker and position % self.world_size == self.rank:
                yield item


class CutsBlocks(Stream):
    def __iter__(self) -> Iterator[Any]:
        reader, readers = self.reader()
        size = len(self.items) // readers
        return iter(self.items[reader * size : (reader + 1) * size])


class ReadOnce(Stream):
    def __init__(self, items: Any, rank: int = 0, world_size: int = 1) -> None:
        super().__init__(iter(items), rank, world_size)


class SkipsTheFirstItem(Stream):
    def __iter__(self) -> Iterator[Any]:
        reader, readers = self.reader()
        return islice(self.items, reader + 1, None, readers)


STREAMS = "Streams over workers and ranks"
SHARES = 'In the case "{case}" {came} items came where there are {count}: {extra} too many and {missing} missing. '
MISTAKES = [
    Mistake("duplicates-across-workers", IgnoresWorkers, SHARES + "Each worker runs `__iter__` on a copy of the "
            "dataset, and nothing told the copies apart.", STREAMS),
    Mistake("ignores-rank", IgnoresRank, SHARES + "There are {ranks} ranks, and each of them read everything.",
            STREAMS),
    Mistake("ignores-rank-in-workers", IgnoresRankInWorkers, SHARES + "Where there are workers, they were told apart, "
            "but the {ranks} ranks were not.", STREAMS),
    Mistake("crashes-without-workers", AssumesWorkers, "In the case \"{case}\" reading ended with {error}: where there "
            "are no workers, `get_worker_info()` returns None.", STREAMS),
    Mistake("rank-added-to-worker", AddsRankToWorker, SHARES + "Worker 1 of rank 0 and worker 0 of rank 1 got the same "
            "number: rank + worker is not a number of its own for each reader.", STREAMS),
    Mistake("ranks-counted-for-workers", CountsRanksForWorkers, SHARES + "The number of a reader is rank * workers + "
            "worker, and not rank * world_size + worker.", STREAMS),
    Mistake("divides-twice-by-position", DividesTwiceByPosition, "In the case \"{case}\" {what} is {got}. Each "
            "position was divided by the number of workers and again by the number of ranks: with two of each, a "
            "reader whose worker and rank numbers differ gets nothing.", STREAMS),
    Mistake("drops-the-remainder", CutsBlocks, SHARES + "Blocks of equal size leave out the remainder when the items "
            "do not divide evenly.",
            STREAMS),
    Mistake("can-be-read-once-only", ReadOnce, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the "
            "first epoch used up what it read from; begin anew in every `__iter__`.", STREAMS),
    Mistake("skips-the-first-item", SkipsTheFirstItem, SHARES + "Items are counted from 0.", STREAMS),
    Mistake("ignores-rank", IgnoresRankAndWorkers, SHARES + "Neither the {ranks} ranks nor their workers were told "
            "apart.", STREAMS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    common: dict[str, Any] = {"epochs": 1}
    words = [f"item {draw.size(0, 5)}" for _ in range(draw.size(9, 13))]
    return [
        case("fewer items than readers", **common, items=[5, 6, 7], world_size=5, workers=0),
        case("nothing", **common, items=[], world_size=2, workers=0),
        case("strings, some of them equal", **common, items=words, world_size=3, workers=0),
        case("many items", **common, items=list(range(draw.size(50, 90))), world_size=4, workers=0),
    ]


# Right answers unlike the reference


class StreamByRemainder(IterableDataset[Any]):
    def __init__(self, items: Any, rank: int = 0, world_size: int = 1) -> None:
        super().__init__()
        self.items, self.rank, self.world_size = items, rank, world_size

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        count = 1 if worker is None else worker.num_workers
        mine = self.rank + self.world_size * (0 if worker is None else worker.id)
        for place, item in enumerate(self.items):
            if place % (count * self.world_size) == mine:
                yield item


class StreamInTwoSteps(IterableDataset[Any]):
    """First a share for the rank, then a share of that for the worker."""

    def __init__(self, items: Any, rank: int = 0, world_size: int = 1) -> None:
        self.mine = list(items)[rank::world_size]

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        return iter(self.mine if info is None else self.mine[info.id :: info.num_workers])


class StreamInBlocks(IterableDataset[Any]):
    def __init__(self, items: Any, rank: int = 0, world_size: int = 1) -> None:
        self.items, self.rank, self.world_size = list(items), rank, world_size

    def __iter__(self) -> Iterator[Any]:
        info: Any = get_worker_info()
        workers, worker = (info.num_workers, info.id) if info is not None else (1, 0)
        readers, reader = workers * self.world_size, worker * self.world_size + self.rank
        start, stop = (len(self.items) * k // readers for k in (reader, reader + 1))
        yield from self.items[start:stop]


RIGHT_ANSWERS: list[Callable[..., Any]] = [StreamByRemainder, StreamInTwoSteps, StreamInBlocks]
