"""Control groups (version 1 or 2): each limits the memory of one worker with all its processes and scratch files.

Making one takes root or a part of the hierarchy that was delegated to the user. Otherwise only the limits on single
processes apply, and the supervisor watches their sum.
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
    """A group of processes whose memory is limited together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._events: int | None = None  # descriptor of the file that counts kills, which is read for each exercise

    def inside(self, command: list[str]) -> list[str]:
        """Return a command that enters this group and then runs `command`."""
        return ["/bin/sh", "-c", 'echo 0 > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def kills(self) -> int:
        """Return how many processes of this group the kernel has killed for lack of memory."""
        for name in ("memory.events", "memory.oom_control"):
            if self._events is None:
                with contextlib.suppress(OSError):
                    self._events = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC)
        events = b""
        if self._events is not None:
            with contextlib.suppress(OSError):
                events = os.pread(self._events, 1 << 12, 0)
        found = re.search(rb"^oom_kill (\d+)$", events, re.MULTILINE)
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
            except OSError:  # the last process is still ending
                time.sleep(0.02)
            else:
                return


def make_group(max_bytes: int, max_processes: int) -> MemoryGroup | None:
    """Make a group with these limits (version 1 ignores `max_processes`); return None where none can be made."""
    for parent in _parents():
        _remove_stale(parent)
        folder = parent / f"{PREFIX}{secrets.token_hex(6)}"
        try:
            folder.mkdir()
        except OSError:
            continue
        group = MemoryGroup(folder)
        if _limit(folder, max_bytes, max_processes):
            return group
        group.remove()
    return None


def _limit(folder: Path, max_bytes: int, max_processes: int) -> bool:
    """Write the limits of a group; return whether it limits memory and processes can enter it."""
    optional = {"memory.swap.max": 0, "memory.memsw.limit_in_bytes": max_bytes, "pids.max": max_processes}
    for name in ("memory.max", "memory.limit_in_bytes"):
        try:
            if (folder / name).exists():
                (folder / name).write_text(str(max_bytes))
                break
        except OSError:
            return False
    else:
        return False
    for name, value in optional.items():
        if (folder / name).exists():
            with contextlib.suppress(OSError):
                (folder / name).write_text(str(value))
    return _can_be_entered(folder)


def _can_be_entered(folder: Path) -> bool:
    """Return whether a process of this user can enter the group, which also takes rights on the common parent."""
    trial = MemoryGroup(folder).inside(["/bin/sh", "-c", ":"])
    return subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def _parents() -> Iterator[Path]:
    """Yield the groups that may be the parent of a worker's: this process's group, its parent and the topmost one."""
    for top, own in _hierarchies():
        seen = set()
        for folder in (top / own, (top / own).parent, top):
            if folder not in seen and folder.is_relative_to(top) and folder.is_dir():
                seen.add(folder)
                yield folder


def _hierarchies(proc: Path = Path("/proc/self")) -> list[tuple[Path, str]]:
    """Return the mount points of the hierarchies that limit memory, each with the path of this process's group."""
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


def _remove_stale(parent: Path) -> None:
    """Remove the groups that killed graders left: older than a minute and empty (the kernel refuses the others)."""
    for stale in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - stale.stat().st_mtime > 60:
                stale.rmdir()
