"""How far a learner is: noted by checks in a notebook of a working copy, kept through crashes and two tabs at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console
from typer.testing import CliRunner

import torchcourse
from torchcourse import checking, progress
from torchcourse.cli import app
from torchcourse.exercise import LESSONS, exercises
from torchcourse.lessons import lessons
from torchcourse.status import as_markdown, show, standings

FILE = Path(progress.STATE) / progress.FILE


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / progress.STATE).mkdir()
    return tmp_path


@pytest.fixture
def in_notebook(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in a kernel of a notebook that lies in `desk`."""
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.chdir(desk)
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.setattr(progress, "_warned", False)
    return desk


def lines(desk: Path) -> list[str]:
    return (desk / FILE).read_text().splitlines()


def test_the_lessons_of_the_notebooks_are_those_of_the_package() -> None:
    assert [lesson.name for lesson in lessons()] == list(LESSONS)
    for lesson in lessons():
        assert sorted(lesson.exercises) == sorted(exercises(lesson.name))
    assert [lesson.takes.split()[1] for lesson in lessons()] == ["minutes"] * len(LESSONS)


def test_a_check_notes_what_it_found_and_a_pass_stays(in_notebook: Path) -> None:
    checking.check("one_hot")  # its name is unbound: no attempt
    assert progress.read(in_notebook) == {}
    checking.remember("one_hot", "failed")
    assert progress.read(in_notebook) == {"one_hot": "attempted"}
    checking.remember("one_hot", "passed")
    checking.remember("one_hot", "failed")
    assert progress.read(in_notebook) == {"one_hot": "passed"}
    for _ in range(100):
        checking.remember("one_hot", "passed")
    assert len(lines(in_notebook)) == 2


