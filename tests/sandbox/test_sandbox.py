"""The sandbox: what a submission cannot see, reach, keep or exhaust. Everything hostile here is small and bounded."""

from __future__ import annotations

import dataclasses
import fcntl
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch

from autograde.sandbox.inside import memory
from autograde.sandbox.job import Control, LostError, wall_clock_factor
from autograde.sandbox.requirements import isolation_problem
from autograde.sandbox.sandbox import Sandbox
from autograde.settings import LIMITS
from tests.support.alone import alone
from tests.support.sandboxed import states

pytestmark = pytest.mark.sandbox

QUICK = dataclasses.replace(LIMITS, cell_seconds=3.0, exercise_seconds=3.0, processes=40, data_bytes=1 << 30)


ADOPTING = """
import ctypes, os, pathlib
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: children of ended children become this process's
from autograde.sandbox.namespaces import release, start_pause_process
for _ in range(3):
    release(start_pause_process(20.0)[0])
for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
    state, parent = stat.read_text().rpartition(") ")[2].split()[:2]
    if int(parent) == os.getpid():
        print(stat, state)
"""


SECRET = ("BEGIN SOLUTION", "more_cases", "autograde.hidden", "MISTAKES", "RIGHT_ANSWERS")
"""What stands in the text of a reference, or of a module with hidden cases, or among its names."""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with closing(Sandbox(QUICK, number=7)) as made:
        yield made


@pytest.mark.parametrize(("each", "times"), [(0.1, 3.0), (1.0, 3.0), (2.5, 7.5), (50.0, 12.0)])
def test_the_more_processes_want_each_core_the_more_wall_time_may_pass(
    monkeypatch: pytest.MonkeyPatch, each: float, times: float
) -> None:
    cores = os.cpu_count() or 1
    monkeypatch.setattr(os, "getloadavg", lambda: (each * cores, 0.0, 0.0))
    assert wall_clock_factor(LIMITS) == pytest.approx(times)
    assert wall_clock_factor(dataclasses.replace(LIMITS, wall_clock_factor=120.0)) == 120.0, "a higher limit stays"


def test_this_machine_can_isolate() -> None:
    assert isolation_problem() == ""


def test_a_process_whose_name_is_no_text_is_alive_until_it_ends() -> None:
    program = r"import ctypes; ctypes.CDLL(None).prctl(15, b'\xff) \xfe'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert memory.is_alive(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not memory.is_alive(process.pid), "a zombie is not"
    assert not memory.is_alive(process.pid)


def test_a_sandbox_leaves_no_zombie_to_the_first_process_of_a_container() -> None:
    done = alone(ADOPTING)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_ordinary_cells_run_and_leave_nothing_behind(sandbox: Sandbox) -> None:
    assert states(sandbox, "import torch\nx = 1", "open('/tmp/left', 'w').write('x')\ny = x") == ["done", "done"]
    assert states(sandbox, "y", "import os\nassert not os.path.exists('/tmp/left')") == ["NameError", "done"]


@pytest.mark.parametrize(
    "oddity",
    [
        "import warnings; warnings.warn('w')",
        "import sys; print('e', file=sys.stderr)",
        "print('x' * 1000)",
        "%matplotlib inline",
        "%%time\nx = 1",
        "!ls",
        "import matplotlib.pyplot as plt; plt.plot([1]); plt.show()",
        "import torch; torch.set_default_dtype(torch.float64); torch.manual_seed(3)",
        "import torch; torch.set_grad_enabled(False); torch.set_num_threads(2)",
        "from torchcourse import check, hint; check('describe'); hint('describe')",
        "import getpass, tempfile; getpass.getuser(); tempfile.mkdtemp()",
        "import asyncio\nawait asyncio.sleep(0)",
        "import asyncio\nchild = await asyncio.create_subprocess_exec('true')\nassert await child.wait() == 0",
        "import os\nassert os.system('mkfifo f && echo b | sort > y && cp -a y z && mv z w && rm f w y') == 0",
        "import multiprocessing\nwith multiprocessing.Pool(2) as pool:\n    assert pool.map(abs, [-1]) == [1]",
        "import sqlite3\nassert sqlite3.connect('x.db').execute('select 1').fetchone() == (1,)",
        "from torch.utils.data import DataLoader\nassert len(list(DataLoader(range(8), num_workers=2))) == 8",
    ],
)
def test_honest_oddities_run(sandbox: Sandbox, oddity: str) -> None:
    assert states(sandbox, oddity) == ["done"]


