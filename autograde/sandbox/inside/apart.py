"""Cut a process off from what learners' cells left: before an exercise with rules, whose answer has to work alone.

What a cell started could make the forbidden call for an answer, out of sight, and hand its result over in memory that
both share.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from .memory import in_own_namespace, is_alive

__all__ = ["end_others", "unshare_memory"]

MAP_FIXED = 0x10
ROUNDS = 1000
"""How many times to check whether the killed processes are gone."""


def end_others(spared: Iterable[int]) -> None:
    """Kill all processes of the sandbox but its first one, this one, its parent, and those that are `spared`.

    Where submissions are trusted, they have no process namespace, and nothing is killed.
    """
    if not in_own_namespace():
        return
    kept = {1, os.getpid(), os.getppid(), *spared}
    for _ in range(ROUNDS):
        others = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in kept]
        others = [pid for pid in others if is_alive(pid)]
        if not others:
            return
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler raises here if workers of a loader are killed
        for pid in others:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def unshare_memory() -> None:
    """Give this process copies of the memory that it could share with others, at the same addresses.

    Memory of devices stays as it is.

    Raises:
        OSError: when there is more of it than this process may have.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    for start, size, protection in _shared_maps():
        content = _read(start, size)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED
        if libc.mmap(start, size, protection, flags, -1, 0) != start:
            raise OSError(ctypes.get_errno(), "shared memory cannot be copied")
        ctypes.memmove(start, content, len(content))


def _shared_maps() -> list[tuple[int, int, int]]:
    """Return the address, size and protection of each map that is shared and may be written to."""
    found = []
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        addresses, rights, _, _, _, *path = line.split(maxsplit=5)
        is_device = path and path[0].startswith("/dev/") and not path[0].startswith(("/dev/shm/", "/dev/zero"))
        if rights[1] == "w" and rights[3] == "s" and not is_device:
            start, end = (int(address, 16) for address in addresses.split("-"))
            bits = zip(rights, (mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC), strict=False)
            found.append((start, end - start, sum(bit for right, bit in bits if right != "-")))
    return found


def _read(start: int, size: int) -> bytes:
    """Return what lies in memory, up to the first page that cannot be read: a file may end before its map does."""
    content = bytearray()
    with Path("/proc/self/mem").open("rb", buffering=0) as memory, contextlib.suppress(OSError):
        while len(content) < size and (more := os.pread(memory.fileno(), size - len(content), start + len(content))):
            content += more
    return bytes(content)
