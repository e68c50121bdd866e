"""Workers that are forked from one template: what they share, and that nothing of outside comes along."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from autograde import course, template
from autograde.enclosure import Enclosure
from autograde.inside import joining
from autograde.sandbox import Sandbox, SandboxError
from autograde.settings import FIRST_UID, LIMITS
from benchmarks.family import processes
from benchmarks.workers import memory
from tests.sandboxed import states

pytestmark = pytest.mark.sandbox


@pytest.fixture
def pair() -> Iterator[tuple[Sandbox, Sandbox]]:
    """Two workers, one after the other."""
    made = Sandbox(number=21), Sandbox(number=22)
    for one in made:
        one.start()
    yield made
    for one in made:
        one.close()


@pytest.mark.root
def test_one_worker_more_takes_little_memory_of_its_own(pair: tuple[Sandbox, Sandbox]) -> None:
    assert template.available(Enclosure())
    for one in pair:
        assert 0 < memory(one)["private"] < 100e6
        assert memory(one)["share"] > 50e6, "what was loaded is counted, so the worker is"


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No template is there yet, as in a process that has just begun; those of the test end with it."""
    for name in ("_kept", "_begun", "_closed", "_refused"):
        monkeypatch.setattr(template, name, type(getattr(template, name))())
    yield
    template._end_all()


OWN = """
import os
from pathlib import Path
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
assert status["Uid"].split() == status["Gid"].split() == [UID] * 4 or not BY_ROOT, status["Uid"]
assert not BY_ROOT or not status["Groups"].split(), status["Groups"]
assert status["NoNewPrivs"].strip() == "1"
for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    assert int(status[kind], 16) == 0, kind
for kind, outside in OUTSIDE.items():
    assert os.readlink(f"/proc/self/ns/{kind}") != outside, kind
"""


def test_a_worker_has_namespaces_and_a_user_of_its_own_and_no_privilege(pair: tuple[Sandbox, Sandbox]) -> None:
    kinds = ["mnt", "pid", "net", "ipc", "uts", *(["user"] if os.geteuid() else [])]
    outside = {kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in kinds}
    for one in pair:
        given = f"UID, BY_ROOT, OUTSIDE = {str(FIRST_UID + one.number)!r}, {os.geteuid() == 0}, {outside}"
        assert states(one, given, OWN) == ["done", "done"]


@pytest.mark.root
def test_the_holder_is_an_ordinary_user_and_two_workers_share_no_namespace(pair: tuple[Sandbox, Sandbox]) -> None:
    seen = []
    for one in pair:
        holder, supervisor = processes(one)[1:]
        assert holder.uids().real == holder.uids().effective == supervisor.uids().saved == FIRST_UID + one.number
        seen += [Path(f"/proc/{process.pid}/ns/{kind}").readlink() for kind in ("mnt", "pid", "net", "ipc", "uts")
                 for process in (holder, supervisor)]  # fmt: skip
    assert len(set(seen)) == 10


OPEN = """
import os
found = []
for descriptor in os.listdir("/proc/self/fd"):
    if os.path.lexists(f"/proc/self/fd/{descriptor}"):
        found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
assert all(where == "/dev/null" or where.startswith(("socket:", "/proc/")) for where in found), found
assert sum(where.startswith("socket:") for where in found) == 1, found
"""


def test_nothing_that_was_open_outside_is_open_inside(pair: tuple[Sandbox, Sandbox]) -> None:
    assert states(pair[0], OPEN) == ["done"]


def test_folders_of_outside_are_not_spoken_of(pair: tuple[Sandbox, Sandbox]) -> None:
    parent = pair[0].parent
    assert parent is not None
    assert not Path(parent.home).exists(), "nobody needs it once everything is loaded"
    name = Path(parent.home).name
    told = "open('/proc/self/environ').read() + repr(dict(os.environ)) + open('/proc/self/cmdline').read()"
    ours = f"import os, tempfile\nassert {name!r} not in {told}\nassert tempfile.gettempdir() == '/tmp'"
    shell = "shell = get_ipython()\nassert shell.ipython_dir == '/tmp/ipython'\n"
    shell += "assert shell.profile_dir.location.startswith('/tmp/ipython/')"
    assert states(pair[0], ours, shell, "%cd /tmp", "%bookmark here", "%cd -b here") == ["done"] * 5


