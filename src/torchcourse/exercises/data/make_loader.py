"""The exercise `make_loader`: its probe, visible cases and hints."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.data_loading import arrangement, drain, seed_generators
from torchcourse.probes.observe import kind

EPOCHS = 2


class Noting(Dataset[Any]):
    """A dataset whose items are the index, what NumPy and `random` drew for it, and the process.

    Attributes:
        visits: shared by all processes: for each index those that made its item, in order, and 0 where there was none.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.visits = torch.zeros(count, EPOCHS, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[int, float, float, int]:
        row = self.visits[index]
        row[int(row.count_nonzero()) % EPOCHS] = os.getpid()
        return index, np.random.rand(), random.random(), os.getpid()


def probe(
    answer: Watched, count: int, batch_size: int, train: bool, seed: int, device: str, num_workers: int | None
) -> dict[str, Any]:
    """Run the loader, again with the same seed, and with another; without CUDA, pinning is looked up and not done."""

    def run(epochs: int, disturbance: int, seed: int) -> Any:
        seed_generators(disturbance)
        more = {} if num_workers is None else {"num_workers": num_workers}
        dataset = Noting(count)
        loader = answer(dataset, batch_size, train=train, seed=seed, device=torch.device(device), **more)
        if not isinstance(loader, DataLoader):
            return kind(loader)
        if device != "cpu":
            return loader.pin_memory
        seed_generators(10 * disturbance)
        pins = loader.pin_memory
        loader.pin_memory = False  # what it says has been seen; pinning without CUDA only warns
        return {"pins": pins, "epochs": drain(loader, epochs), "visits": dataset.visits}

    first = run(EPOCHS if train else 1 + bool(num_workers), 1, seed)
    if isinstance(first, bool):
        return {"pins": first}
    if isinstance(first, str):
        return {"returned": f"{first}, where a DataLoader is wanted"}
    again = run(1, 2, seed)
    seen: dict[str, Any] = {**first, "again": again["epochs"][0], "own process": os.getpid()}
    return seen if num_workers else {**seen, "other": run(1, 1, seed + 1)["epochs"][0]}


def _column(epoch: list[Any], place: int) -> list[Any]:
    return [value for batch in epoch for value in batch[place].flatten().tolist()]


def _processes(seen: Observations) -> list[list[int]]:
    """Return the processes that made the items of each epoch, as the dataset noted them."""
    visits, taken, found = seen["visits"].tolist(), Counter[int](), []
    for epoch in seen["epochs"]:
        indices = [index for index in _column(epoch, 0) if type(index) is int and 0 <= index < len(visits)]
        found.append([visits[index][min(taken[index], EPOCHS - 1)] for index in indices])
        taken.update(indices)
    return found


def _by_process(epoch: list[Any], processes: list[int], place: int) -> dict[int, list[float]]:
    drawn: dict[int, list[float]] = {}
    for pid, value in zip(processes, _column(epoch, place), strict=True):
        drawn.setdefault(pid, []).append(value)
    return drawn


def derive(case: Case, seen: Observations) -> Observations:
    """Say what holds of order, batch sizes and workers, whichever generator shuffled."""
    if "epochs" not in seen:
        return seen
    inputs, epoch = case.inputs, seen["epochs"][0]
    processes = _processes(seen)
    order, again = _column(epoch, 0), _column(seen["again"], 0)
    found: dict[str, Any] = {
        "pins": seen["pins"],
        "batch sizes": [len(batch[0]) for batch in epoch],
        "indices": "each at most once" if len(set(order)) == len(order) else "some more than once",
        "order": arrangement(order),
        "order in a second run": "the same" if order == again else "another",
    }
    if "other" in seen and inputs["train"]:
        found["order of epoch 2"] = "the same" if order == _column(seen["epochs"][1], 0) else "another"
        found["order with another seed"] = "the same" if order == _column(seen["other"], 0) else "another"
    if not inputs["num_workers"]:
        return found
    pids = [set(each) for each in processes]
    found["workers"] = len(pids[0] - {seen["own process"]})
    found["workers of epoch 2"] = "those of epoch 1" if pids[0] == pids[1] else "new ones"
    for place, whose in ((1, "NumPy"), (2, "random")):
        drawn = list(_by_process(epoch, processes[0], place).values())
        different = len({value for values in drawn for value in values}) == sum(map(len, drawn))
        found[f"{whose} in each worker"] = "draws differently" if different else "draws the same numbers"
        same = sorted(_column(epoch, place)) == sorted(_column(seen["again"], place))
        found[f"{whose} in a second run"] = "draws equally" if same else "draws other numbers"
    return found


def cases(draw: Draw) -> list[Case]:
    seed = draw.size(2, 99)
    common: dict[str, Any] = {"batch_size": 4, "seed": seed, "device": "cpu", "num_workers": None}
    return [
        case("training", **common, count=18, train=True),
        case("evaluation", **common, count=draw.size(17, 19), train=False),
        case("for CUDA", **{**common, "device": "cuda"}, count=8, train=True),
        case("training with two workers", **{**common, "num_workers": 2}, count=18, train=True),
        case("evaluation with one worker", **{**common, "num_workers": 1}, count=10, train=False),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "pins": seen.get("pins"),
        "order": seen.get("order"),
        "rerun": seen.get("order in a second run"),
        "reseeded": seen.get("order with another seed"),
        "sizes": seen.get("batch sizes"),
        "wanted_sizes": wanted.get("batch sizes"),
        "workers": seen.get("workers"),
        "later": seen.get("workers of epoch 2"),
        "numpy": seen.get("NumPy in each worker"),
        "python": seen.get("random in each worker"),
        "numpy_rerun": seen.get("NumPy in a second run"),
        "error": seen.get("raised"),
    }
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "make_loader",
    probe,
    cases,
    hints=(
        "Which two of the loader's arguments should be just `train`? And which two depend on `device` and on "
        "`num_workers`?",
        "The order and the seeds of the workers are drawn from `generator`. What does the loader draw from if you give "
        "it none?",
        "`persistent_workers=True` is refused where there are no workers. And since the loader seeds each worker's "
        "NumPy and `random` differently by itself: what happens if a `worker_init_fn` sets one seed in all of them?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
    seconds=20.0,
)
