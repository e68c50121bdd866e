"""A class folder, from the roster to the export: the commands that an instructor types, and what they refuse."""

from __future__ import annotations

import ast
import csv
import importlib.util
import io
import json
import math
import shutil
import sqlite3
import warnings
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nbgrader.api import Gradebook

from autograde import class_commands, cohort, course
from autograde.carrying import carried
from autograde.classroom import DueError, class_lessons, due_dates, make_class
from autograde.cohort import invented_members, write_submissions
from autograde.differences import adopt, changes, preview, read_grades
from autograde.exporting import Score, export, scores_of
from autograde.gradebook import Writer
from autograde.grading import COLUMNS, Examiner
from autograde.journal import BusyError, Journal
from autograde.late import PerDay, settle
from autograde.roster import Member, read_roster
from autograde.submission import release
from autograde.verdict import Verdict
from tests.test_commands import in_this_process
from torchcourse.exercise import LESSONS, exercises

LESSON = "01_tensors"
ROSTER = (
    "id,first_name,last_name,email,lms_user_id\n"
    "ada,Ada,Lovelace,ada@example.org,40001\n"
    "bo,Bo,\"O'Neil, Jr.\",bo@example.org,40002\n"
    ",No,Id,\n"
    "../etc,Up,And Out,\n"
    "eve,=cmd|'/C calc'!A0,Evil,\n"
    "cy,Cy,Late,cy@example.org,\n"
)
DUE = datetime(2026, 12, 1, 18)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A class made by the command, and what the command said."""
    folder = tmp_path_factory.mktemp("course") / "spring"
    roster = folder.parent / "roster.csv"
    roster.write_text(ROSTER)
    words = ["class", "init", "spring", "--lessons", LESSON, "--due", f"{LESSON}=2026-12-01T18:00+00:00"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder.parent)
        status, said = in_this_process(
            patch, *words, "--roster", roster, "--sample", 2, "--late", 0.25, "--exchange", folder.parent / "exchange"
        )
    yield SimpleNamespace(folder=folder, status=status, said=said, url=f"sqlite:///{folder / 'gradebook.db'}")


def test_a_class_has_what_nbgrader_needs_and_the_bad_rows_are_named(room: SimpleNamespace) -> None:
    assert room.status == 0, room.said
    for words in ("line 4, No Id: the id is blank", "line 5, ../etc: an id names folders",
                  "line 6, eve: the first_name", f"is a class of 3 with {LESSON}.", "3 rows of"):  # fmt: skip
        assert words in room.said.replace("\n", " ")
    with Gradebook(room.url) as book:
        (assignment,) = book.assignments
        assert (assignment.name, assignment.duedate) == (LESSON, DUE)
        assert assignment.max_score == sum(map(release(LESSON).points, release(LESSON).exercises))
        assert {s.id: (s.first_name, s.last_name, s.email, s.lms_user_id) for s in book.students} == {
            "ada": ("Ada", "Lovelace", "ada@example.org", "40001"),
            "bo": ("Bo", "O'Neil, Jr.", "bo@example.org", "40002"), "cy": ("Cy", "Late", "cy@example.org", None),
        }  # fmt: skip
    released = room.folder / "release" / LESSON / f"{LESSON}.ipynb"
    assert released.read_bytes() == (course.NOTEBOOKS / f"{LESSON}.ipynb").read_bytes()
    assert "BEGIN SOLUTION" in (room.folder / "source" / LESSON / f"{LESSON}.ipynb").read_text()
    assert room.folder.stat().st_mode & 0o077 == 0
    assert sorted(p.name for p in (room.folder / "submitted").iterdir()) == ["ada", "bo"]
    assert [m.id for m in read_roster(room.folder / "roster.csv").members] == ["ada", "bo", "cy"]


def test_the_folder_means_to_nbgrader_what_it_says(room: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbgrader.apps import NbGraderAPI

    from autograde.late import class_config
    from autograde.nbgrader_door import Examine

    config = class_config(room.folder)
    assert Examine in config.Autograde.autograde_preprocessors
    assert (config.CourseDirectory.course_id, config.CourseDirectory.root) == ("torchcourse", str(room.folder))
    assert config.CourseDirectory.db_url == room.url
    assert config.Exchange.root == str(room.folder.parent / "exchange")
    assert (config.AssignLatePenalties.plugin_class, config.PerDay.share) == ("autograde.late.PerDay", 0.25)
    api = NbGraderAPI(config=config)
    assert api.get_source_assignments() == {LESSON}
    assert api.get_submitted_students(LESSON) == {"ada", "bo"}


def test_a_class_is_added_to_and_nothing_in_it_is_lost(room: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    config = room.folder / "nbgrader_config.py"
    config.write_text(config.read_text() + "# mine\n")
    source = room.folder / "source" / LESSON / f"{LESSON}.ipynb"
    ours = source.read_bytes()
    source.write_bytes(b"mine too")
    more = room.folder.parent / "more.csv"
    more.write_text("id,first_name\nada,Augusta\nzoe,Zoe\n")
    words = ["class", "init", room.folder, "--lessons", LESSON, "--due", "2026-12-24", "--roster", more, "--late", 0.5]
    status, said = in_this_process(monkeypatch, *words)
    assert status == 0
    assert "is as it was" in said
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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--due", "soon"], "soon is no date; write 2026-12-01"),
        (["--due", "02_autograd=2026-12-01"], "is none of the class's lessons"),
        (["--roster", "nowhere.csv"], "No such file"),
        (["--roster", "empty.csv", "--sample", "3"], "names no student that can be taken"),
        (["--lessons", "01_tensor"], "Did you mean '01_tensors'?"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], says: str
) -> None:
    (tmp_path / "empty.csv").write_text("id,email\n=1,\n")
    monkeypatch.chdir(tmp_path)
    lessons = [] if "--lessons" in arguments else ["--lessons", LESSON]
    status, said = in_this_process(monkeypatch, "class", "init", tmp_path / "room", *lessons, *arguments)
    assert status == 2
    assert says in said.replace("\n", " ")
    assert not (tmp_path / "room").exists()


def test_due_dates_are_read_as_they_are_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    import time

    time.tzset()
    try:
        assert due_dates(["a=2026-12-01", "2026-12-02T18:00", "c=2026-12-03T18:00+01:00"], ["a", "b", "c"]) == {
            "a": datetime(2026, 12, 1, 14, 59, 59), "b": datetime(2026, 12, 2, 9), "c": datetime(2026, 12, 3, 17),
        }  # fmt: skip
    finally:
        monkeypatch.undo()
        time.tzset()
    assert due_dates(["a=2026-12-01"], ["a", "b"]).keys() == {"a"}
    with pytest.raises(DueError):
        due_dates(["2026-13-01"], ["a"])


def contents(folder: Path) -> dict[Path, bytes]:
    """What lies below a folder, but for databases, whose bytes change when they are read."""
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".db"}


def test_a_made_up_class_is_always_the_same_and_of_all_kinds(tmp_path: Path) -> None:
    members = invented_members(450)
    assert len({m.id for m in members}) == len({m.email for m in members}) == 450
    assert all(m.id.isascii() for m in members)
    for name in ("one", "two"):
        write_submissions(tmp_path / name, [LESSON], members[:20], {LESSON: DUE})
    files = contents(tmp_path / "one")
    assert files == contents(tmp_path / "two")
    notebooks = {p.parts[0]: data for p, data in files.items() if p.suffix == ".ipynb"}
    assert len(notebooks) == 19  # and one who handed in nothing
    assert sum(data.startswith(b"\xef\xbb\xbf") for data in notebooks.values()) == 1
    untouched = [m for m in notebooks if notebooks[m].count(b"raise Unattempted") == len(release(LESSON).exercises)]
    assert len(untouched) == 1
    assert any(b"while True" in data for data in notebooks.values())
    assert sum(p.name == "timestamp.txt" for p in files) == 19


@pytest.mark.parametrize("lesson", LESSONS)
def test_each_exercise_of_a_made_up_class_has_answers_in_several_styles_and_mistakes(lesson: str) -> None:
    for name, choices in cohort._choices(lesson).items():
        # the statements that register an operator stand around it, and are not carried
        assert len(set(choices.right)) >= (1 if name == "swiglu" else 2), name
        assert len(set(choices.wrong)) >= 2, name
        for text in {*choices.right, *choices.wrong}:
            ast.parse(text)
    first = cohort._choices(lesson)[next(iter(exercises(lesson)))].right[0]
    assert cohort._endless(first).count("while True:") == first.count("while True:") + 1
    ast.parse(cohort._endless(first))


def run(text: str) -> dict[str, Any]:
    bound: dict[str, Any] = {}
    exec(text, bound)
    return bound


def test_programs_are_carried_whole_and_under_the_name_of_the_exercise(tmp_path: Path) -> None:
    path = tmp_path / "programs.py"
    path.write_text(
        "import math\nfrom functools import wraps\n\nSCALE = math.pi\n\n\ndef answer(x, *, by=1.0):\n"
        "    return x * SCALE * by  # noqa: F401\n\n\ndef twice(x):\n    return answer(x, by=2.0)\n\n\n"
        "def closure(x, y=0):\n    def inner():\n        z = x\n        return z\n    return inner\n\n\n"
        "def scaled(rule, *, by=1, unused=None):\n    class Scaled:\n        def __call__(self, x):\n"
        "            return rule(x) * by\n\n    return Scaled\n\n\n"
        "class Base:\n    by = 1\n\n    def __call__(self, x):\n        return twice(x) * self.by\n\n\n"
        "LAMBDAS = [lambda x: answer(x, by=4), lambda x: answer(x, by=5)]\n"
        "MADE = scaled(lambda x: x * SCALE, by=6)\n"
        "NAMED = scaled(twice, by=float('inf'), unused=object())\n"
        "TYPED = type('Typed', (Base,), {'by': 3})\n"
        "KINDS = {'kinds': (ValueError, None)}\n"
    )
    spec = importlib.util.spec_from_file_location("programs", path)
    assert spec
    assert spec.loader
    programs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(programs)
    for program, value in ((programs.answer, 1), (programs.twice, 2), (partial(programs.answer, by=3.0), 3)):
        text = carried(program, path, "answer", {})
        bound: dict[str, object] = {}
        exec(text, bound)
        assert bound["answer"](1.0) == pytest.approx(value * math.pi)  # type: ignore[operator]
        assert "noqa" not in text
        assert "wraps" not in text
    for program, value in ((programs.LAMBDAS[0], 4), (programs.LAMBDAS[1], 5)):
        assert run(carried(program, path, "answer", {}))["answer"](1.0) == pytest.approx(value * math.pi)
        assert run(carried(program, path, "solve", {}))["solve"](1.0) == pytest.approx(value * math.pi)
    for made, value in ((programs.MADE, 6), (programs.NAMED, math.inf), (programs.TYPED, 6)):
        assert run(carried(made, path, "Answer", {}))["Answer"]()(1.0) == pytest.approx(value * math.pi)
    helped = carried(partial(programs.twice), path, "double", {}, {"answer"})
    assert run(f"{helped}\nanswer = 0")["double"](1.0) == pytest.approx(2 * math.pi)
    assert run(carried(programs.closure(1), path, "number", {}))["number"]() == 1
    raised = carried(partial(programs.answer, by=(ValueError, -math.inf)), path, "answer", {})
    assert "by=(ValueError, float('-inf'),)" in raised
    assert carried(programs.closure(object()), path, "number", {}) == ""
    assert carried(programs.closure(1)(), path, "number", {}) == ""
    assert carried(programs.scaled(lambda x: x), path, "Answer", {}) == ""  # that lambda stands in another file
    assert carried(partial(programs.answer, by=programs), path, "answer", {}) == ""


# Scores, made by hand: what grading does is tested where grading is


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gradebook: ada has everything and something by hand, bo was late, cy has nothing."""
    folder = tmp_path_factory.mktemp("graded") / "class"
    make_class(folder, [LESSON], due={LESSON: DUE}, late=0.1, members=[
        Member("ada", "Ada", "Lovelace", "ada@example.org", "40001"), Member("bo", "Bo", "O'Neil, \"Jr.\"", "bo@x.org"),
        Member("cy", "Cy", "Müller", "cy@x.org"),
    ])  # fmt: skip
    with Writer(folder / "gradebook.db", [LESSON], folder) as writer:
        for student, share in (("ada", 1.0), ("bo", 0.5)):
            points = release(LESSON).points
            writer.write(student, LESSON, [Verdict(student, LESSON, e, share * points(e), points(e), "passed")
                                           for e in release(LESSON).exercises])  # fmt: skip
        grade = writer.book.find_grade("check_describe", LESSON, LESSON, "ada")
        grade.manual_score, grade.extra_credit = 0.5, 2.0
        writer.book.find_submission(LESSON, "bo").timestamp = datetime(2026, 12, 3, 20)
        writer.book.find_submission_notebook(LESSON, LESSON, "bo").late_submission_penalty = 1.25
        writer.book.add_student("=2+5", first_name="@evil", last_name="-1", email=None)
        writer.book.db.commit()
    return folder