def test_nobody_can_look_into_the_first_process(pair: tuple[Sandbox, Sandbox]) -> None:
    for what in ("environ", "mem", "maps", "fd/0", "root/tmp"):
        assert states(pair[0], f"open('/proc/1/{what}', 'rb').read(1)") == ["PermissionError"]
    for signal_ in ("SIGKILL", "SIGINT", "SIGTERM"):
        assert states(pair[0], f"import os, signal\nos.kill(1, signal.{signal_})") in (["PermissionError"], ["done"])
    assert states(pair[0], "x = 1") == ["done"], "it was not ended"


def test_a_process_without_namespaces_of_its_own_is_not_joined() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        with pytest.raises(joining.JoiningError, match="no namespaces of its own: ipc, mnt, net, pid, uts"):
            joining.join(other.pid, "")
        other.kill()


def refusing(monkeypatch: pytest.MonkeyPatch, **said: object) -> None:
    """Have templates say this in place of forking."""

    def refuse(self: template.Template, control: socket.socket, *order: Any) -> None:
        words = json.dumps(said).encode()
        control.sendall(len(words).to_bytes(8, "little") + words)

    monkeypatch.setattr(template.Template, "fork", refuse)


@pytest.mark.usefixtures("fresh")
def test_where_sandboxes_cannot_be_joined_workers_load_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, failed="JoiningError: setns: Operation not permitted", **{"for good": True})
    alone = Sandbox(number=21)
    try:
        assert states(alone, "x = 1", "import torch") == ["done", "done"]
        assert template.refusals() == ["JoiningError: setns: Operation not permitted"]
        assert not template.available(Enclosure()), "and the next worker does not try"
        assert alone.parent is None
        assert alone.layers["system calls"]
    finally:
        alone.close()


@pytest.mark.usefixtures("fresh")
def test_what_passes_is_tried_again_and_then_said(monkeypatch: pytest.MonkeyPatch) -> None:
    refusing(monkeypatch, failed="BlockingIOError: Resource temporarily unavailable", **{"for good": False})
    made = Sandbox(number=21)
    with pytest.raises(SandboxError, match="temporarily unavailable"):
        made.start()
    assert made.process is None
    assert template.refusals() == []
    assert template.available(Enclosure())


@pytest.mark.parametrize(
    ("error", "for_good"),
    [
        (PermissionError(errno.EPERM, "setns"), True),
        (OSError(errno.ENOSYS, "pidfd_open"), True),
        (OSError(errno.EINVAL, "setns"), True),
        (AttributeError("pidfd_open"), True),
        (FileNotFoundError(errno.ENOENT, "/proc/1234/ns/user"), False),
        (BlockingIOError(errno.EAGAIN, "fork"), False),
        (MemoryError(), False),
    ],
)
def test_only_what_the_kernel_does_not_know_or_allow_is_for_good(error: BaseException, for_good: bool) -> None:
    assert joining.is_for_good(error) is for_good


TOUCH = """
import errno, os
for change in (
    lambda: os.chmod("/proc/self/exe", 0o4755),
    lambda: os.utime("/proc/self/exe"),
    lambda: os.setxattr("/proc/self/exe", "user.mark", b"1"),
    lambda: os.removexattr("/proc/self/exe", "user.mark"),
    lambda: os.open("/proc/self/exe", os.O_WRONLY),
):
    try:
        change()
    except OSError as error:
        assert error.errno in (errno.EROFS, errno.ETXTBSY, errno.EACCES), error
    else:
        raise AssertionError("it was changed")
"""


def test_the_program_that_a_worker_runs_lies_where_nothing_can_be_changed(pair: tuple[Sandbox, Sandbox]) -> None:
    assert states(pair[0], TOUCH) == ["done"]


def test_a_sandbox_that_does_not_come_up_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    slow = tmp_path / "bwrap"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    made = Sandbox(dataclasses.replace(LIMITS, start_seconds=1.0), number=21)
    template.template([])
    command = made.enclosure.holding(21, LIMITS.scratch_bytes, 9)
    monkeypatch.setattr(Enclosure, "holding", lambda *_: [str(slow), *command[1:]])
    began = time.monotonic()
    with pytest.raises(SandboxError, match="bubblewrap made no sandbox"):
        made.start()
    assert time.monotonic() - began < 20
    assert made.process is None


