"""A new exercise: two files and three cells in their first form, which load and say what is left to write."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograde.course.scaffold import ScaffoldError, exercise_files, new_exercise, todos
from autograde.course.watch import watched
from autograde.source import paths
from tests.support.waiting import eventually
from torchcourse.model.catalogue import LESSONS

LESSON = "01_tensors"


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that a new exercise is written to, in a folder of their own."""
    shutil.copytree(paths.SOLUTIONS, tmp_path / "solutions")
    shutil.copy(paths.ROOT / "pyproject.toml", tmp_path)
    for name, place in (("SOLUTIONS", "solutions"), ("AUTOGRADE", "autograde"), ("ROOT", "")):
        monkeypatch.setattr(paths, name, tmp_path / place)
    return tmp_path


@pytest.mark.parametrize(
    ("lesson", "after"), [(LESSON, "describe"), (LESSON, "attention_scores"), ("09_persistence", "EMA")]
)
@pytest.mark.parametrize("name", ["fold_rows", "RowFolder"])
def test_it_comes_behind_the_other_and_lines_are_only_added(copy: Path, lesson: str, after: str, name: str) -> None:
    script = exercise_files(lesson, name)[0]
    before = script.read_text().splitlines()
    written = new_exercise(lesson, name, after)
    assert written == exercise_files(lesson, name)
    lines = iter(script.read_text().splitlines())
    assert all(line in lines for line in before)
    order = [line for line in script.read_text().splitlines() if line.startswith("# %% check=")]
    assert order.index(f'# %% check="{name}"') == order.index(f'# %% check="{after}"') + 1
    assert [todo.path for todo in todos(lesson, name)].count(written[1].relative_to(copy)) == 5
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--ignore", "I001", "."]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "after", "says"),
    [
        ("fold rows", "row_softmax", "not a name for a function"),
        ("class", "row_softmax", "not a name for a function"),
        ("sum", "row_softmax", "a built-in name of Python"),
        ("one_hot", "row_softmax", "01_tensors has an exercise 'one_hot' already"),
        ("batch_norm", "row_softmax", "03_modules has an exercise 'BatchNorm' already"),
        ("fold_rows", "row_softmx", "01_tensors has no exercise 'row_softmx'"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(copy: Path, name: str, after: str, says: str) -> None:
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    with pytest.raises(ScaffoldError, match=says):
        new_exercise(LESSON, name, after)
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


def test_an_exercise_whose_check_cell_is_not_written_yet_is_named(copy: Path) -> None:
    script = exercise_files(LESSON, "fold_rows")[0]
    script.write_text(script.read_text().replace('# %% check="row_softmax"', "# %%"))
    with pytest.raises(ScaffoldError, match="has no check cell of 'row_softmax'; add it first"):
        new_exercise(LESSON, "fold_rows", "row_softmax")


SAYS = """
import json
from autograde.course.scaffold import new_exercise
new_exercise("01_tensors", "fold_rows", "row_softmax")
from torchcourse.model import catalogue
catalogue.exercises.cache_clear()
from autograde.course.verify import verify
print(json.dumps([[claim.holds, claim.says] for claim in verify(["01_tensors:fold_rows"])]))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course to add to."""
    made = tmp_path_factory.mktemp("checkout")
    leave_out = shutil.ignore_patterns("build", "__pycache__", "*.egg-info")
    for folder in ("src", "autograde", "solutions", "notebooks"):
        shutil.copytree(paths.ROOT / folder, made / folder, ignore=leave_out)
    return made


def environment(checkout: Path) -> dict[str, str]:
    path = f"{checkout / 'src'}{os.pathsep}{checkout}"
    return {**os.environ, "PYTHONPATH": path, "TORCHCOURSE_ACCELERATOR": "simulated"}


def test_the_first_form_loads_and_verify_says_what_is_left(checkout: Path) -> None:
    command = [sys.executable, "-c", SAYS]
    done = subprocess.run(command, cwd=checkout, env=environment(checkout), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    broken = [says for holds, says in json.loads(done.stdout) if not holds]
    assert [says.partition(": ")[0].rpartition(":")[0] for says in broken if says.startswith("still to be")] == [
        *["still to be written, solutions/01_tensors.py"] * 3,
        *["still to be written, src/torchcourse/exercises/tensors/fold_rows.py"] * 5,
        *["still to be written, autograde/hidden/tensors/fold_rows.py"] * 5,
    ]
    rest = [says for says in broken if not says.startswith("still to be")]
    assert [" ".join(says.split()[:4]) for says in rest] == [
        "the notebook does not", "the reference raises in", "0 other right answers,", "0 known mistakes, of",
        "what the notebook checks",
    ]  # fmt: skip


def test_verify_runs_again_after_a_change_and_ends_when_interrupted(checkout: Path) -> None:
    assert all(folder.is_dir() for folder in watched())
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a background job ignores it
    code += "from torchcourse.cli import main; main()"
    command = [sys.executable, "-u", "-c", code, "verify", "01_tensors:describe", "--watch"]
    log = checkout / "log"
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=checkout, env=environment(checkout), stdout=out, stderr=out)
    try:
        wait_for(log, "Waiting for a change", 1)
        time.sleep(1.0)  # the watcher begins right after it prints this
        script = checkout / "solutions" / "01_tensors.py"
        script.write_text(script.read_text() + "\n")
        wait_for(log, "Waiting for a change", 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
    assert "changed: solutions/01_tensors.py" in log.read_text()


def wait_for(log: Path, words: str, times: int) -> None:
    """Wait until `words` have been printed so many times."""
    eventually(lambda: log.read_text().count(words) >= times, 120, log.read_text)


def test_every_lesson_has_its_two_folders() -> None:
    for topic in LESSONS.values():
        public = {path.name for path in (paths.ROOT / "src" / "torchcourse" / "exercises" / topic).glob("*.py")}
        private = {path.name: path.read_text() for path in (paths.AUTOGRADE / "hidden" / topic).glob("*.py")}
        assert public <= private.keys()
        for helper in private.keys() - public:
            imported = f"from autograde.hidden.{topic}.{helper.removesuffix('.py')} import"
            assert any(imported in text for text in private.values()), f"nothing uses {helper}"
