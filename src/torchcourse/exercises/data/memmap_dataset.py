"""The exercise `MemmapDataset`: its probe, visible cases and hints."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised, raised
from torchcourse.probes.data_loading import drain, pickled, scratch, unpickled
from torchcourse.probes.memory import bytes_by_file, least_bytes
from torchcourse.probes.observe import kind

REPEATS = (4, 16)
"""How many times as large the files are that show how much of them is read: one of 50 kB or more, and one of 200."""


def probe(answer: Watched, array: Tensor, workers: int) -> dict[str, Any]:
    """Put another file in the place of the first after the dataset was made: what it reads shows when it opens it.

    With workers, the path comes in a string."""
    values = array.numpy()
    with scratch():
        path, later = Path("data.bin"), Path("later.bin")
        np.zeros_like(values).tofile(path)  # another file of this name and size: whoever opens it now reads zeros
        dataset = answer(str(path) if workers else path, tuple(values.shape), values.dtype)
        values.tofile(later)
        path.rename("earlier.bin")
        later.rename(path)
        if workers:
            items = drain(DataLoader(dataset, batch_size=None, num_workers=workers))[0]
            return {"length": len(dataset), "items read by workers": [_own(item) for item in items]}
        before = _size(dataset)
        seen = _used(dataset, path, values)
        if isinstance(seen["item 1"], Tensor):
            whole = any(_reads_all(answer, np.concatenate([values] * times), len(values)) for times in REPEATS)
            seen["read for one item"] = "all of the file" if whole else "a part of the file"
        return {"pickled before use": before, **seen}


def _own(item: object) -> Any:
    return item.clone() if isinstance(item, Tensor) else f"{kind(item)}"


def _size(dataset: object) -> Any:
    try:
        return "under 10 kB" if len(pickled(dataset)[0]) < 10_000 else "more than 10 kB"
    except Exception as error:
        return Raised(type(error).__name__, str(error)[:200], "while pickling")


def _used(dataset: Any, path: Path, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    item = dataset[1]
    seen: dict[str, Any] = {"length": len(dataset), "item 1": _own(item), "pickled after use": _size(dataset)}
    if not isinstance(item, Tensor):
        return seen
    try:
        copy_of_it = unpickled(*pickled(dataset))
        seen["item 2 of an unpickled copy"] = _own(copy_of_it[2])
    except Exception as error:
        seen["item 2 of an unpickled copy"] = raised(error)
    kept = item.clone()
    for each in (path, Path("earlier.bin")):  # other numbers in both files show in an item that reads one of them
        with each.open("r+b") as file:
            file.write((values + 1).tobytes())
    shares = not torch.equal(item, kept)
    seen["item 1 after the file changed"] = "follows the file" if shares else "as it was"
    seen["item 3, read after the file changed"] = _own(dataset[3])
    if not shares:
        item = dataset[1]
        item += 100  # a read-only map would end the process here; it has shown itself above
        seen["item 1, read again after item += 100"] = _own(dataset[1])
    seen["file"] = "as it was" if path.read_bytes() == (values + 1).tobytes() else "changed"
    return seen


def _reads_all(answer: Watched, values: np.ndarray[Any, Any], another: int) -> bool:
    """Return whether as much as a whole file is read, or kept in memory, for its first item and another one."""
    path = Path("large.bin")
    values.tofile(path)

    def taken() -> int:
        was_tracing, before = tracemalloc.is_tracing(), bytes_by_file("rchar")
        tracemalloc.start()
        tracemalloc.reset_peak()
        start = tracemalloc.get_traced_memory()[0]
        dataset = answer(path, tuple(values.shape), values.dtype)
        dataset[0]
        dataset[another]
        allocated = tracemalloc.get_traced_memory()[1] - start
        if not was_tracing:
            tracemalloc.stop()
        return max(allocated, bytes_by_file("rchar") - before)

    return least_bytes(taken, values.nbytes - 1) >= values.nbytes


def cases(draw: Draw) -> list[Case]:
    def memmap(name: str, array: Tensor, workers: int = 0) -> Case:
        return case(name, array=array, workers=workers)

    rows = draw.size(40, 50)
    return [
        memmap("float32", draw.normal(rows, 4, 20)),
        memmap("bytes", draw.integers(0, 200, 200, 8, 9, dtype=torch.uint8)),
        memmap("float64", draw.normal(rows, 50, dtype=torch.float64)),
        memmap("one number an item", draw.integers(0, 200, 14_000, dtype=torch.uint8)),
        memmap("two workers", draw.normal(9, 3), workers=2),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "bytes": inputs["array"].nbytes,
        "pickled": next((seen[n] for n in ("pickled before use", "pickled after use") if seen.get(n) != wanted.get(n)),
                        "under 10 kB"),
        "follows": seen.get("item 1 after the file changed"),
        "file": seen.get("file"),
    }  # fmt: skip
    item = seen.get("item 1")
    if isinstance(item, Tensor):
        fields |= {"dtype": item.dtype}
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "MemmapDataset",
    probe,
    cases,
    hints=(
        '`np.memmap(path, dtype=…, mode="r", shape=…)` opens a file as an array without reading it. Where would you '
        "call it, so that constructing the dataset touches no file?",
        "A memmap that is an attribute is pickled with all its numbers. What can `__getstate__` leave out, so that the "
        "copy opens the file for itself?",
        "`torch.from_numpy(memmap[i])` looks straight into the file, and `.float()` copies only where there is "
        "something to convert. Which call always copies?",
    ),
    any_device=False,
    quotes=quotes,
    seconds=20.0,
)