def test_ending_a_worker_that_is_being_started_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[socket.socket] = []  # for somebody who does not come

    def queue(self: template.Template, control: socket.socket, *order: Any) -> None:
        waiting.append(control.dup())

    monkeypatch.setattr(template.Template, "fork", queue)
    made = Sandbox(number=21)
    threading.Timer(0.5, made.end).start()
    began = time.monotonic()
    with pytest.raises(SandboxError, match="was ended"):
        made.start()
    assert time.monotonic() - began < 20
    assert made.process is None
    for one in waiting:
        one.close()


def test_old_kernels_gpus_and_trusted_submissions_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not template.available(Enclosure(trusted=True))
    assert not template.available(Enclosure(gpu=True))
    release = os.uname()
    for old, known in (("4.18.0-553.el8", False), ("5.7.19", False), ("5.8.0", True), ("6.1.0-13-amd64", True)):
        named = type("Uname", (), {"release": old, "machine": release.machine, "sysname": release.sysname})
        monkeypatch.setattr(os, "uname", lambda named=named: named)
        assert template.available(Enclosure()) is known


def test_a_template_that_was_killed_is_replaced_and_its_workers_go_on(pair: tuple[Sandbox, Sandbox]) -> None:
    first = pair[0].parent
    assert first is not None
    first.process.kill()
    first.process.wait()
    assert states(pair[0], "x = 1") == ["done"]
    pair[1].close()
    assert states(pair[1], "x = 1") == ["done"]
    assert pair[1].parent is not first


@pytest.mark.usefixtures("fresh")
def test_a_template_that_cannot_load_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "worker.py"
    broken.write_text("raise ImportError('no torch was installed here')")
    monkeypatch.setattr(template, "WORKER", broken)
    made = Sandbox(number=21)
    with pytest.raises(SandboxError, match="no torch was installed here"):
        made.start()
    assert made.process is None


@pytest.mark.usefixtures("fresh")
def test_only_the_last_templates_are_kept_and_an_older_one_stays_while_it_has_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template, "MOST", 1)
    first = Sandbox(number=21, modules=["csv"])
    assert states(first, "import sys\nassert 'csv' in sys.modules") == ["done"]
    second = Sandbox(number=22, modules=["wave"])
    assert states(second, "import sys\nassert 'wave' in sys.modules") == ["done"]
    assert list(template._kept) == [("wave",)]
    old = first.parent
    assert old is not None
    assert old.is_there()
    assert states(first, "x = 1") == ["done"]
    first.close()
    old.process.wait(20)
    second.close()
    assert template.template(["wave"]) is second.parent
    assert template._closed == []


@pytest.mark.usefixtures("fresh")
def test_one_that_was_begun_early_is_the_first_one_used() -> None:
    template.begin()
    template.begin()
    (early,) = template._begun
    assert template.template(["wave", "csv"]) is early
    assert template._begun == []
    assert template.template(["csv", "wave"]) is early
    early.end()
    assert not early.is_there()
    assert not Path(early.home).exists()


@pytest.mark.usefixtures("fresh")
def test_one_that_was_begun_loads_what_will_be_wanted_and_none_is_begun_for_that() -> None:
    template.expect(["wave"])
    assert template._kept == {}
    template.begin()
    (early,) = template._begun
    template.expect(["wave"])
    assert template._kept == {("wave",): early}
    made = Sandbox(number=21, modules=["wave"])
    try:
        loaded, searched = "import sys\nassert 'wave' in sys.modules", "import gc\nassert gc.isenabled()"
        assert states(made, loaded, searched) == ["done", "done"]
        assert made.parent is early
    finally:
        made.close()


STARTS = """
import sys, time
from autograde.sandbox import Sandbox
from benchmarks.family import processes
made = Sandbox(number=23)
made.start()
print(*[made.parent.process.pid, *(process.pid for process in processes(made))], flush=True)
time.sleep(300)
"""


def test_everything_ends_with_a_grader_that_is_killed() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(course.ROOT), str(course.ROOT / "src")])}
    with subprocess.Popen([sys.executable, "-c", STARTS], env=env, stdout=subprocess.PIPE, text=True) as grader:
        assert grader.stdout is not None
        family = [psutil.Process(int(pid)) for pid in grader.stdout.readline().split()]
        grader.send_signal(signal.SIGKILL)
    assert len(family) == 4
    deadline = time.monotonic() + 30
    while left := [process for process in family if process.is_running()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
