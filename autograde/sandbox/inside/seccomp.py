"""A filter that refuses every system call that honest answers do not need.

autograde/sandbox/system_calls.py lists the calls that are allowed, and `python -m tools.system_calls` makes the filter
of each processor from that list. A refused call fails with EPERM, or with ENOSYS where programs then fall back on
another.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path

__all__ = ["available", "install_filter", "program_path"]

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
INSTRUCTION_BYTES = 8


def program_path(machine: str) -> Path:
    """Return the file with the filter for a processor, which `os.uname().machine` names."""
    return Path(__file__).with_name(f"seccomp_{machine}.bpf")


def available() -> bool:
    """Return whether this is Linux on a processor that there is a filter for."""
    return sys.platform == "linux" and sys.maxsize > 1 << 32 and program_path(os.uname().machine).is_file()


def install_filter() -> bool:
    """Filter the calls of this process and all that it starts, for good; return whether the kernel can do that."""
    if not available():
        return False
    program = program_path(os.uname().machine).read_bytes()
    code = ctypes.create_string_buffer(program, len(program))
    descriptor = struct.pack("HxxxxxxP", len(program) // INSTRUCTION_BYTES, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return int(libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.c_char_p(descriptor), 0, 0)) == 0
