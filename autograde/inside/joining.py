"""Going from outside into the namespaces that another process lives in, for good, and without any privilege left.

Linux 5.8 and later: setns(2) with the descriptor of a process joins all of its namespaces at once, as an ordinary user
too where they belong to a user namespace of his.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import struct
from pathlib import Path

__all__ = ["JoiningError", "close_all_but", "give_up_privileges", "is_for_good", "join", "settle"]

NAMESPACES = {"user": 0x10000000, "mnt": 0x00020000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x08000000,
              "uts": 0x04000000, "cgroup": 0x02000000}  # fmt: skip
NEEDED = {"mnt", "pid", "net", "ipc", "uts"}
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 4, 24, 38, 47, 4
CAPABILITY_VERSION_3 = 0x20080522  # capset(2)
MOST_CAPABILITIES = 64

_libc = ctypes.CDLL(None, use_errno=True)


class JoiningError(OSError):
    """The namespaces cannot be joined, or privileges cannot be given up."""


def is_for_good(error: BaseException) -> bool:
    """Whether joining fails on this machine whenever it is tried: the kernel does not know or not allow it."""
    refusals = {errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSYS}
    return isinstance(error, AttributeError) or (isinstance(error, OSError) and error.errno in refusals)


def join(pid: int, group: str) -> None:
    """Enter the namespaces of a process, and before that the control group `group`, if one is named.

    Children are in its PID namespace from then on; this process itself stays where it was.

    Raises:
        JoiningError: when that is refused, or the process is not shut in as it should be.
    """
    there = os.pidfd_open(pid)
    try:
        others = [name for name in NAMESPACES if _space("self", name) != _space(str(pid), name)]
        signal.pidfd_send_signal(there, 0)  # it lives, so what was read of its number was read of it
        if missing := NEEDED.difference(others):
            raise JoiningError(errno.ESRCH, f"process {pid} has no namespaces of its own: {', '.join(sorted(missing))}")
        if group:
            Path(group, "cgroup.procs").write_text("0")
        _call("setns", there, sum(NAMESPACES[name] for name in others))
    finally:
        os.close(there)


def give_up_privileges(uid: int) -> None:
    """Become an ordinary user, `uid` where it is not 0, without any capability and any way to get one.

    Raises:
        JoiningError: when something of that does not work.
    """
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(MOST_CAPABILITIES):  # those that the kernel does not know are refused
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _call("capset", struct.pack("Ii", CAPABILITY_VERSION_3, 0), struct.pack("6I", *[0] * 6))
    _call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)


def settle(keep: int) -> None:
    """Begin as a program that was started here: signals as usual, a session of its own, and of all that was open only
    the descriptor `keep`, with nothing behind the standard ones."""
    os.setsid()
    os.chdir("/tmp")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nowhere = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    close_all_but(keep)


def close_all_but(keep: int) -> None:
    """Close every descriptor but the standard ones and this."""
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor not in (0, 1, 2, keep):
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(descriptor)


def _space(process: str, name: str) -> Path:
    return Path(f"/proc/{process}/ns/{name}").readlink()


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise JoiningError(number, f"{name}: {os.strerror(number)}")
