"""Measure the memory that a call needs, operator by operator, for rules such as "never builds the whole matrix"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from torchcourse import simulated
from torchcourse.checking.call_watch import OperatorMode

__all__ = ["kept_bytes", "peak_bytes"]


class _Living(OperatorMode):
    """A mode that tracks the storages that operators return, and the peak of their bytes alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.living: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak: int = 0
        self.upper_bound: int = 0

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                storage = simulated.values(tensor).untyped_storage()
                self.living[storage._cdata] = StorageWeakRef(storage), storage.nbytes()  # type: ignore[no-untyped-call]
                self.upper_bound += storage.nbytes()
        if self.upper_bound > 1.05 * self.peak:  # only then find out which are gone
            self.peak = max(self.peak, self.now())
        return result

    def now(self) -> int:
        """Return how many bytes are alive now."""
        self.living = {key: held for key, held in self.living.items() if not held[0].expired()}  # type: ignore[no-untyped-call]
        self.upper_bound = sum(size for _, size in self.living.values())
        return self.upper_bound


def peak_bytes(call: Callable[[], object]) -> int:
    """Return the peak memory in bytes of the tensors that `call` makes on the CPU, within 5 percent.

    Each storage counts once.
    """
    with _Living() as living:
        result = call()
    del result
    peak: int = living.peak
    return peak


def kept_bytes(call: Callable[[], object], but: Iterable[Tensor] = ()) -> tuple[object, int]:
    """Return the result of `call`, and the bytes of the tensors it made that are still alive, on any device.

    Those are the result and what autograd keeps for backward. Each storage counts once; those of `but` do not count.
    """
    with _Living() as living:
        result = call()
    kept: int = living.now()
    apart = {simulated.values(tensor).untyped_storage()._cdata for tensor in but}
    return result, kept - sum(size for key, (_, size) in living.living.items() if key in apart)


def warm() -> None:
    """Use the mode once, so that later uses are fast."""
    peak_bytes(lambda: torch.ones(1) + 1)
