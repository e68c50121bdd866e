"""The processes of a worker, and what they have computed."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import psutil

from autograde.sandbox import Sandbox

__all__ = ["cpu_seconds", "processes"]


def processes(sandbox: Sandbox) -> list[psutil.Process]:
    """All processes of a worker: bubblewrap, and everybody in the namespace that it made."""
    assert sandbox.process is not None
    top = psutil.Process(sandbox.process.pid)
    spaces = {_space(child.pid) for child in top.children(recursive=True)} - {_space(os.getpid())}
    return [top, *(process for process in psutil.process_iter() if _space(process.pid) in spaces)]


def _space(pid: int) -> str:
    """The namespace of processes that a process is in; "" where it is gone."""
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return ""


def cpu_seconds(sandbox: Sandbox) -> float:
    """CPU of this process and of a worker's, those that have ended among them."""
    spent = [process.cpu_times() for process in processes(sandbox)]
    return time.process_time() + sum(t.user + t.system + t.children_user + t.children_system for t in spent)
