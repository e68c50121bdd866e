"""What commands write replaces files only: a device, a pipe, a socket or a folder in its place is named and stays."""

from __future__ import annotations

import os
import socket
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from autograde.batch import grading
from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.cli.console import pluralized
from tests.support.commands import run_instructors
from tests.support.stand_ins import LESSON, SOLVED, submit, use_stand_in
from torchcourse.model.notebook_file import WorkspaceError, replace_text

REMEDY = "move it away or name another place"
NOTEBOOK = f"{LESSON}/{LESSON}.ipynb"
COMMANDS = {
    "export": ("scores.csv", "export --class graded --out scores.csv"),
    "report": ("page.html", "report graded --html page.html"),
    "bundle": ("learners.zip", "bundle learners.zip --lessons 01_tensors"),
    "sample": (f"class/ada/{NOTEBOOK}", "sample class"),
    "collect": (f"class/submitted/ada/{NOTEBOOK}", f"collect all.zip --lesson {LESSON} --into class/submitted"),
    "roster": ("class/roster.csv", f"class init class --lessons {LESSON}"),
    "source": (f"class/source/{NOTEBOOK}", f"class init class --lessons {LESSON}"),
    "class's gradebook": ("class/gradebook.db", f"class init class --lessons {LESSON}"),
    "table": ("out/grades.csv", f"grade {LESSON} --submitted submitted --out out"),
    "gradebook": ("out/gradebook.db", f"grade {LESSON} --submitted submitted --out out"),
    "page": (f"out/feedback/ada/{LESSON}.html", f"grade {LESSON} --submitted submitted --out out"),
    "log": ("out/grading-log.jsonl", f"grade {LESSON} --submitted submitted --out out"),
    "lock": ("out/journal/.lock", f"grade {LESSON} --submitted submitted --out out"),
    "class's lock": ("class/journal/.lock", f"class init class --lessons {LESSON}"),
    "notebook": (f"out/autograded/ada/{NOTEBOOK}", f"grade {LESSON} --submitted submitted --out out"),
}
"""For each output of a command where it is, and the command."""


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 points"), (1, "1 point"), (1.0, "1 point"), (2.5, "2.5 points"), (1234567, "1234567 points")],
)
def test_one_is_not_in_the_plural(number: float, words: str) -> None:
    assert pluralized(number, "point") == words


@pytest.fixture
def desk(tmp_path: Path, graded: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the commands run, with what they read."""
    monkeypatch.chdir(tmp_path)
    use_stand_in(monkeypatch, tmp_path)
    (tmp_path / "graded").symlink_to(graded)
    submit(tmp_path / "submitted", "ada", SOLVED)
    for part in ("submitted", "journal"):  # parts of a class folder, which the commands go on with
        (tmp_path / "class" / part).mkdir(parents=True)
    (tmp_path / "people.csv").write_text("id,first_name,last_name\nada,Ada,Lovelace\n")
    with zipfile.ZipFile("all.zip", "w") as archive:
        archive.write(f"submitted/ada/{NOTEBOOK}", f"Ada Lovelace_7_assignsubmission_file/{LESSON}.ipynb")
    return tmp_path


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small class, graded by a stand-in."""
    folder = tmp_path_factory.mktemp("graded")
    with pytest.MonkeyPatch.context() as patch:
        use_stand_in(patch, folder)
        write_notebook(folder / "class", "ada", LESSON, answered_notebook(LESSON, {}))
        grading.grade_class([LESSON], folder / "class", folder / "out")
    return folder / "out"


def occupy(path: Path, kind: str) -> None:
    """Put something at `path` that is no file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            here = os.open(path.parent, os.O_RDONLY)  # the path itself may be too long for a socket
            bound.bind(f"/proc/self/fd/{here}/{path.name}")
            os.close(here)
    else:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))


@pytest.mark.parametrize("output", COMMANDS)
def test_a_pipe_in_the_place_of_an_output_is_named_and_stays(desk: Path, output: str) -> None:
    place, command = COMMANDS[output]
    occupy(desk / place, "pipe")
    words = command.split() + (["--roster", "people.csv"] if output == "collect" else [])
    status, said = run_instructors(*words)
    (line,) = (line for line in said.splitlines() if Path(place).name in line)
    assert status == 2
    assert place in line
    assert "Traceback" not in said
    assert (desk / place).is_fifo()


@pytest.mark.parametrize(
    ("kind", "is_there"),
    [
        ("folder", stat.S_ISDIR),
        ("socket", stat.S_ISSOCK),
        pytest.param("device", stat.S_ISCHR, marks=pytest.mark.root),
    ],
)
def test_each_kind_is_named(desk: Path, kind: str, is_there: Callable[[int], bool]) -> None:
    occupy(desk / "scores.csv", kind)
    (desk / "link.csv").symlink_to("scores.csv")
    for name in ("scores.csv", "link.csv"):
        status, said = run_instructors("export", "--class", "graded", "--out", name)
        assert (status, said) == (2, f"{name} could not be written: it is a {kind}, not a file; {REMEDY}.\n")
        assert is_there((desk / "scores.csv").stat().st_mode)
    assert (desk / "link.csv").is_symlink()


def test_a_link_into_a_folder_that_is_not_there_is_named_and_nothing_is_made(desk: Path) -> None:
    (desk / "scores.csv").symlink_to("nowhere/scores.csv")
    status, said = run_instructors("export", "--class", "graded", "--out", "scores.csv")
    assert (status, said) == (
        2, "scores.csv could not be written: it is a link to nowhere/scores.csv, which has no folder; remove it.\n",
    )  # fmt: skip
    assert not (desk / "nowhere").exists()


def test_a_learners_command_replaces_files_only(mine: Path) -> None:
    occupy(mine.with_name("start.ipynb"), "pipe")
    with pytest.raises(
        WorkspaceError, match=f"start.ipynb cannot be written: it is a pipe, not a file; {REMEDY}. It is unchanged."
    ):
        replace_text(mine.with_name("start.ipynb"), "new")
    assert mine.with_name("start.ipynb").is_fifo()
