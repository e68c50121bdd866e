"""Probe saving in an empty folder, with copies of what would be left if the process were killed at any moment."""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.observations import Observations
from torchcourse.probes.data_loading import scratch

__all__ = [
    "Changes",
    "after_possible_writes",
    "contents",
    "copy_folder",
    "crash_states",
    "in_a_folder",
    "layout",
    "tagged",
]

MAX_CRASHES = 40


def in_a_folder(probe: Callable[..., Observations]) -> Callable[..., Observations]:
    """Let a probe run in a new, empty folder."""

    @functools.wraps(probe)
    def placed(answer: Watched, *args: Any, **kwargs: Any) -> Observations:
        with scratch():
            return probe(answer, *args, **kwargs)

    return placed


HARMLESS = (list, dict, str, bytes, tuple, set, int, type)
"""Types whose methods never write to the disk; most calls during a save are to those."""


@contextlib.contextmanager
def after_possible_writes(look: Callable[[], Any]) -> Iterator[None]:
    """Call `look` in this block after every C function that may have written to the disk."""

    def note(_frame: FrameType, event: str, called: Any) -> None:
        if event not in ("c_return", "c_exception"):
            return
        owner = getattr(called, "__self__", None)
        if type(owner) not in HARMLESS and (owner is not builtins or called.__name__ == "open"):
            look()

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def contents(path: Path) -> bytes | None:
    """Return the content of a file; None if there is none."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def layout(folder: Path) -> tuple[Any, ...]:
    """Return the names and inodes of the files in a folder, and which are empty.

    The layout changes only a few times in a save, however often that writes.
    """
    files: list[Any] = []
    with contextlib.suppress(OSError):  # it may disappear meanwhile
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                files.append((entry.name, layout(Path(entry.path))))
            else:
                status = entry.stat(follow_symlinks=False)
                files.append((entry.name, status.st_ino, status.st_size == 0))
    return tuple(sorted(files, key=str))


class Changes:
    """A callback that compares a folder's layout and calls `at(n)` when it has changed for the nth time."""

    def __init__(self, folder: Path, at: Callable[[int], None]) -> None:
        self.folder, self.at = folder, at
        self.count, self.last = 0, layout(folder)

    def __call__(self) -> None:
        now = layout(self.folder)
        if now != self.last and self.count < MAX_CRASHES:
            self.count, self.last = self.count + 1, now
            self.at(self.count)


def crash_states(act: Callable[[], Any], folder: Path, store: Path) -> list[Path]:
    """Run `act` once, and return what SIGKILL at any moment of it would leave in `folder`.

    A process that is killed leaves behind what it had passed to the system by then, so copies taken while `act` runs
    show it.

    Args:
        act: saves something in `folder`.
        folder: the folder to copy.
        store: where to put the copies.

    Returns:
        The copies: one from before `act`, then one for each change of the folder's layout.
    """
    made = [store / "before"]
    copy_folder(folder, made[0])

    def at(count: int) -> None:
        made.append(store / f"moment {count}")
        copy_folder(folder, made[-1])

    look = Changes(folder, at)
    with after_possible_writes(look):
        act()
    look()
    return made


def copy_folder(folder: Path, to: Path) -> None:
    """Copy a folder."""
    shutil.copytree(folder, to, symlinks=True)


def tagged(place: str) -> contextlib.AbstractContextManager[object]:
    """Let `torch.save` in this block record that every tensor was on the device `place`."""
    return mock.patch.object(torch.serialization, "location_tag", lambda storage: place)
