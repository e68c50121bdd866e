"""Landlock: what a process and all that it starts may do with files, whatever else was forgotten.

It needs no privilege and cannot be taken back. Of the kernel's interface this uses versions 1 (Linux 5.13) to 6:
files, then moving between folders, cutting files, TCP, device controls, and signals to processes outside.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

__all__ = ["restrict", "version"]

CREATE, ADD_RULE, RESTRICT = 444, 445, 446  # the same numbers on every architecture
PR_SET_NO_NEW_PRIVS = 38
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # what a rule about a single file may name
RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
TCP = 0b11
SCOPES = 0b11  # abstract Unix sockets, signals

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """The kernel's version of Landlock; 0 where there is none."""
    if not hasattr(_libc, "syscall") or os.uname().sysname != "Linux":
        return 0
    return max(0, int(_libc.syscall(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def restrict(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str], *, tcp: bool = True) -> bool:
    """Let this process, and all that it starts, only read below `readable`, do anything below `writable`, use
    `devices`, list folders, and signal nobody but what it started; whether the kernel could do that.

    Args:
        tcp: False refuses TCP too, where the kernel can (version 4).

    Raises:
        OSError: when the kernel has Landlock and refuses it all the same.
    """
    known = version()
    if not known:
        return False
    rights = RIGHTS[min(known, 5)]
    attributes = struct.pack("<QQQ", rights, 0 if tcp or known < 4 else TCP, SCOPES if known >= 6 else 0)
    ruleset = _call(CREATE, attributes, ctypes.c_size_t(8 if known < 4 else 16 if known < 6 else 24), 0)
    try:
        _allow(ruleset, "/", READ_DIR)
        for path in readable:
            _allow(ruleset, path, rights & (EXECUTE | READ_FILE | READ_DIR))
        for path in devices:
            _allow(ruleset, path, rights & (READ_FILE | WRITE_FILE | READ_DIR | TRUNCATE | IOCTL_DEV))
        for path in writable:
            _allow(ruleset, path, rights)
        if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "no_new_privs was refused")
        _call(RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rights = rights if Path(path).is_dir() else rights & OF_FILES
        _call(ADD_RULE, ruleset, 1, struct.pack("<Qi", rights, place), 0)
    finally:
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock: {os.strerror(error)}")
    return result
