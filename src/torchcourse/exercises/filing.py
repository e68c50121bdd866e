"""What probes of saving are made of: a folder of one's own, and what the disk holds at every moment of a call, which is
what is left if the process is killed there."""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from torchcourse import simulated
from torchcourse.exercises.loading import scratch
from torchcourse.observations import Observations
from torchcourse.probing import Watched

__all__ = ["can_kill", "contents", "deaths", "in_a_folder", "killed_in", "layout", "moments", "tagged"]

MOST_DEATHS = 40


def in_a_folder(probe: Callable[..., Observations]) -> Callable[..., Observations]:
    """A probe that runs in an empty folder of its own, and whose calls are not watched: no exercise on files forbids
    any, and exporting and tracing do not work while somebody watches."""

    @functools.wraps(probe)
    def placed(answer: Watched, *args: Any, **kwargs: Any) -> Observations:
        answer.watching = False
        with scratch():
            return probe(answer, *args, **kwargs)

    return placed


HARMLESS = (list, dict, str, bytes, tuple, set, int, type)
"""Whose methods write to no disk: most calls of a save are theirs."""


@contextlib.contextmanager
def moments(look: Callable[[], Any]) -> Iterator[None]:
    """Call `look` whenever a C function returns in this block that may have written: every write is made by one, and
    between two writes there is always such a moment."""

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
    """What a file holds now; None where there is none."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def layout(folder: Path) -> tuple[Any, ...]:
    """Which files a folder holds, told apart by identity, and which are empty: it changes a few times in a save,
    whatever the number of writes."""
    found: list[Any] = []
    with contextlib.suppress(OSError):  # it may go as we look
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                found.append((entry.name, layout(Path(entry.path))))
            else:
                held = entry.stat(follow_symlinks=False)
                found.append((entry.name, held.st_ino, held.st_size == 0))
    return tuple(sorted(found, key=str))


class _Changes:
    """Looks at a folder again and again; calls `at(n)` when its layout has changed for the nth time."""

    def __init__(self, folder: Path, at: Callable[[int], None]) -> None:
        self.folder, self.at = folder, at
        self.count, self.last = 0, layout(folder)

    def __call__(self) -> None:
        now = layout(self.folder)
        if now != self.last and self.count < MOST_DEATHS:
            self.count, self.last = self.count + 1, now
            self.at(self.count)


def can_kill() -> bool:
    """Whether a fork of this process may train and be killed: not with an accelerator, whose threads a fork loses."""
    idle = not simulated.is_registered() and not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return hasattr(os, "fork") and idle and torch.get_num_threads() == 1


def deaths(act: Callable[[], Any], folder: Path, store: Path) -> list[Path]:
    """Do `act`, once, and tell what `folder` would be left as if the process were killed (SIGKILL) at some moment of
    it: a copy for each moment at which something has changed, the first from before.

    Where a fork may be killed, one is, for each moment, before `act` is done in earnest; elsewhere the copies are taken
    on the way, which is the same: what a killed process leaves is what the system had been given by then.
    """
    before = store / "before"
    copied(folder, before)
    if not can_kill():
        return [before, *_copied(act, folder, store)]
    made = [before, *_killed(act, folder, store, before)]
    act()
    return made


def copied(folder: Path, to: Path) -> None:
    shutil.copytree(folder, to, symlinks=True)


def _copied(act: Callable[[], Any], folder: Path, store: Path) -> Iterator[Path]:
    made: list[Path] = []

    def at(count: int) -> None:
        made.append(store / f"moment {count}")
        copied(folder, made[-1])

    look = _Changes(folder, at)
    with moments(look):
        act()
    look()
    yield from made


def _killed(act: Callable[[], Any], folder: Path, store: Path, before: Path) -> Iterator[Path]:
    for moment in range(1, MOST_DEATHS):
        died = killed_in(functools.partial(_act_until, act, folder, moment))
        left = store / f"moment {moment}"
        copied(folder, left)
        shutil.rmtree(folder)
        copied(before, folder)
        yield left
        if not died:
            return


def _act_until(act: Callable[[], Any], folder: Path, moment: int) -> None:
    look = _Changes(folder, lambda count: die() if count == moment else None)
    with moments(look):
        act()


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def killed_in(act: Callable[[], Any]) -> bool:
    """Run `act` in a fork of this process; whether it was killed there."""
    drawn = random.getstate()
    child = os.fork()
    if child == 0:
        random.setstate(drawn)  # Python seeds its generator anew in every fork
        with contextlib.suppress(BaseException):
            act()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


@contextlib.contextmanager
def tagged(place: str) -> Iterator[None]:
    """A block in which `torch.save` notes that every tensor was on the device `place`."""
    real = torch.serialization.location_tag
    torch.serialization.location_tag = lambda storage: place
    try:
        yield
    finally:
        torch.serialization.location_tag = real
