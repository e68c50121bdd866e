"""A grader with one layer taken away, and bounded attacks on it: the checks of the other tests notice.

A check that every grader passes shows nothing. Each attack here ends by itself and asks for little more than its limit;
the same check that it passes with the limit has to fail without.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from autograde.batch.grading import LessonGrader
from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.judge.submission import read_submission
from autograde.sandbox.inside import seccomp
from autograde.sandbox.sandbox import Sandbox
from autograde.settings import LIMITS, MIB
from tests.support.alone import alone
from tests.support.attacks import LESSON, TARGET
from tests.support.sandboxed import running

pytestmark = pytest.mark.sandbox

STRICT = dataclasses.replace(
    LIMITS, cell_seconds=0.5, exercise_seconds=0.5, wall_clock_factor=120.0, data_bytes=1024 * MIB, file_bytes=16 * MIB,
    processes=20, reply_bytes=1 * MIB, observations_bytes=2 * MIB, device_seconds=1800.0, submission_seconds=1800.0,
)  # fmt: skip
ATTACKS: dict[str, tuple[str, set[str], dict[str, Any]]] = {
    # by what is limited: the answer, the verdicts it must get, and the limits that are taken away
    "processes": (
        "import os, time\nfor _ in range(30):\n    if os.fork() == 0:\n        time.sleep(2)\n        os._exit(0)\n"
        "def row_softmax(x):\n    return x",
        {"error", "crashed"}, {"processes": 500},
    ),
    "memory": (
        "def row_softmax(x):\n    held = bytearray(1200 << 20)\n    return x",  # asked for, and not touched
        {"memory"}, {"data_bytes": 4096 * MIB},
    ),
    "a file's size": (
        "def row_softmax(x):\n    with open('/tmp/f', 'wb') as file:\n        file.truncate(20 << 20)\n    return x",
        {"error", "crashed"}, {"file_bytes": 64 * MIB},
    ),
    "CPU time": (
        "import time\ndef row_softmax(x):\n    while time.process_time() < 1.2:\n        pass\n    return x",
        {"timeout"}, {"exercise_seconds": 60.0},
    ),
    "CPU time of children": (
        "import os, time\nchildren = [1, 2, 3]\ndef row_softmax(x):\n"
        "    while children:\n        children.pop()\n        if (child := os.fork()) == 0:\n"
        "            while time.process_time() < 1.2:\n                pass\n            os._exit(0)\n"
        "        os.waitpid(child, 0)\n    return x",
        {"timeout"}, {"exercise_seconds": 60.0},
    ),
    "a cell's time": (
        "import time\nwhile time.process_time() < 1.2:\n    pass\ndef row_softmax(x):\n    return x",
        {"timeout"}, {"cell_seconds": 60.0},
    ),
    "an observation": (
        "def row_softmax(x):\n    return torch.zeros(1 << 19)",
        {"error"}, {"reply_bytes": 8 * MIB, "observations_bytes": 64 * MIB},
    ),
    "all observations": (
        "def row_softmax(x):\n    return torch.zeros(1 << 17)", {"memory"}, {"observations_bytes": 64 * MIB},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def examiner() -> LessonGrader:
    return LessonGrader(LESSON)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with closing(Sandbox(STRICT, number=14)) as made:
        yield made


def is_held(examiner: LessonGrader, sandbox: Sandbox, folder: Path, what: str) -> bool:
    """Whether the attack gets a verdict that it must get, and no points."""
    answer, allowed, _ = ATTACKS[what]
    path = write_notebook(folder, "ann", LESSON, answered_notebook(LESSON, {TARGET: answer}))
    graded = examiner.grade(sandbox, read_submission(path, "ann", LESSON))
    (verdict,) = (v for v in graded.verdicts if v.exercise == TARGET)
    assert verdict.score == 0
    return verdict.status in allowed


@pytest.mark.parametrize("what", ATTACKS)
def test_an_attack_is_held_by_its_limit_and_not_without_it(
    examiner: LessonGrader, sandbox: Sandbox, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_held(examiner, sandbox, tmp_path, what)
    monkeypatch.setattr(sandbox, "limits", dataclasses.replace(STRICT, **ATTACKS[what][2]))
    assert not is_held(examiner, sandbox, tmp_path, what)


def test_without_a_namespace_of_processes_what_stays_is_noticed() -> None:
    """The check that `test_what_is_started_in_the_box_ends_with_it` makes, of a process that is started outside."""
    leave = "import subprocess, sys\n"
    leave += "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(37.123)'], "
    leave += "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True).pid)"
    done = alone(leave)
    left = running("37.123")
    os.kill(int(done.stdout), signal.SIGKILL)
    assert int(done.stdout) in left


def test_without_the_filter_a_call_that_leaves_something_is_noticed() -> None:
    """In two processes that end with this test: one refuses itself the calls, one does not."""
    look = "import ctypes, json, sys\nsys.path.insert(0, sys.argv[1])\nimport seccomp\n"
    look += "held = sys.argv[2] == 'held' and seccomp.install_filter()\n"
    look += "print(json.dumps([held, ctypes.CDLL(None).memfd_create(b'x', 0) >= 0]))"
    folder = str(Path(seccomp.__file__).parent)
    for how, wanted in (("held", [True, False]), ("open", [False, True])):
        done = alone(look, folder, how)
        assert json.loads(done.stdout) == wanted