LOCKS = """
import fcntl, os, struct, torch
fcntl.flock(os.open(torch.__file__, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.lockf(os.open(torch.__file__, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
with open("mine", "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
"""
LOOKS = "fcntl.fcntl(os.open(torch.__file__, os.O_RDONLY), fcntl.F_GETLK, struct.pack('hhqqi', 1, 0, 0, 0, 0))"
WATCHES = "fcntl.fcntl(os.open(os.path.dirname(torch.__file__), os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS)"


def test_a_lock_on_a_file_of_everybody_only_seems_to_succeed_and_cannot_be_seen(sandbox: Sandbox) -> None:
    """Locks carried hidden inputs from one submission to another, and to the machine's users."""
    with Path(torch.__file__).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert states(sandbox, LOCKS, LOOKS, WATCHES) == ["done", "PermissionError", "PermissionError"]


@pytest.mark.parametrize("name", ["stat", "loadavg", "uptime", "vmstat", "interrupts", "sys/fs/inode-nr"])
def test_what_counts_for_the_whole_machine_is_masked(sandbox: Sandbox, name: str) -> None:
    assert Path(f"/proc/{name}").read_text()
    assert states(sandbox, f"assert open('/proc/{name}').read() == ''")[0] in ("done", "PermissionError")
    assert states(sandbox, "import os\nassert os.cpu_count() and open('/proc/self/stat').read()") == ["done"]


def test_a_library_that_hides_calls_from_profilers_cannot_be_loaded(sandbox: Sandbox) -> None:
    assert importlib.util.find_spec("greenlet"), "it comes with SQLAlchemy"
    assert states(sandbox, "import greenlet") == ["ModuleNotFoundError"]


@pytest.mark.parametrize("path", ["solutions", "autograde/hidden", "autograde/judge/oracle.py", "tests", "notebooks"])
def test_nothing_secret_is_there_to_be_read(sandbox: Sandbox, path: str) -> None:
    root = Path(__file__).parents[2]
    assert (root / path).exists()
    assert states(sandbox, f"import os\nassert not os.path.exists({str(root / path)!r})") == ["done"]


def test_no_process_memory_or_module_holds_a_reference_or_a_hidden_case(sandbox: Sandbox) -> None:
    look = f"""
import gc, sys
gc.unfreeze()  # what was there at the fork is hidden else
assert not [m for m in sys.modules if m.startswith(("autograde", "solution"))]
marks = [mark[::-1] for mark in {[mark[::-1] for mark in SECRET]!r}]
kept = "one that is found: " + marks[0]
texts = [o for o in gc.get_referents(*gc.get_objects()) if isinstance(o, str) and o not in marks]
assert {{o for o in texts if any(mark in o for mark in marks)}} == {{kept}}
"""
    assert states(sandbox, look) == ["done"]


@pytest.mark.parametrize("quiet", ["pass", "try:\n        while True: pass\n    except Exception: pass"])
def test_an_endless_cell_is_interrupted_and_the_next_one_runs(sandbox: Sandbox, quiet: str) -> None:
    assert states(sandbox, f"while True:\n    {quiet}", "x = 1") == ["timeout", "done"]


@pytest.mark.parametrize("end", ["import os; os._exit(0)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
                                 "import ctypes; ctypes.string_at(0)"])  # fmt: skip
