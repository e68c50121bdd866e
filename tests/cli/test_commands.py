"""The `torchcourse` command, run as people run it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autograde.batch.grading import _check_submitted, misplaced
from autograde.classroom.class_config import class_lessons
from autograde.classroom.class_folder import make_class
from autograde.classroom.roster import Member
from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.cli import console
from autograde.course.verify import Claim
from autograde.errors import RefusedError
from autograde.source import paths
from autograde.source.script import answers_as_text
from tests.support.alone import COMMAND, alone, environment
from tests.support.commands import run_instructors
from torchcourse.model import catalogue

LESSON = "01_tensors"
BESIDE = Path(sys.executable).parent


def torchcourse(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [BESIDE / "torchcourse", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_help_lists_the_learners_and_the_instructors_commands() -> None:
    done = torchcourse("--help")
    assert done.returncode == 0
    for command in ("lab", "status", "check", "reset", "update", "doctor", "build", "grade", "sample", "verify"):
        assert command in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("grade 01_tensor --submitted . --out out", "Did you mean '01_tensors'?"),
        ("grade 01_tensors --submitted none --out out", "is not a folder"),
        ("build 1_tensors", "Did you mean '01_tensors'?"),
        ("build 99", "There is no lesson '99'. The lessons are 01_tensors, "),
        ("verify 001:no_such", "01_tensors has no exercise 'no_such'."),
        ("verify 1:row_softma", "Did you mean 'row_softmax'?"),
        ("grade 1 --submitted none --out out", "is not a folder"),
        ("build 01_tensor", "Did you mean '01_tensors'?"),
        ("verify 01_tensor", "Did you mean '01_tensors'?"),
        ("new exercise 01_tensor fold_rows --after row_softmax", "Did you mean '01_tensors'?"),
        ("class init room --lessons 01_tensor", "Did you mean '01_tensors'?"),
        ("class init room --lessons 01_tensors --due soon", "soon is no date; write 2026-12-01"),
        ("class init room --lessons 01_tensors --due 02_autograd=2026-12-01", "is none of the class's lessons"),
        ("class init room --lessons 01_tensors --late 10", "--late 10: this is no share of a score; write 0.1 for a"),
        ("class init room --lessons 01_tensors --late 10%", "--late 10%: this is no share of a score"),
        ("class init room --lessons 01_tensors --late nan", "--late nan: this is no share of a score"),
        (
            "collect x.zip --lesson 01_tensors",
            "says who is who: run this in the class folder (`torchcourse class init`",
        ),
        (
            "class init room --lessons 1 --roster lossy.csv --due eve:1=2026-12-01",
            "lossy.csv, line 2, ren: a letter of Ren? is",
        ),
        ("class init room --lessons 01_tensors --roster nowhere.csv", "No such file"),
        ("class init room --lessons 01_tensors --roster empty.csv --sample 3", "has no valid row"),
        ("export --class . --format xls", "--format is one of csv, canvas, moodle, json"),
        ("export --class . --column Tensors", "--column is LESSON="),
        ("export --class . --column 01_tensor=x", "Did you mean"),
        ("export --class . --column 1,2=x", "'1,2' has to name exactly one lesson, not 2."),
        ("collect x.zip --lesson 1,2", "'1,2' has to name exactly one lesson, not 2."),
        ("release 1,2", "'1,2' has to name exactly one lesson, not 2."),
        ("release ,", "',' has to name exactly one lesson."),
        ("report [group]", "[group]/grades.csv is missing"),
        ("report :registered:", ":registered:/grades.csv is missing"),
        ("export --class . --lessons nothing", "There is no lesson 'nothing'. The lessons are 01_tensors, "),
        ("export --class .", "gradebook.db does not exist"),
        ("export --class .", "elsewhere belongs to a class that `torchcourse class init … --gradebook URL` made"),
        ("report .", "is missing"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, says: str
) -> None:
    (tmp_path / "empty.csv").write_text("id,email\n=1,\n")
    (tmp_path / "lossy.csv").write_text("id,first_name\nren,Ren?\n")
    monkeypatch.chdir(tmp_path)
    status, output = run_instructors(*words.split())
    assert status == 2
    assert says in output.replace("\n", " ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.csv", "lossy.csv"]


@pytest.mark.parametrize("words", ["release 1", "export", "report ."])
def test_a_folder_of_somebody_else_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """What stat says of a file in a colleague's folder; root may look into every one."""

    def stat(path: Path, **_: object) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_file", stat)
    status, output = run_instructors(*words.split())
    assert status == 2
    assert "cannot be used: Permission denied." in output
    assert output.count("\n") == 1


