"""A filter that refuses system calls that leave something behind in the kernel or reach into another process.

Shared memory, queues and semaphores of System V, POSIX queues and keys outlive the process that made them, so the next
learner would find them; memory files that are not mounted escape all limits on files; and limits, priorities and
memory of the worker itself, which has the same user, could be changed from inside. Only sockets of families that a
network namespace isolates may be made: vsock, say, reaches the host of a virtual machine from any namespace.
A refused call fails with EPERM, or with ENOSYS or EAFNOSUPPORT where programs then fall back on another call.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

__all__ = ["available", "install_filter"]

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of classic BPF
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NUMBER, ARCHITECTURE, FIRST, SECOND = 0, 4, 16, 24  # where struct seccomp_data holds them
CLONE_NEWUSER = 0x10000000

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000  # the first number of the x32 ABI, on x86_64
CALLS = {  # their numbers on x86_64 and aarch64
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsmount": (432, 432), "perf_event_open": (298, 241), "bpf": (321, 280), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "clone3": (435, 435), "clone": (56, 220), "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "setpriority": (141, 140), "ioprio_set": (251, 30), "socket": (41, 198),
    "syslog": (103, 116),
}  # fmt: skip
UNKNOWN = {"clone3", "io_uring_setup", "memfd_create", "memfd_secret"}
PROCESS_ARGUMENT = {
    "prlimit64": FIRST, "sched_setaffinity": FIRST, "sched_setscheduler": FIRST, "sched_setparam": FIRST,
    "sched_setattr": FIRST, "setpriority": SECOND, "ioprio_set": SECOND,
}  # fmt: skip
"""Calls with an argument that names a process, and its place: only 0, the caller itself, is allowed."""
FAMILIES = (1, 2, 10, 16)
"""Socket families that are allowed: Unix, IPv4, IPv6, and netlink, which lists a namespace's own addresses."""
SCOPE_ARGUMENT = {"setpriority": 0, "ioprio_set": 1}
"""The value of the first argument of these calls that means one process, not a group or a user."""


def available() -> bool:
    """Return whether this is Linux on a processor that the filter supports."""
    return sys.platform == "linux" and os.uname().machine in ARCHITECTURES and sys.maxsize > 1 << 32


def install_filter() -> bool:
    """Filter the calls of this process and all that it starts, for good; return whether the kernel can do that."""
    if not available():
        return False
    program = _program(os.uname().machine)
    code = ctypes.create_string_buffer(program, len(program))
    descriptor = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return int(libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.c_char_p(descriptor), 0, 0)) == 0


def _program(machine: str) -> bytes:
    """Return the filter as classic BPF. The machines are little-endian, so an argument's low half comes first."""
    steps = [_step(LOAD, ARCHITECTURE), _step(EQUAL, ARCHITECTURES[machine], 1, 0), _error(errno.EPERM)]
    steps += [_step(LOAD, NUMBER), _step(AT_LEAST, X32, 0, 1), _error(errno.ENOSYS)]
    for name, numbers in CALLS.items():
        number = numbers[list(ARCHITECTURES).index(machine)]
        block = _block(name)
        steps += [_step(EQUAL, number, 0, len(block)), *block]
    return b"".join([*steps, _step(RETURN, ALLOW)])


def _block(name: str) -> list[bytes]:
    """Return the instructions for one call: every path through them returns."""
    if name == "clone":
        return [_step(LOAD, FIRST), _step(ANY_BIT, CLONE_NEWUSER, 1, 0), _step(RETURN, ALLOW), _error(errno.EPERM)]
    if name == "socket":
        allowed = [_step(EQUAL, family, len(FAMILIES) - place, 0) for place, family in enumerate(FAMILIES)]
        return [_step(LOAD, FIRST), *allowed, _error(errno.EAFNOSUPPORT), _step(RETURN, ALLOW)]
    if name in PROCESS_ARGUMENT:
        steps = [_step(LOAD, PROCESS_ARGUMENT[name]), _step(EQUAL, 0, 1, 0), _error(errno.EPERM)]
        if name in SCOPE_ARGUMENT:
            steps += [_step(LOAD, FIRST), _step(EQUAL, SCOPE_ARGUMENT[name], 1, 0), _error(errno.EPERM)]
        return [*steps, _step(RETURN, ALLOW)]
    return [_error(errno.ENOSYS if name in UNKNOWN else errno.EPERM)]


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def _error(number: int) -> bytes:
    return _step(RETURN, ERRNO | number)