MOST = sum(map(release(LESSON).points, release(LESSON).exercises))
ADAS = MOST - release(LESSON).points("describe") + 2.5
BOS = MOST / 2 - 1.25


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def exported(monkeypatch: pytest.MonkeyPatch, folder: Path, form: str, *more: object) -> str:
    out = folder.parent / f"export.{form}"
    status, said = in_this_process(
        monkeypatch, "export", "--format", form, "--class", folder, "--out", out, *more
    )
    assert status == 0, said
    assert "2 scores, 2 cells without one" in said
    return out.read_bytes().decode()


def test_the_csv_has_nbgraders_columns_all_quoted_and_nothing_to_calculate(
    graded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbgrader.plugins import CsvExportPlugin

    text = exported(monkeypatch, graded, "csv")
    rows = table(text)
    theirs = graded.parent / "theirs.csv"
    with Gradebook(f"sqlite:///{graded / 'gradebook.db'}") as book:
        CsvExportPlugin(to=str(theirs)).export(book)
    assert rows[0] == theirs.read_text().splitlines()[0].split(",")
    assert all(line.startswith('"') and line.endswith('"') for line in text.splitlines())
    by_student = {row[3]: row for row in rows[1:]}
    assert by_student["bo"] == [LESSON, "2026-12-01 18:00:00", "2026-12-03 20:00:00", "bo", "O'Neil, \"Jr.\"", "Bo",
                                "bo@x.org", f"{MOST / 2:g}", "1.25", f"{BOS:g}", f"{MOST:g}"]  # fmt: skip
    assert by_student["ada"][7:] == [f"{ADAS:g}", "0", f"{ADAS:g}", f"{MOST:g}"]
    assert by_student["cy"][7:] == ["", "", "", f"{MOST:g}"]
    assert by_student["'=2+5"][4:6] == ["'-1", "'@evil"]


def test_canvas_gets_the_columns_its_importer_looks_for(graded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header, points, *rows = table(exported(monkeypatch, graded, "canvas", "--column", f"{LESSON}=Tensors (123)"))
    assert header == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Tensors (123)"]
    assert points == ["    Points Possible", "", "", "", "", f"{MOST:g}"]
    assert ["Lovelace, Ada", "40001", "", "ada", "", f"{ADAS:g}"] in rows
    assert ["O'Neil, \"Jr.\", Bo", "", "", "bo", "", f"{BOS:g}"] in rows
    assert ["Müller, Cy", "", "", "cy", "", ""] in rows
    assert ["'-1, @evil", "", "", "'=2+5", "", ""] in rows


def test_moodle_gets_the_columns_its_import_maps(graded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header, *rows = table(exported(monkeypatch, graded, "moodle"))
    assert header == ["First name", "Last name", "ID number", "Email address", LESSON]
    assert ["Bo", "O'Neil, \"Jr.\"", "bo", "bo@x.org", f"{BOS:g}"] in rows


def test_json_tells_everything(graded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {s["id"]: s for s in json.loads(exported(monkeypatch, graded, "json"))["students"]}
    bo = told["bo"]["lessons"][LESSON]
    assert (bo["raw_score"], bo["late_submission_penalty"], bo["score"], bo["max_score"]) == (MOST / 2, 1.25, BOS, MOST)
    assert (bo["due"], bo["submitted"]) == ("2026-12-01T18:00:00Z", "2026-12-03T20:00:00Z")
    assert told["ada"]["lessons"][LESSON]["exercises"]["describe"] == 2.5
    assert told["cy"]["lessons"][LESSON]["score"] is None


def test_a_score_never_goes_below_nothing() -> None:
    score = Score("bo", "", "", "", "", LESSON, 10, raw=1.0, penalty=3.0)
    assert score.final == 0
    assert table(export([score], "moodle"))[1] == ["", "", "bo", "", "0"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--format", "xls"], "--format is one of csv, canvas, moodle, json"),
        (["--column", "Tensors"], "--column is LESSON="),
        (["--column", "01_tensor=x"], "Did you mean"),
        (["--lessons", "nothing"], "There is no lesson"),
        ([], "gradebook.db does not exist"),
    ],
)
def test_exports_that_cannot_be_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], says: str
) -> None:
    status, said = in_this_process(monkeypatch, "export", "--class", tmp_path, *arguments)
    assert status == 2
    assert says in said.replace("\n", " ")


def test_each_day_that_has_begun_costs_a_share() -> None:
    hour, plugin = 3600, PerDay(share=0.1, most=0.5, grace_minutes=30)
    seen = [plugin.late_submission_penalty("bo", 10.0, late) for late in (60, 1800, 2 * hour, 25 * hour, 24000 * hour)]
    assert seen == [None, None, 1.0, 2.0, 5.0]


# Differences


def grades(folder: Path, **scores: float) -> None:
    folder.mkdir(exist_ok=True)
    lines = [",".join(COLUMNS)]
    for student, score in scores.items():
        lines.append(f"{student},{LESSON},describe,{score:g},2,{'passed' if score else 'failed'},,said")
    (folder / "grades.csv").write_text("\n".join([*lines, ""]))


def test_differences_are_told_for_who_gains_loses_comes_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grades(tmp_path / "old", ada=2, bo=0, cy=2, dan=1)
    grades(tmp_path / "new", ada=2, bo=2, cy=1, eve=2)
    monkeypatch.chdir(tmp_path)
    status, said = in_this_process(monkeypatch, "diff", "old", "new/grades.csv")
    assert status == 0
    assert said.splitlines() == [
        f"bo {LESSON} describe: 0 of 2 (failed) -> 2 of 2 (passed)",
        f"cy {LESSON} describe: 2 of 2 (passed) -> 1 of 2 (passed)",
        f"eve {LESSON} describe: nothing -> 2 of 2 (passed)",
        f"dan {LESSON} describe: 1 of 2 (passed) -> nothing",
        "4 verdicts of 4 students differ: 4 points gained, 2 lost.",
    ]
    assert changes(read_grades(tmp_path / "old"), read_grades(tmp_path / "old")) == []


@pytest.mark.parametrize("text", ["a\n\0\n", "student,score\na,1\n", "student,lesson,exercise,score\na,b,c,d\n", None])
def test_what_is_no_table_of_grades_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "grades.csv").write_text(text)
    status, said = in_this_process(monkeypatch, "diff", tmp_path, tmp_path)
    assert status == 2
    assert "is no table of grades" in said.replace("\n", " ") or "cannot be read" in said


