"""What probes of data loading are made of: real workers that are gone afterwards, the state of the global generators,
pickling that does not care where a class was defined."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import pickle
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from torchcourse.exercise import Unattempted
from torchcourse.observations import Raised

__all__ = ["disturb", "drain", "forking", "pickled", "refused", "scratch", "touched", "unpickled"]


def forking(loader: DataLoader[Any]) -> DataLoader[Any]:
    """The same loader with forked workers, wherever the platform can fork: they need no import of the answer."""
    if loader.num_workers > 0 and "fork" in multiprocessing.get_all_start_methods():
        loader.multiprocessing_context = "fork"
    return loader


@contextlib.contextmanager
def _ended(loader: DataLoader[Any]) -> Iterator[Any]:
    """The loader's iterator, its workers gone at the end of the block, also where the block raises."""
    iterator = iter(loader)
    try:
        yield iterator
    finally:
        end = getattr(iterator, "_shutdown_workers", None)
        if end is not None:
            end()
        loader._iterator = None


def drain(loader: DataLoader[Any], epochs: int = 1, most: int = 1000) -> list[list[Any]]:
    """What a loader yields in some epochs, at most `most` batches in each; its workers are gone afterwards."""
    with _ended(forking(loader)) as iterator:
        seen = [_some(iterator, most)]
        for _ in range(epochs - 1):
            with _ended(loader) if loader.num_workers and not loader.persistent_workers else _kept(loader) as again:
                seen.append(_some(again, most))
        return seen


@contextlib.contextmanager
def _kept(loader: DataLoader[Any]) -> Iterator[Any]:
    yield iter(loader)


def _some(iterator: Iterator[Any], most: int) -> list[Any]:
    seen = []
    for item in iterator:
        seen.append(item)
        if len(seen) >= most:
            break
    return seen


@contextlib.contextmanager
def scratch() -> Iterator[None]:
    """A block in an empty folder of its own: files have short names there, the same ones in every run."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def disturb(seed: int) -> None:
    """Put the global generators into a state that depends on `seed`: an answer that draws from them shows."""
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)


@contextlib.contextmanager
def touched() -> Iterator[list[str]]:
    """A block after which the list holds whose global generators are not in the state they were in before."""
    found: list[str] = []
    before = _states()
    yield found
    found += [name for name, state in _states().items() if state != before[name]]


def _states() -> dict[str, str]:
    return {
        "torch's": str(torch.get_rng_state().tolist()),
        "NumPy's": repr([getattr(part, "tolist", lambda part=part: part)() for part in np.random.get_state()]),
        "Python's": repr(random.getstate()),
    }


def refused(call: Callable[[], object], told: Callable[[str], str]) -> dict[str, Any]:
    """How a call that should raise ends: with which exception, and what `told` finds in its message."""
    try:
        result = call()
    except Unattempted:
        raise
    except Exception as error:
        message = str(error)
        return {"refused with": Raised(type(error).__name__, message[:200], told(message))}
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
    """`value` pickled, and the classes it needs: kept apart, for a notebook's classes cannot be imported everywhere."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    return file.getvalue(), pickler.classes


def unpickled(data: bytes, classes: list[type]) -> Any:
    """What was pickled."""
    return _Unpickler(io.BytesIO(data), classes).load()
