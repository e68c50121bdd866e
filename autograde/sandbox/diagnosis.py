"""The instructor's part of `torchcourse doctor`: try each layer of the sandbox as grading uses it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autograde.sandbox.configuration import Isolation
from autograde.sandbox.control_group import make_group
from autograde.sandbox.requirements import isolation_fault, trusted_run_problem, try_worker
from autograde.settings import LIMITS
from torchcourse.doctor import Finding

__all__ = ["diagnose"]


def diagnose() -> Iterator[Finding]:
    """Yield a finding for each layer: namespaces, user, Landlock, system calls, limits and memory group."""
    fault, remedy = isolation_fault()
    if fault:
        yield Finding("sandbox: namespaces", "blocked", f"missing: {fault.removesuffix('.')}", remedy)
    else:
        yield Finding("sandbox: namespaces", "ok", "active: no network, own processes, read-only system (bubblewrap)")
    yield _user()
    remedy = trusted_run_problem() if fault else ""  # without namespaces, try a trusted worker
    yield from _inside({} if remedy else try_worker(Isolation(trusted=bool(fault))), remedy)
    yield _group()


def _user() -> Finding:
    if os.geteuid() == 0:
        return Finding("sandbox: user", "ok", "active: root gives each worker an unprivileged user id")
    return Finding("sandbox: user", "ok", "active: workers run as you, without any privilege")


def _inside(layers: dict[str, Any], remedy: str) -> Iterator[Finding]:
    """Yield findings on the layers that a trial worker found; `remedy` is for the case that none could be started."""
    if layers.get("failed", "no worker"):
        remedy = remedy or "fix what the lines above name first"
        yield Finding("sandbox: limits", "warning", "could not be tried without the layers above", remedy)
        return
    if layers["landlock"]:
        yield Finding("sandbox: Landlock", "ok", f"active, version {layers['landlock']}")
    elif _kernel_lists("landlock"):
        yield Finding("sandbox: Landlock", "warning", "missing: the kernel has it and refuses it", "docs/isolation.md")
    else:
        remedy = "Linux 5.13 or later with landlock in its list of security modules (lsm=landlock,… at boot)"
        yield Finding("sandbox: Landlock", "warning", "not available: only namespaces protect files", remedy)
    if layers["seccomp"]:
        yield Finding("sandbox: system calls", "ok", "active: filtered")
    else:
        remedy = "a kernel with seccomp filters on x86_64 or aarch64"
        yield Finding("sandbox: system calls", "warning", "not available: a learner may leave keys, queues or shared "
                      "memory for the next one, or change the worker's limits", remedy)  # fmt: skip
    if layers["memory"]:
        yield Finding("sandbox: limits", "ok", "active: memory, time, processes, files (autograde/settings.py)")
    else:
        says = "not available: this system does not limit a process's memory"
        yield Finding("sandbox: limits", "warning", says, "grade on Linux 4.7 or later")


def _kernel_lists(name: str) -> bool:
    try:
        return name in Path("/sys/kernel/security/lsm").read_text().split(",")
    except OSError:
        return False


def _group() -> Finding:
    group = make_group(LIMITS.memory_bytes, LIMITS.processes)
    if group is None:
        remedy = "grade as root, or start it like this: systemd-run --user --scope -p Delegate=yes torchcourse grade …"
        says = "not available: each process is limited, and their total is checked only ten times a second"
        return Finding("sandbox: memory group", "warning", says, remedy)
    group.remove()
    return Finding("sandbox: memory group", "ok", "active: all processes of a worker together have a limit")
