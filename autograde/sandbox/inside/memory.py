"""Watch the memory of a worker's processes where no control group can limit it, and the CPU time of all together.

Resource limits apply to each process separately and do not count shared maps. The memory that a process shares with
the supervisor it was forked from is not counted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["CpuTime", "Watch", "data_segment", "in_own_namespace", "is_alive", "parent", "private"]

INTERVAL = 0.1  # seconds between two measurements
SOCKET_BYTES = 1 << 19
"""What a socket may hold: Linux lets a program put twice 208 KiB into one, and needs some more itself."""
INODE_BYTES = 1 << 10
"""What the kernel holds for a file or folder in memory, with its name, whatever is in it."""
TICKS = os.sysconf("SC_CLK_TCK")


class Watch:
    """Tells when processes together use more than `max_bytes` of memory (0: no limit): shared maps, the private memory
    of each beyond that of this process, and, where they have a namespace of their own, sockets and the inodes of
    `folders`."""

    def __init__(self, max_bytes: int, folders: Sequence[str]) -> None:
        self.max_bytes, self.next_look = max_bytes, 0.0
        self.loaded = private(os.getpid())
        self.folders = folders if in_own_namespace() else ()

    def is_exceeded(self, processes: Iterable[int]) -> bool:
        """Return whether the processes use too much memory. Measures at most ten times a second; False in between."""
        now = time.monotonic()
        if not self.max_bytes or now < self.next_look:
            return False
        self.next_look = now + INTERVAL
        return sum(map(self._used, processes)) + self._held_by_kernel() > self.max_bytes

    def _used(self, pid: int) -> int:
        status = _status(pid)
        return max(0, _private(status) - self.loaded) + status.get("RssShmem", 0)

    def _held_by_kernel(self) -> int:
        if not self.folders:
            return 0
        systems = [os.statvfs(folder) for folder in self.folders]
        return _sockets() * SOCKET_BYTES + sum(s.f_files - s.f_ffree for s in systems) * INODE_BYTES


class CpuTime:
    """Adds up the CPU seconds of all processes of a sandbox since it was made, those that ended included.

    Processes that start and end between two measurements are missed. Without namespaces nothing is counted.
    """

    def __init__(self) -> None:
        self._is_own_namespace = in_own_namespace()
        self._by_process: dict[str, float] = {}
        self._before = 0.0
        self._before = self.seconds()

    def seconds(self) -> float:
        """Return the CPU seconds up to now."""
        for name in filter(str.isdigit, os.listdir("/proc") if self._is_own_namespace else ()):
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
                key = f"{name} {fields[19]}"  # with the time of its start, because process ids are reused
                self._by_process[key] = (int(fields[11]) + int(fields[12])) / TICKS
        return sum(self._by_process.values()) - self._before


def in_own_namespace() -> bool:
    """Return whether this process is in a sandbox of the grader, with a namespace for its processes alone."""
    return Path("/proc/1/comm").read_text().strip() == "pause"


def _sockets() -> int:
    """Return how many sockets there are in this network namespace."""
    try:
        first = Path("/proc/self/net/sockstat").read_text().partition("\n")[0]
    except OSError:  # gVisor, for example, has no such file
        return 0
    return int(first.rpartition(" ")[2])


def is_alive(pid: int) -> bool:
    """Return whether a process runs: it is neither gone nor a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def parent(pid: int) -> int:
    """Return the parent of a process, or 0 if there is none."""
    return _status(pid).get("PPid", 0)


def private(pid: int) -> int:
    """Return the private memory of a process in bytes, including what it shares with the process that it was forked
    from; 0 if it is gone."""
    return _private(_status(pid))


def data_segment(pid: int) -> int:
    """Return how many bytes of a process count towards RLIMIT_DATA, touched or not; 0 if it is gone."""
    return _status(pid).get("VmData", 0)


def _private(status: dict[str, int]) -> int:
    return status.get("RssAnon", 0)


def _status(pid: int) -> dict[str, int]:
    """Read /proc's fields on a process, with sizes in bytes; empty if it is gone."""
    found = {}
    try:
        with Path(f"/proc/{pid}/status").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name in ("PPid", "RssAnon", "RssShmem", "VmData"):
                    found[name] = int(value.split()[0]) * (1 if name == "PPid" else 1024)
    except OSError:
        return {}
    return found