def test_a_process_that_ends_itself_ends_alone(sandbox: Sandbox, end: str) -> None:
    worker = sandbox.process
    assert states(sandbox, end) == ["died"]
    assert states(sandbox, "x = 1") == ["done"]
    assert sandbox.process is worker


def test_a_worker_that_is_lost_again_as_a_job_begins_costs_one_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise BrokenPipeError

    made = Sandbox(QUICK, number=7)
    started: list[str] = []
    ours, theirs = socket.socketpair()
    made.control = Control(ours)
    monkeypatch.setattr(made, "start", lambda: started.append("anew"))
    monkeypatch.setattr(socket, "send_fds", refuse)
    with theirs, ours:
        before = sum(1 for _ in Path("/proc/self/fd").iterdir())
        with pytest.raises(LostError), made.job("cpu", [], []):
            pass
        assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before
    assert started == ["anew", "anew"]


def test_the_limit_on_memory_is_on_what_the_answer_adds_whatever_is_loaded() -> None:
    tight = dataclasses.replace(QUICK, data_bytes=128 << 20)  # a tenth of what is loaded
    with closing(Sandbox(tight, number=13)) as made:
        assert states(made, "x = bytearray(64 << 20)", "y = bytearray(256 << 20)") == ["done", "MemoryError"]


def test_limits_are_in_force_inside(sandbox: Sandbox) -> None:
    names = json.dumps(["DATA", "FSIZE", "NPROC", "CORE", "CPU", "NOFILE"])
    look = f"import resource\nassert all(resource.getrlimit(getattr(resource, 'RLIMIT_' + n))[1] >= 0 for n in {names})"
    assert states(sandbox, look) == ["done"]


SHARED = (
    "import mmap, time\nheld, text = [], bytes(64 << 20)\n"
    "for _ in range(24):\n    held.append(mmap.mmap(-1, 64 << 20))\n    held[-1].write(text)\ntime.sleep(60)"
)
SOCKETS = (
    "import os, socket, time\nheld = []\nfor _ in range(8):\n    if not os.fork():\n"
    "        for _ in range(400):\n            held += socket.socketpair()\n            held[-1].setblocking(False)\n"
    "            try:\n                while True:\n                    held[-1].send(bytes(1 << 16))\n"
    "            except BlockingIOError:\n                pass\n        break\ntime.sleep(60)"
)
INODES = (
    "import os, time\nfor folder in ('/tmp', '/dev/shm'):\n    try:\n        for n in range(10**6):\n"
    "            os.close(os.open(f'{folder}/{n}', os.O_CREAT))\n    except OSError:\n        pass\ntime.sleep(60)"
)


@pytest.mark.parametrize("hog", [SHARED, SOCKETS, INODES], ids=["shared", "sockets", "inodes"])
@pytest.mark.parametrize("grouped", [True, False])
def test_memory_that_is_no_process_s_own_is_limited_by_a_group_or_by_being_watched(
    grouped: bool, hog: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small cases: they would take up to 1.5 GB, in pieces, and then sleep for a minute."""
    if not grouped:
        monkeypatch.setattr("autograde.sandbox.sandbox.make_group", lambda max_bytes, max_processes: None)
    memory_bytes = {SHARED: 1 << 30, SOCKETS: 400 << 20, INODES: 256 << 20}[hog]
    limits = dataclasses.replace(QUICK, memory_bytes=memory_bytes, cell_seconds=30.0)
    with closing(Sandbox(limits, number=13)) as small:
        small.start()
        if grouped and small.group is None:
            pytest.skip("no control group can be made here, by this user: memory is watched instead")
        with small.job("cpu", [hog], []) as job:
            with pytest.raises(LostError):
                pytest.fail(f"the runner answered {job.receive(90)}")
            assert job.take_memory_kill()
            assert not job.take_memory_kill()
        assert states(small, "x = 1") == ["done"]
