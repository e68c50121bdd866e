"""Probing in a sandbox: what an exercise does to its process is not there for the next."""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from autograde.judge.oracle import oracles
from autograde.judge.submission import read_submission
from autograde.sandbox.inside.limits import cpu_time_limit
from autograde.sandbox.job import LostError
from autograde.sandbox.sandbox import Sandbox
from autograde.settings import LIMITS
from tests.support.sandboxed import states
from tests.support.solved import write_solved
from torchcourse.checking.check import TimeIsUpError
from torchcourse.model.catalogue import imports
from torchcourse.model.notebook_file import normalized

pytestmark = pytest.mark.sandbox

QUICK = dataclasses.replace(LIMITS, cell_seconds=3.0, exercise_seconds=3.0, processes=40, data_bytes=1 << 30)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with closing(Sandbox(QUICK, number=16)) as made:
        yield made


def order(exercise: str, seconds: float = 3.0) -> dict[str, Any]:
    """Return the request to probe an exercise."""
    return {"do": "probe", "exercise": exercise, "seconds": seconds, "wall_clock_factor": 3.0, "max_bytes": 1 << 20}


def probed(sandbox: Sandbox, cell: str, *names: str, pause: float = 0.0) -> list[str]:
    """Return the message of each answer's exception in its first case, or how its probing ended.

    Args:
        pause: seconds between two exercises.
    """
    found = []
    first = {o.exercise.name: o.packed[0] for o in oracles("01_tensors") if o.exercise.name in names}
    with sandbox.job("cpu", [cell], []) as job:
        job.receive(120)
        for name in names:
            job.send(order(name))
            job.receive(120)
            job.send_cases([first[name]])
            reply = job.receive(120)
            found.append(str(reply["seen"]["raised"].message if "seen" in reply else reply["ended"]))
            if "seen" in reply:
                job.send({"do": "done"})
                assert job.receive(120) == {"ended": "done"}
            time.sleep(pause)
    return found


WHO = """
import os, signal, threading, time
held = []
def who(*_, **__):
    raise KeyError(os.getpid())
row_softmax = one_hot = who
"""


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
        ("signal.setitimer(signal.ITIMER_VIRTUAL, 60)", ""),
        ("held.append(b'x' * (270 << 20))", ""),
    ],
    ids=["ends", "leaves a thread", "leaves a process", "is ended from a thread", "cannot be stopped", "sets a timer",
         "keeps much memory"],
)  # fmt: skip
def test_what_an_exercise_leaves_is_not_there_for_the_next(sandbox: Sandbox, leaves: str, how: str) -> None:
    spoiling = f"{WHO}def describe(t):\n    {leaves}\n    who()\n"
    before, this, after, last = probed(sandbox, spoiling, "row_softmax", "describe", "one_hot", "row_softmax")
    assert this == (how or before), "it shared the process of the exercise before it"
    assert before != after == last
    assert states(sandbox, "x = 1") == ["done"]


def test_a_prober_that_ended_between_exercises_costs_the_next_one_nothing(sandbox: Sandbox) -> None:
    kills = "if os.fork() == 0:\n    for _ in range(1000):\n        time.sleep(0.01)\n"
    kills += "        if os.path.exists('/tmp/who'):\n"
    kills += "            time.sleep(0.2); os.kill(int(open('/tmp/who').read()), 9); os._exit(0)\n    os._exit(0)\n"
    tells = "def describe(t):\n    open('/tmp/.who', 'w').write(str(os.getpid()))\n"
    tells += "    os.rename('/tmp/.who', '/tmp/who')\n    who()\n"
    this, after, last = probed(sandbox, WHO + kills + tells, "describe", "one_hot", "row_softmax", pause=1.0)
    assert this != after == last


def test_a_prober_that_ends_in_the_middle_of_several_cases_leaves_none_of_them_behind(sandbox: Sandbox) -> None:
    cell = "import os\ncalls = []\ndef row_softmax(x):\n    calls.append(1)\n    len(calls) == 3 and os._exit(7)\n"
    cell += "    return x\ndef one_hot(*_):\n    raise KeyError(len(calls))\n"
    cases = {o.exercise.name: o.packed for o in oracles("01_tensors")}
    with sandbox.job("cpu", [cell], []) as job:
        job.receive(120)
        job.send(order("row_softmax"))
        assert job.receive(120) == {"answer": "callable"}
        job.send_cases(cases["row_softmax"][:5])
        assert job.receive(120) == {"ended": "exit 7"}
        job.send(order("one_hot"))
        assert job.receive(120) == {"answer": "callable"}
        job.send_cases(cases["one_hot"][:2])
        assert [job.receive(120)["seen"]["raised"].message for _ in range(2)] == ["0", "0"]
        job.send({"do": "done"})
        assert job.receive(120) == {"ended": "done"}


@pytest.mark.parametrize("device", ["cpu", "simulated"])
def test_once_time_is_up_the_remaining_cases_take_none(sandbox: Sandbox, device: str) -> None:
    cell = "calls = []\ndef row_softmax(x):\n    calls.append(1)\n    while len(calls) > 2: pass\n    return x\n"
    cases = next(o.packed for o in oracles("01_tensors") if o.exercise.name == "row_softmax")
    with sandbox.job(device, [cell], []) as job:
        job.receive(120)
        job.send(order("row_softmax", seconds=4.0))
        job.receive(120)
        job.send_cases(cases[:6])
        began = time.monotonic()
        replies = [job.receive(120) for _ in range(3 if device == "cpu" else 6)]
        assert time.monotonic() - began < 4 * 4.0, "each of the last four cases took the time of all"
    assert [list(reply) for reply in replies[:3]] == [["seen"], ["seen"], ["ended"]]
    assert all(reply == {"ended": "timeout"} for reply in replies[2:])


def test_a_prober_that_ends_before_it_names_the_answers_type_makes_nobody_wait(sandbox: Sandbox) -> None:
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
    submission = read_submission(notebook, "ada", "08_compile")
    backward = next(cell.source for cell in submission.cells if ".backward()" in cell.source)
    included = frozenset([*submission.release.examples, normalized(backward)])
    cells = [cell.source for cell in submission.cells_to_run(included)]
    with closing(Sandbox(number=15, modules=imports("08_compile"))) as compiling:
        for _ in range(40):
            assert "died" not in states(compiling, *cells[: cells.index(backward) + 1], device="simulated")


def test_a_runner_that_an_exception_ends_says_which(sandbox: Sandbox) -> None:
    cell = "import os, signal, threading\ndef stop(*_):\n    raise ZeroDivisionError\n"
    cell += "signal.signal(signal.SIGUSR1, stop)\n"
    cell += "threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGUSR1]).start()"
    with sandbox.job("cpu", [cell], []) as job:
        job.receive(120)
        with pytest.raises(LostError, match=r"the runner ended: 70 \(ZeroDivisionError\)"):
            job.receive(120)


def test_a_time_limit_that_is_over_raises_no_more() -> None:
    """The signal may arrive while the timers are being stopped, and nobody would catch its exception then."""
    before = signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGPROF)
    try:
        with cpu_time_limit(60.0, 3.0), pytest.raises(TimeIsUpError):
            signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGPROF)
    finally:
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGPROF, before[1])
