"""The sandbox: what a submission cannot see, reach, keep or exhaust. Everything hostile here is small and bounded."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograde.oracle import oracles
from autograde.sandbox import LostError, Sandbox, blocker, patience
from autograde.settings import LIMITS
from autograde.submission import read_submission
from benchmarks.solved import write_solved
from torchcourse.exercise import imports

pytestmark = pytest.mark.sandbox

QUICK = dataclasses.replace(LIMITS, cell_seconds=3.0, exercise_seconds=3.0, processes=40, data_bytes=1 << 30)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(QUICK, number=7)
    yield made
    made.close()


def states(sandbox: Sandbox, *cells: str, lane: str = "cpu") -> list[str]:
    """How each cell ended, "died" where the process did."""
    ended: list[str] = []
    try:
        with sandbox.job(lane, list(cells), []) as job:
            for _ in cells:
                ended.append(str(job.receive(120).get("state")))
    except LostError:
        ended.append("died")
    return ended


@pytest.mark.parametrize(("each", "times"), [(0.1, 3.0), (1.0, 3.0), (2.5, 7.5), (50.0, 12.0)])
def test_the_more_processes_want_each_core_the_more_wall_time_may_pass(
    monkeypatch: pytest.MonkeyPatch, each: float, times: float
) -> None:
    cores = os.cpu_count() or 1
    monkeypatch.setattr(os, "getloadavg", lambda: (each * cores, 0.0, 0.0))
    assert patience(LIMITS) == pytest.approx(times)
    assert patience(dataclasses.replace(LIMITS, patience=120.0)) == 120.0, "who asks for more gets it"


def test_this_machine_can_isolate() -> None:
    assert blocker() == ""


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
    ],
)
def test_honest_oddities_run(sandbox: Sandbox, oddity: str) -> None:
    assert states(sandbox, oddity) == ["done"]


@pytest.mark.parametrize("path", ["solutions", "autograde/hidden", "autograde/oracle.py", "tests", "notebooks"])
def test_nothing_secret_is_there_to_be_read(sandbox: Sandbox, path: str) -> None:
    root = Path(__file__).parents[1]
    assert (root / path).exists()
    assert states(sandbox, f"import os\nassert not os.path.exists({str(root / path)!r})") == ["done"]


def test_no_process_memory_or_module_holds_a_reference_or_a_hidden_case(sandbox: Sandbox) -> None:
    look = """
import gc, sys
assert not [m for m in sys.modules if m.startswith(("autograde", "solution"))]
texts = [o for o in gc.get_objects() if isinstance(o, str) and "BEGIN SOLUTION" in o and "texts" not in o]
assert not texts
"""
    assert states(sandbox, look) == ["done"]


def test_the_environment_says_nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "sesame")
    look = """
import os
assert "A_SECRET" not in os.environ
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        text = open(f"/proc/{pid}/environ", "rb").read()
    except OSError:
        continue
    assert b"sesame" not in text, pid
