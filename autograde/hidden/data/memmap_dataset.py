"""The exercise `MemmapDataset`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The file is opened at the first item, in whichever process that is: an open map does not travel to a "
    "worker as a map, so pickling drops it. `np.array` copies one item, and the tensor no longer looks at the "
    "read-only file."
)
"""Why the reference is written as it is."""
REQUIRED = ("opens-in-init", "loads-everything", "shares-file-memory")
"""The mistakes that a check must always be able to name."""


class Mapped(Dataset[Any]):
    """A right dataset. Each mistake below is this one with one method written otherwise."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: Any) -> None:
        self.path, self.shape, self.dtype = path, shape, dtype
        self.array: Any = None

    def open(self) -> Any:
        return np.memmap(self.path, dtype=self.dtype, mode="r", shape=self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int) -> Any:
        if self.array is None:
            self.array = self.open()
        return self.item(self.array[index])

    def item(self, row: Any) -> Any:
        return torch.from_numpy(np.array(row, dtype=np.float32))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"array": None}


class OpensInInit(Mapped):
    def __init__(self, path: Path, shape: tuple[int, ...], dtype: Any) -> None:
        super().__init__(path, shape, dtype)
        self.array = self.open()


class LoadsEverything(Mapped):
    def open(self) -> Any:
        return np.fromfile(self.path, self.dtype).reshape(self.shape)


class LoadsOnceToLook(Mapped):
    """Reads everything at the first item, and keeps nothing of it."""

    def open(self) -> Any:
        np.fromfile(self.path, self.dtype)
        return super().open()


class PicklesTheData(Mapped):
    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__


class SharesFileMemory(Mapped):
    def item(self, row: Any) -> Any:
        return torch.from_numpy(np.asarray(row)).float()


class SharesWritableMemory(SharesFileMemory):
    def open(self) -> Any:
        return np.memmap(self.path, dtype=self.dtype, mode="r+", shape=self.shape)


class SharesPrivateMemory(SharesFileMemory):
    def open(self) -> Any:
        return np.memmap(self.path, dtype=self.dtype, mode="c", shape=self.shape)


class OpensInInitAndPickles(OpensInInit, PicklesTheData): ...


class OpensInInitPicklesAndShares(OpensInInit, PicklesTheData, SharesFileMemory): ...


class LoadsEverythingInInit(OpensInInit, LoadsEverything): ...


class LoadsEverythingInInitAndPickles(OpensInInit, LoadsEverything, PicklesTheData): ...


class LoadsEverythingAndPickles(LoadsEverything, PicklesTheData): ...


class KeepsTheFileDtype(Mapped):
    def item(self, row: Any) -> Any:
        return torch.from_numpy(np.array(row))


class ReturnsArrays(Mapped):
    def item(self, row: Any) -> Any:
        return np.array(row, dtype=np.float32)


class ScalesTheItems(Mapped):
    def item(self, row: Any) -> Any:
        return super().item(row) / 255


class KeepsItems(Mapped):
    def __init__(self, path: Path, shape: tuple[int, ...], dtype: Any) -> None:
        super().__init__(path, shape, dtype)
        self.items: dict[int, Tensor] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.items:
            self.items[index] = super().__getitem__(index)
        return self.items[index]

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"items": {}}


class WrongLength(Mapped):
    def __len__(self) -> int:
        return 1


class WantsArrays(Mapped):
    def item(self, row: Any) -> Any:
        return torch.from_numpy(row.astype(np.float32))


class WantsAPathObject(Mapped):
    def __init__(self, path: Path, shape: tuple[int, ...], dtype: Any) -> None:
        super().__init__(path.resolve(), shape, dtype)


class ForgetsThePath(Mapped):
    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"path": None}


