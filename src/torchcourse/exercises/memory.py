"""How much memory a call holds at once, operator by operator: for rules such as "never builds the whole matrix"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from torchcourse import simulated
from torchcourse.watching import OperatorMode

__all__ = ["kept_bytes", "peak_bytes"]


class _Living(OperatorMode):
    """Notes every storage that an operator hands out, and how many bytes of them live at once at most."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.living: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak: int = 0
        self.bound: int = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                storage = simulated.values(tensor).untyped_storage()
                self.living[storage._cdata] = StorageWeakRef(storage), storage.nbytes()  # type: ignore[no-untyped-call]
                self.bound += storage.nbytes()
        if self.bound > 1.05 * self.peak:  # only then is it worth finding out which of them are gone
            self.peak = max(self.peak, self.now())
        return result

    def now(self) -> int:
        """How many bytes live at this moment."""
        self.living = {key: held for key, held in self.living.items() if not held[0].expired()}  # type: ignore[no-untyped-call]
        self.bound = sum(size for _, size in self.living.values())
        return self.bound


def peak_bytes(call: Callable[[], object]) -> int:
    """The most bytes that the tensors which `call` makes hold at one time, each storage counted once, within 5 percent.

    On the CPU.
    """
    with _Living() as living:
        result = call()
    del result
    peak: int = living.peak
    return peak


def kept_bytes(call: Callable[[], object], but: Iterable[Tensor] = ()) -> tuple[object, int]:
    """What `call` returns, and the bytes of the tensors it made that are still alive then, each storage counted once:
    those of the result, and what autograd keeps for backward. On any device. The storages of `but`, of which the call
    may make views, do not count."""
    with _Living() as living:
        result = call()
    kept: int = living.now()
    apart = {simulated.values(tensor).untyped_storage()._cdata for tensor in but}
    return result, kept - sum(size for key, (_, size) in living.living.items() if key in apart)


def warm() -> None:
    """Pay the first use of the mode now."""
    peak_bytes(lambda: torch.ones(1) + 1)
