"""A learner's progress: recorded by checks in a working copy, through crashes and with two tabs at once."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from rich.console import Console

import torchcourse
from tests.support.alone import alone, environment
from tests.support.commands import run_command
from torchcourse.checking import check
from torchcourse.model.catalogue import LESSONS, exercises
from torchcourse.model.lessons import MINUTES_A_POINT, WORDS_A_MINUTE, _duration, lessons
from torchcourse.workspace import progress, session
from torchcourse.workspace.progress import record_check
from torchcourse.workspace.status import LessonProgress, _bar, as_markdown, read_lesson_progress, show

FILE = Path(progress.STATE) / progress.FILE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / progress.STATE).mkdir()
    return tmp_path


@pytest.fixture
def in_notebook(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As in a kernel of a notebook that lies in `folder`."""
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(session, "in_notebook", lambda: True)
    monkeypatch.setattr(progress, "_warned", False)
    return folder


@pytest.fixture
def noted(folder: Path) -> Path:
    """A working copy in which two exercises are passed and one is attempted."""
    for name, status in (("describe", "passed"), ("one_hot", "passed"), ("row_softmax", "failed")):
        progress.record(folder, name, status)
    return folder


def test_the_lessons_of_the_notebooks_are_those_of_the_package() -> None:
    assert [lesson.name for lesson in lessons()] == list(LESSONS)
    for lesson in lessons():
        assert sorted(lesson.exercises) == sorted(exercises(lesson.name))


def test_an_answer_that_was_shown_is_noted_once_and_changes_no_state(in_notebook: Path) -> None:
    record_check("one_hot", "failed")
    for _ in range(2):
        progress.record_reference_shown("one_hot")
    record_check("one_hot", "passed")
    assert progress.answers_shown(in_notebook) == {"one_hot"}
    assert progress.read(in_notebook) == {"one_hot": "passed"}
    assert (in_notebook / FILE).read_text().count("answer_shown") == 1
    assert len(progress.steps(in_notebook)) == 2


def test_durations_are_estimated_from_words_and_points() -> None:
    prose = {"cell_type": "markdown", "metadata": {}, "source": "word " * 60 * WORDS_A_MINUTE}
    points = {"cell_type": "code", "metadata": {"nbgrader": {"points": 30 / MINUTES_A_POINT}}, "source": "more words"}
    assert [_duration({"cells": cells}) for cells in ([], [prose], [prose, points])] == ["½ hour", "1 hour", "1½ hours"]
    assert all(re.fullmatch(r"[1-9]½? hours", lesson.duration) for lesson in lessons())


def test_a_check_records_its_outcome_and_a_pass_stays(in_notebook: Path) -> None:
    check.check("one_hot")  # its name is unbound: no attempt
    assert progress.read(in_notebook) == {}
    check.check(SimpleNamespace(__name__="one_hot"))  # type: ignore[arg-type]
    assert progress.read(in_notebook) == {"one_hot": "attempted"}
    record_check("one_hot", "passed")
    record_check("one_hot", "failed")
    assert progress.read(in_notebook) == {"one_hot": "passed"}
    for _ in range(100):
        record_check("one_hot", "passed")
    assert len((in_notebook / FILE).read_text().splitlines()) == 2


@pytest.mark.parametrize("status", ["unattempted", "unknown", "interrupted"])
def test_what_is_no_attempt_is_not_recorded(in_notebook: Path, status: str) -> None:
    record_check("one_hot", status)
    assert not (in_notebook / FILE).exists()


