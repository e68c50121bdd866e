"""What a learner leaves behind for the next, or does to the worker: nothing may come of it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from autograde.sandbox.configuration import Isolation
from autograde.sandbox.requirements import try_worker
from autograde.sandbox.sandbox import Sandbox
from autograde.settings import LIMITS
from tests.support.sandboxed import states

pytestmark = pytest.mark.sandbox

QUICK = dataclasses.replace(LIMITS, cell_seconds=5.0, exercise_seconds=5.0)
LIBC = "import ctypes, os, resource\nlibc = ctypes.CDLL(None, use_errno=True)\nup = os.getppid()\n"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with closing(Sandbox(QUICK, number=9)) as made:
        yield made


LEFT = {  # what a learner leaves, and what the next one must not find
    "a file": ("open('/tmp/left', 'w')", "assert not os.path.exists('/tmp/left')"),
    "a file in shared memory": ("open('/dev/shm/left', 'w')", "assert not os.path.exists('/dev/shm/left')"),
    "a folder that cannot be entered": (
        "os.makedirs('/tmp/left/x'); os.chmod('/tmp/left', 0)", "assert not os.path.exists('/tmp/left')",
    ),
    "shared memory of System V": ("libc.shmget(4711, 4096, 0o1666)", "assert libc.shmget(4711, 0, 0) < 0"),
    "a queue of System V": ("libc.msgget(4712, 0o1666)", "assert libc.msgget(4712, 0) < 0"),
    "semaphores of System V": ("libc.semget(4713, 1, 0o1666)", "assert libc.semget(4713, 0, 0) < 0"),
    "a POSIX queue": ("libc.mq_open(b'/left', 0o102, 0o666, None)", "assert libc.mq_open(b'/left', 2) < 0"),
    "folders deeper than a path can say": (
        "for _ in range(3000): os.mkdir('x'); os.chdir('x')", "assert not os.path.exists('/tmp/work/x')",
    ),
    "scratch folders without rights": (  # where it is its user's: with a grader that is no root
        "import shutil; os.chdir('/'); shutil.rmtree('/tmp/work'); [os.chmod(f, 0o555) for f in ('/tmp', '/dev/shm')]",
        "assert os.stat('/tmp').st_mode == os.stat('/dev/shm').st_mode == 0o41777",
    ),
    "marks on scratch folders": (
        "[os.setxattr(folder, 'user.left', b'x') for folder in ('/dev/shm', '/tmp')]",
        "assert not [f for f in ('/dev/shm', '/tmp') if 'user.left' in os.listxattr(f)]",
    ),
    "a time on a scratch folder": (
        "os.utime('/dev/shm', ns=(4711, 4711))", "assert os.stat('/dev/shm').st_atime_ns != 4711",
    ),
    "a key": (
        "libc.syscall(248, b'user', b'left', b'x', 1, -4)",
        "assert libc.syscall(249, b'user', b'left', None, 0) < 0",
    ),
    "a process": (
        "import subprocess; subprocess.Popen(['sleep', '1234'], start_new_session=True)",
        "seen = [open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()]\n"
        "assert not [s for s in seen if '1234' in s], seen",
    ),
    "a default of torch": (
        "import torch; torch.set_default_dtype(torch.float64)",
        "import torch; assert torch.get_default_dtype() == torch.float32",
    ),
    "a changed module": ("import json; json.dumps = None", "import json; assert json.dumps"),
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT)
def test_nothing_is_left_to_the_next_learner(sandbox: Sandbox, what: str) -> None:
    leave, look = LEFT[what]
    assert len(states(sandbox, LIBC, f"try:\n    {leave}\nexcept OSError:\n    pass")) == 2
    assert states(sandbox, LIBC, look) == ["done", "done"]


DONE_TO_THE_WORKER = {  # `up` is the supervisor, which every learner's process is forked from
    "limits": "resource.prlimit(up, resource.RLIMIT_NPROC, (1, 1))",
    "memory limits": "resource.prlimit(up, resource.RLIMIT_DATA, (1 << 20, 1 << 20))",
    "limits of init": "resource.prlimit(1, resource.RLIMIT_NPROC, (1, 1))",
    "priority": "os.setpriority(os.PRIO_PROCESS, up, 19)",
    "priority of its user": "os.setpriority(os.PRIO_USER, 0, 19)",
    "processors": "os.sched_setaffinity(up, {min(os.sched_getaffinity(0))})",
    "scheduling": "os.sched_setscheduler(up, os.SCHED_IDLE, os.sched_param(0))",
    "tracing": "assert libc.ptrace(0x4206, up, 0, 0) == 0, 'refused'",
    "stopping": "assert libc.ptrace(16, up, 0, 0) == 0, 'refused'",
    "tracing init": "assert libc.ptrace(0x4206, 1, 0, 0) == 0, 'refused'",
    "memory": "open(f'/proc/{up}/mem', 'r+b')",
    "memory of its own": "open('/proc/self/mem', 'r+b')",
    "memory of init": "open('/proc/1/mem', 'r+b')",
    "a signal": "os.kill(up, 0)",
    "a file descriptor": "assert libc.syscall(438, os.pidfd_open(up), 3, 0) >= 0, 'refused'",
    "out-of-memory score": "open(f'/proc/{up}/oom_score_adj', 'w').write('1000')",
}


@pytest.mark.parametrize("what", DONE_TO_THE_WORKER)
def test_the_worker_cannot_be_changed_from_within(sandbox: Sandbox, what: str) -> None:
    """The attempt is refused, and the next learner runs with every limit as it should be."""
    assert states(sandbox, LIBC, DONE_TO_THE_WORKER[what])[1] in ("PermissionError", "AssertionError")
    honest = "import subprocess\nsubprocess.run(['true'], check=True)\nassert os.getpriority(os.PRIO_PROCESS, up) == %d"
    assert states(sandbox, LIBC, honest % os.getpriority(os.PRIO_PROCESS, 0)) == ["done", "done"]


def test_sockets_that_a_network_namespace_does_not_shut_in_cannot_be_made(sandbox: Sandbox) -> None:
    """Those to the machine around a virtual one, above all. Of a family that it lacks the kernel would say so."""
    made = "import errno, socket\n"
    made += "[socket.socket(f).close() for f in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)]\n"
    made += "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()\n"
    refused = "for family in (17, 29, 30, 38, 40):  # packets, CAN, TIPC, algorithms of the kernel, vsock\n"
    refused += "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW):\n"
    refused += "        try:\n            socket.socket(family, kind)\n"
    refused += "        except OSError as error:\n            assert error.errno == errno.EPERM, error\n"
    refused += "        else:\n            assert False, family"
    assert states(sandbox, made, refused) == ["done", "done"]


def test_nothing_that_escapes_the_limits_can_be_made(sandbox: Sandbox) -> None:
    """Files in memory that are mounted nowhere, namespaces of one's own, a ring of system calls."""
    unshare = "assert libc.unshare(0x10000000) == 0"
    for attempt in ("os.memfd_create('x')", unshare, "assert libc.syscall(425, 8, None) >= 0"):
        assert states(sandbox, LIBC, attempt)[1] in ("OSError", "PermissionError", "AssertionError"), attempt


