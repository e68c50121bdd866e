"""Workers are forks of one template: what they share, and that nothing from outside comes along."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from autograde.sandbox import diagnosis, requirements, template
from autograde.sandbox.configuration import Isolation
from autograde.sandbox.inside import enter_namespaces, framing
from autograde.sandbox.sandbox import Sandbox, SandboxError
from autograde.settings import FIRST_UID, LIMITS
from tests.support.alone import alone, environment
from tests.support.sandboxed import states
from tests.support.waiting import eventually
from tests.support.worker_processes import memory, processes

pytestmark = pytest.mark.sandbox


@pytest.fixture
def pair() -> Iterator[tuple[Sandbox, Sandbox]]:
    """Two workers, one after the other."""
    with closing(Sandbox(number=21)) as one, closing(Sandbox(number=22)) as other:
        one.start()
        other.start()
        yield one, other


@pytest.mark.root
def test_one_worker_more_takes_little_memory_of_its_own(pair: tuple[Sandbox, Sandbox]) -> None:
    for one in pair:
        assert 0 < memory(one)["private"] < 100e6
        assert memory(one)["share"] > 50e6, "what was loaded is counted, so the worker is"


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No template is there yet, as in a process that has just begun; those of the test end with it."""
    monkeypatch.setattr(template, "_templates", {})
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
def test_the_pause_process_is_an_ordinary_user_and_two_workers_share_no_namespace(
    pair: tuple[Sandbox, Sandbox],
) -> None:
    seen = []
    for one in pair:
        pause, supervisor = processes(one)[1:]
        assert pause.uids().real == pause.uids().effective == supervisor.uids().saved == FIRST_UID + one.number
        seen += [Path(f"/proc/{process.pid}/ns/{kind}").readlink() for kind in ("mnt", "pid", "net", "ipc", "uts")
                 for process in (pause, supervisor)]  # fmt: skip
    assert len(set(seen)) == 10


OPEN = """
import os
found = []
for descriptor in os.listdir("/proc/self/fd"):
    if os.path.lexists(f"/proc/self/fd/{descriptor}"):
        found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
assert all(where == "/dev/null" or where.startswith(("socket:", "pipe:", "/proc/")) for where in found), found
assert sum(where.startswith("socket:") for where in found) == 1, found
assert sum(where.startswith("pipe:") for where in found) == 1, found  # it tells the supervisor what ended the runner
"""


def test_nothing_that_was_open_outside_is_open_inside(pair: tuple[Sandbox, Sandbox]) -> None:
    assert states(pair[0], OPEN) == ["done"]


def test_folders_of_outside_are_not_spoken_of(pair: tuple[Sandbox, Sandbox]) -> None:
    parent = pair[0].template
    assert parent is not None
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


def test_a_process_without_namespaces_of_its_own_is_not_entered() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        with pytest.raises(enter_namespaces.EnteringError, match="no namespaces of its own: ipc, mnt, net, pid, uts"):
            enter_namespaces.enter(other.pid)
        other.kill()


@pytest.mark.usefixtures("fresh")
def test_what_prevents_a_fork_is_tried_again_and_then_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def refuse(self: template.Template, modules: object, control: socket.socket, *order: Any) -> None:
        tried.append(order)
        framing.send(control, json.dumps({"failed": "BlockingIOError: Resource temporarily unavailable"}).encode())

    monkeypatch.setattr(template.Template, "fork", refuse)
    made = Sandbox(number=21)
    with pytest.raises(SandboxError, match="temporarily unavailable"):
        made.start()
    assert len(tried) == 2
    assert made.process is None


def test_where_no_sandbox_can_be_entered_grading_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "TRIAL", "raise SystemExit('setns: Operation not permitted')")
    assert "cannot enter a sandbox here (setns: Operation not permitted)" in requirements.isolation_problem()
    (finding, *_) = diagnosis.diagnose()
    assert (finding.state, finding.about) == ("blocked", "sandbox: namespaces")
    assert "docs/isolation.md" in finding.remedy


@pytest.mark.parametrize(("release", "known"), [("4.18.0-553.el8", False), ("5.7.19", False), ("5.8.0", True)])
def test_kernels_that_cannot_enter_all_namespaces_at_once_are_named(
    monkeypatch: pytest.MonkeyPatch, release: str, known: bool
) -> None:
    here = os.uname()
    named = type("Uname", (), {"release": release, "machine": here.machine, "sysname": here.sysname})
    monkeypatch.setattr(os, "uname", lambda: named)
    wanted = f"Isolation needs Linux 5.8 or later, and this is {release}: grade on a newer system."
    assert requirements.isolation_problem() == ("" if known else wanted)


