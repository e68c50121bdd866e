"""The exercise `samples_seen`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograde.source.mistakes import Mistake
from torchcourse.exercises.quizzes.samples_seen import loaded
from torchcourse.model.exercise import Case, Draw

WHY = (
    "First what each reader reads: a table has one reader, a stream one for each worker, and only a sharded stream "
    "divides. Every reader makes its own batches, so the rest is dropped from each of these numbers, before they are "
    "added up."
)
"""Why the reference is written as it is."""
REQUIRED = ("workers-do-not-multiply", "drop-last-once-per-loader", "map-style-duplicates")
"""The mistakes that a check must always be able to name."""

SECTION = "Workers and samples"


class Count:
    """The right answer in parts; a misconception overrides one."""

    def __call__(self, n: int, batch_size: int, *, workers: int, iterable: bool, sharded: bool, drop_last: bool) -> int:
        readers = max(workers, 1) if self.duplicates(iterable) else 1
        read = self.parts(n, readers) if sharded and iterable else [n] * self.copies(readers)
        return self.total(read, batch_size) if drop_last else sum(read)

    def duplicates(self, iterable: bool) -> bool:
        return iterable

    def copies(self, readers: int) -> int:
        return readers

    def parts(self, n: int, readers: int) -> list[int]:
        return [len(range(reader, n, readers)) for reader in range(readers)]

    def total(self, read: list[int], batch_size: int) -> int:
        return sum(part // batch_size * batch_size for part in read)


class WorkersDoNotMultiply(Count):
    def duplicates(self, iterable: bool) -> bool:
        return False


class MapStyleDuplicates(Count):
    def duplicates(self, iterable: bool) -> bool:
        return True


class TableIsDealtOut(Count):
    def __call__(self, n: int, batch_size: int, *, workers: int, iterable: bool, sharded: bool, drop_last: bool) -> int:
        dealt = {"iterable": True, "sharded": sharded or not iterable}
        return super().__call__(n, batch_size, workers=workers, drop_last=drop_last, **dealt)


class ShardsTheTable(Count):
    def __call__(self, n: int, batch_size: int, *, workers: int, iterable: bool, sharded: bool, drop_last: bool) -> int:
        asked = {"iterable": iterable or sharded, "sharded": sharded}
        return super().__call__(n, batch_size, workers=workers, drop_last=drop_last, **asked)


class DropsOncePerLoader(Count):
    def total(self, read: list[int], batch_size: int) -> int:
        return sum(read) // batch_size * batch_size


class DropsOneBatch(Count):
    def total(self, read: list[int], batch_size: int) -> int:
        return sum(max(part - batch_size, 0) for part in read)


class DropsNothing(Count):
    def total(self, read: list[int], batch_size: int) -> int:
        return sum(read)


class DropsTheWrongWayRound(Count):
    def __call__(self, n: int, batch_size: int, *, drop_last: bool, **options: Any) -> int:
        return super().__call__(n, batch_size, drop_last=not drop_last, **options)


class ShardingDoesNothing(Count):
    def parts(self, n: int, readers: int) -> list[int]:
        return [n] * readers


class EqualShares(Count):
    def parts(self, n: int, readers: int) -> list[int]:
        return [n // readers] * readers


class LastShardTakesTheRest(Count):
    def parts(self, n: int, readers: int) -> list[int]:
        return [n // readers] * (readers - 1) + [n // readers + n % readers]


class ShardsAreStretches(Count):
    def parts(self, n: int, readers: int) -> list[int]:
        size = -(-n // readers)
        return [len(range(n)[reader * size : (reader + 1) * size]) for reader in range(readers)]


class MainProcessReadsToo(Count):
    def __call__(self, n: int, batch_size: int, **options: Any) -> int:
        self.more = int(options["workers"] > 0 and options["iterable"])
        return super().__call__(n, batch_size, **options)

    def copies(self, readers: int) -> int:
        return readers + self.more


class CountsWholeBatches(Count):
    def total(self, read: list[int], batch_size: int) -> int:
        return sum(part // batch_size for part in read)


class CountsBatches(Count):
    def __call__(self, n: int, batch_size: int, **options: Any) -> int:
        return -(-super().__call__(n, batch_size, **options) // batch_size)


class NoWorkerNoReader(Count):
    def __call__(self, n: int, batch_size: int, **options: Any) -> int:
        return super().__call__(n, batch_size, **options) * bool(options["workers"] or not options["iterable"])


class TimesWorkers(Count):
    def __call__(self, n: int, batch_size: int, **options: Any) -> int:
        read = options["workers"] or options["sharded"] or not options["iterable"]
        return super().__call__(n, batch_size, **options) * bool(read)


RUN = "PyTorch runs `{run}` and {said}; you predict {got}: "
STRETCHES = (
    "worker k of w takes every w-th sample, so no shard has more than one sample more than another. Shards that are "
    "stretches of the stream may differ by more."
)
MISTAKES = [
    Mistake("workers-do-not-multiply", WorkersDoNotMultiply(), RUN + "each worker runs `__iter__` of its own copy of "
            "the stream.",
            SECTION),
    Mistake("map-style-duplicates", MapStyleDuplicates(), RUN + "for a table, one sampler gives each index to one "
            "worker.", SECTION),
    Mistake("table-is-dealt-out", TableIsDealtOut(), RUN + "the main process makes the batches of a table, and each "
            "worker gets whole ones.", SECTION),
    Mistake("shards-the-table", ShardsTheTable(), RUN + "only a stream is sharded; the indices of a table come from "
            "one sampler, and its batches are the same as without workers.", SECTION),
    Mistake("drop-last-once-per-loader", DropsOncePerLoader(), RUN + "each worker makes batches of its own and drops "
            "its own incomplete one.", SECTION),
    Mistake("drops-a-full-batch", DropsOneBatch(), RUN + "only an incomplete batch is dropped, and nothing more.",
            SECTION),
    Mistake("drops-nothing", DropsNothing(), RUN + "`drop_last` leaves out the samples of an incomplete batch.",
            SECTION),
    Mistake("drops-the-wrong-way-round", DropsTheWrongWayRound(), RUN + "an incomplete batch is left out if "
            "`drop_last` is True, and yielded if it is False.", SECTION),
    Mistake("sharding-does-nothing", ShardingDoesNothing(), RUN + "a sharded stream gives each worker a part.",
            SECTION),
    Mistake("shares-are-equal", EqualShares(), RUN + "where the number of workers does not divide n, the first ones "
            "read one more.", SECTION),
    Mistake("contiguous-shards", LastShardTakesTheRest(), RUN + STRETCHES, SECTION),
    Mistake("contiguous-shards", ShardsAreStretches(), RUN + STRETCHES, SECTION),
    Mistake("main-process-reads-too", MainProcessReadsToo(), RUN + "the main process reads nothing where there are "
            "workers, so there are as many copies of the stream as workers.", SECTION),
    Mistake("counts-batches", CountsBatches(), RUN + "samples are asked for, not batches.", SECTION),
    Mistake("counts-batches", CountsWholeBatches(), RUN + "samples are asked for, not batches.", SECTION),
    Mistake("no-worker-reads-nothing", NoWorkerNoReader(), RUN + "without workers the main process reads.", SECTION),
    Mistake("no-worker-reads-nothing", TimesWorkers(), RUN + "without workers the main process reads.", SECTION),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    few, size = draw.size(1, 2), draw.size(1, 3)
    return [
        loaded("fewer samples than workers", few, size, 3),
        loaded("fewer samples than workers, sharded", few, size, 3, sharded=True),
    ] + [
        loaded(f"drawn {n}", draw.size(0, 30), draw.size(1, 6), draw.size(0, 3), iterable=bool(draw.size(0, 3)),
               sharded=bool(draw.size(0, 1)), drop=bool(draw.size(0, 1)))
        for n in range(10)
    ]  # fmt: skip


# Right answers unlike the reference


def by_acting_it_out(n: int, batch_size: int, *, workers: int, iterable: bool, sharded: bool, drop_last: bool) -> int:
    streams = [list(range(n))]
    if iterable and workers:
        streams = [list(range(k, n, workers) if sharded else range(n)) for k in range(workers)]
    seen = 0
    for stream in streams:
        for start in range(0, len(stream), batch_size):
            batch = stream[start : start + batch_size]
            if len(batch) == batch_size or not drop_last:
                seen += len(batch)
    return seen


def by_division(n: int, batch_size: int, *, workers: int, iterable: bool, sharded: bool, drop_last: bool) -> int:
    unit = batch_size if drop_last else 1
    if not iterable or workers <= 1:
        return n - n % unit
    if not sharded:
        return workers * (n - n % unit)
    share, more = divmod(n, workers)
    return more * ((share + 1) - (share + 1) % unit) + (workers - more) * (share - share % unit)


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_acting_it_out, by_division]
