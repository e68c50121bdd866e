"""Grading without isolation: only when told so by name, never silently, and with what can still be limited."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from autograde import commands, course, enclosure, grading
from autograde.enclosure import Enclosure
from autograde.sandbox import Sandbox, SandboxError
from autograde.settings import SEED
from tests.attacks.box import run_in_box, scratch
from tests.attacks.test_exhaustion import LESSON, OTHER, RIGHT, TARGET, notebook
from tests.sandboxed import arguments, states

TRUSTED = Enclosure(trusted=True)


@pytest.mark.root
def test_the_rest_of_this_file_holds_for_an_ordinary_user() -> None:
    with scratch() as folder:
        said = run_in_box("-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", __file__, folder=folder)
    assert said.returncode == 0, said.stdout[-3000:]
    assert "10 passed, 1 deselected" in said.stdout


@pytest.fixture
def submitted(tmp_path: Path) -> Path:
    path = tmp_path / "class" / "ann" / LESSON / f"{LESSON}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(notebook({**RIGHT, TARGET: "def row_softmax(x):\n    return torch.exp(x) / torch.exp(x).sum()"}))
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
    said = capsys.readouterr()
    assert "not run without isolation" in said.out
    assert "--trust-submissions" in said.out
    assert "docs/isolation.md" in said.out
    assert not (tmp_path / "out").exists()


@pytest.mark.ordinary
def test_trusted_submissions_are_graded_and_what_that_gives_up_is_said_aloud(
    submitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(enclosure.shutil, "which", lambda name: None)  # no bubblewrap
    assert grade(submitted, tmp_path / "out", trust=True) == 0
    said = capsys.readouterr()
    assert "WITHOUT ISOLATION" in said.err
    assert "WITHOUT ISOLATION" not in said.out
    table = (tmp_path / "out" / "grades.csv").read_text()
    assert f"ann,{LESSON},{OTHER},1,1,passed" in table
    assert f"ann,{LESSON},{TARGET},0," in table


def test_a_gpu_that_is_not_there_is_not_let_in(
    submitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHCOURSE_ACCELERATOR", "simulated")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(grading, "trust_blocker", lambda: "")
    assert grade(submitted, tmp_path / "out", trust=True, gpu=True) == 2
    said = capsys.readouterr()
    assert "sees no GPU" in said.out
    assert "driver" in said.err
    assert not (tmp_path / "out").exists()


def test_without_being_asked_for_no_gpu_is_in_the_sandbox() -> None:
    words = Enclosure().command(0, "/tmp")
    assert not [word for word in words if "nvidia" in word or "/dev/dri" in word]
    assert Enclosure().variables("/tmp")["TORCHCOURSE_ACCELERATOR"] == "simulated"
    assert Enclosure().warnings() == []


@pytest.fixture(scope="module")
def trusted() -> Iterator[Sandbox]:
    made = Sandbox(number=11, enclosure=TRUSTED)
    yield made
    made.close()


@pytest.mark.ordinary
def test_scratch_files_are_emptied_and_the_folder_goes_with_the_worker(trusted: Sandbox) -> None:
    assert states(trusted, "import os\nopen(os.environ['TMPDIR'] + '/left', 'w')") == ["done"]
    assert states(trusted, "import os\nassert not os.path.exists(os.environ['TMPDIR'] + '/left')") == ["done"]
    assert Path(trusted.home).is_dir()


@pytest.mark.ordinary
def test_what_it_starts_is_found_and_ended_even_in_a_session_of_its_own(trusted: Sandbox) -> None:
    leave = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.execlp('sleep', "
    assert states(trusted, leave + "'sleep', '54321')\n    os._exit(0)\nos.wait()") == ["done"]
    assert not [p for p in Path("/proc").glob("[0-9]*") if b"54321" in arguments(p)]


@pytest.mark.ordinary
def test_landlock_keeps_the_answers_and_the_rest_of_the_disk_away(trusted: Sandbox, tmp_path: Path) -> None:
    assert states(trusted, "x = 1") == ["done"]
    if not trusted.layers["Landlock"]:
        pytest.skip("this kernel has no Landlock: nothing but file permissions guards files here")
    answers = course.SOLUTIONS / f"{LESSON}.py"
    assert states(trusted, f"open({str(answers)!r})") == ["PermissionError"]
    tmp_path.chmod(0o777)
    assert states(trusted, f"open({str(tmp_path / 'x')!r}, 'w')") == ["PermissionError"]


@pytest.mark.ordinary
def test_the_worker_ends_with_its_grader_and_takes_its_folder_along() -> None:
    made = Sandbox(number=12, enclosure=TRUSTED)
    assert states(made, "x = 1") == ["done"]
    home, process = made.home, made.process
    assert process is not None
    made.close()
    assert not Path(home).exists()
    assert process.poll() is not None


def test_root_is_told_where_a_worker_could_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine" / "python").mkdir(parents=True)
    (tmp_path / "mine").chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(enclosure, "_readable", lambda: [str(tmp_path / "mine" / "python")])
    assert "grade as an ordinary user" in enclosure.trust_blocker()


def test_nothing_secret_may_lie_where_submissions_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A course that is installed below /usr, say: all of that is in the sandbox."""
    assert enclosure.exposed([course.SOLUTIONS, tmp_path]) == ""
    monkeypatch.setattr(enclosure, "_readable", lambda: [str(course.ROOT)])
    monkeypatch.setattr(grading, "blocker", lambda: "")
    assert "solutions" in enclosure.exposed([tmp_path, course.SOLUTIONS])
    with pytest.raises(SandboxError, match="kept elsewhere"):
        grading.grade([LESSON], tmp_path, tmp_path / "out")
