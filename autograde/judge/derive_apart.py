"""Derive properties from long observations in a process of its own, with limits on time and memory.

Observations come from learners' code, and what is derived from them can be made to cost much more than their length.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import time
import warnings
from pathlib import Path

from autograde.settings import MIB
from torchcourse.checking.explain import derive
from torchcourse.model import codec
from torchcourse.model.exercise import Case, Exercise
from torchcourse.model.observations import Observations

__all__ = ["DerivingProcess", "JudgingError"]

SECONDS = 10.0
"""Wall time for all long observations of one exercise."""
MEMORY = 2048 * MIB
"""Private memory that one process may add."""


class JudgingError(RuntimeError):
    """Deriving properties failed, or took too much time or memory."""


class DerivingProcess:
    """Derives properties in forks of this process, within one limit on time for all of them."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds

    def derive(self, exercise: Exercise, case: Case, raw: Observations) -> Observations:
        """Return what `explain.derive` returns.

        Raises:
            JudgingError: when that takes too much time or memory.
        """
        began = time.monotonic()
        ours, theirs = os.pipe()
        with warnings.catch_warnings(action="ignore"):  # Python 3.12 on forks beside threads: none is used in the fork
            pid = os.fork()
        if pid == 0:
            try:
                os.close(ours)
                _derive_and_send(theirs, exercise, case, raw)
            finally:
                os._exit(1)
        os.close(theirs)
        try:
            data = _receive(ours, began + self.seconds)
        finally:
            os.close(ours)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self.seconds -= time.monotonic() - began
        try:
            value: Observations = codec.unpack(data, trusted=True)
        except codec.MalformedError:
            raise JudgingError("too much time or memory") from None
        return value


def _derive_and_send(pipe: int, exercise: Exercise, case: Case, raw: Observations) -> None:
    """Derive under the limits, in the fork, and write the packed result."""
    import torch

    torch.set_num_threads(1)  # threads do not survive a fork
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime + SECONDS) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    loaded = _data_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (loaded + MEMORY, loaded + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    data = memoryview(codec.pack(derive(exercise, case, raw)))
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