def test_a_preview_writes_nothing_and_begins_with_what_is_known(tmp_path: Path) -> None:
    out = tmp_path / "out"
    grades(out, ada=2, bo=0)
    (out / "journal" / "ada").mkdir(parents=True)
    (out / "journal" / "ada" / f"{LESSON}.json").write_text("known")
    before = contents(out)

    def grade(folder: Path) -> None:
        assert (folder / "journal" / "ada" / f"{LESSON}.json").read_text() == "known"
        grades(folder, ada=2, bo=2)

    with preview(out, [LESSON], grade) as (new, found):
        assert [str(change) for change in found] == [f"bo {LESSON} describe: 0 of 2 (failed) -> 2 of 2 (passed)"]
        with Journal(out / "journal"), pytest.raises(BusyError, match="Another grader"):
            adopt(new, out)
        (out / "journal" / ".lock").unlink()
    assert not new.exists()
    assert contents(out) == before


# In a class folder


def test_grading_names_who_and_what_is_not_of_the_class(
    room: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    for student in ("ada", "zed"):
        (tmp_path / student).mkdir()
    assert class_commands.before_grading(["02_autograd", LESSON], tmp_path, room.folder) == [LESSON]
    said = capsys.readouterr().out
    assert "02_autograd is no lesson of the class" in said
    assert "Not on the roster, and graded all the same: zed" in said
    with pytest.raises(typer.Exit):
        class_commands.before_grading(["02_autograd"], tmp_path, room.folder)
    assert class_commands.before_grading(["02_autograd"], tmp_path, tmp_path) == ["02_autograd"]
    assert class_lessons(room.folder) == [LESSON]
    (tmp_path / "\x1b[2Jbob").mkdir()
    class_commands.before_grading([LESSON], tmp_path, room.folder)
    assert "\\x1b[2Jbob, zed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("beside", "says", "share"),
    [
        ({"timestamp.txt": "2026-12-02 19:00:00 UTC", "submission_secret.txt": "x" * 1000}, "no short text", 0.5),
        ({"timestamp.txt": "whenever"}, "counts as in time", 0),
        ({}, "", 0),
    ],
)
def test_what_lies_beside_a_notebook_counts_each_for_itself(
    room: SimpleNamespace, tmp_path: Path, beside: dict[str, str], says: str, share: float
) -> None:
    for name in ("gradebook.db", "nbgrader_config.py"):
        shutil.copyfile(room.folder / name, tmp_path / name)
    points = release(LESSON).points
    with Writer(tmp_path / "gradebook.db", [LESSON], tmp_path) as writer:
        writer.write("bo", LESSON, [Verdict("bo", LESSON, e, points(e), points(e), "passed")
                                    for e in release(LESSON).exercises])  # fmt: skip
        writer.book.find_submission(LESSON, "bo").timestamp = datetime(2026, 12, 3, 20)  # of an earlier one
        writer.book.db.commit()
    here = tmp_path / "submitted" / "bo" / LESSON
    here.mkdir(parents=True)
    for name, text in beside.items():
        (here / name).write_text(text)
    url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    complaints = settle(tmp_path, url, tmp_path / "submitted", [("bo", LESSON)])
    assert [says in complaint for complaint in complaints] == [True] * bool(says)
    (score,) = (s for s in scores_of(tmp_path / "gradebook.db") if s.student == "bo")
    assert score.penalty == pytest.approx(share * MOST)


