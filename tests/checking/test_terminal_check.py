"""`torchcourse check`: a notebook checked from the terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.alone import COMMAND, alone
from tests.support.commands import run_command
from tests.support.working_copies import RIGHT, WRONG, answered
from torchcourse.checking import terminal_check
from torchcourse.checking.terminal_check import CodeCell, check_notebook, code_cells, needed
from torchcourse.model import notebook_file
from torchcourse.model.catalogue import exercises
from torchcourse.model.lessons import lessons
from torchcourse.model.notebook_file import (
    Notebook,
    cells,
    grade_id,
    read,
    write,
)
from torchcourse.workspace import progress

HELPER = "def shifted(x):\n    return x - x.amax(-1, keepdim=True)"


# Which cells are needed


@pytest.mark.parametrize(
    ("sources", "left_out"),
    [
        (["import torch", "def f(x): return torch.exp(x)", "y = 3"], ["y = 3"]),
        (["def helper(): return other()", "def other(): return 1", "def f(): return helper()"], []),
        (["x = 1", "def f(x): return x"], ["x = 1"]),
        (["a = {}", "a['key'] = 2", "b['key'] = 3", "def f(): return a"], ["b['key'] = 3"]),
        (["class A: pass", "A.size = 3", "def f(): return A()"], []),
        (["%matplotlib inline", "def f(): return 1"], []),
        (["from math import *", "def f(): return sin(1)"], []),
        (["for i in range(3): total = i", "def f(): return total"], []),
        (["def f( return", "def f(): return 1"], []),
        (["first, *rest = 1, 2", "def f(): return [rest for _ in first]", "with open('x') as g: pass"],
         ["with open('x') as g: pass"]),
        (["slow = train()", "f = lambda: 1"], ["slow = train()"]),
    ],
)  # fmt: skip
def test_a_cell_runs_if_it_assigns_a_name_that_is_needed(sources: list[str], left_out: list[str]) -> None:
    found = [terminal_check._code_cell(number, source, "") for number, source in enumerate(sources)]
    assert [cell.source for cell in needed(found, ["f"])] == [s for s in sources if s not in left_out]


def test_checks_and_demonstrations_do_not_run(mine: Path) -> None:
    notebook = read(mine)
    found = code_cells(notebook)
    run = {cell.number for cell in found}
    for number, cell in enumerate(cells(notebook), 1):
        skipped = "demo" in cell["metadata"].get("tags", []) or grade_id(cell).startswith("check_")
        assert (number in run) == (cell["cell_type"] == "code" and not skipped)
    few = needed(found, ["row_softmax"])
    assert [cell.grade_id for cell in few if cell.grade_id] == ["row_softmax"]
    assert len(few) < 5
    own = [CodeCell(1, "...", "row_softmax"), CodeCell(2, "x = 1")]
    assert needed(own, ["row_softmax"]) == own[:1], "the answer's own cell counts however its exercise is named"


# The command


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that know nothing of this one, in which autograd has run; the command forks where it has not."""
    monkeypatch.setattr(terminal_check, "START", "spawn")
    monkeypatch.setenv("PYTHONPATH", str(Path(terminal_check.__file__).parents[2]))


def test_the_command_reports_on_each_answer_and_notes_it(mine: Path) -> None:
    answered(mine, RIGHT, "%no_such_magic", HELPER, 'print("loud")')
    answered(mine, WRONG.replace("row_softmax", "masked_mean"), name="masked_mean")
    answered(mine, "def one_hot(labels, classes:\n    return 3", name="one_hot")
    code = f"import sys; sys.argv[0] = 'torchcourse'; {COMMAND}"
    done = alone(code, "check", "01_tensors", "row_softmax", "masked_mean", "one_hot", cwd=mine.parent)
    assert done.returncode == 1
    assert done.stderr == ""
    assert "row_softmax: Right." in done.stdout
    assert "masked_mean: " in done.stdout
    assert "loud" not in done.stdout
    assert "raised UsageError" in done.stdout
    assert "one_hot: An exception came up. Its cell raised SyntaxError" in done.stdout
    assert "Traceback" not in done.stdout
    assert done.stdout.endswith("1 of 3 passed.\n")
    assert progress.read(mine.parent) == {
        "row_softmax": "passed", "masked_mean": "attempted", "one_hot": "attempted",
    }  # fmt: skip


