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
    """All processes of a worker: bubblewrap with what it started, and who went in there from the template.

    Only root sees who of the template's went where; for others those of all workers are named.
    """
    assert sandbox.process is not None
    top = psutil.Process(sandbox.process.pid)
    started = top.children(recursive=True)
    there = {_space(process.pid) for process in started} - {_space(os.getpid())} | {""}
    template = psutil.Process(sandbox.parent.process.pid) if sandbox.parent and sandbox.parent.is_there() else None
    forked = template.children(recursive=True) if template else []
    return [top, *started, *(process for process in forked if _space(process.pid) in there)]


def _space(pid: int) -> str:
    """The namespace of processes that a process is in; "" where that cannot be seen."""
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return ""


def cpu_seconds(sandbox: Sandbox) -> float:
    """CPU of this process and of a worker's, those that have ended among them."""
    spent = [process.cpu_times() for process in processes(sandbox)]
    return time.process_time() + sum(t.user + t.system + t.children_user + t.children_system for t in spent)
