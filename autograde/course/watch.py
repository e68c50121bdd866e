"""Verify again whenever a file of the course changes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import watchfiles

from autograde.source import paths
from torchcourse.model.own_course import own_course

__all__ = ["watch", "watched"]

MAIN = "from torchcourse.cli import main; main()"


def watched() -> list[Path]:
    """Return the folders whose files `verify` depends on."""
    package = paths.ROOT / "src" / "torchcourse"
    own = own_course()
    return [paths.SOLUTIONS, paths.AUTOGRADE / "hidden", paths.NOTEBOOKS, package, *([own] if own else [])]


def watch(which: Sequence[str]) -> None:
    """Verify lessons, or exercises as LESSON:EXERCISE, and again after each change, until interrupted.

    Each run is a process of its own, which loads the files as they are then.
    """
    command = [sys.executable, "-c", MAIN, "verify", *which]
    subprocess.run(command, check=False)
    print("Waiting for a change; Ctrl-C ends it.")
    for changes in watchfiles.watch(*watched(), watch_filter=watchfiles.PythonFilter(extra_extensions=(".ipynb",))):
        names = sorted(str(paths.shown(Path(path))) for _, path in changes)
        print(f"\nchanged: {', '.join(names)}")
        subprocess.run(command, check=False)
        print("Waiting for a change; Ctrl-C ends it.")
