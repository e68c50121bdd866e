"""The processes of a worker and their memory, and the CPU time of all processes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil

from autograde.sandbox.sandbox import Sandbox

__all__ = ["busy_seconds", "has_ended", "memory", "processes"]


def processes(sandbox: Sandbox) -> list[psutil.Process]:
    """Return all processes of an isolated worker: bubblewrap, what it started, and forks of the template inside.

    Only root sees which fork entered which sandbox; for others the forks of all workers are returned.
    """
    assert sandbox.process is not None
    top = psutil.Process(sandbox.process.pid)
    started = top.children(recursive=True)
    inside = {_pid_namespace(process.pid) for process in started} - {_pid_namespace(os.getpid())} | {""}
    template = sandbox.template
    forks = psutil.Process(template.process.pid).children(recursive=True) if template and template.is_alive() else []
    return [top, *started, *(p for p in forks if _pid_namespace(p.pid) in inside and not has_ended(p))]


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process is gone, or only waits to be reaped."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def _pid_namespace(pid: int) -> str:
    """Return the name of a process's PID namespace; "" if that may not be seen."""
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return ""


def busy_seconds() -> float:
    """Return the CPU seconds that this machine has spent on all processes.

    The processes of a sandbox end with it, and the kernel adds their CPU time to that of no other process.
    """
    spent = psutil.cpu_times()
    return float(spent.user + spent.nice + spent.system)


def memory(sandbox: Sandbox) -> dict[str, int]:
    """Return the bytes of an idle worker's "private" pages, and its "share" of all its pages."""
    total = {"private": 0, "share": 0}
    for process in processes(sandbox):
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]:
            name, size = line.split()[:2]
            total["private"] += 1024 * int(size) if name.startswith("Private_") else 0
            total["share"] += 1024 * int(size) if name == "Pss:" else 0
    return total