LOADS = """
import torch
from autograde.sandbox.inside import template
from torchcourse.model.catalogue import LESSONS, imports

def asked(*_, **__):
    raise AssertionError("the GPU was asked for while loading")

for name in ("init", "_lazy_init", "is_available", "device_count", "_device_count_nvml", "_raw_device_count_nvml"):
    setattr(torch.cuda, name, asked)
torch._C._cuda_getDeviceCount = torch._C._cuda_init = asked
template.load()
template.load_modules(list(imports(*LESSONS)))
assert not torch.cuda.is_initialized()
import threading
assert threading.active_count() == 1
"""


def test_loading_asks_nothing_of_a_gpu_so_that_forks_may_use_it() -> None:
    done = alone(LOADS, TORCHCOURSE_ACCELERATOR="", PYTORCH_NVML_BASED_CUDA_CHECK="1", MPLBACKEND="agg")
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_worker_with_a_gpu_is_a_fork_that_does_not_prefer_the_simulated_one() -> None:
    with closing(Sandbox(number=21, isolation=Isolation(gpu=True))) as made:
        assert states(made, "import os\nassert 'TORCHCOURSE_ACCELERATOR' not in os.environ") == ["done"]
        assert made.template is template.template()


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
    template.template()
    monkeypatch.setattr(Isolation, "pause_command", lambda *_: [str(slow)])
    monkeypatch.setattr(requirements, "SECONDS", 1.0)
    began = time.monotonic()
    with pytest.raises(SandboxError, match="bubblewrap made no sandbox"):
        made.start()
    assert time.monotonic() - began < 20
    assert made.process is None


def test_ending_a_worker_that_is_being_started_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[socket.socket] = []  # for somebody who does not come

    def queue(self: template.Template, modules: object, control: socket.socket, *order: Any) -> None:
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


def test_a_template_that_was_killed_is_replaced_and_its_workers_go_on(pair: tuple[Sandbox, Sandbox]) -> None:
    first = pair[0].template
    assert first is not None
    first.process.kill()
    first.process.wait()
    assert states(pair[0], "x = 1") == ["done"]
    pair[1].close()
    assert states(pair[1], "x = 1") == ["done"]
    assert pair[1].template is not first


@pytest.mark.usefixtures("fresh")
def test_a_template_that_cannot_load_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "inside"
    broken.mkdir()
    (broken / "__main__.py").write_text("raise ImportError('no torch was installed here')")
    monkeypatch.setattr(template, "INSIDE", broken)
    made = Sandbox(number=21)
    with pytest.raises(SandboxError, match="no torch was installed here"):
        made.start()
    assert made.process is None


@pytest.mark.usefixtures("fresh")
def test_the_template_that_was_begun_loads_what_will_be_wanted_and_later_workers_may_want_more() -> None:
    template.preload(["wave"])
    assert template._templates == {}, "none is begun for that"
    template.start_template(Isolation())
    template.start_template(Isolation())
    early = template.template()
    template.preload(["wave"])
    with closing(Sandbox(number=21, modules=["wave"])) as first, closing(Sandbox(number=22, modules=["csv"])) as second:
        loaded, searched = "import sys\nassert 'wave' in sys.modules", "import gc\nassert gc.isenabled()"
        assert states(first, loaded, searched) == ["done", "done"]
        assert states(second, "import sys\nassert 'csv' in sys.modules") == ["done"]
        assert first.template is second.template is early
    early.end()
    assert not early.is_alive()
    assert not Path(early.home).exists()


STARTS = """
import sys, time
from autograde.sandbox.sandbox import Sandbox
from tests.support.worker_processes import memory, processes
made = Sandbox(number=23)
made.start()
print(*[made.template.process.pid, *(process.pid for process in processes(made))], flush=True)
time.sleep(300)
"""


def test_everything_ends_with_a_grader_that_is_killed() -> None:
    command = [sys.executable, "-c", STARTS]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as grader:
        assert grader.stdout is not None
        family = [psutil.Process(int(pid)) for pid in grader.stdout.readline().split()]
        grader.send_signal(signal.SIGKILL)
    assert len(family) == 4
    eventually(lambda: not any(process.is_running() for process in family), 30, lambda: family)