def test_the_notebooks_folder_counts_and_outside_a_working_copy_or_a_notebook_nothing_is_recorded(
    in_notebook: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setenv("JPY_SESSION_NAME", str(elsewhere / "a.ipynb"))
    record_check("one_hot", "passed")
    monkeypatch.delenv("JPY_SESSION_NAME")
    with monkeypatch.context() as patched:
        patched.setattr(session, "in_notebook", lambda: False)
        record_check("one_hot", "passed")
    assert not (in_notebook / FILE).exists()
    assert list(elsewhere.iterdir()) == []
    (in_notebook / "sub").mkdir()
    monkeypatch.setenv("JPY_SESSION_NAME", str(in_notebook / "sub" / "a.ipynb"))
    monkeypatch.chdir("/")
    record_check("one_hot", "passed")
    assert progress.read(in_notebook) == {"one_hot": "passed"}


def test_a_validate_run_of_nbgrader_records_nothing(in_notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    with pytest.raises(AssertionError):
        check.check(SimpleNamespace(__name__="one_hot"))  # type: ignore[arg-type]
    assert not (in_notebook / FILE).exists()


@pytest.mark.parametrize("reason", ["No space left on device", "it is a folder", "it is a device"])
def test_a_record_that_cannot_be_written_costs_one_line(
    in_notebook: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    if reason == "it is a folder":
        (in_notebook / FILE).mkdir()
    elif reason == "it is a device":
        (in_notebook / FILE).symlink_to(os.devnull)
    else:
        full = mock.Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        monkeypatch.setattr(progress.os, "fsync", full)
    record_check("one_hot", "passed")
    record_check("row_softmax", "passed")
    (line,) = capsys.readouterr().out.splitlines()
    assert f"not recorded in {FILE}: {reason}" in line


def test_status_names_a_pipe_in_place_of_the_record_and_does_not_wait_for_it(folder: Path) -> None:
    os.mkfifo(folder / FILE)
    done = alone("from torchcourse.cli import app; app()", "status", folder)
    assert done.returncode == 2
    assert f"{folder / FILE} cannot be read: it is a pipe, not a file; move it away" in done.stdout


@pytest.mark.parametrize(
    "odd",
    [b"[]\n", b"3\n", b'{"exercise": ["a"], "state": "passed"}\n', b'{"state": []}\n', b"\xff\n", b"{}\n",
     b'{"exercise": "cut sho'],
)  # fmt: skip
def test_lines_that_say_nothing_are_skipped_and_the_next_one_is_whole(folder: Path, odd: bytes) -> None:
    (folder / FILE).write_bytes(odd)
    assert progress.read(folder) == {}
    progress.record(folder, "one_hot", "passed")
    assert progress.read(folder) == {"one_hot": "passed"}


def test_the_slower_of_two_tabs_takes_nothing_back(folder: Path) -> None:
    progress.record(folder, "one_hot", "passed")
    with (folder / FILE).open("a") as file:
        file.write(json.dumps({"exercise": "one_hot", "state": "attempted"}) + "\n")
    assert progress.read(folder) == {"one_hot": "passed"}
    progress.record(folder, "one_hot", "open")
    assert progress.read(folder) == {}
    progress.record(folder, "one_hot", "failed")
    assert progress.read(folder) == {"one_hot": "attempted"}


def test_tabs_that_write_at_once_lose_nothing(folder: Path) -> None:
    code = """
import sys
from pathlib import Path
from torchcourse.workspace import progress
for i in range(60): progress.record(Path(), f"{sys.argv[1]}_{i}", "passed")
"""
    commands = [[sys.executable, "-c", code, name] for name in ("a", "b", "c")]
    tabs = [subprocess.Popen(command, cwd=folder, env=environment()) for command in commands]
    assert [tab.wait(120) for tab in tabs] == [0, 0, 0]
    assert len((folder / FILE).read_text().splitlines()) == len(progress.read(folder)) == 180


def test_status_counts_passed_attempted_and_open(noted: Path) -> None:
    status, output = run_command("status", noted)
    rows = [line.split() for line in output.splitlines()]
    assert (status, len(rows)) == (0, 1 + len(LESSONS))
    assert rows[0] == ["lesson", "passed", "attempted", "open"]
    assert rows[1] == ["01_tensors", "2", "1", str(len(exercises("01_tensors")) - 3)]
    assert rows[2] == ["02_autograd", "0", "0", str(len(exercises("02_autograd")))]
    status, output = run_command("status", noted / "x")
    assert (status, "torchcourse lab" in output) == (2, True), "how to make a folder that is none a working copy"
    assert not (noted / "x").exists()


def test_status_on_a_terminal_is_a_table_with_a_sum(noted: Path) -> None:
    console = Console(force_terminal=True, width=100, record=True, file=io.StringIO())
    show(read_lesson_progress(noted), console)
    said = console.export_text()
    assert "01_tensors" in said
    left = sum(len(exercises(lesson)) for lesson in LESSONS) - 3
    assert said.splitlines()[-2].split()[1::2] == ["all", "2", "1", str(left)]


def test_the_start_pages_table_links_the_lessons_and_says_where_to_go_on(folder: Path) -> None:
    assert as_markdown(read_lesson_progress(folder)).startswith("Begin with [1 · Tensors](01_tensors.ipynb).")
    progress.record(folder, "describe", "passed")
    progress.record(folder, "image_to_chw", "failed")
    said = as_markdown(read_lesson_progress(folder))
    takes = {lesson.name: lesson.duration for lesson in lessons()}
    bar = _bar(read_lesson_progress(folder)[0])
    assert bar.endswith(f"□ 1 of {len(exercises('01_tensors'))}")
    assert f"| [1 · Tensors](01_tensors.ipynb) |  | {takes['01_tensors']} | {bar} |" in said
    ticks = [f'[{mark}](01_tensors.ipynb#cell-id=about-{name} "{name}: {state}")'
             for mark, name, state in (("✓", "describe", "passed"), ("·", "image_to_chw", "attempted"))]  # fmt: skip
    assert f"| {' '.join(ticks)} [○]" in said
    assert f"| [5 · Training](05_training.ipynb) | 3, 4 | {takes['05_training']} |" in said
    assert said.index("| **Foundations** |") < said.index("| [1 · Tensors]") < said.index("| **Debugging** |")
    resumed = "[image_to_chw](01_tensors.ipynb#cell-id=about-image_to_chw) in [1 · Tensors](01_tensors.ipynb)"
    assert said.startswith(f"Continue with {resumed}.")
    for lesson in lessons():
        for exercise in lesson.exercises:
            progress.record(folder, exercise, "passed")
    assert as_markdown(read_lesson_progress(folder)).startswith("You have passed every exercise.")


def test_a_lesson_without_exercises_has_no_bar() -> None:
    assert _bar(LessonProgress(lessons()[0], ())) == ""


def test_the_commands_do_without_torch() -> None:
    modules = ("cli", "workspace.reset", "workspace.status", "workspace.update", "workspace.working_copy")
    imported = ", ".join(f"torchcourse.{module}" for module in modules)
    code = f"import sys, {imported}; sys.exit('torch' in sys.modules)"
    assert alone(code, TORCHCOURSE_SIMULATED="").returncode == 0


def test_where_torch_cannot_be_imported_the_command_runs_and_a_notebook_is_told_why() -> None:
    without = "import sys; sys.modules['torch'] = None; "
    assert "doctor" in alone(without + "sys.argv = ['torchcourse', '--help']; "
                             "from torchcourse.cli import main; main()").stdout  # fmt: skip
    assert "import of torch halted" in alone(without + "from torchcourse import check").stderr


@pytest.mark.parametrize(
    "code",
    ["from torchcourse import Unattempted", "import torchcourse; torchcourse.hint", "from torchcourse import *",
     "import torch, torchcourse", "import torchcourse.checking.probe",
     "from IPython import InteractiveShell as S; S.instance(history_length=0); import torchcourse"],
)  # fmt: skip
def test_the_second_device_is_known_before_a_backward_can_run(code: str) -> None:
    chosen = "import os; os.environ['TORCHCOURSE_ACCELERATOR'] = 'simulated'"
    done = alone(
        f"{chosen}; {code}; from torchcourse import simulated; print(simulated.is_registered())",
        TORCHCOURSE_SIMULATED="",
    )
    assert done.stdout == "True\n", done.stderr


def test_no_other_name_is_made_up() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'chekc'"):
        _ = torchcourse.chekc  # type: ignore[attr-defined]
