"""Lessons of an instructor's own: docs/own-lessons.md, followed word for word."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from autograde.classroom.synthetic_class import write_notebook
from autograde.source import paths
from tests.support.alone import COMMAND, alone, environment
from tests.support.results import grade_rows
from torchcourse.model.own_course import VARIABLE

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

PAGE = paths.ROOT / "docs" / "own-lessons.md"
LESSON = "16_graphs"
ADDED_ONCE = "    counts = torch.zeros(nodes, dtype=torch.int64)\n    counts[edges.flatten()] += 1\n    return counts"
ANSWERS = {
    "ada": "    return torch.bincount(edges.flatten(), minlength=nodes)",
    "bob": ADDED_ONCE,
    "eve": "    return open({secret!r}).read()",
}


def attempted(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return alone(COMMAND, *command.split(), cwd=folder)


def run(command: str, folder: Path) -> str:
    done = attempted(command, folder)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page was followed, up to the submissions."""
    made, page = tmp_path_factory.mktemp("desk"), PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"^\$ torchcourse (.+)$", page, re.MULTILINE)
    assert len(commands) == 6
    run(commands[0], made)
    files = re.findall(r"`(graphs/[^`]+\.py)`:\n\n```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert {name for name, _ in files} == {
        str(path.relative_to(made)) for path in (made / "graphs").rglob("*.py") if "__pycache__" not in str(path)
    }  # fmt: skip
    for name, text in files:
        (made / name).write_text(text, encoding="utf-8")
    for command in commands[1:3]:
        said = run(command, made)
    assert said.endswith("Every claim holds.\n")
    for command in commands[3:5]:
        run(command, made)
    for who, body in ANSWERS.items():
        secret = made / "graphs" / "hidden" / "graphs" / "degrees.py"
        write_notebook(made / "fall" / "submitted", who, LESSON, answered(made, body.format(secret=str(secret))))
    run(commands[5], made)
    return made


def answered(folder: Path, body: str) -> dict[str, object]:
    notebook: dict[str, object] = json.loads((folder / "graphs" / "notebooks" / f"{LESSON}.ipynb").read_text())
    cells: list[dict[str, object]] = notebook["cells"]  # type: ignore[assignment]
    for cell in cells:
        if cell["id"] == "exercise-degrees":
            cell["source"] = f"def degrees(edges, nodes):\n{body}"
    return notebook


def unsolved(lesson: str) -> dict[str, object]:
    notebook: dict[str, object] = json.loads(paths.notebook(lesson).read_text())
    return notebook


def rows(folder: Path) -> Mapping[str, tuple[str, str, str]]:
    mine = [row for row in grade_rows(folder / "fall" / "grades.csv") if row["lesson"] == LESSON]
    return {row["student"]: (row["score"], row["misconception"], row["message"]) for row in mine}


def test_the_page_leads_from_an_empty_folder_to_a_grade(folder: Path) -> None:
    graded = rows(folder)
    assert graded["ada"][:2] == ("2", "")
    assert graded["bob"][:2] == ("0", "added-once")
    assert graded["eve"][0] == "0" and "FileNotFoundError" in graded["eve"][2]


