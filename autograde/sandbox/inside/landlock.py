"""Landlock: restrict what this process and all that it starts may do with files, for good and without privileges.

This uses versions 1 (Linux 5.13) to 6 of the kernel's interface: files, then renaming between folders, truncating, TCP,
device controls, and signals to processes outside.
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
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # rights that a rule about a single file may name
RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
TCP = 0b11
SCOPES = 0b11  # abstract Unix sockets, signals

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the kernel's version of Landlock, or 0 if it has none."""
    if not hasattr(_libc, "syscall") or os.uname().sysname != "Linux":
        return 0
    return max(0, int(_libc.syscall(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def restrict(readable: Iterable[str], writable: Iterable[str], devices: Iterable[str], *, tcp: bool = True) -> bool:
    """Restrict this process and all that it starts, and return whether the kernel can do that.

    They can still list all folders; from version 6 on they can signal only processes that they started.

    Args:
        readable: folders and files that may be read and executed.
        writable: folders in which everything is allowed.
        devices: folders whose devices may be read, written and controlled.
        tcp: whether TCP stays allowed; refusing it takes version 4.

    Raises:
        OSError: when the kernel has Landlock but refuses to apply it.
    """
    abi = version()
    if not abi:
        return False
    rights = RIGHTS[min(abi, 5)]
    attributes = struct.pack("<QQQ", rights, 0 if tcp or abi < 4 else TCP, SCOPES if abi >= 6 else 0)
    ruleset = _call(CREATE, attributes, ctypes.c_size_t(8 if abi < 4 else 16 if abi < 6 else 24), 0)
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
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rights = rights if Path(path).is_dir() else rights & OF_FILES
        _call(ADD_RULE, ruleset, 1, struct.pack("<Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock: {os.strerror(error)}")
    return result