def test_lessons_between_commas_are_all_verified_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def verify(which: list[str], workers: int, use_cache: bool) -> list[Claim]:
        asked.extend(which)
        return [Claim(":registered:", holds=True, says="[/x] at line:100: holds")]

    monkeypatch.setattr("autograde.course.verify.verify", verify)
    status, output = run_instructors("verify", "01_tensors,2:", "03_modules")
    assert asked == ["01_tensors:", "02_autograd:", "03_modules"]
    assert (status, output.splitlines()[0]) == (0, "ok     :registered:: [/x] at line:100: holds")
    assert console.lesson_names(["1,01_tensors", "2"]) == ["01_tensors", "02_autograd"]


def test_a_number_that_two_lessons_have_is_refused_with_both_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(catalogue.LESSONS, "01_mine", "mine")
    monkeypatch.chdir(tmp_path)
    for words in ("class init room --lessons 1", "collect x.zip --lesson 01", "verify 1:row_softmax",
                  f"class init room --lessons {LESSON},01_mine --due 1=2026-12-01"):  # fmt: skip
        status, output = run_instructors(*words.split())
        assert status == 2
        assert "may be 01_tensors or 01_mine: write the name of the one that you mean." in output.replace("\n", " ")
    assert not any(tmp_path.iterdir())


