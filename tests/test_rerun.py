"""`torchcourse check` and `torchcourse reset`: a notebook checked from the terminal, an exercise begun again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from torchcourse import desk, notebookfile, progress, rerun
from torchcourse.cli import app
from torchcourse.notebookfile import DeskError, Notebook, cells, find_cell, grade_id, read, set_text, text, write
from torchcourse.rerun import CodeCell, check_notebook, code_cells, needed

RIGHT = """def row_softmax(x):
    return shifted(x).exp() / shifted(x).exp().sum(-1, keepdim=True)"""
WRONG = """def row_softmax(x):
    e = torch.exp(x - x.amax(dim=0, keepdim=True))
    return e / e.sum(dim=0, keepdim=True)"""
HELPER = "def shifted(x):\n    return x - x.amax(-1, keepdim=True)"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Lesson 01 in a working copy."""
    desk.copy_notebooks(tmp_path)
    return tmp_path / "01_tensors.ipynb"


def answered(path: Path, source: str, *before: str, name: str = "row_softmax") -> Path:
    """`path` with this answer, and cells of the learner's own before it."""
    notebook = read(path)
    place = next(i for i, cell in enumerate(notebook["cells"]) if grade_id(cell) == name)
    notebook["cells"][place] = set_text(notebook["cells"][place], source)
    for number, more in enumerate(before):
        cell = {"cell_type": "code", "id": f"own-{number}", "metadata": {}, "outputs": [], "execution_count": None}
        notebook["cells"].insert(place + number, set_text(cell, more))
    write(path, notebook)
    return path


