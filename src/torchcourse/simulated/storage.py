"""The storage of a simulated tensor: the held CPU storage, labelled with the device.

With it, `untyped_storage()` is correct and checkpoints record the device, so that `torch.load` and its `map_location`
behave as with CUDA.
"""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.simulated.counting import Block, count_copy
from torchcourse.simulated.device import NAME, device, is_ours


class SimulatedStorage(torch.UntypedStorage):
    """A storage that refers to the CPU storage `held`; its own memory is empty."""

    held: Any  # an UntypedStorage, whose methods carry no types
    block: Block

    @classmethod
    def over(cls, held: Any, block: Block | None = None) -> SimulatedStorage:
        """Return a storage of the device over CPU memory, without a copy; memory without a block is counted anew."""
        storage = cls(0)
        storage.held, storage.block = held, block or Block(held.nbytes())
        return storage

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return device()

    @property
    def _cdata(self) -> int:
        return int(self.held._cdata)

    def data_ptr(self) -> int:
        return int(self.held.data_ptr())

    def nbytes(self) -> int:
        return int(self.held.nbytes())

    def size(self) -> int:
        return int(self.held.nbytes())

    def __len__(self) -> int:
        return int(self.held.nbytes())

    def __getitem__(self, index: Any) -> Any:
        return self.held[index]

    def cpu(self) -> torch.UntypedStorage:
        count_copy(to_device=False)
        host: torch.UntypedStorage = self.held.clone()
        return host

    def clone(self) -> SimulatedStorage:
        return self.over(self.held.clone())

    def tolist(self) -> list[Any]:
        count_copy(to_device=False)
        return list(self.held.tolist())

    def resize_(self, size: int) -> SimulatedStorage:
        self.held.resize_(size)
        self.block.resize(size)
        return self

    def is_shared(self) -> bool:
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> SimulatedStorage:
        return self.over(self.held.__deepcopy__(memo))

    def _write_file(self, *args: Any) -> None:
        self.held._write_file(*args)

    def _set_from_file(self, *args: Any) -> None:
        self.held._set_from_file(*args)


def _tag(storage: Any) -> str | None:
    return str(device()) if isinstance(storage, SimulatedStorage) else None


def _restore(storage: Any, location: str) -> SimulatedStorage | None:
    if location.partition(":")[0] != NAME or not is_ours(location):
        return None
    count_copy(to_device=True)
    return SimulatedStorage.over(storage)


def install() -> None:
    """Register the device with `torch.save` and `torch.load`, before PyTorch's own entries (10 and up)."""
    torch.serialization.register_package(5, _tag, _restore)