"""
    fresh = Sandbox(QUICK, number=8)
    try:
        assert states(fresh, look) == ["done"]
    finally:
        fresh.close()


def test_a_listener_on_loopback_is_not_reached(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reached: list[Any] = []
        server.settimeout(3)
        waiter = threading.Thread(target=lambda: _accept(server, reached))
        waiter.start()
        attempt = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)"
        assert states(sandbox, attempt) == ["ConnectionRefusedError"]
        waiter.join()
        assert not reached


def _accept(server: socket.socket, reached: list[Any]) -> None:
    try:
        reached.append(server.accept())
    except TimeoutError:
        return


@pytest.mark.parametrize("place", ["/usr/x", "/x", "/dev/x", "/etc/x", "{site}/x.pth", "{course}/x.py"])
def test_the_system_is_read_only(sandbox: Sandbox, place: str) -> None:
    import sysconfig

    import torchcourse

    path = place.format(site=sysconfig.get_path("purelib"), course=Path(torchcourse.__file__).parent)
    ended = states(sandbox, f"open({path!r}, 'w')")
    assert ended[0] in ("OSError", "PermissionError")
    assert not Path(path).exists()


def test_an_endless_cell_is_interrupted_and_the_next_one_runs(sandbox: Sandbox) -> None:
    assert states(sandbox, "while True: pass", "x = 1") == ["timeout", "done"]


def test_an_endless_cell_that_swallows_everything_is_interrupted_too(sandbox: Sandbox) -> None:
    stubborn = "while True:\n    try:\n        while True: pass\n    except Exception: pass"
    assert states(sandbox, stubborn, "x = 1") == ["timeout", "done"]


@pytest.mark.parametrize("end", ["import os; os._exit(0)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
                                 "import ctypes; ctypes.string_at(0)"])  # fmt: skip
def test_a_process_that_ends_itself_ends_alone(sandbox: Sandbox, end: str) -> None:
    worker = sandbox.process
    assert states(sandbox, end) == ["died"]
    assert states(sandbox, "x = 1") == ["done"]
    assert sandbox.process is worker


def test_killing_everyone_costs_only_the_worker(sandbox: Sandbox) -> None:
    assert states(sandbox, "import os\nos.kill(-1, 9)")[0] in ("died", "done")  # kill spares its caller
    assert states(sandbox, "x = 1") == ["done"]


def test_a_worker_that_is_lost_again_as_a_job_begins_is_one_death_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise BrokenPipeError

    made = Sandbox(QUICK, number=7)
    started: list[str] = []
    made.control, theirs = socket.socketpair()
    monkeypatch.setattr(made, "start", lambda: started.append("anew"))
    monkeypatch.setattr(socket, "send_fds", refuse)
    with theirs, made.control:
        before = sum(1 for _ in Path("/proc/self/fd").iterdir())
        with pytest.raises(LostError), made.job("cpu", [], []):
            pass
        assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before
    assert started == ["anew", "anew"]


def test_what_it_starts_does_not_outlive_it(sandbox: Sandbox) -> None:
    leave = "import subprocess\nsubprocess.Popen(['sleep', '1234'], start_new_session=True)"
    assert states(sandbox, leave) == ["done"]
    look = "import os\nseen = [open(f'/proc/{p}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()]\n"
    assert states(sandbox, look + "assert not any('1234' in s for s in seen), seen") == ["done"]


def test_processes_are_limited(sandbox: Sandbox) -> None:
    """A small case: it asks for a few more than the limit, and each would end by itself within seconds."""
    few = """
import os, time
children = []
try:
    for _ in range(60):
        pid = os.fork()
        if pid == 0:
            time.sleep(5)
            os._exit(0)
        children.append(pid)
except BlockingIOError:
    pass
assert len(children) < 45, len(children)
"""
    assert states(sandbox, few) == ["done"]


def test_memory_is_limited(sandbox: Sandbox) -> None:
    assert states(sandbox, "x = bytearray(1100 << 20)", "y = 1") == ["MemoryError", "done"]


def test_files_are_limited(sandbox: Sandbox) -> None:
    fill = f"with open('/tmp/big', 'wb') as f:\n    for _ in range(20): f.write(bytes({LIMITS.file_bytes // 16}))"
    assert states(sandbox, fill)[0] in ("OSError", "died")
    assert states(sandbox, "x = 1") == ["done"]


def test_asking_for_input_is_answered_by_nothing(sandbox: Sandbox) -> None:
    assert states(sandbox, "input()")[0] in ("EOFError", "StdinNotImplementedError")


def order(exercise: str, seconds: float = 3.0) -> dict[str, Any]:
    """What asks for the probing of an exercise."""
    return {"do": "probe", "exercise": exercise, "seconds": seconds, "patience": 3.0, "most_bytes": 1 << 20}


def converse(sandbox: Sandbox, cell: str, exercise: str = "row_softmax") -> list[dict[str, Any]]:
    """The replies of an answer to the visible cases of an exercise."""
    oracle = next(o for o in oracles("01_tensors") if o.exercise.name == exercise)
    replies: list[dict[str, Any]] = []
    try:
        with sandbox.job("cpu", [cell], []) as job:
            job.receive(120)
            job.send(order(exercise))
            replies.append(job.receive(120))
            for case in oracle.packed:
                job.ask([case])
                replies.append(job.receive(120))
    except LostError:
        replies.append({"lost": True})
    return replies


def test_raw_observations_come_back(sandbox: Sandbox) -> None:
    replies = converse(sandbox, "def row_softmax(x): return x")
    assert replies[0] == {"answer": "callable"}
    assert all("result" in reply["seen"] for reply in replies[1:])


def test_too_large_an_observation_is_not_carried(sandbox: Sandbox) -> None:
    replies = converse(sandbox, "import torch\ndef row_softmax(x): return torch.zeros(1 << 20)")
    assert replies[1]["seen"]["raised"].kind == "OutputTooLarge"


def test_nonsense_on_the_channel_is_no_message(sandbox: Sandbox) -> None:
    shout = """
import os, stat
def row_softmax(x):
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                os.write(fd, b"\\xff" * 64)
        except OSError:
            pass