def test_all_exercises_get_a_summary_and_a_process_that_dies_is_said(
    mine: Path, capfd: pytest.CaptureFixture[str], fresh: None
) -> None:
    answered(mine, WRONG)
    assert check_notebook(mine) == 1
    printed = capfd.readouterr().out
    assert "row_softmax: Not right yet." in printed
    assert "wrong-dim" in printed
    assert "Not attempted: describe, " in printed
    assert printed.endswith(f"0 of {len(exercises('01_tensors'))} passed.\n")
    answered(mine, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n" + RIGHT)
    assert check_notebook(mine, ["row_softmax"]) == 2
    assert "ended by SIGKILL" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("name", "exercise", "words"),
    [
        ("01_tensor.ipynb", "", "Did you mean"),
        ("01_tensors.ipynb", "row_softmx", "Did you mean 'row_softmax'?"),
        ("01_tensors.ipynb", "LogSigmoid", "belongs to 02_autograd.ipynb"),
        ("START.ipynb", "", "no exercises"),
        ("half.ipynb", "", "not a complete notebook"),
        ("half.ipynb", "", "cp '{folder}/.ipynb_checkpoints/half-checkpoint.ipynb' '{folder}/half.ipynb'"),
        ("list.ipynb", "", "is not a notebook"),
        ("old.ipynb", "gone", "is of another release"),
        ("less/01_tensors.ipynb", "one_hot", "no cell of one_hot: it is of another release, or the cell was deleted."),
        ("less/01_tensors.ipynb", "one_hot", "torchcourse update {folder} brings it"),
    ],
)
def test_bad_input_is_one_message(mine: Path, name: str, exercise: str, words: str) -> None:
    folder, whole = mine.parent, read(mine)
    (folder / ".ipynb_checkpoints").mkdir()
    shutil.copyfile(mine, folder / ".ipynb_checkpoints" / "half-checkpoint.ipynb")
    (folder / "half.ipynb").write_text(mine.read_text()[:5000])
    (folder / "list.ipynb").write_text("[]")
    (folder / "START.ipynb").write_text('{"cells": []}')
    (folder / "less").mkdir()
    others = [cell for cell in whole["cells"] if not grade_id(cell).endswith("one_hot")]
    write(folder / "less" / mine.name, {**whole, "cells": others})
    whole["cells"][-1]["metadata"]["nbgrader"] = {"grade_id": "check_gone"}
    write(folder / "old.ipynb", whole)
    status, output = run_command("check", folder / name, *filter(None, [exercise]))
    assert status == 2
    assert words.format(folder=folder) in output.replace("\n", "")
    assert "Traceback" not in output


def test_a_notebook_is_found_by_its_name_here_or_in_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "01_tensors.ipynb").touch()
    assert notebook_file.find_notebook("01_tensors") == Path("work/01_tensors.ipynb")
    (tmp_path / "01_tensors.ipynb").touch()
    assert notebook_file.find_notebook("01_tensors.ipynb") == Path("01_tensors.ipynb")


def test_watch_checks_at_each_save_and_waits_out_a_half_one(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = mine.read_text()
    saves = iter([complete[:400], complete + " "])
    checked: list[Notebook] = []
    printed: list[str] = []

    def check_instead(path: Path, names: object, say: object) -> int:
        checked.append(read(path))
        return 1

    def say(line: str) -> None:
        printed.append(line)
        if line.startswith("Waiting"):
            content = next(saves, None)
            if content is None:
                raise KeyboardInterrupt
            mine.write_text(content)

    monkeypatch.setattr(terminal_check, "check_notebook", check_instead)
    terminal_check.watch(mine, [], say)
    assert len(checked) == 2
    assert len([line for line in printed if "not a complete notebook" in line]) == 1
    assert len([line for line in printed if "Waiting" in line]) == 3


def test_watch_goes_on_to_the_next_exercise_that_is_not_passed(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = lessons()[0].exercises
    follows, then = names[names.index("row_softmax") + 1 :][:2]
    progress.record(mine.parent, follows, "passed")
    statuses, watched = iter([1, 0]), []

    def check_instead(path: Path, names: Sequence[str], say: object) -> int:
        watched.append(list(names))
        return next(statuses, 1)

    def say(line: str) -> None:
        printed.append(line)
        if line.startswith("Waiting"):
            if len(watched) == 3:
                raise KeyboardInterrupt
            mine.write_text(mine.read_text() + " ")

    printed: list[str] = []
    monkeypatch.setattr(terminal_check, "check_notebook", check_instead)
    terminal_check.watch(mine, ["row_softmax"], say)
    assert watched == [["row_softmax"], ["row_softmax"], [then]]
    assert f"Next: {then}." in printed