def test_stock_nbgrader_grades_it_through_the_config_of_the_class(folder: Path) -> None:
    command = [sys.executable, "-m", "nbgrader", "autograde", LESSON, "--student", "bob", "--force"]
    done = subprocess.run(command, cwd=folder / "fall", env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    marked = (folder / "fall" / "autograded" / "bob" / LESSON / f"{LESSON}.ipynb").read_text()
    assert "adds one only once" in marked


def test_a_command_that_is_not_told_of_the_folder_keeps_the_grades(folder: Path, tmp_path: Path) -> None:
    desk = tmp_path / "desk"
    shutil.copytree(folder, desk)
    run("--course graphs class init fall --lessons 01_tensors", desk)
    write_notebook(desk / "fall" / "submitted", "ada", "01_tensors", unsolved("01_tensors"))
    before = rows(desk)
    run("grade 01_tensors --submitted fall/submitted --out fall", desk)
    assert rows(desk) == before
    assert "16_graphs" in run("export --class fall", desk)


def test_a_class_that_gets_its_first_own_lesson_later_remembers_the_folder(folder: Path, tmp_path: Path) -> None:
    run("class init fall --lessons 01_tensors", tmp_path)
    config = tmp_path / "fall" / "nbgrader_config.py"
    assert VARIABLE not in config.read_text()
    shutil.copytree(folder / "graphs", tmp_path / "graphs")
    for place in ("graphs", "moved"):
        (tmp_path / "graphs").rename(tmp_path / place)
        run(f"--course {place} class init fall --lessons 16_graphs", tmp_path)
        noted = [line for line in config.read_text().splitlines() if VARIABLE in line]
        assert len(noted) == 1 and repr(str(tmp_path / place)) in noted[0]
    code = "import os, sys; from pathlib import Path; from autograde.classroom.class_config import class_config; "
    code += "class_config(Path('fall')); print(os.environ[sys.argv[1]])"
    done = alone(code, VARIABLE, cwd=tmp_path, **{VARIABLE: "elsewhere"})
    assert done.stdout == f"{tmp_path / 'moved'}\n", done.stderr


def test_lessons_that_cannot_be_loaded_do_not_stop_the_grading_of_another(folder: Path, tmp_path: Path) -> None:
    """One raises an exception on import; the exercises of the other are gone."""
    desk = tmp_path / "desk"
    shutil.copytree(folder, desk)
    run("--course graphs new lesson 17_broken broken", desk)
    (desk / "graphs" / "exercises" / "broken" / "broken.py").write_text("raise RuntimeError('not yet')\n")
    (desk / "graphs" / "solutions" / "18_gone.py").touch()
    run("--course graphs grade 16_graphs --submitted fall/submitted --out again", desk)
    assert set(ANSWERS) <= {row.split(",")[0] for row in (desk / "again" / "grades.csv").read_text().splitlines()}


def test_an_error_in_the_probe_is_the_authors_and_not_the_learners(folder: Path) -> None:
    code = (
        "from torchcourse.model.own_code import is_own; import torchcourse.exercises.graphs.degrees as public; "
        "import autograde.hidden.graphs.degrees as private; print(is_own(public.__file__), is_own(private.__file__))"
    )
    done = alone(code, **{VARIABLE: str(folder / "graphs")})
    assert done.stdout.split() == ["False", "True"], done.stderr


def changed(folder: Path, desk: Path, file: str, old: str, new: str) -> None:
    """Copy what the page makes to `desk`, and change a file there."""
    shutil.copytree(folder, desk)
    text = (desk / "graphs" / file).read_text(encoding="utf-8")
    assert old in text
    (desk / "graphs" / file).write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "command", "says"),
    [
        ("exercises/graphs/degrees.py", "answer(edges, nodes)", "answer(edges, nodez)", "build 16_graphs",
         "degrees.py:14: the probe itself raises NameError"),
        ("exercises/graphs/degrees.py", "answer(edges, nodes)", "answer(edges, nodez)",
         "grade 16_graphs --submitted fall/submitted --out fall --regrade", "the probe itself raises NameError"),
        ("hidden/graphs/degrees.py", "def one_end(", "def one_end((", "verify 16_graphs", "degrees.py:"),
        ("solutions/16_graphs.py", "points=2", "points=5", "class init fall --lessons 16_graphs",
         "has other exercises or points than its notebook"),
        ("solutions/16_graphs.py", "points=2", "points=5", "bundle again.zip --lessons 16_graphs",
         "has other exercises or points than its notebook"),
        ("exercises/graphs/degrees.py", "EXERCISE", "DEGREES", "build 16_graphs", "degrees.py defines no EXERCISE"),
    ],
)  # fmt: skip
def test_what_an_author_has_to_mend_is_said_in_one_line(
    folder: Path, tmp_path: Path, file: str, old: str, new: str, command: str, says: str
) -> None:
    desk = tmp_path / "desk"
    changed(folder, desk, file, old, new)
    graded = rows(desk)
    done = attempted(f"--course graphs {command}", desk)
    assert done.returncode == 2 and says in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert rows(desk) == graded


def test_learners_are_not_given_a_lesson_with_damaged_data(folder: Path, tmp_path: Path) -> None:
    desk = tmp_path / "desk"
    shutil.copytree(folder, desk)
    (desk / "graphs" / "stored" / f"{LESSON}.bin").write_bytes(b"not what the build wrote")
    done = attempted(f"--course graphs bundle again.zip --lessons {LESSON}", desk)
    assert done.returncode == 2 and f"{LESSON}.bin is missing, damaged or of another version" in done.stdout
    assert f"build {LESSON}` makes it again" in done.stdout


