"""The instructor's part of `torchcourse doctor`: each layer of the sandbox, tried as grading would use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from autograde.cgroup import make_group
from autograde.enclosure import WORKER, Enclosure, blocker, trust_blocker
from autograde.holding import hold_for_nobody, let_go
from autograde.settings import LIMITS
from autograde.template import available
from torchcourse.doctor import Finding

__all__ = ["layers"]

TRIAL = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
import landlock, seccomp
told = json.loads(sys.argv[2])
version = landlock.version()
held = landlock.restrict([*told["mounted"], "/proc"], told["writable"], told["devices"], tcp=told["tcp"])
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
try:
    limited = not bytearray(5 << 28)
except MemoryError:
    limited = True
print(json.dumps({"landlock": version if held else 0, "seccomp": seccomp.refuse(), "memory": limited}))
"""

JOIN = "import sys; sys.path.insert(0, sys.argv[1]); import joining; joining.join(int(sys.argv[2]), '')"


def layers() -> Iterator[Finding]:
    """Namespaces, user, Landlock, system calls, memory and process limits: active, missing, or not available."""
    fault = blocker()
    if fault:
        what, _, remedy = fault.partition(": " if "missing" in fault else ". ")
        yield Finding("sandbox: namespaces", "blocked", f"missing: {what}", remedy or "docs/isolation.md")
    else:
        yield Finding("sandbox: namespaces", "ok", "active: no network, own processes, read-only system (bubblewrap)")
    yield _user()
    if not fault:
        yield _sharing()
    tried = _tried(Enclosure(trusted=bool(fault)))
    yield from _inside(tried)
    yield _group()


def _user() -> Finding:
    if os.geteuid() == 0:
        return Finding("sandbox: user", "ok", "active: root gives each worker an unprivileged user id")
    return Finding("sandbox: user", "ok", "active: workers run as you, without any privilege")


def _sharing() -> Finding:
    """Whether a process from outside can go into a sandbox, as workers do that share what is loaded."""
    name = "sandbox: sharing"
    if not available(Enclosure()):
        return Finding(name, "ok", "not available: each worker loads by itself", "Linux 5.8 or later")
    holder, pid = hold_for_nobody(20.0)
    try:
        trial = [sys.executable, "-I", "-c", JOIN, str(WORKER.parent), str(pid)]
        done = subprocess.run(trial, capture_output=True, text=True, timeout=20, check=False)
    finally:
        let_go(holder)
    if done.returncode == 0:
        return Finding(name, "ok", "active: workers are forked from one process, and share what it has loaded")
    reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
    says = f"each worker loads by itself, which takes half a gigabyte more ({reason})"
    return Finding(name, "warning", says, "let the container's rules allow setns: docs/isolation.md")


def _tried(enclosure: Enclosure) -> dict[str, int]:
    """What a process that is shut in as a worker would be found in force; empty where none could be started."""
    home = enclosure.make_home(0)
    try:
        told = json.dumps(enclosure.settings(home))
        trial = [*enclosure.command(0, home), sys.executable, "-I", "-c", TRIAL, str(WORKER.parent), told]
        done = subprocess.run(
            trial, env=enclosure.environment(home), capture_output=True, text=True, timeout=20, check=False
        )
        found: dict[str, int] = json.loads(done.stdout)
    except (OSError, ValueError):
        return {}
    finally:
        enclosure.remove_home(home)
    return found


def _inside(tried: dict[str, int]) -> Iterator[Finding]:
    if not tried:
        remedy = trust_blocker() or "see to the lines above first"
        yield Finding("sandbox: limits", "warning", "could not be tried, for want of the layers above", remedy)
        return
    if tried["landlock"]:
        yield Finding("sandbox: Landlock", "ok", f"active, version {tried['landlock']}")
    elif _kernel_lists("landlock"):
        yield Finding("sandbox: Landlock", "warning", "missing: the kernel has it and refuses it", "docs/isolation.md")
    else:
        remedy = "Linux 5.13 or later with landlock in its list of security modules (lsm=landlock,… at boot)"
        yield Finding("sandbox: Landlock", "warning", "not available: namespaces alone guard files", remedy)
    if tried["seccomp"]:
        yield Finding("sandbox: system calls", "ok", "active: filtered")
    else:
        remedy = "a kernel with seccomp filters on x86_64 or aarch64"
        yield Finding("sandbox: system calls", "warning", "not available: one learner may leave keys, queues or shared "
                      "memory to the next, or change the worker's limits", remedy)  # fmt: skip
    if tried["memory"]:
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
        remedy = "grade as root, or start it so: systemd-run --user --scope -p Delegate=yes torchcourse grade …"
        says = "not available: each process is limited, and shared maps are watched instead"
        return Finding("sandbox: memory group", "ok", says, remedy)
    group.remove()
    return Finding("sandbox: memory group", "ok", "active: all processes of a worker together have a limit")
