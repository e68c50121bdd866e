"""Each file of exhaustion/ is one way to use up time, memory, processes or disk, with the verdict that it must get.

They are graded in a box (box.py) whose limits the first tests prove with small cases, and each ends by itself: none
asks for more than the box or this machine could give.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from tests.attacks.box import OTHERS, PROCESSES, run_in_box, scratch
from tests.support.attacks import LESSON, OTHER, RIGHT, TARGET, allowed_verdicts, attack_source
from tests.support.results import grade_rows
from tests.support.sandboxed import running

pytestmark = pytest.mark.sandbox

HERE = Path(__file__).parent / "exhaustion"
ATTACKS = sorted(path.stem for path in HERE.glob("*.py"))
MOST = PROCESSES + 20 + 2 * OTHERS
FORKS = f"""
import os, time
from tests.support.results import grade_rows
made = 0
try:
    for _ in range({MOST}):
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
        made += 1
except BlockingIOError:
    pass
print(made)
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with scratch() as made:
        yield made


def test_the_box_limits_processes(folder: Path) -> None:
    done = run_in_box("-c", FORKS, folder=folder, seconds=60)
    assert 1 < int(done.stdout.splitlines()[-1]) < MOST - 20, done.stderr


def test_the_box_limits_memory_and_files(folder: Path) -> None:
    ask = "import os\nassert os.getuid()\ntry:\n    bytearray(4 << 30)\nexcept MemoryError:\n    print('refused')\n"
    ask += "try:\n    os.truncate(os.open('f', 66), 1 << 30)\nexcept OSError:\n    print('refused')"
    ask = "import os, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nos.chdir(os.environ['HOME'])\n" + ask
    done = run_in_box("-c", ask, folder=folder, seconds=60)
    assert done.stdout.split() == ["refused", "refused"], done.stderr


def test_what_is_started_in_the_box_ends_with_it(folder: Path) -> None:
    leave = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(98765)'], "
    run_in_box("-c", leave + "start_new_session=True)", folder=folder, seconds=60)
    assert not running("98765")


Verdicts = dict[tuple[str, str], tuple[str, float]]


@pytest.fixture(scope="module")
def verdicts(folder: Path) -> Verdicts:
    """Status and score by student and exercise: attackers, and honest learners first, between and last."""
    for name in ["a_honest", *ATTACKS, "m_honest", "zz_honest"]:
        attack = {TARGET: attack_source(HERE / f"{name}.py")} if name in ATTACKS else {}
        write_notebook(folder / "class", name, LESSON, answered_notebook(LESSON, RIGHT | attack))
    program = str(Path(__file__).with_name("exhausting.py"))
    done = run_in_box(program, str(folder / "class"), str(folder / "out"), folder=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = grade_rows(folder / "out" / "grades.csv")
    return {(row["student"], row["exercise"]): (row["status"], float(row["score"])) for row in rows}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_gets_its_verdict_and_no_points(verdicts: Verdicts, name: str) -> None:
    status, score = verdicts[name, TARGET]
    assert status in allowed_verdicts(HERE / f"{name}.py")
    assert score == 0


@pytest.mark.parametrize("name", [name for name in ATTACKS if name != "answers_twice"])  # which may cost its others
def test_the_other_answer_of_the_same_notebook_keeps_its_points(verdicts: Verdicts, name: str) -> None:
    source = (HERE / f"{name}.py").read_text()
    least = 0.5 if "costs the notebook its second device" in source else 1.0
    assert verdicts[name, OTHER][1] in (least, 1.0)


@pytest.mark.parametrize("name", ["a_honest", "m_honest", "zz_honest"])
def test_honest_learners_keep_every_point(verdicts: Verdicts, name: str) -> None:
    assert {verdicts[name, exercise][0] for exercise in RIGHT} == {"passed"}