def test_calls_that_no_honest_answer_makes_are_refused_without_being_named(sandbox: Sandbox) -> None:
    """The filter lets through what it lists, and nothing else: here, what it never had to name."""
    calls = {"inotify_init1": 294, "personality": 135, "fanotify_init": 300, "sethostname": 170,
             "modify_ldt": 154, "quotactl": 179, "name_to_handle_at": 303, "socketpair of TIPC": 53,
             "a call of tomorrow": 509}  # fmt: skip
    refused = f"import errno\nfor name, number in {calls!r}.items():\n"
    refused += "    assert libc.syscall(number, 30, 2, 0, 0) < 0, name\n"
    refused += "    assert ctypes.get_errno() in (errno.EPERM, errno.ENOSYS), (name, ctypes.get_errno())"
    assert states(sandbox, LIBC, refused) == ["done", "done"]


def test_files_are_guarded_twice(sandbox: Sandbox) -> None:
    """Landlock holds where the file system would allow it: what /proc lets a process write of its own."""
    assert states(sandbox, LIBC, "open('/proc/self/comm', 'w')")[1] == "PermissionError"
    assert states(sandbox, LIBC, "open('/proc/self/oom_score_adj', 'w')")[1] == "PermissionError"
    found = try_worker(Isolation())
    assert found["landlock"]
    assert found["seccomp"]
