"""The exercise `samples_seen`: its probe, visible cases, ground truth and hints."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from torchcourse.checking.probe import Watched
from torchcourse.checking.torchs_modules import TORCH
from torchcourse.model.exercise import Case, Draw, Exercise, InterviewQuestion, case
from torchcourse.model.observations import Observations


class Stream(IterableDataset[int]):
    """The numbers below n. If `sharded`, each worker reads those that fall to it."""

    def __init__(self, n: int, sharded: bool) -> None:
        self.n, self.sharded = n, sharded

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info() if self.sharded else None
        return iter(range(info.id, self.n, info.num_workers) if info else range(self.n))


class Table(Dataset[int]):
    """The numbers below n, each by its index."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> int:
        return index


def probe(answer: Watched, n: int, batch_size: int, options: dict[str, Any]) -> Observations:
    """Observe the number that an answer predicts."""
    return {"prediction": answer(n, batch_size, **options)}


def ground_truth(n: int, batch_size: int, *, workers: int, iterable: bool, sharded: bool, drop_last: bool) -> int:
    """Go through a DataLoader with real workers and count the samples."""
    forks = workers and "fork" in multiprocessing.get_all_start_methods()
    data: Any = Stream(n, sharded) if iterable else Table(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch and Python warn about more workers than cores and about forks
        loader: DataLoader[Any] = DataLoader(
            data,
            batch_size,
            num_workers=workers,
            drop_last=drop_last,
            multiprocessing_context="fork" if forks else None,
        )
        return sum(len(batch) for batch in loader)


def loaded(
    name: str,
    n: int,
    batch_size: int,
    workers: int = 0,
    *,
    iterable: bool = True,
    sharded: bool = False,
    drop: bool = False,
) -> Case:
    """Return the case of one loader."""
    options = {"workers": workers, "iterable": iterable, "sharded": sharded, "drop_last": drop}
    return case(name, n=n, batch_size=batch_size, options=options)


def cases(draw: Draw) -> list[Case]:
    size = draw.pick([3, 4])
    n = 4 * size + draw.size(1, size - 1)
    return [
        loaded("a table, no workers", n, size, iterable=False),
        loaded("a table, two workers", n, size, 2, iterable=False),
        loaded("a table, two workers, the last batch dropped", n, size, 2, iterable=False, drop=True),
        loaded("a table, three workers, the last batch dropped", n, size, 3, iterable=False, drop=True),
        loaded("a table, three workers, sharded, the last batch dropped", n, size, 3, iterable=False, sharded=True,
               drop=True),
        loaded("a stream, no workers", n, size),
        loaded("a stream, the last batch dropped", n, size, drop=True),
        loaded("a stream, two workers", n, size, 2),
        loaded("a stream, two workers, sharded", n, size, 2, sharded=True),
        loaded("a stream, no workers, sharded", n, size, sharded=True),
        loaded("a stream, two workers, last batches dropped", n, size, 2, drop=True),
        loaded("a stream, three workers, sharded, last batches dropped", n, size, 3, sharded=True, drop=True),
        loaded("a stream, four workers, sharded, one short of a batch each", 4 * size - 1, size, 4, sharded=True,
               drop=True),
        loaded("a stream, four workers, sharded, one more than a batch each", 4 * size + 1, size, 4, sharded=True,
               drop=True),
        loaded("fewer samples than a batch", size - 1, size, drop=True),
        loaded("shards smaller than a batch", size + 1, size, 2, sharded=True, drop=True),
    ]  # fmt: skip


def quotes(inputs: Observations, _seen: Observations, wanted: Observations) -> dict[str, object]:
    o, n = inputs["options"], inputs["n"]
    data = f"Table({n})" if not o["iterable"] else f"Stream({n}, sharded={o['sharded']})"
    run = f"DataLoader({data}, {inputs['batch_size']}, num_workers={o['workers']}, drop_last={o['drop_last']})"
    return {"run": run, "said": f"yields {wanted['prediction']} samples"}


EXERCISE = Exercise(
    "samples_seen",
    probe,
    cases,
    hints=(
        "Who decides which sample comes next? For a table it is the sampler, in the main process; for a stream it is "
        "the dataset's own `__iter__`. How many copies of that run?",
        "With a stream, every worker makes batches of what it reads, and never shares one with another worker. How "
        "many samples does each worker read if the stream is sharded, and if it is not?",
        "Make a list of what each reader reads: one number for each. What does `drop_last` take away from each of "
        "these numbers before you add them up?",
    ),
    quotes=quotes,
    any_device=False,
    forbids=(TORCH,),
    ground_truth=ground_truth,
    interview=InterviewQuestion(
        "You give an iterable dataset four workers. How much data does one epoch see?",
        "Four times the stream, because each worker runs a copy of `__iter__` from the start and nobody divides the "
        "work. A map-style dataset has no such problem, since one sampler in the main process hands each index to one "
        "worker. Shard the stream by `get_worker_info()`, and remember that each worker makes its own batches, so "
        "`drop_last` drops one for each worker.",
        "04_data",
    ),
)
