"""The `torchcourse` command, run as people run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from autograde import course
from autograde.commands import join
from torchcourse.desk import copy_notebooks

BESIDE = Path(sys.executable).parent


def torchcourse(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [BESIDE / "torchcourse", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def in_this_process(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> tuple[int, str]:
    """Exit status and output of a command that starts no process of its own, without its seconds of imports."""
    monkeypatch.setattr(sys, "argv", ["torchcourse", *map(str, arguments)])
    monkeypatch.setenv("TORCHCOURSE_ACCELERATOR", "simulated")
    app = typer.Typer()
    join(app)
    said = CliRunner().invoke(app, sys.argv[1:])
    return said.exit_code, said.output


def test_help_lists_the_learners_and_the_instructors_commands() -> None:
    said = torchcourse("--help")
    assert said.returncode == 0
    for command in ("lab", "status", "check", "reset", "update", "doctor", "build", "grade", "sample", "verify"):
        assert command in said.stdout


def test_without_the_instructors_folder_only_the_learners_commands_are_there(tmp_path: Path) -> None:
    shutil.copytree(course.ROOT / "src" / "torchcourse", tmp_path / "src" / "torchcourse")
    code = "import sys; sys.argv = ['torchcourse', '--help']; from torchcourse.cli import main; main()"
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "lab" in said.stdout
    assert "grade" not in said.stdout


@pytest.mark.parametrize("command", ["grade", "build", "verify"])
def test_an_unknown_lesson_is_named_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, command: str, tmp_path: Path
) -> None:
    more = ["--submitted", tmp_path, "--out", tmp_path / "out"] if command == "grade" else []
    status, said = in_this_process(monkeypatch, command, "01_tensor", *more)
    assert status == 2
    assert "Did you mean '01_tensors'?" in said
    assert "Traceback" not in said


def test_a_missing_folder_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folders = ["--submitted", tmp_path / "none", "--out", tmp_path / "out"]
    status, said = in_this_process(monkeypatch, "grade", "01_tensors", *folders)
    assert status == 2
    assert "is no folder" in said
    assert not (tmp_path / "out").exists()


def test_grading_is_refused_where_nothing_isolates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    folders = ["--submitted", tmp_path, "--out", tmp_path / "out"]
    status, said = in_this_process(monkeypatch, "grade", "01_tensors", *folders)
    assert status == 2
    assert "not run without isolation" in said
    assert not (tmp_path / "out").exists()


def test_what_is_loaded_is_not_searched_for_garbage_and_brings_no_grammar() -> None:
    program = """
import gc, sys
from autograde.commands import GRAMMAR, _loading
for wrong in (False, True):
    try:
        with _loading():
            assert not gc.isenabled()
            import jsonschema
            assert 1 / (not wrong)
    except ZeroDivisionError:
        pass
    assert gc.isenabled() and gc.get_freeze_count() > 1000
    assert GRAMMAR not in sys.modules
import importlib
sys.modules[GRAMMAR] = json = importlib.import_module("json")
with _loading():
    pass
assert sys.modules[GRAMMAR] is json
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(course.ROOT), str(course.ROOT / "src")])}
    subprocess.run([sys.executable, "-c", program], check=True, env=env, timeout=120)


@pytest.mark.sandbox
def test_a_class_without_submissions_is_graded_to_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    said = torchcourse("grade", "01_tensors", "--submitted", tmp_path / "class", "--out", tmp_path / "out")
    assert said.returncode == 0, said.stdout + said.stderr
    header = "student,lesson,exercise,score,max_score,status,misconception,message\n"
    assert (tmp_path / "out" / "grades.csv").read_text() == header


def test_verify_proves_one_exercise(tmp_path: Path) -> None:
    said = torchcourse("verify", "01_tensors:select_scores", cwd=tmp_path)
    assert said.returncode == 0, said.stdout
    assert said.stdout.endswith("Every claim holds.\n")
    assert "BROKEN" not in said.stdout


def test_the_working_copy_never_overwrites(tmp_path: Path) -> None:
    new = copy_notebooks(tmp_path / "mine")
    assert [p.name for p in new] == sorted(p.name for p in course.NOTEBOOKS.glob("*.ipynb"))
    new[0].write_text("my own work")
    assert copy_notebooks(tmp_path / "mine") == []
    assert new[0].read_text() == "my own work"


def validate(path: Path) -> str:
    env = {**os.environ, "HOME": str(path.parent), "JUPYTER_CONFIG_DIR": str(path.parent / "config")}
    command = [BESIDE / "nbgrader", "validate", str(path)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False).stdout


def test_nbgraders_validate_says_what_the_checks_say(tmp_path: Path) -> None:
    solved = json.loads((course.NOTEBOOKS / "01_tensors.ipynb").read_text())
    keep = ("select_scores", "check_select_scores")
    for cell in solved["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        if grade_id == "select_scores":
            cell["source"] = "def select_scores(scores, labels):\n    return scores.gather(1, labels[:, None])[:, 0]"
    setup = [c for c in solved["cells"] if "setup" in c["metadata"].get("tags", [])]
    graded = [c for c in solved["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") in keep]
    solved["cells"] = [*setup, *graded]
    path = tmp_path / "01_tensors.ipynb"
    path.write_text(json.dumps(solved))
    assert "Success! Your notebook passes all the tests." in validate(path)
    graded[0]["source"] = "def select_scores(scores, labels):\n    return scores[labels]"
    path.write_text(json.dumps(solved))
    said = validate(path)
    assert "VALIDATION FAILED" in said
    assert "select_scores: failed. The result has shape" in said
