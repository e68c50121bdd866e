"""Grading without isolation: only when told so by name, never silently, and with what can still be limited."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import typer

from autograde.batch import grading
from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.cli import grade as commands
from autograde.sandbox import requirements
from autograde.sandbox.configuration import Isolation
from autograde.sandbox.inside import landlock
from autograde.sandbox.sandbox import Sandbox, SandboxError
from autograde.settings import LIMITS, SEED
from autograde.source import paths
from tests.attacks.box import run_in_box, scratch
from tests.support.attacks import LESSON, OTHER, RIGHT, TARGET
from tests.support.sandboxed import running, states

TRUSTED = Isolation(trusted=True)


@pytest.mark.root
def test_the_rest_of_this_file_holds_for_an_ordinary_user() -> None:
    with scratch() as folder:
        done = run_in_box("-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", __file__, folder=folder)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "16 passed, 1 deselected" in done.stdout


@pytest.fixture
def submitted(tmp_path: Path) -> Path:
    wrong = "def row_softmax(x):\n    return torch.exp(x) / torch.exp(x).sum()"
    write_notebook(tmp_path / "class", "ann", LESSON, answered_notebook(LESSON, {**RIGHT, TARGET: wrong}))
    return tmp_path / "class"


def grade(submitted: Path, out: Path, *, trust: bool = False, gpu: bool = False) -> int:
    """The exit status of `torchcourse grade`."""
    try:
        commands.grade([LESSON], submitted, out, 1, SEED, trust_submissions=trust, gpu=gpu)
    except typer.Exit as stop:
        return stop.exit_code
    return 0


def test_without_isolation_grading_names_the_way_to_do_it_all_the_same(
    submitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert grade(submitted, tmp_path / "out") == 2
    printed = capsys.readouterr()
    assert "not run without isolation" in printed.out
    assert "--trust-submissions" in printed.out
    assert "docs/isolation.md" in printed.out
    assert not (tmp_path / "out").exists()


@pytest.mark.ordinary
def test_trusted_submissions_are_graded_and_what_that_gives_up_is_said_aloud(
    submitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(requirements.shutil, "which", lambda name: None)  # no bubblewrap
    assert grade(submitted, tmp_path / "out", trust=True) == 0
    printed = capsys.readouterr()
    assert "WITHOUT ISOLATION" in printed.err
    assert "WITHOUT ISOLATION" not in printed.out
    table = (tmp_path / "out" / "grades.csv").read_text()
    assert f"ann,{LESSON},{OTHER},1,1,passed" in table
    assert f"ann,{LESSON},{TARGET},0," in table


@pytest.mark.parametrize(
    ("lesson", "has", "words"),
    [
        ("13_efficiency", [], "WARNING: g++ and ninja are missing here, so rms_norm_cpp will count as not attempted."),
        ("13_efficiency", ["g++"], "WARNING: ninja is missing here, so rms_norm_cpp will count as not attempted."),
        ("13_efficiency", ["g++", "ninja"], ""),
        (LESSON, [], ""),
    ],
)
def test_tools_that_the_sandbox_lacks_are_named_in_one_line_before_a_batch(
    lesson: str, has: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for tool in has:
        (tmp_path / tool).write_text("#!/bin/sh\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setattr(Isolation, "environment", lambda self, home: {"PATH": str(tmp_path)})
    monkeypatch.setattr("autograde.sandbox.template.start_template", lambda isolation: None)
    with pytest.raises(typer.Exit):  # nothing was submitted
        commands.grade([lesson], tmp_path, tmp_path / "out", 1)
    printed = capsys.readouterr()
    assert (printed.err.count("\n"), words in printed.err) == (bool(words), True)


def test_a_gpu_that_is_not_there_is_not_let_in(
    submitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHCOURSE_ACCELERATOR", "simulated")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(grading, "trusted_run_problem", lambda: "")
    assert grade(submitted, tmp_path / "out", trust=True, gpu=True) == 2
    printed = capsys.readouterr()
    assert "sees no GPU" in printed.out
    assert "driver" in printed.err
    assert not (tmp_path / "out").exists()


def test_without_being_asked_for_no_gpu_is_in_the_sandbox() -> None:
    words = Isolation().pause_command(0, 1, 9)
    assert not [word for word in words if "nvidia" in word or "/dev/dri" in word]
    assert Isolation().environment("/tmp")["TORCHCOURSE_ACCELERATOR"] == "simulated"
    assert Isolation().warnings() == []


@pytest.fixture(scope="module")
def trusted() -> Iterator[Sandbox]:
    with closing(Sandbox(number=11, isolation=TRUSTED)) as made:
        yield made


@pytest.mark.ordinary
def test_scratch_files_are_emptied_and_the_folder_goes_with_the_worker() -> None:
    made = Sandbox(number=12, isolation=TRUSTED)
    assert states(made, "import os\nopen(os.environ['TMPDIR'] + '/left', 'w')") == ["done"]
    assert states(made, "import os\nassert not os.path.exists(os.environ['TMPDIR'] + '/left')") == ["done"]
    home, supervisor = Path(made.home), psutil.Process(made.supervisor)
    assert home.is_dir()
    made.close()
    assert not home.exists()
    supervisor.wait(20)


@pytest.mark.ordinary
def test_what_it_starts_is_found_and_ended_even_in_a_session_of_its_own(trusted: Sandbox) -> None:
    leave = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.execlp('sleep', "
    assert states(trusted, leave + "'sleep', '54321')\n    os._exit(0)\nos.wait()") == ["done"]
    assert not running("54321")


@pytest.mark.ordinary
def test_landlock_keeps_the_answers_and_the_rest_of_the_disk_away(trusted: Sandbox, tmp_path: Path) -> None:
    assert states(trusted, "x = 1") == ["done"]
    if not landlock.version():
        pytest.skip("this kernel has no Landlock: nothing but file permissions guards files here")
    answers = paths.SOLUTIONS / f"{LESSON}.py"
    assert states(trusted, f"open({str(answers)!r})") == ["PermissionError"]
    tmp_path.chmod(0o777)
    assert states(trusted, f"open({str(tmp_path / 'x')!r}, 'w')") == ["PermissionError"]


@pytest.mark.ordinary
def test_a_worker_is_a_fork_without_privileges_that_shows_its_own_folder(trusted: Sandbox) -> None:
    assert states(trusted, "x = 1") == ["done"]
    own = f"import os, tempfile\nassert tempfile.gettempdir() == os.environ['TMPDIR'] == {trusted.home!r}\n"
    own += "assert get_ipython().ipython_dir == os.environ['IPYTHONDIR']\n"
    own += "assert 'NoNewPrivs:\\t1' in open('/proc/self/status').read()"
    assert states(trusted, own) == ["done"]
    assert trusted.process is None
    assert trusted.template is not None


@pytest.mark.ordinary
def test_a_supervisor_that_was_killed_is_replaced_and_one_that_hangs_is_killed() -> None:
    made = Sandbox(dataclasses.replace(LIMITS, grace_seconds=1.0), number=13, isolation=TRUSTED)
    assert states(made, "x = 1") == ["done"]
    supervisor = psutil.Process(made.supervisor)
    supervisor.kill()
    supervisor.wait(20)
    assert states(made, "x = 1") == ["done"]
    supervisor = psutil.Process(made.supervisor)
    supervisor.suspend()
    made.close()
    supervisor.wait(20)


def test_root_is_told_where_a_worker_could_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine" / "python").mkdir(parents=True)
    (tmp_path / "mine").chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(requirements, "readable", lambda: [str(tmp_path / "mine" / "python")])
    assert "grade as an ordinary user" in requirements.trusted_run_problem()


def test_on_macos_grading_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements.sys, "platform", "darwin")
    for reason in (requirements.isolation_problem(), requirements.trusted_run_problem()):
        assert "needs Linux" in reason
        assert "virtual machine" in reason


def test_nothing_secret_may_lie_where_submissions_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A course that is installed below /usr, say: all of that is in the sandbox."""
    assert requirements.exposed_path_problem([paths.SOLUTIONS, tmp_path]) == ""
    monkeypatch.setattr(requirements, "readable", lambda: [str(paths.ROOT)])
    monkeypatch.setattr(grading, "isolation_problem", lambda: "")
    assert "solutions" in requirements.exposed_path_problem([tmp_path, paths.SOLUTIONS])
    with pytest.raises(SandboxError, match="kept elsewhere"):
        grading.grade([LESSON], tmp_path, tmp_path / "out")
