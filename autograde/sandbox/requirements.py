"""Check whether this machine can isolate submissions; if not, say why and name the remedy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autograde.sandbox.configuration import INSIDE, Isolation, kernel, readable
from autograde.sandbox.namespaces import NamespacesError, release, start_pause_process

__all__ = [
    "exposed_path_problem",
    "isolation_fault",
    "isolation_problem",
    "namespaces_remedy",
    "switch_to_gpu",
    "trusted_run_problem",
    "try_worker",
]

TRIAL = """
import json, sys
sys.path.insert(0, sys.argv[1])
from inside.trial import try_worker
print(json.dumps(try_worker(int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]))))
"""
SECONDS = 20.0
"""Wall time for a trial worker."""


def try_worker(isolation: Isolation) -> dict[str, Any]:
    """Start a worker that loads nothing, and return the layers of isolation that it finds, as `inside/trial.py` says.

    Raises:
        NamespacesError: when bubblewrap cannot make a sandbox.
    """
    pause, pid = (None, 0) if isolation.trusted else start_pause_process(SECONDS)
    home = isolation.make_home(0)
    try:
        configuration = json.dumps(isolation.worker_configuration(home))
        arguments = [str(INSIDE.parent), str(pid), str(isolation.uid(0)), configuration]
        trial = subprocess.run(
            [sys.executable, "-I", "-c", TRIAL, *arguments], capture_output=True, text=True, timeout=SECONDS
        )
        layers: dict[str, Any] = json.loads(trial.stdout) if trial.returncode == 0 else {}
        return layers or {"failed": (trial.stderr.strip().splitlines() or ["it gave no reason"])[-1]}
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"failed": str(error)}
    finally:
        isolation.remove_home(home)
        if pause is not None:
            release(pause)


def isolation_problem() -> str:
    """Return why submissions cannot be isolated on this machine, with the remedy; "" where they can."""
    reason, remedy = isolation_fault()
    return f"{reason}{' ' if reason.endswith('.') else ': '}{remedy}" if reason else ""


def isolation_fault() -> tuple[str, str]:
    """Return why submissions cannot be isolated on this machine, and the remedy; "" and "" where they can."""
    if not sys.platform.startswith("linux"):
        return "Isolation needs Linux", "grade on a Linux machine or in a Linux virtual machine."
    if kernel() < (5, 8):
        return f"Isolation needs Linux 5.8 or later, and this is {os.uname().release}", "grade on a newer system."
    if shutil.which("bwrap") is None:
        return "bubblewrap is missing", "sudo apt-get install bubblewrap"
    try:
        reason = try_worker(Isolation())["failed"]
    except NamespacesError as error:
        reason = (str(error).strip().splitlines() or ["it gave no reason"])[-1]
        return f"bubblewrap cannot make a sandbox here ({reason}).", namespaces_remedy()
    if reason:
        remedy = "Let this container use setns" if reason.startswith("setns") else "Fix that"
        return f"Workers cannot enter a sandbox here ({reason}).", f"{remedy}: see docs/isolation.md."
    return "", ""


def trusted_run_problem() -> str:
    """Return why trusted submissions cannot be run either, with the remedy; "" where they can.

    Under root their workers also run as an unprivileged user, who has to be able to read what Python loads.
    """
    if not sys.platform.startswith("linux"):
        return "Grading needs Linux, also with --trust-submissions: use a Linux virtual machine (docs/isolation.md)."
    if os.geteuid() != 0:
        return ""
    for path in readable():
        for parent in reversed(Path(path).parents):
            if not parent.stat().st_mode & 0o001:
                return f"{path} lies in {parent}, which nobody but root may enter: grade as an ordinary user."
    return ""


def switch_to_gpu() -> str:
    """Use CUDA in this process; return why that is impossible, with the remedy, or ""."""
    from torchcourse.model.devices import use_cuda

    os.environ.pop("TORCHCOURSE_ACCELERATOR", None)  # the instructor's commands prefer the simulated one by default
    if use_cuda():
        return ""
    return "--gpu was given, but PyTorch sees no GPU here (torchcourse doctor says more): grade without it."


def exposed_path_problem(paths: Iterable[Path]) -> str:
    """Return which of these paths submissions could read, with the remedy; "" where they can read none."""
    mounted = [(path, Path(path).resolve()) for path in readable()]
    for path in paths:
        for name, target in mounted:
            if path.resolve().is_relative_to(target):
                return f"{path} lies in {name}, which submissions may read: it has to be kept elsewhere."
    return ""


def namespaces_remedy(root: Path = Path("/")) -> str:
    """Return the remedy for the most likely reason why an ordinary user may not make user namespaces.

    Args:
        root: the root folder of the machine to look at.
    """
    sysctl = root / "proc" / "sys"
    if _reads(sysctl / "kernel" / "apparmor_restrict_unprivileged_userns", "1"):
        return (
            "AppArmor denies user namespaces to programs without a profile (Ubuntu 24.04 and later). Load "
            "the one for bubblewrap in docs/isolation.md, or grade as root: sudo torchcourse grade …"
        )
    if _reads(sysctl / "kernel" / "unprivileged_userns_clone", "0"):
        return "User namespaces are switched off: sudo sysctl kernel.unprivileged_userns_clone=1"
    if _reads(sysctl / "user" / "max_user_namespaces", "0"):
        return "User namespaces are switched off: sudo sysctl user.max_user_namespaces=10000"
    if any((root / path).exists() for path in (".dockerenv", "run/.containerenv")):
        return "This is a container without nested namespaces: docs/isolation.md says how to start one with them."
    return "docs/isolation.md says what can be done."


def _reads(path: Path, value: str) -> bool:
    try:
        return path.read_text().strip() == value
    except OSError:
        return False
