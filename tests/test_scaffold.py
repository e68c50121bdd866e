"""A new exercise: its parts are put in place whole or not at all, load, and say what is left to write."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from autograde import course, rewatch, scaffold
from autograde.rewatch import changes, watched
from autograde.scaffold import ScaffoldError, left
from torchcourse.exercise import LESSONS, UnknownExerciseError, exercises

LESSON = "01_tensors"
PARTS = ("lesson", "exercises", "hidden", "right", "why")


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that a scaffold changes, in a folder of their own."""
    for path in [path for lesson in LESSONS for path in scaffold.files(lesson).values()]:
        target = tmp_path / path.relative_to(course.ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    shutil.copy(course.ROOT / "pyproject.toml", tmp_path)
    monkeypatch.setattr(course, "SOLUTIONS", tmp_path / "solutions")
    monkeypatch.setattr(course, "AUTOGRADE", tmp_path / "autograde")
    monkeypatch.setattr(course, "ROOT", tmp_path)
    return tmp_path


def texts(lesson: str) -> dict[str, str]:
    return {kind: path.read_text() for kind, path in scaffold.files(lesson).items()}


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_parts_come_behind_those_of_the_other_and_lines_are_only_added(copy: Path, lesson: str) -> None:
    """Behind the first exercise a function, behind the last a class."""
    first, *_, last = exercises(lesson)
    added_behind(lesson, "fold_rows", first)
    added_behind(lesson, "RowFolder", last)
    # the order of imports could only be judged with all modules beside these
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--ignore", "I001", "."]
    said = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout


def added_behind(lesson: str, name: str, after: str) -> None:
    before = texts(lesson)
    scaffold.scaffold(lesson, name, after)
    made = texts(lesson)
    for kind in PARTS:
        old, new = (tuple(line for line in text[kind].splitlines() if line) for text in (before, made))
        rest = iter(line.rstrip(",") for line in new)
        assert len(new) > len(old)
        assert all(line.rstrip(",") in rest for line in old if after not in line), kind
    order = [line for line in made["lesson"].splitlines() if line.startswith("# %% check=")]
    assert order.index(f'# %% check="{name}"') == order.index(f'# %% check="{after}"') + 1
    for kind, table in zip(PARTS[1:4], ("EXERCISES", "MISTAKES", "RIGHT"), strict=True):
        value = scaffold._assigned(ast.parse(made[kind]), table)
        names = [ast.unparse(item) for item in getattr(value, "keys", getattr(value, "elts", ()))]
        assert sum(name in item for item in names) == 1
    reasons = list(tomllib.loads(made["why"])[lesson])
    assert reasons.index(name) == reasons.index(after) + 1
    assert [place.path.parts[0] for place in left(lesson, name)].count("src") == 5
    (reason,) = (place for place in left(lesson, name) if place.path.name == "why.toml")
    assert reason.what == "in 20 to 70 words why the answer is written as it is"


@pytest.mark.parametrize(
    ("name", "after", "says"),
    [
        ("fold rows", "row_softmax", "no name for a function"),
        ("class", "row_softmax", "no name for a function"),
        ("sum", "row_softmax", "a name of Python's own"),
        ("one_hot", "row_softmax", "01_tensors has an exercise 'one_hot' already"),
        ("BatchNorm", "row_softmax", "03_modules has an exercise 'BatchNorm' already"),
        ("np", "row_softmax", "has something else called np"),
        ("fold_rows", "row_softmx", "01_tensors has no exercise 'row_softmx'"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_written(copy: Path, name: str, after: str, says: str) -> None:
    before = texts(LESSON)
    with pytest.raises(ScaffoldError, match=says):
        scaffold.scaffold(LESSON, name, after)
    assert texts(LESSON) == before


def test_a_file_that_is_not_as_others_are_is_named_and_nothing_is_written(copy: Path) -> None:
    path = scaffold.files(LESSON)["right"]
    path.write_text("RIGHT = dict()\n")
    before = texts(LESSON)
    with pytest.raises(ScaffoldError, match="the table RIGHT has no row_softmax"):
        scaffold.scaffold(LESSON, "fold_rows", "row_softmax")
    assert texts(LESSON) == before
    with pytest.raises(UnknownExerciseError, match="Did you mean '01_tensors'"):
        scaffold.scaffold("01_tensor", "fold_rows", "row_softmax")


def test_a_file_of_reasons_that_takes_no_line_is_named_and_nothing_is_written(copy: Path) -> None:
    path = scaffold.files(LESSON)["why"]
    reason = "row_softmax = "
    text = path.read_text()
    for broken, says in (
        (text.replace(f"\n{reason}", "\nother = "), "does not say why row_softmax"),
        (text.replace(f"\n{reason}", f'\n{reason}"""\n""" #'), "takes no line behind that of row_softmax"),
        (text.replace(f"\n{reason}", f"\nfold_rows = 1\n{reason}"), "takes no line behind that of row_softmax"),
    ):
        path.write_text(broken)
        before = texts(LESSON)
        with pytest.raises(ScaffoldError, match=says):
            scaffold.scaffold(LESSON, "fold_rows", "row_softmax")
        assert texts(LESSON) == before


SAYS = """
import json, sys
from autograde.scaffold import scaffold
scaffold("01_tensors", "fold_rows", "row_softmax")
from torchcourse import exercise
exercise.exercises.cache_clear()
for name in ("torchcourse.exercises.tensors", "autograde.hidden.tensors"):
    sys.modules.pop(name, None)
from autograde.verifying import verify
print(json.dumps([[claim.holds, claim.says] for claim in verify(["01_tensors:fold_rows"])]))
"""


def test_a_scaffold_loads_and_verify_says_what_is_left(tmp_path: Path) -> None:
    leave_out = shutil.ignore_patterns("build", "__pycache__", "*.egg-info")
    for folder in ("src", "autograde", "solutions", "notebooks", "tests/right"):
        shutil.copytree(course.ROOT / folder, tmp_path / folder, ignore=leave_out)
    shutil.copy(course.ROOT / "tests" / "syllabus.json", tmp_path / "tests")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}"}
    env["TORCHCOURSE_ACCELERATOR"] = "simulated"
    command = [sys.executable, "-c", SAYS]
    said = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr[-3000:]
    claims = json.loads(said.stdout)
    broken = [says for holds, says in claims if not holds]
    assert [says.partition(": ")[0].rpartition(":")[0] for says in broken if says.startswith("still to be")] == [
        *["still to be written, solutions/01_tensors.py"] * 3,
        "still to be written, solutions/why.toml",
        *["still to be written, src/torchcourse/exercises/tensors.py"] * 5,
        *["still to be written, autograde/hidden/tensors.py"] * 2,
        "still to be written, tests/right/tensors.py",
    ]
    rest = [says for says in broken if not says.startswith("still to be")]
    assert [" ".join(says.split()[:4]) for says in rest] == [
        "tests/syllabus.json does not list", "the notebook does not", "the reference raises in",
        "0 other right answers,", "0 known mistakes, of", "what the notebook judges",
    ]  # fmt: skip


# Watching


def test_what_a_lesson_depends_on_is_watched() -> None:
    paths = [path.relative_to(course.ROOT).as_posix() for path in watched([f"{LESSON}:row_softmax"])]
    assert {"solutions/01_tensors.py", "autograde/hidden/tensors.py", "tests/right/tensors.py",
            "src/torchcourse/exercises/looking.py", "notebooks/01_tensors.ipynb"} <= set(paths)  # fmt: skip
    assert "solutions/02_autograd.py" not in paths
    assert all((course.ROOT / path).exists() for path in paths)
    assert len(watched([])) > len(paths)


def test_a_change_is_told_once_also_of_a_file_that_goes_or_comes(tmp_path: Path) -> None:
    one, other, still = (tmp_path / name for name in ("one", "other", "still"))
    one.write_text("1")
    still.write_text("3")
    found = changes([one, other, still], seconds=0.01)

    def edit() -> None:
        one.write_text("12")
        other.write_text("2")

    timer = threading.Timer(0.1, edit)
    timer.start()
    assert next(found) == [one, other]
    timer = threading.Timer(0.1, one.unlink)
    timer.start()
    assert next(found) == [one]


def test_what_changed_is_proven_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from typer import Exit

    from autograde.author_commands import keep_verifying

    proven: list[list[str]] = []

    def interrupted(which: list[str]) -> int:
        proven.append(which)
        if len(proven) == 3:
            raise KeyboardInterrupt
        return 0

    lesson = course.SOLUTIONS / f"{LESSON}.py"
    monkeypatch.setattr(rewatch, "prove_anew", interrupted)
    monkeypatch.setattr(rewatch, "changes", lambda paths: iter([[lesson], [lesson]]))
    with pytest.raises(Exit):
        keep_verifying([LESSON])
    assert proven == [[LESSON]] * 3
    assert "changed: solutions/01_tensors.py" in capsys.readouterr().out
