"""Large pages for what is loaded, so that a fork copies hundreds of entries and not a hundred thousand.

What asks for memory in small pieces (Python's own allocator among them) gets small pages; Linux 6.1 and later put them
together when told to. Elsewhere nothing happens: only forks take longer.
"""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

__all__ = ["collapse"]

LARGE = 2 << 20
MADV_COLLAPSE = 25  # madvise(2)
PRIVATE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0\s*(\[heap\])?")


def collapse() -> None:
    """Put the pages of this process together, those of files and stacks excepted."""
    if sys.platform != "linux":
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        if found := PRIVATE.fullmatch(line.rstrip()):
            first, end = (int(place, 16) for place in found.group(1, 2))
            first = -(-first // LARGE) * LARGE
            if first < end:  # what cannot be put together (a hole, a machine without large pages) stays as it is
                advise(first, (end - first) // LARGE * LARGE, MADV_COLLAPSE)
