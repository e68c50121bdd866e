"""Enter the namespaces of another process and give up all privileges, both for good.

Since Linux 5.8, setns(2) takes a process descriptor and enters all namespaces of that process at once. An ordinary user
may do so where they belong to a user namespace of that user.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import struct
from pathlib import Path

__all__ = ["EnteringError", "close_all_but", "detach", "enter", "enter_control_group", "give_up_privileges"]

NAMESPACES = {"user": 0x10000000, "mnt": 0x00020000, "pid": 0x20000000, "net": 0x40000000, "ipc": 0x08000000,
              "uts": 0x04000000, "cgroup": 0x02000000}  # fmt: skip
REQUIRED = {"mnt", "pid", "net", "ipc", "uts"}
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 4, 24, 38, 47, 4
CAPABILITY_VERSION_3 = 0x20080522  # capset(2)
MAX_CAPABILITIES = 64

_libc = ctypes.CDLL(None, use_errno=True)


class EnteringError(OSError):
    """Namespaces cannot be entered, or privileges cannot be given up."""


def enter_control_group(folder: str) -> None:
    """Move this process to a control group."""
    Path(folder, "cgroup.procs").write_text("0")


def enter(pid: int) -> None:
    """Enter the namespaces of a process; its PID namespace applies only to children that are forked afterwards.

    Raises:
        EnteringError: when that is refused, or the process shares a required namespace with this one.
    """
    process = os.pidfd_open(pid)
    try:
        others = [name for name in NAMESPACES if _namespace("self", name) != _namespace(str(pid), name)]
        signal.pidfd_send_signal(process, 0)  # still alive, so its id was not reused while its namespaces were read
        if missing := REQUIRED.difference(others):
            reason = f"process {pid} has no namespaces of its own: {', '.join(sorted(missing))}"
            raise EnteringError(errno.ESRCH, reason)
        _call("setns", process, sum(NAMESPACES[name] for name in others))
    finally:
        os.close(process)


def give_up_privileges(uid: int) -> None:
    """Become the ordinary user `uid` (0: keep the user), without capabilities and without a way to get any.

    Raises:
        EnteringError: when that is refused.
    """
    _call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(MAX_CAPABILITIES):  # fails for those that the kernel does not know
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _call("capset", struct.pack("Ii", CAPABILITY_VERSION_3, 0), struct.pack("6I", *[0] * 6))
    _call("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)


def detach(keep: int, folder: str) -> None:
    """Start a new session in `folder`, with /dev/null as standard streams and no other open descriptor but `keep`."""
    os.setsid()
    os.chdir(folder)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    null = os.open("/dev/null", os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    close_all_but(keep)


def close_all_but(keep: int) -> None:
    """Close every descriptor but the standard ones and `keep`."""
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor not in (0, 1, 2, keep):
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(descriptor)


def _namespace(process: str, name: str) -> Path:
    return Path(f"/proc/{process}/ns/{name}").readlink()


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) < 0:
        number = ctypes.get_errno()
        raise EnteringError(number, f"{name}: {os.strerror(number)}")
