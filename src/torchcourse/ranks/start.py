"""Run a function on ranks, from any process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from torchcourse.ranks.launcher import MODULES, Launcher
from torchcourse.ranks.processes import Outcome, fork_ranks

__all__ = ["MODULES", "run_ranks", "warm_up"]

_launchers: list[Launcher] = []


def run_ranks(function: Callable[[], Any], world_size: int = 2) -> list[Outcome]:
    """Run `function` in `world_size` processes that form a process group; return what became of each.

    Raises:
        Unattempted: if a rank raised it.
        OSError: where processes cannot fork.
    """
    if not hasattr(os, "fork"):
        raise OSError("Ranks are forked processes, which this system does not have: use Linux, macOS or WSL.")
    return fork_ranks(function, world_size) if _is_clean() else _launcher().run(function, world_size)


def warm_up() -> None:
    """Start the launcher now if this process needs one: it is ready after some seconds."""
    if hasattr(os, "fork") and not _is_clean():
        _launcher()


def _launcher() -> Launcher:
    if not _launchers or not _launchers[-1].is_alive():
        _launchers[:] = [Launcher()]
    return _launchers[-1]


def _is_clean() -> bool:
    """Return whether forks of this process can run a backward: no second device was ever registered."""
    return os.environ.get("TORCHCOURSE_SIMULATED") == "off" and not torch.cuda.is_available()