def said(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


# Which cells are needed


def chosen(names: list[str], *sources: str) -> list[str]:
    found = [rerun._code_cell(number, source, "") for number, source in enumerate(sources)]
    return [cell.source for cell in needed(found, names)]


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
    assert chosen(["f"], *sources) == [source for source in sources if source not in left_out]


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


# The command


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that know nothing of this one, in which autograd has run; the command forks where it has not."""
    monkeypatch.setattr(rerun, "START", "spawn")
    monkeypatch.setenv("PYTHONPATH", str(Path(rerun.__file__).parents[1]))


def test_the_command_reports_on_each_answer_and_notes_it(mine: Path) -> None:
    answered(mine, RIGHT, "%no_such_magic", HELPER, 'print("loud")')
    answered(mine, WRONG.replace("row_softmax", "masked_mean"), name="masked_mean")
    answered(mine, "def one_hot(labels, classes:\n    return 3", name="one_hot")
    code = "import sys; sys.argv[0] = 'torchcourse'; from torchcourse.cli import main; main()"
    command = [sys.executable, "-c", code, "check", "01_tensors", "row_softmax", "masked_mean", "one_hot"]
    env = {**os.environ, "PYTHONPATH": str(Path(rerun.__file__).parents[1])}
    done = subprocess.run(command, cwd=mine.parent, env=env, capture_output=True, text=True, check=False)
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


def test_all_exercises_get_a_summary(mine: Path, capfd: pytest.CaptureFixture[str], fresh: None) -> None:
    answered(mine, WRONG)
    assert check_notebook(mine) == 1
    printed = capfd.readouterr().out
    assert "row_softmax: Not right yet." in printed
    assert "wrong-dim" in printed
    assert "Not attempted: describe, " in printed
    assert printed.endswith("0 of 12 passed.\n")


def test_a_process_that_dies_is_said(mine: Path, capfd: pytest.CaptureFixture[str], fresh: None) -> None:
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
        ("half.ipynb", "", "not a whole notebook"),
        ("list.ipynb", "", "holds no notebook"),
        ("old.ipynb", "gone", "is of another release"),
    ],
)
def test_bad_input_is_one_message(mine: Path, name: str, exercise: str, words: str) -> None:
    folder = mine.parent
    (folder / "half.ipynb").write_text(mine.read_text()[:5000])
    (folder / "list.ipynb").write_text("[]")
    (folder / "START.ipynb").write_text('{"cells": []}')
    old = read(mine)
    old["cells"][-1]["metadata"]["nbgrader"] = {"grade_id": "check_gone"}
    write(folder / "old.ipynb", old)
    status, output = said("check", folder / name, *filter(None, [exercise]))
    assert status == 2
    assert words in output
    assert "Traceback" not in output


def test_an_exercise_whose_cells_were_deleted_is_one_message(mine: Path) -> None:
    less = read(mine)
    less["cells"] = [cell for cell in less["cells"] if not grade_id(cell).endswith("row_softmax")]
    write(mine, less)
    status, output = said("check", mine, "row_softmax")
    assert status == 2
    assert "has no cell of row_softmax: it is of another release, or the cell was deleted." in output
    assert f"torchcourse update {mine.parent} brings it" in output


def test_a_half_saved_notebook_names_jupyters_checkpoint(mine: Path) -> None:
    saved = mine.parent / ".ipynb_checkpoints" / "01_tensors-checkpoint.ipynb"
    saved.parent.mkdir()
    shutil.copyfile(mine, saved)
    mine.write_text("{")
    with pytest.raises(DeskError, match=r"cp '.*01_tensors-checkpoint.ipynb' '.*01_tensors.ipynb'"):
        read(mine)


def test_a_notebook_is_found_by_its_name_here_or_in_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "01_tensors.ipynb").touch()
    assert notebookfile.find_notebook("01_tensors") == Path("work/01_tensors.ipynb")
    (tmp_path / "01_tensors.ipynb").touch()
    assert notebookfile.find_notebook("01_tensors.ipynb") == Path("01_tensors.ipynb")


def test_watch_checks_at_each_save_and_waits_out_a_half_one(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mine.read_text()
    saves = iter([whole[:400], "", whole + " ", ""])  # "": not saved while this nap lasts
    heard: list[str] = []
    checked: list[Notebook] = []

    def instead(path: Path, names: object, say: object) -> int:
        checked.append(read(path))
        return 1

    def nap(seconds: float) -> None:
        content = next(saves, None)
        if content is None:
            raise KeyboardInterrupt
        if content:
            mine.write_text(content)

    monkeypatch.setattr(rerun, "check_notebook", instead)
    monkeypatch.setattr(rerun, "_nap", nap)
    rerun.watch(mine, [], heard.append)
    assert len(checked) == 2
    assert [line for line in heard if "not a whole notebook" in line]
    assert len([line for line in heard if "Waiting" in line]) == 3


# reset


def test_reset_puts_the_stub_back_and_keeps_the_answer_aside(mine: Path) -> None:
    stub = text(find_cell(read(mine), "row_softmax") or {})
    answered(mine, WRONG)
    progress.note(mine.parent, "row_softmax", "passed")
    before = read(mine)
    status, output = said("reset", mine, "row_softmax")
    assert status == 0
    after = read(mine)
    assert text(find_cell(after, "row_softmax") or {}) == stub
    assert [c for c in after["cells"] if grade_id(c) != "row_softmax"] == [
        c for c in before["cells"] if grade_id(c) != "row_softmax"
    ]
    (kept,) = (mine.parent / "aside").iterdir()
    assert kept.read_text() == WRONG + "\n"
    assert str(kept) in output
    assert progress.read(mine.parent) == {}


def test_two_answers_in_one_second_are_both_kept(mine: Path) -> None:
    for answer in (WRONG, RIGHT):
        said("reset", answered(mine, answer), "row_softmax")
    assert {p.read_text() for p in (mine.parent / "aside").iterdir()} == {WRONG + "\n", RIGHT + "\n"}


def test_reset_of_a_stub_changes_nothing(mine: Path) -> None:
    before = mine.read_bytes()
    status, output = said("reset", mine, "row_softmax")
    assert (status, mine.read_bytes()) == (0, before)
    assert "as it was released" in output
    assert not (mine.parent / "aside").exists()


def test_reset_uses_the_stub_of_the_notebooks_own_release(mine: Path) -> None:
    origin = desk.origin(mine.parent, mine.name)
    older = read(origin)
    cell = find_cell(older, "row_softmax")
    assert cell is not None
    cell["source"] = ["an older stub"]
    write(origin, older)
    said("reset", answered(mine, WRONG), "row_softmax")
    assert text(find_cell(read(mine), "row_softmax") or {}) == "an older stub"


def test_reset_takes_the_installed_release_where_the_kept_one_is_not_whole(mine: Path) -> None:
    before = text(find_cell(read(mine), "row_softmax") or {})
    desk.origin(mine.parent, mine.name).write_text("{")
    said("reset", answered(mine, WRONG), "row_softmax")
    assert text(find_cell(read(mine), "row_softmax") or {}) == before


@pytest.mark.parametrize(("exercise", "words"), [("row_softmx", "Did you mean 'row_softmax'?"), ("check_one_hot", "")])
def test_reset_of_what_is_no_exercise_is_one_message(mine: Path, exercise: str, words: str) -> None:
    before = mine.read_bytes()
    status, output = said("reset", mine, exercise)
    assert (status, mine.read_bytes()) == (2, before)
    assert words in output


def test_reset_loses_nothing_where_nothing_can_be_written(mine: Path) -> None:
    before = answered(mine, WRONG).read_bytes()
    (mine.parent / "aside").write_text("a file stands where the folder should be")
    status, output = said("reset", mine, "row_softmax")
    assert (status, mine.read_bytes()) == (2, before)
    assert "cannot be made" in output


def test_a_link_stays_a_link_and_permissions_stay(tmp_path: Path) -> None:
    (tmp_path / "real.ipynb").write_text("old")
    (tmp_path / "real.ipynb").chmod(0o600)
    (tmp_path / "link.ipynb").symlink_to("real.ipynb")
    notebookfile.write_text(tmp_path / "link.ipynb", "new")
    assert (tmp_path / "link.ipynb").is_symlink()
    assert (tmp_path / "real.ipynb").read_text() == "new"
    assert (tmp_path / "real.ipynb").stat().st_mode & 0o777 == 0o600


def test_what_jupyter_wrote_is_written_back_byte_for_byte(mine: Path) -> None:
    before = mine.read_bytes()
    write(mine, json.loads(before))
    assert mine.read_bytes() == before


def test_the_answers_own_cell_counts_however_its_exercise_is_named() -> None:
    found = [CodeCell(1, "...", "row_softmax"), CodeCell(2, "x = 1")]
    assert needed(found, ["row_softmax"]) == found[:1]
