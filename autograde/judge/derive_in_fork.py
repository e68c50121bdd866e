"""Derive properties from long or costly observations in a process of its own, with limits on time and memory.

Observations come from learners' code, and what is derived from them can be made to cost much more than their length.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import resource
import select
import signal
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor
from torch.utils._pytree import tree_leaves

from autograde.settings import MIB
from torchcourse.checking.result import derive
from torchcourse.model import codec
from torchcourse.model.exercise import Case, Exercise
from torchcourse.model.observations import Observations

__all__ = ["JudgingError", "derive_in_fork", "may_grow"]

SECONDS = 10.0
"""CPU time for all long observations of one exercise on one device."""
MAX_WALL_FACTOR = 4.0
"""How many times as long it may take on a busy machine."""
MEMORY = 2048 * MIB
"""Private memory that the process may add."""
MAX_ELEMENTS = 1 << 22
"""How many elements a tensor may have that is derived without these limits."""


class JudgingError(RuntimeError):
    """Deriving properties failed, or took too much time or memory."""


def derive_in_fork(
    exercise: Exercise, observed: Sequence[tuple[Case, Observations]], seconds: float = SECONDS
) -> list[Observations]:
    """Return what `checking.result.derive` returns for the raw observations of each case, from a fork.

    Raises:
        JudgingError: when that takes too much time or memory.
    """
    deadline = time.monotonic() + MAX_WALL_FACTOR * seconds
    read_end, child_end = os.pipe()
    with warnings.catch_warnings(action="ignore"):  # Python 3.12 on forks beside threads: none is used in the fork
        pid = os.fork()
    if pid == 0:
        try:
            os.close(read_end)
            _derive_and_send(child_end, exercise, observed, seconds)
        finally:
            os._exit(1)
    os.close(child_end)
    try:
        data = _receive(read_end, deadline)
    finally:
        os.close(read_end)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    try:
        derived: list[Observations] = codec.unpack(data, trusted=True)
    except codec.MalformedError:
        raise JudgingError("too much time or memory") from None
    return derived


def may_grow(case: Case, raw: Observations) -> bool:
    """Return whether a derivation may make a large tensor from the observed ones and the inputs.

    Tensors broadcast: from the shapes (n, 1, 1), (1, n, 1) and (1, 1, n) comes one of n³ elements.
    """
    shapes = [leaf.shape[::-1] for leaf in tree_leaves((raw, case.inputs)) if isinstance(leaf, Tensor)]
    return math.prod(max(sizes) for sizes in itertools.zip_longest(*shapes, fillvalue=1)) > MAX_ELEMENTS


def _derive_and_send(
    pipe: int, exercise: Exercise, observed: Sequence[tuple[Case, Observations]], seconds: float
) -> None:
    """Derive under the limits, in the fork, and write the packed results."""
    import torch

    torch.set_num_threads(1)  # threads do not survive a fork
    limit = math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    loaded = _data_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (loaded + MEMORY, loaded + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    data = memoryview(codec.pack([derive(exercise, case, raw) for case, raw in observed]))
    while data:
        data = data[os.write(pipe, data) :]
    os._exit(0)


def _data_bytes() -> int:
    """Return the size of this process's private memory (Linux), touched or not."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()


def _receive(pipe: int, deadline: float) -> bytes:
    data = bytearray()
    while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(pipe, 1 << 20)
        if not piece:
            return bytes(data)
        data += piece
    return b""
