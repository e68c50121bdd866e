"""Autograd's engine and the device: errors that a backward pass raises, and the end of the process.

While a Python error travels through the engine, PyTorch asks the device's guard, written in Python, for its type. A
call with an error pending fails, and a failure there ends the process. So the guard takes the pending error off, and
`run_backward` raises it again.

The thread that ran the device's part of a backward pass frees its tensors a moment later than `backward` returns. If
the interpreter ends meanwhile, that too aborts the process. So `settle` waits for the thread before the end.
"""

from __future__ import annotations

import atexit
import time
from pathlib import Path
from typing import Any

import torch

from torchcourse.simulated.device import NAME

KIND = torch._C._autograd.DeviceType.PrivateUse1
PENDING: list[BaseException] = []
THREADS = Path("/proc/self/task")


class Guard(torch._C._acc.DeviceGuard):
    """The device guard: there is one device, so nothing is ever switched."""

    def type_(self) -> Any:
        try:
            object()  # calling a type makes CPython check for a pending error; other calls have fast paths that do not
        except SystemError as error:
            if error.__cause__ is not None:
                PENDING.append(error.__cause__)
        return KIND


def install() -> None:
    """Let `torch.autograd` raise the errors that the guard has caught, and explain a late registration."""
    original = torch.autograd.graph._engine_run_backward

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        PENDING.clear()
        try:
            return original(*args, **kwargs)
        except SystemError:
            if not PENDING:
                raise
            error = PENDING[-1]
            PENDING.clear()
        except RuntimeError as failure:
            if "device_ready_queues_" not in str(failure):
                raise
            error = RuntimeError(
                f"{NAME} was registered after this process had run its first backward, and autograd has no thread for "
                "it. Call torchcourse.simulated.register() before anything else."
            )
        raise error from None

    torch.autograd.graph._engine_run_backward = run_backward
    torch.autograd._engine_run_backward = run_backward  # type: ignore[attr-defined]
    atexit.register(settle)


def settle(limit: float = 2.0) -> None:
    """Wait until autograd's threads are idle, for `limit` seconds at most."""
    names = _autograd_threads()
    rests, deadline = 0, time.monotonic() + limit
    while names and rests < 2 and time.monotonic() < deadline:
        time.sleep(0.002)
        rests = 0 if any(_runs(thread) for thread in names) else rests + 1
    if not THREADS.exists():
        time.sleep(0.05)


def _autograd_threads() -> list[Path]:
    if not THREADS.exists():
        return []
    return [thread for thread in THREADS.iterdir() if _read(thread / "comm").startswith("pt_autograd")]


def _runs(thread: Path) -> bool:
    return _read(thread / "stat").rpartition(")")[2][:2] not in ("", " S")


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # the thread has ended
        return ""