def test_check_remembers(in_notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def describe(t: object) -> None:
        return None

    checking.check(describe)
    assert progress.read(in_notebook) == {"describe": "attempted"}


@pytest.mark.parametrize("status", ["unattempted", "unknown", "interrupted"])
def test_what_is_no_attempt_is_not_noted(in_notebook: Path, status: str) -> None:
    checking.remember("one_hot", status)
    assert not (in_notebook / FILE).exists()


def test_nothing_is_noted_outside_a_working_copy_or_a_notebook(
    tmp_path: Path, in_notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("JPY_SESSION_NAME", str(elsewhere / "a.ipynb"))
    checking.remember("one_hot", "passed")
    monkeypatch.delenv("JPY_SESSION_NAME")
    monkeypatch.setattr(progress, "_in_notebook", lambda: False)
    checking.remember("one_hot", "passed")
    assert not (in_notebook / FILE).exists()
    assert list(elsewhere.iterdir()) == []


def test_a_validate_run_of_nbgrader_notes_nothing(in_notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    with pytest.raises(AssertionError):
        checking.check(SimpleNamespace(__name__="one_hot"))  # type: ignore[arg-type]
    assert not (in_notebook / FILE).exists()


def test_the_notebooks_folder_counts_and_not_where_the_learner_went(
    in_notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (in_notebook / "sub").mkdir()
    monkeypatch.setenv("JPY_SESSION_NAME", str(in_notebook / "sub" / "a.ipynb"))
    monkeypatch.chdir("/")
    checking.remember("one_hot", "passed")
    assert progress.read(in_notebook) == {"one_hot": "passed"}


def test_a_full_disk_costs_one_line_in_all(in_notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    (in_notebook / FILE).symlink_to("/dev/full")
    checking.remember("one_hot", "passed")
    checking.remember("row_softmax", "passed")
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 1
    assert "not noted: No space left on device" in said[0]


def test_a_folder_that_cannot_be_written_costs_one_line(
    in_notebook: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (in_notebook / FILE).mkdir()  # as good as read-only, also for root
    checking.remember("one_hot", "passed")
    assert "not noted: Is a directory" in capsys.readouterr().out


def test_a_line_that_was_cut_short_is_skipped_and_the_next_one_is_whole(desk: Path) -> None:
    progress.note(desk, "one_hot", "passed")
    with (desk / FILE).open("a") as file:
        file.write('{"exercise": "row_soft')
    assert progress.read(desk) == {"one_hot": "passed"}
    progress.note(desk, "row_softmax", "failed")
    assert progress.read(desk) == {"one_hot": "passed", "row_softmax": "attempted"}


@pytest.mark.parametrize("odd", ["[]", "3", '{"exercise": ["a"], "state": "passed"}', '{"state": []}', "\udcff", "{}"])
def test_lines_that_say_nothing_are_skipped(desk: Path, odd: str) -> None:
    (desk / FILE).write_bytes(odd.encode("utf-8", "surrogateescape") + b"\n")
    progress.note(desk, "one_hot", "passed")
    assert progress.read(desk) == {"one_hot": "passed"}


def test_the_slower_of_two_tabs_takes_nothing_back(desk: Path) -> None:
    progress.note(desk, "one_hot", "passed")
    with (desk / FILE).open("a") as file:
        file.write(json.dumps({"exercise": "one_hot", "state": "attempted"}) + "\n")
    assert progress.read(desk) == {"one_hot": "passed"}
    progress.note(desk, "one_hot", "open")
    assert progress.read(desk) == {}
    progress.note(desk, "one_hot", "failed")
    assert progress.read(desk) == {"one_hot": "attempted"}


WRITER = """
import sys; name = sys.argv[1]
from pathlib import Path; from torchcourse import progress
for i in range(60): progress.note(Path(), f"{name}_{i}", "passed")
"""


def test_tabs_that_write_at_once_lose_nothing(desk: Path) -> None:
    command = [sys.executable, "-c", WRITER]
    env = {**os.environ, "PYTHONPATH": str(Path(torchcourse.__file__).parents[1])}
    tabs = [subprocess.Popen([*command, name], cwd=desk, env=env) for name in ("a", "b", "c")]
    assert [tab.wait(120) for tab in tabs] == [0, 0, 0]
    assert len(lines(desk)) == 180
    assert len(progress.read(desk)) == 180


def noted(desk: Path) -> Path:
    progress.note(desk, "describe", "passed")
    progress.note(desk, "one_hot", "passed")
    progress.note(desk, "row_softmax", "failed")
    return desk


def test_status_counts_passed_attempted_and_open(desk: Path) -> None:
    said = CliRunner().invoke(app, ["status", str(noted(desk))])
    assert said.exit_code == 0
    rows = [line.split() for line in said.output.splitlines()]
    assert rows[0] == ["lesson", "passed", "attempted", "open"]
    assert rows[1] == ["01_tensors", "2", "1", "9"]
    assert rows[2] == ["02_autograd", "0", "0", "12"]
    assert len(rows) == 10


def test_status_on_a_terminal_is_a_table_with_a_sum(desk: Path) -> None:
    console = Console(force_terminal=True, width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
    with console.file:
        show(standings(noted(desk)), console)
    said = console.export_text()
    assert "01_tensors" in said
    assert said.splitlines()[-2].split()[1::2] == ["all", "2", "1", "100"]


def test_status_of_a_folder_that_is_none_says_how_to_make_it_one(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["status", str(tmp_path / "x")])
    assert said.exit_code == 2
    assert "torchcourse lab" in said.output
    assert not (tmp_path / "x").exists()


def test_the_start_pages_table_links_the_lessons_and_says_where_to_go_on(desk: Path) -> None:
    assert as_markdown(standings(desk)).endswith("Begin with [1 · Tensors](01_tensors.ipynb).")
    said = as_markdown(standings(noted(desk)))
    assert "| [1 · Tensors](01_tensors.ipynb) | 60 minutes | 12 | 2 | 1 | 9 |" in said
    assert said.endswith("Go on with [1 · Tensors](01_tensors.ipynb).")
    for lesson in lessons():
        for exercise in lesson.exercises:
            progress.note(desk, exercise, "passed")
    assert as_markdown(standings(desk)).endswith("Every exercise is passed.")


def alone(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    env = {**os.environ, "PYTHONPATH": str(Path(torchcourse.__file__).parents[1]), "TORCHCOURSE_SIMULATED": ""}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)


def test_the_desks_commands_do_without_torch() -> None:
    code = "import sys, torchcourse.cli, torchcourse.status, torchcourse.desk, torchcourse.updating, "
    code += "torchcourse.resetting; sys.exit('torch' in sys.modules)"
    assert alone(code).returncode == 0


def test_where_torch_cannot_be_imported_the_command_runs_and_a_notebook_is_told_why() -> None:
    without = "import sys; sys.modules['torch'] = None; "
    assert "doctor" in alone(without + "sys.argv = ['torchcourse', '--help']; "
                             "from torchcourse.cli import main; main()").stdout  # fmt: skip
    assert "import of torch halted" in alone(without + "from torchcourse import check").stderr


KNOWN = "; from torchcourse import simulated; print(simulated.is_registered())"
IN_A_SHELL = "from IPython.core.interactiveshell import InteractiveShell as S; S.instance(history_length=0); "


@pytest.mark.parametrize(
    "code",
    ["from torchcourse import Unattempted", "import torchcourse; torchcourse.hint", "from torchcourse import *",
     "import torch, torchcourse", f"{IN_A_SHELL}import torchcourse", "import torchcourse.probing"],
)  # fmt: skip
def test_the_second_device_is_known_before_a_backward_can_run(code: str) -> None:
    done = alone(f"import os; os.environ['TORCHCOURSE_ACCELERATOR'] = 'simulated'; {code}{KNOWN}")
    assert done.stdout == "True\n", done.stderr


def test_no_other_name_is_made_up() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'chekc'"):
        _ = torchcourse.chekc  # type: ignore[attr-defined]
