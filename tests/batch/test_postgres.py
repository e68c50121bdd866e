"""The gradebook on Debian's PostgreSQL, where it is installed: started in a scratch folder, by an ordinary user."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from autograde.batch import grading
from autograde.batch.preflight import check_gradebook
from autograde.classroom.class_config import class_config
from autograde.classroom.class_folder import LATE
from autograde.cli import grade as grade_command
from autograde.errors import BusyError, RefusedError
from autograde.results.gradebook import Writer
from tests.support.commands import run_instructors
from tests.support.doors import scores
from tests.support.postgres import database, needs_postgres
from tests.support.stand_ins import LESSON, SOLVED, Quick, submit

pytestmark = needs_postgres


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with database() as made:
        yield made


@pytest.fixture
def submitted(tmp_path: Path, quick: None) -> Path:
    submit(tmp_path / "class", "ada", SOLVED)
    submit(tmp_path / "class", "dan", None)
    return tmp_path / "class"


def test_a_class_is_graded_into_a_server_and_again_into_the_same(url: str, submitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    grading.grade_class([LESSON], submitted, out, gradebook=url)
    first = scores(url, LESSON)
    assert not (out / "gradebook.db").exists()
    assert (first["ada", "row_softmax"], first["ada", "describe"]) == (2, 0)
    assert {score for (student, _), score in first.items() if student == "dan"} == {0}
    submit(submitted, "dan", SOLVED)
    grading.grade_class([LESSON], submitted, out, gradebook=url)
    assert scores(url, LESSON)["dan", "row_softmax"] == 2
    assert Quick.log.read_text().split() == ["ada", "dan"]  # who submits what ada did is not examined


def test_late_ones_lose_their_points_in_the_gradebook_that_was_named(url: str, submitted: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    grading.grade_class([LESSON], submitted, out, gradebook=url)
    with Gradebook(url) as book:
        book.update_or_create_assignment(LESSON, duedate=datetime(2026, 12, 1, 18))
    (submitted / "ada" / LESSON / "timestamp.txt").write_text("2026-12-01 19:00:00 UTC")
    (out / "nbgrader_config.py").write_text(LATE.format(late=0.25))
    grade_command._record_times([("ada", LESSON)], submitted, out, url)
    with Gradebook(url) as book:
        assert book.find_submission_notebook(LESSON, LESSON, "ada").late_submission_penalty == 0.5
    assert not (out / "gradebook.db").exists()


def test_one_grader_writes_at_a_time(url: str, submitted: Path, tmp_path: Path) -> None:
    with Writer(url, [LESSON], tmp_path), pytest.raises(BusyError, match="Another grader"):
        grading.grade_class([LESSON], submitted, tmp_path / "out", gradebook=url)
    grading.grade_class([LESSON], submitted, tmp_path / "out", gradebook=url)


def test_a_database_that_is_not_there_is_named(url: str) -> None:
    with pytest.raises(RefusedError, match='database "none" does not exist'):
        check_gradebook(url.replace("/book?", "/none?"))


def test_a_class_lives_on_a_server_from_its_due_dates_to_the_export(url: str, submitted: Path, tmp_path: Path) -> None:
    (tmp_path / "roster.csv").write_text("id,first_name\nada,Ada\ndan,Dan\n")
    folder = tmp_path / "spring"
    words = ["--lessons", LESSON, "--roster", tmp_path / "roster.csv", "--late", 0.25, "--gradebook", url]
    status, output = run_instructors("class", "init", folder, *words, "--due", f"{LESSON}=2025-12-01T12:00+00:00")
    assert status == 0, output
    (submitted / "ada" / LESSON / "timestamp.txt").write_text("2025-12-01 13:00:00 UTC")
    status, output = run_instructors("grade", LESSON, "--submitted", submitted, "--out", folder)
    assert status == 0, output
    assert "Handed in late: 0.5 of 2 points" in (folder / "feedback" / "ada" / f"{LESSON}.html").read_text()
    status, output = run_instructors("export", "--class", folder, "--format", "moodle")
    assert (status, '"Ada","","ada","","1.5"' in output) == (0, True), output
    assert class_config(folder).CourseDirectory.db_url == url, "formgrader reads this"
    status, output = run_instructors("report", folder)
    assert status == 0, output
    assert f"{LESSON} 1, from 2025-12-01 to 2025-12-01, due 2025-12-01." in (folder / "report.html").read_text()
    assert not (folder / "gradebook.db").exists()
    page = url.replace("/book?", "/none?")
    (folder / "nbgrader_config.py").write_text((folder / "nbgrader_config.py").read_text().replace(url, page))
    status, output = run_instructors("export", "--class", folder)
    assert status == 2
    assert (
        'database "none" does not exist): check that its server is running and accepts your login.'
        in output.replace("\n", " ")
    )
    assert "[SQL" not in output
