"""Scores from the gradebook, for spreadsheets, Canvas, Moodle and programs."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograde.classroom.class_folder import make_class
from autograde.classroom.export import Score, export
from autograde.classroom.roster import Member
from autograde.judge.verdict import Verdict
from autograde.results.gradebook import Writer
from autograde.source.release import load_release
from tests.support.commands import run_instructors

LESSON = "01_tensors"
DUE = datetime(2026, 12, 1, 18)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gradebook: ada has all points and some by hand, bo was late, cy has none."""
    folder = tmp_path_factory.mktemp("graded") / "class"
    make_class(folder, [LESSON], due={LESSON: DUE}, late=0.1, members=[
        Member("ada", "Ada", "Lovelace", "ada@example.org", "40001"), Member("bo", "Bo", "O'Neil, \"Jr.\"", "bo@x.org"),
        Member("cy", "Cy", "Müller", "cy@x.org"),
    ])  # fmt: skip
    with Writer(folder / "gradebook.db", [LESSON], folder) as writer:
        for student, share in (("ada", 1.0), ("bo", 0.5)):
            points = load_release(LESSON).points
            writer.write(student, LESSON, [Verdict(student, LESSON, e, share * points(e), points(e), "passed")
                                           for e in load_release(LESSON).exercises])  # fmt: skip
        grade = writer.book.find_grade("check_describe", LESSON, LESSON, "ada")
        grade.manual_score, grade.extra_credit = 0.5, 2.0
        writer.book.find_submission(LESSON, "bo").timestamp = datetime(2026, 12, 3, 20)
        writer.book.find_submission_notebook(LESSON, LESSON, "bo").late_submission_penalty = 1.25
        writer.book.add_student("=2+5", first_name="@evil", last_name="-1", email=None)
        writer.book.db.commit()
    return folder


def test_an_export_replaces_no_file_of_the_class_and_titles_may_go_by_number(graded: Path) -> None:
    before = (graded / "gradebook.db").read_bytes()
    for name in ("grades.csv", "gradebook.db"):
        status, output = run_instructors("export", "--class", graded, "--out", graded / name)
        assert (status, "is a file that the class keeps" in output) == (2, True), output
    assert (graded / "gradebook.db").read_bytes() == before
    assert "Tensors (123)" in exported(graded, "canvas", "--column", "1=Tensors (123)")


MOST = sum(map(load_release(LESSON).points, load_release(LESSON).exercises))
ADAS = MOST - load_release(LESSON).points("describe") + 2.5
BOS = MOST / 2 - 1.25


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def exported(folder: Path, form: str, *more: object) -> str:
    out = folder.parent / f"export.{form}"
    status, output = run_instructors("export", "--format", form, "--class", folder, "--out", out, *more)
    assert status == 0, output
    assert "2 scores, 2 empty cells" in output
    return out.read_bytes().decode()


def test_the_csv_has_nbgraders_columns_all_quoted_and_nothing_to_calculate(graded: Path) -> None:
    from nbgrader.plugins import CsvExportPlugin

    text = exported(graded, "csv")
    rows = table(text)
    nbgraders = graded.parent / "nbgraders.csv"
    with Gradebook(f"sqlite:///{graded / 'gradebook.db'}") as book:
        CsvExportPlugin(to=str(nbgraders)).export(book)
    assert rows[0] == nbgraders.read_text().splitlines()[0].split(",")
    assert all(line.startswith('"') and line.endswith('"') for line in text.splitlines())
    by_student = {row[3]: row for row in rows[1:]}
    assert by_student["bo"] == [LESSON, "2026-12-01 18:00:00", "2026-12-03 20:00:00", "bo", "O'Neil, \"Jr.\"", "Bo",
                                "bo@x.org", f"{MOST / 2:g}", "1.25", f"{BOS:g}", f"{MOST:g}"]  # fmt: skip
    assert by_student["ada"][7:] == [f"{ADAS:g}", "0", f"{ADAS:g}", f"{MOST:g}"]
    assert by_student["cy"][7:] == ["", "", "", f"{MOST:g}"]
    assert by_student["'=2+5"][4:6] == ["'-1", "'@evil"]


def test_canvas_gets_the_columns_its_importer_looks_for(graded: Path) -> None:
    header, points, *rows = table(exported(graded, "canvas", "--column", f"{LESSON}=Tensors (123)"))
    assert header == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Tensors (123)"]
    assert points == ["    Points Possible", "", "", "", "", f"{MOST:g}"]
    assert ["Lovelace, Ada", "40001", "", "ada", "", f"{ADAS:g}"] in rows
    assert ['O\'Neil, "Jr.", Bo', "", "", "bo", "", f"{BOS:g}"] in rows
    assert ["Müller, Cy", "", "", "cy", "", ""] in rows
    assert ["'-1, @evil", "", "", "'=2+5", "", ""] in rows


def test_moodle_gets_the_columns_its_import_maps(graded: Path) -> None:
    header, *rows = table(exported(graded, "moodle"))
    assert header == ["First name", "Last name", "ID number", "Email address", LESSON]
    assert ["Bo", 'O\'Neil, "Jr."', "bo", "bo@x.org", f"{BOS:g}"] in rows


def test_json_has_everything(graded: Path) -> None:
    students = {s["id"]: s for s in json.loads(exported(graded, "json"))["students"]}
    bo = students["bo"]["lessons"][LESSON]
    assert (bo["raw_score"], bo["late_submission_penalty"], bo["score"], bo["max_score"]) == (MOST / 2, 1.25, BOS, MOST)
    assert (bo["due"], bo["submitted"]) == ("2026-12-01T18:00:00Z", "2026-12-03T20:00:00Z")
    assert students["ada"]["lessons"][LESSON]["exercises"]["describe"] == 2.5
    assert students["cy"]["lessons"][LESSON]["score"] is None


def test_a_score_never_goes_below_nothing() -> None:
    score = Score("bo", "", "", "", "", LESSON, 10, raw=1.0, penalty=3.0)
    assert score.final == 0
    assert table(export([score], "moodle"))[1] == ["", "", "bo", "", "0"]