def test_what_is_loaded_is_not_searched_for_garbage() -> None:
    program = """
import gc
from autograde.cli.quick_imports import quick_imports
for wrong in (False, True):
    try:
        with quick_imports():
            assert not gc.isenabled()
            import jsonschema
            assert 1 / (not wrong)
    except ZeroDivisionError:
        pass
    assert gc.isenabled() and gc.get_freeze_count() > 1000
"""
    done = alone(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.sandbox
@pytest.mark.parametrize("place", ["", "ada/02_autograd", "group/ada/01_tensors"])
def test_where_nobody_has_submitted_it_is_an_error_that_names_what_lies_elsewhere(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "class" / place
    folder.mkdir(parents=True)
    if place:
        (folder / "01_tensors.ipynb").write_text("{}")
    status, output = run_instructors("grade", LESSON, "--submitted", tmp_path / "class", "--out", tmp_path / "out")
    assert status == 2
    assert f"has no STUDENT/LESSON/LESSON.ipynb for {LESSON}" in output
    assert (f"{place}/01_tensors.ipynb: choose the lesson, or the folder" in output) == bool(place)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", [b"01_tensors\xff.ipynb", b"01_tensors\x1b[2J.ipynb"])
def test_names_of_learners_files_are_escaped_where_they_are_printed(tmp_path: Path, name: bytes) -> None:
    (tmp_path / "ada").mkdir()
    Path(os.fsdecode(bytes(tmp_path / "ada") + b"/" + name)).touch()
    (sentence,) = misplaced(tmp_path, [LESSON])
    assert sentence.isprintable()
    with pytest.raises(RefusedError) as refused:
        _check_submitted(tmp_path, [LESSON])
    assert str(refused.value).isprintable()
    assert "01_tensors\\" in sentence
    assert "01_tensors\\" in str(refused.value)


@pytest.mark.sandbox
def test_of_several_lessons_the_one_that_nobody_handed_in_is_named(tmp_path: Path) -> None:
    write_notebook(tmp_path / "class", "ada", LESSON, answered_notebook(LESSON, {}))
    words = "grade", LESSON, "02_autograd", "--submitted", tmp_path / "class", "--out", tmp_path / "out"
    status, output = run_instructors(*words)
    assert status == 2
    assert "Nobody has handed in 02_autograd" in output
    assert not (tmp_path / "out").exists()


def test_a_notebook_beside_its_place_is_named(tmp_path: Path) -> None:
    right = write_notebook(tmp_path, "ada", LESSON, answered_notebook(LESSON, {}))
    (tmp_path / "ben").mkdir()
    (tmp_path / "ben" / f"{LESSON}-2.ipynb").write_text("{}")
    (tmp_path / "cleo" / LESSON).mkdir(parents=True)
    (tmp_path / "cleo" / LESSON / "final.ipynb").write_text("{}")
    (tmp_path / "dan").mkdir()
    said = misplaced(tmp_path, [LESSON])
    assert [sentence.split(":")[0] for sentence in said] == ["ben", "cleo"]
    assert str(tmp_path / "ben" / f"{LESSON}-2.ipynb") in said[0]
    assert str(right).replace("ada", "ben") in said[0]


@pytest.mark.sandbox
def test_a_class_that_lost_its_gradebook_is_told_how_to_make_one(tmp_path: Path) -> None:
    make_class(tmp_path / "spring", [LESSON], members=[Member("ada", "Ada", "Lovelace")])
    write_notebook(tmp_path / "spring" / "submitted", "ada", LESSON, answered_notebook(LESSON, {}))
    (tmp_path / "spring" / "gradebook.db").unlink()
    words = "grade", LESSON, "--submitted", tmp_path / "spring" / "submitted", "--out", tmp_path / "spring"
    status, output = run_instructors(*words)
    remedy = f"torchcourse class init {tmp_path / 'spring'} --lessons {LESSON}"
    assert status == 2 and remedy in output.replace("\n", " ")
    assert run_instructors(*remedy.split()[1:])[0] == 0
    assert class_lessons(tmp_path / "spring") == [LESSON]
    assert run_instructors(*words)[0] == 0


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class folder with a table of grades."""
    folder = tmp_path_factory.mktemp("class")
    make_class(folder, [LESSON], members=[Member("ada", "Ada", "Lovelace", "", "")])
    (folder / "grades.csv").write_text("student,lesson,exercise,score,max_score,status\n")
    return folder


@pytest.mark.parametrize(
    ("words", "status"), [("diff a b", 2), ("diff . .", 0), ("export --class nowhere", 2), ("export --class .", 0)]
)
def test_what_needs_no_torch_and_no_grammar_imports_neither(words: str, status: int, room: Path) -> None:
    program = f"""
import sys
sys.argv = {["torchcourse", *words.split()]!r}
from torchcourse.cli import main
try:
    main()
finally:
    print("imported:", {{"torch", "rfc3987_syntax"}}.intersection(sys.modules))
"""
    done = alone(program, cwd=room)
    assert done.returncode == status, done.stderr
    assert "imported: set()" in done.stdout
    assert words != "export --class ." or '"Lovelace"' in done.stdout


def test_a_command_ends_without_destructors_and_with_everything_written() -> None:
    """A thread of torch's runs on while they do, and has corrupted the heap."""
    program = """
import ctypes, sys
from torchcourse.cli import main
c = ctypes.CDLL(None)
c.on_exit(c.abort, None)  # runs when destructors do
sys.argv = ["torchcourse", "diff", "nowhere", "nowhere"]
try:
    main()
finally:
    print("written")
"""
    done = alone(program)
    assert done.returncode == 2 and done.stdout.endswith("written\n"), done.stdout + done.stderr


@pytest.mark.parametrize(("asked", "threads"), [(None, 1), ("2", 2)])
def test_torch_uses_one_thread_unless_the_environment_says_how_many(asked: str | None, threads: int) -> None:
    program = """
import sys
sys.argv = ["torchcourse", "diff", "nowhere", "nowhere"]
from torchcourse.cli import main
try:
    main()
finally:
    import torch
    print("threads:", torch.get_num_threads())
"""
    done = alone(program, OMP_NUM_THREADS=asked, MKL_NUM_THREADS=None)
    assert f"threads: {min(threads, len(os.sched_getaffinity(0)))}" in done.stdout, done.stderr


def validate(path: Path) -> str:
    env = {**os.environ, "HOME": str(path.parent), "JUPYTER_CONFIG_DIR": str(path.parent / "config")}
    command = [BESIDE / "nbgrader", "validate", str(path)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False).stdout


def test_nbgraders_validate_says_what_the_checks_say(tmp_path: Path) -> None:
    path = tmp_path / f"{LESSON}.ipynb"
    solved = answered_notebook(LESSON, answers_as_text(paths.SOLUTIONS / f"{LESSON}.py"))
    few = ("exercise-select_scores", "check-select_scores")
    solved["cells"] = [c for c in solved["cells"] if c["id"] in few or "setup" in c["metadata"].get("tags", ())]
    path.write_text(json.dumps(solved))
    assert "Success! Your notebook passes all the tests." in validate(path)
    solved["cells"][1]["source"] = "def select_scores(scores, labels):\n    return scores[labels]"
    path.write_text(json.dumps(solved))
    output = validate(path)
    assert "VALIDATION FAILED" in output
    assert "select_scores: failed. The result has shape" in output


def test_lab_leaves_the_gpu_to_the_lessons() -> None:
    code = """
import os, sys
from torchcourse.workspace import working_copy
working_copy.open_lab = lambda *arguments: print("accelerator:", os.environ.get("TORCHCOURSE_ACCELERATOR")) or 0
sys.argv = ["torchcourse", "lab"]
from torchcourse.cli import main
main()
"""
    assert alone(code, TORCHCOURSE_ACCELERATOR=None).stdout == "accelerator: None\n"


@pytest.mark.parametrize("words", ["report nowhere", "grade 01_tensors --submitted . --out ../out"])
def test_ctrl_c_while_a_command_loads_torch_ends_it_at_once_and_without_a_word(words: str, tmp_path: Path) -> None:
    """It raised in the middle of imports: the command went on, or ended with a traceback or a message of C++."""

    def at_a_terminal() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in a shell's background ignores it

    command = [sys.executable, "-c", COMMAND, *words.split()]
    started = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=at_a_terminal,
        env=environment(),
    )  # fmt: skip
    maps = Path(f"/proc/{started.pid}/maps")
    while started.poll() is None and "libtorch_cpu" not in maps.read_text():
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    output, _ = started.communicate(timeout=60)
    assert (started.returncode, output) == (-signal.SIGINT, b"")
