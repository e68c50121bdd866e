"""Measure the memory that a call needs, operator by operator, for rules such as "never builds the whole matrix"."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from torchcourse import simulated
from torchcourse.checking.audit import Audit
from torchcourse.checking.call_watch import OperatorMode
from torchcourse.checking.shared_process import is_shared

__all__ = [
    "bytes_by_file",
    "kept_bytes",
    "largest_result",
    "least_bytes",
    "outside_bytes",
    "peak_bytes",
    "result_and_peak",
]

REPEATS = 4
"""How often a call is measured again that seems to hold much outside of tensors."""
ALIKE = 0.02
"""The share by which two measurements may differ that agree."""
MAX_REPEAT_SECONDS = 2.0
"""For how many seconds it is measured again where other work shares the process."""
MANY_AGREE = 5
"""How many measurements in a row have to agree there."""


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
    return result_and_peak(call)[1]


def result_and_peak(call: Callable[[], object]) -> tuple[object, int]:
    """Return the result of `call`, and its `peak_bytes`.

    Compare the result as well if an answer could detect the measurement and do nothing.
    """
    with _Living() as living:
        result = call()
    return result, living.peak


class _Sizes(OperatorMode):
    """A mode that notes how many elements the largest tensor has that an operator makes; views are not made anew."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.largest: int = 0

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in given:
                self.largest = max(self.largest, tensor.numel())
        return result


def largest_result(call: Callable[[], object]) -> int:
    """Return the number of elements of the largest tensor that an operator in `call` makes."""
    with _Sizes() as sizes:
        call()
    largest: int = sizes.largest
    return largest


def kept_bytes(call: Callable[[], object], exclude: Iterable[Tensor] = ()) -> tuple[object, int]:
    """Return the result of `call`, and the bytes of the tensors it made that are still alive, on any device.

    Those are the result and what autograd keeps for backward. Each storage counts once; those of `exclude` do not.
    """
    with _Living() as living:
        result = call()
    kept: int = living.now()
    apart = {simulated.values(tensor).untyped_storage()._cdata for tensor in exclude}
    return result, kept - sum(size for key, (_, size) in living.living.items() if key in apart)


def outside_bytes(call: Callable[[], object], bound: int) -> int:
    """Return the most bytes that `call` holds at once outside of tensors: in objects of Python and NumPy, files and
    maps.

    Other work of the process counts too, such as imports in a first call: see `least_bytes`. An answer is measured
    inside its watch, by `Watched.run`: else what the watch reads out when it ends would count too.
    """
    return least_bytes(lambda: _outside_once(call), bound, REPEATS)


def least_bytes(measure: Callable[[], int], bound: int, repeats: int = 0) -> int:
    """Return the bytes that `measure` finds; if more than `bound`, the least of those that so many repeats find.

    Two in a row that agree are enough, since what else a process does is not the same twice. Where threads with other
    work share the process, what they take may be counted for long: repeats go on for a while, and five have to agree.
    """
    beside_others = is_shared() and threading.active_count() > 1
    since, least, agreeing = time.monotonic(), measure(), 1
    while least > bound and (repeats > 0 or (beside_others and time.monotonic() - since < MAX_REPEAT_SECONDS)):
        if repeats <= 0:
            time.sleep(0.1)
        again = measure()
        agreeing = agreeing + 1 if abs(again - least) <= ALIKE * least else 1
        repeats, least = repeats - 1, min(least, again)
        if agreeing == (MANY_AGREE if beside_others else 2):
            break
    return least


def _outside_once(call: Callable[[], object]) -> int:
    was_tracing, written = tracemalloc.is_tracing(), bytes_by_file("wchar")
    tracemalloc.start()
    tracemalloc.reset_peak()
    start = tracemalloc.get_traced_memory()[0]
    try:
        with Audit() as audit:
            result = call()
        objects = tracemalloc.get_traced_memory()[1] - start
    finally:
        if not was_tracing:
            tracemalloc.stop()
    del result
    return objects + bytes_by_file("wchar") - written + audit.mapped


def bytes_by_file(field: str) -> int:
    """Return how many bytes this process and its ended children have read from files (`rchar`) or written to files
    (`wchar`), where the system tells (Linux); where other work shares the process, how many this thread has."""
    who = "thread-self" if is_shared() else "self"
    try:
        return int(Path(f"/proc/{who}/io").read_text().split(f"{field}:")[1].split()[0])
    except (OSError, IndexError, ValueError):
        return 0