@pytest.mark.sandbox
def test_a_class_is_graded_late_ones_lose_and_a_second_look_writes_nothing_unasked(
    room: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = room.folder / "submitted"
    (submitted / "ada" / LESSON / "timestamp.txt").write_text("2026-12-01 17:59:00 UTC")
    (submitted / "ada" / LESSON / "submission_secret.txt").write_text("secret of ada")
    (submitted / "bo" / LESSON / "timestamp.txt").write_text("2026-12-02 19:00:00 UTC")
    (submitted / "zed" / LESSON).mkdir(parents=True)
    (submitted / "zed" / LESSON / "timestamp.txt").symlink_to("/etc/hostname")
    words = ["grade", LESSON, "--submitted", submitted, "--out", room.folder]
    status, said = in_this_process(monkeypatch, *words)
    assert status == 0, said
    assert "Not on the roster, and graded all the same: zed" in said
    assert "zed, 01_tensors: timestamp.txt cannot be read" in said
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = {s.student: s for s in scores_of(room.folder / "gradebook.db")}
    assert scores["bo"].raw
    assert (scores["ada"].penalty, scores["bo"].penalty) == (0, pytest.approx(0.5 * scores["bo"].raw))
    assert scores["ada"].submitted == datetime(2026, 12, 1, 17, 59)
    assert (room.folder / "autograded" / "ada" / LESSON / "submission_secret.txt").read_text() == "secret of ada"

    (submitted / "bo" / LESSON / f"{LESSON}.ipynb").write_text("broken")
    before = contents(room.folder)
    looked: list[str] = []
    grade = Examiner.grade
    monkeypatch.setattr(Examiner, "grade", lambda self, box, s: (looked.append(s.student), grade(self, box, s))[1])
    status, said = in_this_process(monkeypatch, *words, "--diff")
    assert status == 0, said
    assert "-> 0 of 1 (unreadable)" in said
    assert "Nothing was written" in said
    assert contents(room.folder) == before

    monkeypatch.setattr(class_commands, "_may_ask", lambda: True)
    monkeypatch.setattr(class_commands.typer, "confirm", lambda *_, **__: True)
    status, said = in_this_process(monkeypatch, *words, "--diff")
    assert status == 0, said
    assert looked == ["bo", "bo"]  # once for either look, and not again for writing
    assert "bo,01_tensors,describe,0,1,unreadable" in (room.folder / "grades.csv").read_text()


def test_a_locked_gradebook_is_named_and_nothing_is_lost(
    room: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "submitted" / "ada" / LESSON).mkdir(parents=True)
    monkeypatch.setattr("autograde.grading.refuse", lambda enclosure: None)
    monkeypatch.setattr("autograde.grading.Examiner", lambda *_: None)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3.dbapi2, "connect", lambda *a, **k: connect(*a, **{**k, "timeout": 0.1}))
    locking = connect(room.folder / "gradebook.db", isolation_level=None)
    locking.execute("BEGIN EXCLUSIVE")
    submitted = ["--submitted", tmp_path / "submitted"]
    try:
        tried = [
            in_this_process(monkeypatch, "grade", LESSON, *submitted, "--out", room.folder),
            in_this_process(monkeypatch, "class", "init", room.folder, "--lessons", LESSON),
            in_this_process(monkeypatch, "export", "--class", room.folder),
        ]
        monkeypatch.setattr(class_commands, "before_grading", lambda names, *_: names)
        tried.append(in_this_process(monkeypatch, "grade", LESSON, *submitted, "--out", room.folder))
    finally:
        locking.close()
    for status, said in tried:
        assert status == 2
        assert "cannot be used (database is locked): close what has it open" in said.replace("\n", " ")
