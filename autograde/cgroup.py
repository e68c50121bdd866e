"""A control group that limits the memory of one worker with all its processes and scratch files, where one can be made.

Version 2 or 1 of the kernel's groups, as root or in a part that was delegated to the user. Elsewhere there is none, and
the limit on each process and the supervisor's watch have to do.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["MemoryGroup", "make_group"]

PREFIX = "torchcourse-"


class MemoryGroup:
    """A group of processes that together may not have more than so much memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._events: int | None = None  # the file that says so, open since it is asked for each exercise

    def joining(self, command: list[str]) -> list[str]:
        """`command`, run in this group from its first instruction on."""
        return ["/bin/sh", "-c", 'echo 0 > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def kills(self) -> int:
        """How often the kernel has killed a process of this group because its memory was used up."""
        for name in ("memory.events", "memory.oom_control"):
            if self._events is None:
                with contextlib.suppress(OSError):
                    self._events = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC)
        said = b""
        if self._events is not None:
            with contextlib.suppress(OSError):
                said = os.pread(self._events, 1 << 12, 0)
        found = re.search(rb"^oom_kill (\d+)$", said, re.MULTILINE)
        return int(found[1]) if found else 0

    def remove(self) -> None:
        """Remove the group, once its processes are gone."""
        if self._events is not None:
            os.close(self._events)
            self._events = None
        for _ in range(50):
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:  # the last process is still on its way out
                time.sleep(0.02)
            else:
                return


def make_group(most_bytes: int, processes: int) -> MemoryGroup | None:
    """A group with this limit; None where none can be made.

    Where it holds processes to a number as well (version 2), that is limited too.
    """
    for parent in _parents():
        _sweep(parent)
        folder = parent / f"{PREFIX}{secrets.token_hex(6)}"
        try:
            folder.mkdir()
        except OSError:
            continue
        group = MemoryGroup(folder)
        if _limit(folder, most_bytes, processes):
            return group
        group.remove()
    return None


def _limit(folder: Path, most_bytes: int, processes: int) -> bool:
    """Write the limits of a group; whether it limits memory and processes may join it."""
    optional = {"memory.swap.max": 0, "memory.memsw.limit_in_bytes": most_bytes, "pids.max": processes}
    for name in ("memory.max", "memory.limit_in_bytes"):
        try:
            if (folder / name).exists():
                (folder / name).write_text(str(most_bytes))
                break
        except OSError:
            return False
    else:
        return False
    for name, value in optional.items():
        if (folder / name).exists():
            with contextlib.suppress(OSError):
                (folder / name).write_text(str(value))
    return _may_be_joined(folder)


def _may_be_joined(folder: Path) -> bool:
    """Whether a process of ours may move there: that takes rights on the common parent too."""
    trial = MemoryGroup(folder).joining(["/bin/sh", "-c", ":"])
    return subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def _parents() -> Iterator[Path]:
    """Groups in which one for a worker might be made: our own, the one above it, the topmost."""
    for top, own in _hierarchies():
        seen = set()
        for folder in (top / own, (top / own).parent, top):
            if folder not in seen and folder.is_relative_to(top) and folder.is_dir():
                seen.add(folder)
                yield folder


def _hierarchies(proc: Path = Path("/proc/self")) -> list[tuple[Path, str]]:
    """Where groups that limit memory are mounted, each with our own place in it."""
    try:
        places = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
        mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
    except OSError:
        return []
    found = []
    for fields in mounts:
        kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
        for _, controllers, path in places:
            unified = kind == "cgroup2" and not controllers
            if unified or (kind == "cgroup" and "memory" in controllers.split(",") and "memory" in options):
                found.append((Path(fields[4]), path.strip("/")))
    return found


def _sweep(parent: Path) -> None:
    """Remove groups that a killed grader left behind; those in use cannot be removed, new ones may soon be in use."""
    for stale in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - stale.stat().st_mtime > 60:
                stale.rmdir()