"""
    assert converse(sandbox, shout)[-1] == {"lost": True}
    assert states(sandbox, "x = 1") == ["done"]


def test_the_worker_runs_without_privileges(sandbox: Sandbox) -> None:
    look = "status = open('/proc/self/status').read()\nassert 'CapEff:\\t0000000000000000' in status\n"
    assert states(sandbox, look + "assert 'NoNewPrivs:\\t1' in status") == ["done"]
    if os.geteuid() == 0:
        assert states(sandbox, "import os\nassert os.getuid() > 0") == ["done"]


def test_limits_are_in_force_inside(sandbox: Sandbox) -> None:
    names = json.dumps(["DATA", "FSIZE", "NPROC", "CORE", "CPU", "NOFILE"])
    look = f"import resource\nassert all(resource.getrlimit(getattr(resource, 'RLIMIT_' + n))[1] >= 0 for n in {names})"
    assert states(sandbox, look) == ["done"]


@pytest.mark.parametrize("grouped", [True, False])
def test_memory_that_is_shared_is_limited_by_a_group_or_by_being_watched(
    grouped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small case: it would take 1.5 GB, in pieces, and then sleep for a minute."""
    if not grouped:
        monkeypatch.setattr("autograde.sandbox.make_group", lambda most_bytes, processes: None)
    hog = "import mmap, time\nheld, text = [], bytes(64 << 20)\nfor _ in range(24):\n"
    hog += "    held.append(mmap.mmap(-1, 64 << 20))\n    held[-1].write(text)\ntime.sleep(60)"
    limits = dataclasses.replace(QUICK, memory_bytes=1 << 30, cell_seconds=30.0)
    small = Sandbox(limits, number=13)
    try:
        small.start()
        if grouped and small.group is None:
            pytest.skip("no control group can be made here, by this user: memory is watched instead")
        with small.job("cpu", [hog], []) as job:
            with pytest.raises(LostError):
                job.receive(90)
            assert job.ran_out_of_memory()
            assert not job.ran_out_of_memory()
        assert states(small, "x = 1") == ["done"]
    finally:
        small.close()


def probed(sandbox: Sandbox, cell: str, *names: str, pause: float = 0.0) -> list[str]:
    """What each answer said by an exception in its first case, or how its probing ended; seconds between them."""
    said = []
    first = {o.exercise.name: o.packed[0] for o in oracles("01_tensors") if o.exercise.name in names}
    with sandbox.job("cpu", [cell], []) as job:
        job.receive(120)
        for name in names:
            job.send(order(name, seconds=1.0))
            job.receive(120)
            job.ask([first[name]])
            reply = job.receive(120)
            said.append(str(reply["seen"]["raised"].message if "seen" in reply else reply["ended"]))
            if "seen" in reply:
                job.send({"do": "done"})
                assert job.receive(120) == {"ended": "done"}
            time.sleep(pause)
    return said


WHO = "import os, threading, time\ndef who(*_, **__):\n    raise KeyError(os.getpid())\nrow_softmax = one_hot = who\n"


def test_exercises_share_a_process(sandbox: Sandbox) -> None:
    assert len({*probed(sandbox, WHO, "row_softmax", "one_hot", "row_softmax")}) == 1


@pytest.mark.parametrize(
    ("leaves", "how"),
    [
        ("os._exit(3)", "exit 3"),
        ("threading.Thread(target=time.sleep, args=[60], daemon=True).start()", ""),
        ("os.fork() or time.sleep(60)", ""),
        ("threading.Timer(0.05, os._exit, [5]).start(); time.sleep(0.5)", "exit 5"),
        ("while True:\n        try:\n            while True: pass\n        except BaseException: pass", "timeout"),
    ],
    ids=["ends", "leaves a thread", "leaves a process", "is ended from a thread", "cannot be stopped"],
)
def test_what_an_exercise_leaves_is_not_there_for_the_next(sandbox: Sandbox, leaves: str, how: str) -> None:
    spoiling = f"{WHO}def describe(t):\n    {leaves}\n    who()\n"
    before, this, after, last = probed(sandbox, spoiling, "row_softmax", "describe", "one_hot", "row_softmax")
    assert this == (how or before), "it shared the process of the exercise before it"
    assert before != after == last
    assert states(sandbox, "x = 1") == ["done"]


