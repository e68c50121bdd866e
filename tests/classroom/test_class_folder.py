"""A class folder: made, added to, graded; the commands that an instructor types, and what they refuse."""

from __future__ import annotations

import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from nbgrader.api import Gradebook
from traitlets.config import Configurable

from autograde.batch.grading import LessonGrader
from autograde.classroom.class_config import class_lessons, class_seed
from autograde.classroom.class_folder import make_class
from autograde.classroom.export import scores_of
from autograde.classroom.roster import read_roster
from autograde.cli import grade as grade_command
from autograde.settings import SEED
from autograde.source import paths
from autograde.source.release import load_release
from tests.support.commands import run_instructors
from tests.support.results import tree

LESSON = "01_tensors"
ROSTER = (
    "id,first_name,last_name,email,lms_user_id\n"
    "ada,Ada,Lovelace,ada@example.org,40001\n"
    'bo,Bo,"O\'Neil, Jr.",bo@example.org,40002\n'
    ",No,Id,\n"
    "../etc,Up,And Out,\n"
    "eve,=cmd|'/C calc'!A0,Evil,\n"
    "cy,Cy,Late,cy@example.org,\n"
)
DUE = datetime(2026, 12, 1, 18)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A class made by the command, and the output of the command."""
    folder = tmp_path_factory.mktemp("course") / "spring"
    roster = folder.parent / "roster.csv"
    roster.write_text(ROSTER)
    words = ["class", "init", "spring", "--lessons", LESSON, "--due", f"{LESSON}=2026-12-01T18:00+00:00"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder.parent)
        status, output = run_instructors(
            *words, "--roster", roster, "--sample", 2, "--late", 0.25, "--exchange", folder.parent / "exchange"
        )
    yield SimpleNamespace(folder=folder, status=status, output=output, url=f"sqlite:///{folder / 'gradebook.db'}")


def test_an_archive_of_a_lesson_that_the_class_has_not_is_refused(room: SimpleNamespace, tmp_path: Path) -> None:
    into = room.folder / "submitted"
    status, output = run_instructors("collect", tmp_path / "no.zip", "--lesson", "02_autograd", "--into", into)
    assert status == 2
    assert f"has no 02_autograd: it has {LESSON}." in output


def test_a_class_has_what_nbgrader_needs_and_the_bad_rows_are_named(room: SimpleNamespace) -> None:
    assert room.status == 0, room.output
    for words in ("line 4, No Id: the id is blank", "line 5, ../etc: an id names folders",
                  "line 6, eve: the first_name", f"is a class of 3 with {LESSON}.", "3 rows of"):  # fmt: skip
        assert words in room.output.replace("\n", " ")
    with Gradebook(room.url) as book:
        (assignment,) = book.assignments
        assert (assignment.name, assignment.duedate) == (LESSON, DUE)
        assert assignment.max_score == sum(map(load_release(LESSON).points, load_release(LESSON).exercises))
        assert {s.id: (s.first_name, s.last_name, s.email, s.lms_user_id) for s in book.students} == {
            "ada": ("Ada", "Lovelace", "ada@example.org", "40001"),
            "bo": ("Bo", "O'Neil, Jr.", "bo@example.org", "40002"), "cy": ("Cy", "Late", "cy@example.org", None),
        }  # fmt: skip
    released = room.folder / "release" / LESSON / f"{LESSON}.ipynb"
    assert released.read_bytes() == (paths.NOTEBOOKS / f"{LESSON}.ipynb").read_bytes()
    assert "BEGIN SOLUTION" in (room.folder / "source" / LESSON / f"{LESSON}.ipynb").read_text()
    assert room.folder.stat().st_mode & 0o077 == 0
    assert sorted(p.name for p in (room.folder / "submitted").iterdir()) == ["ada", "bo"]
    assert [m.id for m in read_roster(room.folder / "roster.csv").members] == ["ada", "bo", "cy"]


def test_nbgrader_reads_the_configuration_of_the_folder(room: SimpleNamespace) -> None:
    from nbgrader.apps import NbGraderAPI

    from autograde.batch.nbgrader_plugin import GradeSubmission
    from autograde.classroom.class_config import class_config

    config = class_config(room.folder)
    assert GradeSubmission in config.Autograde.autograde_preprocessors
    assert (config.CourseDirectory.course_id, config.CourseDirectory.root) == ("torchcourse", str(room.folder))
    assert config.CourseDirectory.db_url == room.url
    assert config.Exchange.root == str(room.folder.parent / "exchange")
    assert (config.AssignLatePenalties.plugin_class, config.PerDay.share) == ("autograde.classroom.late.PerDay", 0.25)
    api = NbGraderAPI(config=config)
    assert api.get_source_assignments() == {LESSON}
    assert api.get_submitted_students(LESSON) == {"ada", "bo"}


def test_each_class_has_a_secret_seed_that_both_ways_of_grading_use(
    room: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autograde.batch import nbgrader_plugin
    from autograde.classroom.class_config import class_config

    make_class(tmp_path / "other", [LESSON])
    seed = class_seed(room.folder)
    assert len({seed, class_seed(tmp_path / "other"), SEED}) == 3
    assert class_seed(tmp_path) == SEED, "no class"
    assert (room.folder.stat().st_mode & 0o077, str(seed) in room.output) == (0, False)

    drawn: list[int] = []

    class StoppedError(Exception):
        pass

    def grader(_lesson: str, seed: int) -> None:
        drawn.append(seed)
        raise StoppedError

    monkeypatch.setattr(nbgrader_plugin, "lesson_grader", grader)
    monkeypatch.setattr(nbgrader_plugin, "exposed_answers_problem", lambda _: "")
    converter = Configurable(config=class_config(room.folder))
    converter.coursedir = SimpleNamespace(root=str(room.folder))
    plugin = nbgrader_plugin.GradeSubmission(parent=Configurable(parent=converter))
    with pytest.raises(StoppedError):
        plugin.preprocess(None, {"nbgrader": {"notebook": LESSON, "student": "ada"}})

    def run(*_arguments: object, seed: int, **_options: object) -> None:
        drawn.append(seed)
        raise StoppedError

    monkeypatch.setattr(grade_command, "_grade", run)
    submitted = room.folder / "submitted"
    for more in ([], ["--seed", "77"]):
        run_instructors("grade", LESSON, "--submitted", submitted, "--out", room.folder, *more)
    assert drawn == [seed, seed, 77]


def test_a_class_is_added_to_and_nothing_in_it_is_lost(room: SimpleNamespace) -> None:
    config = room.folder / "nbgrader_config.py"
    config.write_text(config.read_text() + "# mine\n")
    source = room.folder / "source" / LESSON / f"{LESSON}.ipynb"
    ours = source.read_bytes()
    source.write_bytes(b"mine too")
    more = room.folder.parent / "more.csv"
    more.write_text("id,first_name\nada,Augusta\nzoe,Zoe\n")
    words = ["class", "init", room.folder, "--due", "2026-12-24", "--roster", more]
    for option, value in (("--late", 0.5), ("--late", 0.0), ("--name", "torchcourse"), ("--exchange", "elsewhere")):
        status, output = run_instructors(*words, option, value)
        assert (status, "is a class already, and nothing was changed" in output) == (2, True)
    status, output = run_instructors(*words)
    assert status == 0
    assert class_lessons(room.folder) == [LESSON], "a roster alone adds no lessons"
    assert f"is a class of 4 with {LESSON}." in output, "who was enrolled before is counted too"
    assert config.read_text().endswith("# mine\n")
    assert source.read_bytes() == ours
    assert (room.folder / ".replaced" / "source" / LESSON / "1.ipynb").read_bytes() == b"mine too"
    assert "share = 0.25" in config.read_text()
    with Gradebook(room.url) as book:
        assert [s.id for s in book.students] and {s.id for s in book.students} == {"ada", "bo", "cy", "zoe"}
        assert book.find_student("ada").first_name == "Augusta"
        assert book.find_assignment(LESSON).duedate.date() >= datetime(2026, 12, 24).date()
        book.remove_student("zoe")
    make_class(room.folder, [LESSON], due={LESSON: DUE})


@pytest.mark.parametrize("cells", ["BO@example.org,", ",40002"])
def test_nobody_is_enrolled_with_the_address_or_number_of_somebody_who_is_in_the_class(
    room: SimpleNamespace, cells: str
) -> None:
    before, more = tree(room.folder), room.folder.parent / "second.csv"
    more.write_text(f"id,email,lms_user_id\ndee,{cells}\n")
    status, output = run_instructors("class", "init", room.folder, "--roster", more)
    assert status == 2, output
    for words in (f"line 2 of {more}, dee: ", "of bo in line 3 of ", "roster.csv; correct it or leave it empty."):
        assert words in output.replace("\n", " ")
    assert tree(room.folder) == before


def test_what_is_no_class_folder_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir(mode=0o755)
    (tmp_path / "program" / "source").mkdir(parents=True)
    for name in ("photos/cat.jpg", "file", "program/source/main.c"):
        (tmp_path / name).touch()
    for name, files in (("thesis", ["roster.csv", "thesis.tex"]), ("taxes", ["submitted", "tax.pdf"])):
        for file in files:
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / file).write_text("id,shoe_size\nada,7\n")
    for command, name, why in (("class init", "photos", "holds cat.jpg and is no class folder"),
                               ("class init", "thesis", "holds roster.csv, thesis.tex and is no class folder"),
                               ("class init", "taxes", "holds submitted, tax.pdf and is no class folder"),
                               ("class init", "program", "holds source and is no class folder"),
                               ("class init", "file", "is not a folder: name a new one"),
                               ("sample", "file", "is not a folder: name a new one")):  # fmt: skip
        status, output = run_instructors(*command.split(), tmp_path / name)
        assert (status, why in output.replace("\n", " ")) == (2, True), output
    assert (tmp_path / "photos").stat().st_mode & 0o777 == 0o755
    assert [p.name for p in (tmp_path / "program").iterdir()] == ["source"]


def test_grading_names_students_and_lessons_that_are_not_of_the_class(
    room: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    for student in ("ada", "zed"):
        (tmp_path / student).mkdir()
    assert grade_command._lessons_of_class(["02_autograd", LESSON], tmp_path, room.folder) == [LESSON]
    output = capsys.readouterr().out
    assert "02_autograd is not a lesson of the class" in output
    assert "Not on the roster, but graded anyway: zed" in output
    with pytest.raises(typer.Exit):
        grade_command._lessons_of_class(["02_autograd"], tmp_path, room.folder)
    assert f"No lesson is left to grade: name one of the class's, {LESSON}." in capsys.readouterr().out
    assert grade_command._lessons_of_class(["02_autograd"], tmp_path, tmp_path) == ["02_autograd"]
    assert class_lessons(room.folder) == [LESSON]
    (tmp_path / "\x1b[2Jbob").mkdir()
    grade_command._lessons_of_class([LESSON], tmp_path, room.folder)
    assert "\\x1b[2Jbob, zed" in capsys.readouterr().out


def test_a_damaged_roster_of_a_class_is_one_sentence_with_the_line(room: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "submitted").mkdir()
    for name in ("gradebook.db", "nbgrader_config.py"):
        shutil.copyfile(room.folder / name, tmp_path / name)
    shutil.copytree(room.folder / "journal", tmp_path / "journal")
    for text, why in (("id,email\nada,nowhere\n", "line 2, ada: 'nowhere' is no e-mail address; correct it"),
                      ("name\nada\n", "a roster has the column id")):  # fmt: skip
        (tmp_path / "roster.csv").write_text(text)
        for command in (["grade", LESSON, "--submitted", tmp_path / "submitted", "--out", tmp_path],
                        ["class", "init", tmp_path]):  # fmt: skip
            status, output = run_instructors(*command)
            assert (status, why in output.replace("\n", " ")) == (2, True), output


@pytest.mark.sandbox
def test_late_submissions_lose_points_and_a_preview_writes_nothing_unless_agreed(
    room: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = room.folder / "submitted"
    (submitted / "ada" / LESSON / "timestamp.txt").write_text("2026-12-01 17:59:00 UTC")
    (submitted / "ada" / LESSON / "submission_secret.txt").write_text("secret of ada")
    (submitted / "bo" / LESSON / "timestamp.txt").write_text("2026-12-02 19:00:00 UTC")
    (submitted / "zed" / LESSON).mkdir(parents=True)
    (submitted / "zed" / LESSON / "timestamp.txt").symlink_to("/etc/hostname")
    words = ["grade", LESSON, "--submitted", submitted, "--out", room.folder]
    status, output = run_instructors(*words)
    assert status == 0, output
    assert "Not on the roster, but graded anyway: zed" in output
    assert "zed, 01_tensors: timestamp.txt cannot be read" in output
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = {s.student: s for s in scores_of(room.folder / "gradebook.db")}
    assert scores["bo"].raw
    assert (scores["ada"].penalty, scores["bo"].penalty) == (0, pytest.approx(0.5 * scores["bo"].raw))
    assert scores["ada"].submitted == datetime(2026, 12, 1, 17, 59)
    pages = {student: (room.folder / "feedback" / student / f"{LESSON}.html").read_text() for student in ("ada", "bo")}
    lost = f"Handed in late: {scores['bo'].penalty:g} of {scores['bo'].raw:g} points are lost."
    assert (lost in pages["bo"], "Handed in late" in pages["ada"]) == (True, False)
    assert f"<b>{scores['bo'].final:g}</b> of" in pages["bo"]
    assert (room.folder / "autograded" / "ada" / LESSON / "submission_secret.txt").read_text() == "secret of ada"

    (submitted / "bo" / LESSON / f"{LESSON}.ipynb").write_text("broken")
    before = tree(room.folder)
    examined = mock.Mock(wraps=LessonGrader.grade)
    monkeypatch.setattr(LessonGrader, "grade", lambda *of: examined(*of))
    status, output = run_instructors(*words, "--diff")
    assert status == 0, output
    assert "-> 0 of 1 (unreadable)" in output
    assert "Nothing was written" in output
    assert tree(room.folder) == before

    monkeypatch.setattr(grade_command, "is_interactive", lambda: True)
    monkeypatch.setattr(grade_command.typer, "confirm", lambda *_, **__: True)
    status, output = run_instructors(*words, "--diff")
    assert status == 0, output
    assert [call.args[2].student for call in examined.call_args_list] == [
        "bo",
        "bo",
    ]  # once in each preview, and not again for writing
    assert "bo,01_tensors,describe,0,1,unreadable" in (room.folder / "grades.csv").read_text()


def test_a_locked_gradebook_is_named_and_nothing_is_lost(
    room: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "submitted" / "ada" / LESSON).mkdir(parents=True)
    (tmp_path / "submitted" / "ada" / LESSON / f"{LESSON}.ipynb").touch()
    monkeypatch.setattr("autograde.batch.grading.require_isolation", lambda isolation: None)
    monkeypatch.setattr("autograde.batch.grading.LessonGrader", lambda *_: None)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3.dbapi2, "connect", lambda *a, **k: connect(*a, **{**k, "timeout": 0.1}))
    locking = connect(room.folder / "gradebook.db", isolation_level=None)
    locking.execute("BEGIN EXCLUSIVE")
    submitted = ["--submitted", tmp_path / "submitted"]
    try:
        tried = [
            run_instructors("grade", LESSON, *submitted, "--out", room.folder),
            run_instructors("class", "init", room.folder, "--lessons", LESSON),
            run_instructors("export", "--class", room.folder),
        ]
        monkeypatch.setattr(grade_command, "_lessons_of_class", lambda names, *_: names)
        tried.append(run_instructors("grade", LESSON, *submitted, "--out", room.folder))
    finally:
        locking.close()
    for status, output in tried:
        assert status == 2
        assert "cannot be used (database is locked): close the program that has it open" in output.replace("\n", " ")


@pytest.mark.parametrize(
    ("added", "why"),
    [
        ("c.PerDay.share = tenth", "NameError: name 'tenth' is not defined"),
        ("c.PerDay.share = = 0.1", "SyntaxError: invalid syntax"),
    ],
)
def test_a_mistake_in_the_configuration_of_a_class_is_one_sentence_with_its_line(
    room: SimpleNamespace, tmp_path: Path, added: str, why: str
) -> None:
    config = (room.folder / "nbgrader_config.py").read_text()
    (tmp_path / "nbgrader_config.py").write_text(f"{config}{added}\n")
    (tmp_path / "submitted").mkdir()
    place = f"{tmp_path / 'nbgrader_config.py'}:{len(config.splitlines()) + 1}: "
    for words in (["export", "--class", tmp_path], ["class", "init", tmp_path],
                  ["grade", LESSON, "--submitted", tmp_path / "submitted", "--out", tmp_path],
                  ["collect", "x.zip", "--lesson", LESSON, "--into", tmp_path / "submitted"]):  # fmt: skip
        assert run_instructors(*words) == (2, f"{place}{why}. Correct it and run this again.\n")


def test_scores_of_a_lesson_that_the_class_has_not_are_an_error(room: SimpleNamespace) -> None:
    status, output = run_instructors("export", "--class", room.folder, "--lessons", f"{LESSON},02_autograd")
    assert status == 2
    assert f"has no 02_autograd: it has {LESSON}. `torchcourse class init " in output
    assert output.endswith("--lessons 02_autograd` adds what is missing.\n")


def test_a_damaged_gradebook_is_one_sentence_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "nbgrader_config.py").write_text("c = get_config()\n")
    (tmp_path / "gradebook.db").write_text("this is no database\n" * 50)
    (tmp_path / "submitted").mkdir()
    for words in (["export", "--class", tmp_path], ["class", "init", tmp_path],
                  ["collect", "x.zip", "--lesson", LESSON, "--into", tmp_path / "submitted"]):  # fmt: skip
        status, output = run_instructors(*words)
        said = " ".join(output.split())
        assert status == 2, output
        assert "cannot be used (file is not a database): put a copy of gradebook.db back" in said
        assert "SQL:" not in said
