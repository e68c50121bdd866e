"""The filters of system calls: on each processor they allow what the list says, and refuse the rest."""

from __future__ import annotations

import errno
import itertools
import struct
from collections.abc import Sequence

import pytest

from autograde.sandbox.inside.seccomp import program_path
from autograde.sandbox.system_calls import (
    ALLOWED,
    CONDITIONS,
    FIRST_UNKNOWN_CALL,
    MISSING,
    NEW_NAMESPACES,
    PRETENDED,
    Condition,
)

pyseccomp = pytest.importorskip("pyseccomp", reason="libseccomp knows the numbers of calls", exc_type=Exception)
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_… in linux/audit.h
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
X32 = 0x40000000
BY_NAME = {name for group in ALLOWED.values() for name in group.split()}


@pytest.fixture(params=["as it is stored", "as it is made"])
def program(request: pytest.FixtureRequest, processor: str) -> bytes:
    """The filter of a processor, and what `python -m tools.system_calls` would write in its place."""
    from tools.system_calls import make_program

    return program_path(processor).read_bytes() if request.param == "as it is stored" else make_program(processor)


def verdict(program: bytes, number: int, arguments: Sequence[int], architecture: int) -> int:
    """Run a filter as the kernel would: classic BPF over struct seccomp_data (seccomp(2))."""
    six = [*arguments, *[0] * 6][:6]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *six)
    place = accumulator = 0
    while True:
        code, yes, no, value = struct.unpack_from("<HBBI", program, 8 * place)
        place += 1
        match code:
            case 0x06:
                return int(value)
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x54:
                accumulator &= value
            case 0x05:
                place += value
            case 0x15 | 0x25 | 0x35:
                holds = {0x15: accumulator == value, 0x25: accumulator > value, 0x35: accumulator >= value}[code]
                place += yes if holds else no
            case _:
                pytest.fail(f"the filter has an instruction that is not known here: {code:#x}")


def name_of(processor: str, number: int) -> str:
    try:
        return str(pyseccomp.resolve_syscall(ARCHITECTURES[processor], number).decode())
    except ValueError:
        return ""


def expected(name: str, number: int, arguments: Sequence[int]) -> int:
    if name in MISSING or number >= FIRST_UNKNOWN_CALL:
        return ERRNO | errno.ENOSYS
    if name in PRETENDED and all(holds(each, arguments) for each in PRETENDED[name]):
        return ERRNO | 0
    fits = name in BY_NAME or (name in CONDITIONS and all(holds(each, arguments) for each in CONDITIONS[name]))
    return ALLOW if fits else ERRNO | errno.EPERM


def holds(condition: Condition, arguments: Sequence[int]) -> bool:
    return arguments[condition.argument] & condition.mask in condition.values


@pytest.mark.parametrize("processor", ARCHITECTURES)
def test_every_call_gets_what_the_list_says(processor: str, program: bytes) -> None:
    """For all numbers, and for arguments on both sides of each condition, also above the half that the kernel reads."""
    firsts = 0, 1, 2, 16, 17, 40, NEW_NAMESPACES, 1 << 28, 0x11, 1 << 32
    arguments = list(
        itertools.product(firsts, (0, 1, 5, 6, 7, 36, 37, 38, 1026, 1030, 0x11A4, 0x21A4), (0, 0x11A4, 0x61A4))
    )
    seen = set()
    for number in range(600):
        name = name_of(processor, number)
        for each in arguments if name in CONDITIONS else [(0, 0, 0)]:
            found = verdict(program, number, each, ARCHITECTURES[processor])
            assert found == expected(name, number, each), (name, number, each)
        seen.add(name)
    assert seen >= {*MISSING, *PRETENDED}
    assert len(BY_NAME.union(CONDITIONS) - seen) <= 40, "calls that only x86-64 has"


@pytest.mark.parametrize("processor", ARCHITECTURES)
def test_calls_by_another_convention_are_refused(processor: str, program: bytes) -> None:
    """Those of 32-bit programs, whose numbers mean other calls, and those of x32."""
    refused, own = {ERRNO | errno.EPERM, ERRNO | errno.ENOSYS}, ARCHITECTURES[processor]
    others = {0x40000003, 0x40000028, *ARCHITECTURES.values()} - {own}  # i386, ARM
    assert {verdict(program, number, (), other) for number in range(600) for other in others} <= refused
    assert {verdict(program, X32 + number, (), own) for number in range(600)} <= refused


def test_the_list_leaves_out_what_outlives_a_process_or_reaches_into_another() -> None:
    """A change of the list that lets one of these in has to be made here as well."""
    never = """
        shmget shmat semget semop msgget msgsnd mq_open add_key request_key keyctl memfd_create memfd_secret ptrace
        process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd unshare setns mount umount2 pivot_root
        chroot move_mount open_tree fsopen fsmount perf_event_open bpf userfaultfd io_uring_setup io_uring_enter clone3
        syslog seccomp init_module finit_module kexec_load reboot settimeofday clock_settime adjtimex swapon quotactl
        inotify_init1 fanotify_init name_to_handle_at open_by_handle_at setuid setresuid setgroups capset
        personality modify_ldt iopl ioperm execveat vmsplice mbind migrate_pages move_pages acct sethostname
        landlock_create_ruleset landlock_restrict_self lookup_dcookie nfsservctl flock
    """
    assert BY_NAME.union(CONDITIONS).isdisjoint(never.split())