def test_a_helper_beside_the_exercises_is_no_exercise(folder: Path, tmp_path: Path) -> None:
    desk, public = tmp_path / "desk", tmp_path / "desk" / "graphs" / "exercises" / "graphs"
    shutil.copytree(folder, desk)
    (public / "_drawn.py").write_text("NODES = 4\n", encoding="utf-8")
    probe = public / "degrees.py"
    probe.write_text(probe.read_text(encoding="utf-8") + "\nfrom torchcourse.exercises.graphs._drawn import NODES\n")
    run(f"--course graphs build {LESSON}", desk)
    run(f"--course graphs grade {LESSON} --submitted fall/submitted --out again", desk)
    assert (desk / "again" / "grades.csv").read_text() == (folder / "fall" / "grades.csv").read_text()


def test_before_the_first_build_verify_says_what_is_left_to_write(tmp_path: Path) -> None:
    run("--course graphs new lesson 16_graphs degrees", tmp_path)
    done = attempted("--course graphs verify 16_graphs:degrees", tmp_path)
    assert done.returncode == 1 and "still to be written" in done.stdout and "it has not been built" in done.stdout


def test_nothing_that_an_author_wrote_is_written_over(folder: Path, tmp_path: Path) -> None:
    desk = tmp_path / "desk"
    shutil.copytree(folder, desk)
    (desk / "graphs" / "hidden" / "graphs" / "bar.py").write_text("mine")
    done = attempted("--course graphs new exercise 16_graphs bar --after degrees", desk)
    assert done.returncode == 2 and "exists already" in done.stdout
    done = attempted("--course graphs new exercise 01_tensors foo --after row_softmax", desk)
    assert done.returncode == 2 and "a lesson of the course itself" in done.stdout


def test_a_report_that_knows_nothing_of_a_lesson_says_so(folder: Path) -> None:
    done = attempted("report fall --html page.html", folder)
    assert done.returncode == 0 and "16_graphs is not known here" in done.stderr


def test_learners_get_the_lesson_and_no_answers(folder: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(folder / "learners.zip") as archive:
        wheel = next(name for name in archive.namelist() if name.endswith(".whl"))
        archive.extract(wheel, tmp_path)
    with zipfile.ZipFile(tmp_path / wheel) as archive:
        assert not [name for name in archive.namelist() if "hidden" in name or "solutions" in name]
        archive.extractall(tmp_path / "site")
    notebook = answered(folder, ADDED_ONCE)
    (tmp_path / f"{LESSON}.ipynb").write_text(json.dumps(notebook))
    site = str(tmp_path / "site")
    done = alone(COMMAND, "check", f"{LESSON}.ipynb", "degrees", cwd=tmp_path, PYTHONPATH=site)
    assert "adds one only once" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("--course nowhere build 16_graphs", "There is no folder nowhere"),
        ("--course own new lesson 16_tensors one", "the course has one on 'tensors'"),
        ("--course own new lesson graphs one", "it takes two digits and a topic"),
        ("--course own new lesson 16_graphs describe", "01_tensors has an exercise 'describe' already"),
        ("new lesson 16_graphs one", "Name the folder of your own course"),
        ("--course taken build 01_tensors", "the course has one on 'tensors'"),
        ("--course own new lesson 16_common one", "the course has one on 'common'"),
        ("--course twice build 16_graphs", "17_graphs has the topic 'graphs'"),
        ("--course halves new lesson 16_graphs one", "exercises/graphs/one.py exists already"),
        ("build 16_graphs", "A lesson of your own needs `torchcourse --course DIR`"),
        ("--course own new lesson 16_graphs check", "a name that the setup cell of a lesson imports"),
        ("--course empty build 16_graphs", "holds no lessons of your own"),
        ("--course file new lesson 16_graphs one", "There is no folder file"),
        (f"--course {paths.ROOT / 'src' / 'own'} new lesson 16_graphs one", "is in the course's own folder"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(command: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "taken" / "solutions").mkdir(parents=True)
    (tmp_path / "taken" / "solutions" / "01_tensors.py").touch()
    (tmp_path / "twice" / "solutions").mkdir(parents=True)
    (tmp_path / "twice" / "solutions" / "16_graphs.py").touch()
    (tmp_path / "twice" / "solutions" / "17_graphs.py").touch()
    (tmp_path / "halves" / "exercises" / "graphs").mkdir(parents=True)
    (tmp_path / "halves" / "exercises" / "graphs" / "one.py").touch()
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    done = attempted(command, tmp_path)
    assert done.returncode == 2 and says in done.stdout and len(done.stdout.splitlines()) == 1
    assert not (tmp_path / "own").exists() and not (paths.ROOT / "src" / "own").exists()