def test_one_that_ended_between_exercises_is_not_the_next_ones_fault(sandbox: Sandbox) -> None:
    kills = "if os.fork() == 0:\n    for _ in range(1000):\n        time.sleep(0.01)\n"
    kills += "        if os.path.exists('/tmp/who'):\n"
    kills += "            time.sleep(0.2); os.kill(int(open('/tmp/who').read()), 9); os._exit(0)\n    os._exit(0)\n"
    tells = "def describe(t):\n    open('/tmp/.who', 'w').write(str(os.getpid()))\n"
    tells += "    os.rename('/tmp/.who', '/tmp/who')\n    who()\n"
    this, after, last = probed(sandbox, WHO + kills + tells, "describe", "one_hot", "row_softmax", pause=1.0)
    assert this != after == last


def test_one_that_ends_in_the_middle_of_several_cases_leaves_none_of_them_behind(sandbox: Sandbox) -> None:
    cell = "import os\ncalls = []\ndef row_softmax(x):\n    calls.append(1)\n    len(calls) == 3 and os._exit(7)\n"
    cell += "    return x\ndef one_hot(*_):\n    raise KeyError(len(calls))\n"
    cases = {o.exercise.name: o.packed for o in oracles("01_tensors")}
    with sandbox.job("cpu", [cell], []) as job:
        job.receive(120)
        job.send(order("row_softmax"))
        assert job.receive(120) == {"answer": "callable"}
        job.ask(cases["row_softmax"][:5])
        assert job.receive(120) == {"ended": "exit 7"}
        job.send(order("one_hot"))
        assert job.receive(120) == {"answer": "callable"}
        job.ask(cases["one_hot"][:2])
        assert [job.receive(120)["seen"]["raised"].message for _ in range(2)] == ["0", "0"]
        job.send({"do": "done"})
        assert job.receive(120) == {"ended": "done"}


@pytest.mark.parametrize("lane", ["cpu", "simulated"])
def test_where_time_is_up_the_cases_after_that_cost_none(sandbox: Sandbox, lane: str) -> None:
    cell = "calls = []\ndef row_softmax(x):\n    calls.append(1)\n    while len(calls) > 2: pass\n    return x\n"
    cases = next(o.packed for o in oracles("01_tensors") if o.exercise.name == "row_softmax")
    with sandbox.job(lane, [cell], []) as job:
        job.receive(120)
        job.send(order("row_softmax", seconds=1.0))
        job.receive(120)
        job.ask(cases[:6])
        began = time.monotonic()
        replies = [job.receive(120) for _ in range(3 if lane == "cpu" else 6)]
        assert time.monotonic() - began < 10
    assert [list(reply) for reply in replies[:3]] == [["seen"], ["seen"], ["ended"]]
    assert all(reply == {"ended": "timeout"} for reply in replies[2:])


def test_one_that_ends_before_it_says_what_the_answer_is_makes_nobody_wait(sandbox: Sandbox) -> None:
    dead = "import os\nclass Meta(type):\n    __name__ = property(lambda c: os._exit(3))\n"
    dead += "class Dead(metaclass=Meta): pass\nrow_softmax = Dead()"
    with sandbox.job("cpu", [dead], []) as job:
        job.receive(120)
        job.send(order("row_softmax"))
        assert job.receive(120) == {"ended": "exit 3"}
        job.send({"do": "done"})
        with pytest.raises(LostError):
            job.receive(20)


def test_autograds_threads_may_all_begin_at_once_in_a_forked_process(tmp_path: Path) -> None:
    """One run in fourteen died of it, at the first backward after something was compiled."""
    write_solved(tmp_path, ["08_compile"], 1)
    notebook = tmp_path / "student000000" / "08_compile" / "08_compile.ipynb"
    cells = read_submission(notebook, "ada", "08_compile").to_run()
    first = next(place for place, source in enumerate(cells) if ".backward()" in source)
    compiling = Sandbox(number=15, modules=imports("08_compile"))
    try:
        for _ in range(40):
            assert "died" not in states(compiling, *cells[: first + 1], lane="simulated")
    finally:
        compiling.close()


def test_who_sets_a_timer_is_followed_by_a_new_process(sandbox: Sandbox) -> None:
    sets = f"{WHO}import signal\ndef describe(t):\n    signal.setitimer(signal.ITIMER_VIRTUAL, 60)\n    who()\n"
    who = probed(sandbox, sets, "row_softmax", "describe", "one_hot")
    assert who[0] == who[1] != who[2]


def test_who_keeps_much_memory_is_followed_by_a_new_process() -> None:
    keeps = f"{WHO}held = []\ndef describe(t):\n    held.append(b'x' * (270 << 20))\n    who()\n"
    roomy = Sandbox(number=14)
    try:
        who = probed(roomy, keeps, "row_softmax", "describe", "one_hot")
    finally:
        roomy.close()
    assert who[0] == who[1] != who[2]