LARGE = "Data larger than memory"
OPENED = (
    'In the case "{case}" `{what}` is {got} where {want} is wanted: the file was opened when the dataset was '
    "constructed, and another one has taken its place before the first use."
)
TRAVELS = OPENED + " And it travels with the pickled dataset."
FILE = 'In the case "{case}" the file was written to after item 1 was read, and the item {follows}. '
WRITABLE = FILE + "The file says: {file}. An item mapped for writing looks into the file."
READ = (
    'In the case "{case}" `{what}` is {got} where {want} is wanted: the whole file, {bytes} bytes, was read into '
    "memory when the dataset was constructed."
)
MISTAKES = [
    Mistake("opens-in-init", OpensInInit, OPENED, LARGE),
    Mistake("loads-everything", LoadsEverything, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: all "
            "{bytes} bytes had been read into memory at the first use, and the file was not asked again.", LARGE),
    Mistake("loads-everything", LoadsOnceToLook, "In the case \"{case}\" for one item the dataset read {got}, which is "
            "impossible where the file is larger than memory.", LARGE),
    Mistake("shares-file-memory", SharesFileMemory, FILE + "The item is not a tensor of its own but looks into the "
            "mapped file, so copy it.", LARGE),
    Mistake("pickles-the-data", PicklesTheData, "In the case \"{case}\" the pickled dataset takes {pickled}: a memmap "
            "is pickled with all its numbers, so leave it out in `__getstate__`.", LARGE),
    Mistake("keeps-the-file-dtype", KeepsTheFileDtype, "In the case \"{case}\" the item is {dtype}: items are float32 "
            "whatever the file holds.", LARGE),
    Mistake("shares-file-memory", SharesWritableMemory, WRITABLE, LARGE),
    Mistake("shares-file-memory", SharesPrivateMemory, WRITABLE, LARGE),
    Mistake("opens-in-init", OpensInInitAndPickles, TRAVELS, LARGE),
    Mistake("opens-in-init", OpensInInitPicklesAndShares, TRAVELS, LARGE),
    Mistake("loads-everything", LoadsEverythingInInit, READ, LARGE),
    Mistake("loads-everything", LoadsEverythingInInitAndPickles, READ, LARGE),
    Mistake("loads-everything", LoadsEverythingAndPickles, "In the case \"{case}\" `{what}` is {got} where {want} is "
            "wanted: all {bytes} bytes had been read into memory at the first use, and travel with the pickled "
            "dataset.", LARGE),
    Mistake("items-are-shared", KeepsItems, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the same "
            "tensor was handed out twice, and one reader's change reached the other.", LARGE),
    Mistake("returns-arrays", ReturnsArrays, "In the case \"{case}\" `{what}` is {got}: an item should be a tensor.",
            LARGE),
    Mistake("wrong-length", WrongLength, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the first "
            "entry of the shape is the number of items.", LARGE),
    Mistake("scales-the-items", ScalesTheItems, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the "
            "numbers should come as they are.", LARGE),
    Mistake("wants-arrays", WantsArrays, "In the case \"{case}\" the dataset raised {error}: where `shape` has one "
            "entry, an item is a single number, and NumPy returns a scalar for it; `np.array` makes an array of that.",
            LARGE),
    Mistake("wants-a-path-object", WantsAPathObject, "In the case \"{case}\" the dataset raised {error}: the path may "
            "come as a string, and `np.memmap` takes both.", LARGE),
    Mistake("cannot-open-again", ForgetsThePath, "In the case \"{case}\" `{what}` ended with {got}: after unpickling, "
            "the dataset has to find its file again.", LARGE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        case("int16, one dimension more", array=draw.integers(-900, 900, 12, 3, 30, 30, dtype=torch.int16), workers=0),
        case("float16", array=draw.normal(4000, 2, dtype=torch.float16), workers=0),
    ]


# Right answers unlike the reference


class MemmapByProperty(Dataset[Any]):
    def __init__(self, path: Any, shape: Any, dtype: Any) -> None:
        self.__dict__.update(path=str(path), shape=tuple(shape), dtype=np.dtype(dtype))
        assert Path(path).stat().st_size == np.prod(shape) * self.dtype.itemsize

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getattr__(self, name: str) -> Any:
        if name != "rows":
            raise AttributeError(name)
        self.__dict__["rows"] = np.memmap(self.path, self.dtype, "r", 0, self.shape)
        return self.__dict__["rows"]

    def __reduce__(self) -> Any:
        return type(self), (self.path, self.shape, self.dtype)

    def __getitem__(self, i: int) -> Tensor:
        return torch.tensor(self.rows[i], dtype=torch.float32)


class ReadBySeeking(Dataset[Any]):
    """No map at all: each item is read from its place in the file."""

    def __init__(self, path: Any, shape: Any, dtype: Any) -> None:
        self.path, self.shape, self.dtype = path, shape, np.dtype(dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, i: int) -> Tensor:
        count = int(np.prod(self.shape[1:]))
        row = np.fromfile(self.path, self.dtype, count, offset=i * count * self.dtype.itemsize)
        return torch.from_numpy(row.reshape(self.shape[1:]).astype("float32"))


class MappedByModule(Dataset[Any]):
    def __init__(self, path: Any, shape: Any, dtype: Any) -> None:
        self.path, self.shape, self.dtype = path, shape, dtype
        self.map: Any = None

    def __len__(self) -> int:
        return len(range(self.shape[0]))

    def __getstate__(self) -> Any:
        return self.path, self.shape, self.dtype

    def __setstate__(self, state: Any) -> None:
        self.path, self.shape, self.dtype = state
        self.map = None

    def __getitem__(self, i: int) -> Tensor:
        if self.map is None:
            with Path(self.path).open("rb") as file:
                self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        size = int(np.prod(self.shape[1:])) * np.dtype(self.dtype).itemsize
        row = np.frombuffer(bytearray(self.map[i * size : (i + 1) * size]), self.dtype)
        return torch.from_numpy(row).float().reshape(self.shape[1:])


RIGHT_ANSWERS: list[Callable[..., Any]] = [MemmapByProperty, ReadBySeeking, MappedByModule]
