"""Probe data loading: end workers, watch the state of global generators, pickle objects of any class."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import pickle
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils.data import DataLoader

from torchcourse.model.exercise import Unattempted
from torchcourse.model.observations import Raised

__all__ = [
    "EPOCHS",
    "another_salt",
    "arrangement",
    "drain",
    "forking",
    "pickled",
    "refused",
    "scratch",
    "seed_generators",
    "touched",
    "unpickled",
    "variety",
]

EPOCHS = 40
"""In how many epochs `variety` is looked at."""


def forking(loader: DataLoader[Any]) -> DataLoader[Any]:
    """Let a loader fork its workers if the platform can: forks need not import the answer. Return the loader."""
    if loader.num_workers > 0 and "fork" in multiprocessing.get_all_start_methods():
        loader.multiprocessing_context = "fork"
    return loader


@contextlib.contextmanager
def _ended(loader: DataLoader[Any]) -> Iterator[Any]:
    """Yield the loader's iterator, and end its workers with the block, even if that raises."""
    iterator = iter(loader)
    try:
        yield iterator
    finally:
        end = getattr(iterator, "_shutdown_workers", None)
        if end is not None:
            end()
        loader._iterator = None


def drain(loader: DataLoader[Any], epochs: int = 1, most: int = 1000) -> list[list[Any]]:
    """Return what a loader yields in each epoch, at most `most` batches, and end its workers."""
    with _ended(forking(loader)) as iterator:
        seen = [list(islice(iterator, most))]
        ends = loader.num_workers and not loader.persistent_workers
        for _ in range(epochs - 1):
            with _ended(loader) if ends else contextlib.nullcontext(iter(loader)) as again:
                seen.append(list(islice(again, most)))
        return seen


@contextlib.contextmanager
def scratch() -> Iterator[None]:
    """Run this block in a new, empty folder: paths are short there, and the same in every run."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def arrangement(order: list[Any]) -> str:
    """Describe the order of indices from 0 on: sequential, evenly stepped (from another start, say), or shuffled."""
    n = len(order)
    if order == list(range(n)):
        return "sequential"
    steps = Counter((b - a) % n for a, b in pairwise(order) if type(a) is type(b) is int)
    return "evenly stepped" if 3 * max(steps.values(), default=0) > 2 * (n - 1) >= 10 else "shuffled"


def variety(orders: list[Any]) -> str:
    """Say whether the orders of `EPOCHS` epochs are different; where only a few are possible, some agree by chance."""
    different = sum(order not in orders[:i] for i, order in enumerate(orders))
    return "nearly all different" if 5 * different >= 4 * len(orders) else f"{different} different ones"


def seed_generators(seed: int) -> None:
    """Seed the global generators, so that results show whether an answer draws from them."""
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)


@contextlib.contextmanager
def touched() -> Iterator[list[str]]:
    """Yield a list that names, after this block, the global generators whose state has changed."""
    found: list[str] = []
    before = _states()
    with mock.patch("torch.cuda.manual_seed_all") as seeded:  # which `torch.manual_seed` calls, with or without a GPU
        yield found
    found += [name for name, state in _states().items() if state != before[name]]
    found += ["torch's on a GPU"] * (seeded.called and "torch's" not in found)


@contextlib.contextmanager
def another_salt() -> Iterator[None]:
    """Make `hash` of strings and bytes differ in this block, as it does in another process."""

    def salted(value: Any) -> int:
        parts = value if isinstance(value, tuple) else (value,)
        return unsalted(("salt", value) if any(isinstance(part, str | bytes) for part in parts) else value)

    unsalted = hash
    with mock.patch("builtins.hash", salted):
        yield


def _states() -> dict[str, str]:
    return {
        "torch's": str(torch.get_rng_state().tolist()),
        "NumPy's": repr([getattr(part, "tolist", lambda part=part: part)() for part in np.random.get_state()]),
        "Python's": repr(random.getstate()),
    }


def refused(call: Callable[[], object], judge: Callable[[str], str]) -> dict[str, Any]:
    """Observe the outcome of a call that should raise: the exception, and what `judge` says about its message."""
    try:
        result = call()
    except Unattempted:
        raise
    except Exception as error:
        message = str(error)
        return {"refused with": Raised(type(error).__name__, message[:200], judge(message))}
    return {"refused with": f"no exception but a value of type {type(result).__name__}"}


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.classes: list[type] = []

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, type) and obj.__module__ != "builtins":
            self.classes.append(obj)
            return len(self.classes) - 1
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, classes: list[type]) -> None:
        super().__init__(file)
        self.classes = classes

    def persistent_load(self, pid: Any) -> Any:
        return self.classes[pid]


def pickled(value: object) -> tuple[bytes, list[type]]:
    """Return `value` pickled, and separately the classes it needs: those of a notebook cannot be imported."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    return file.getvalue(), pickler.classes


def unpickled(data: bytes, classes: list[type]) -> Any:
    """Return the object that `pickled` was given."""
    return _Unpickler(io.BytesIO(data), classes).load()
