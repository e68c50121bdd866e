"""The gradebook: written at once or not at all, never generated anew without need, and found by its indexes."""

from __future__ import annotations

import dataclasses
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from autograde.batch import grading
from autograde.batch.grading import grade
from autograde.errors import RefusedError
from autograde.judge.verdict import Verdict
from autograde.results import gradebook as gradebook_module
from autograde.source.release import load_release
from tests.support.commands import run_instructors
from tests.support.stand_ins import LESSON

EXERCISES = load_release(LESSON).exercises
pytestmark = pytest.mark.usefixtures("quick")


def test_a_gradebook_full_of_grades_is_not_generated_anew_without_need(
    submitted: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def generate(*arguments: object) -> None:
        raise AssertionError("generated")

    grade([LESSON], submitted, out)
    monkeypatch.setattr(gradebook_module, "generate", generate)
    monkeypatch.setattr(gradebook_module, "follow_release", generate)  # what it has in place of that, with submissions
    grade([LESSON], submitted, out)
    cells = load_release(LESSON).cells
    changed = {**cells, "row_softmax": next(iter(cells.values()))}
    changed_release = dataclasses.replace(load_release(LESSON), cells=changed)
    monkeypatch.setattr(gradebook_module, "load_release", lambda lesson: changed_release)
    with pytest.raises(AssertionError, match="generated"):
        grade([LESSON], submitted, out)


def test_a_submission_comes_into_the_gradebook_at_once_or_not_at_all(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Verdict("ada", LESSON, name, 1.0, 1.0, "passed") for name in load_release(LESSON).exercises]
    with grading.Writer(out / "gradebook.db", [LESSON], tmp_path / "scratch") as writer:
        with monkeypatch.context() as patch:
            patch.setattr(writer, "_grades", lambda *_: {})
            with pytest.raises(RefusedError):
                writer.write("ada", LESSON, found)
        assert writer.book.students == []
        assert writer.book.assignment_submissions(LESSON) == []
        writer.write("ada", LESSON, found)
    with grading.Writer(out / "gradebook.db", [LESSON], tmp_path / "scratch") as writer:
        assert writer.scores("ada", LESSON) == {verdict.exercise: 1.0 for verdict in found}


def test_a_submissions_rows_are_found_without_reading_all_others(out: Path, tmp_path: Path) -> None:
    asked: list[tuple[str, Any]] = []
    points = load_release(LESSON).points
    with grading.Writer(out / "gradebook.db", [LESSON], tmp_path / "scratch") as writer:
        engine = writer.book.db.get_bind()
        event.listen(engine, "before_cursor_execute", lambda _c, _cursor, say, values, *_: asked.append((say, values)))
        writer.write("ada", LESSON, [Verdict("ada", LESSON, n, points(n), points(n), "passed") for n in EXERCISES])
    questions = [(say, values) for say, values in asked if say.startswith("SELECT")]
    book = sqlite3.connect(out / "gradebook.db")
    steps = [row[3] for say, values in questions for row in book.execute(f"explain query plan {say}", values)]
    book.close()
    assert len(steps) > len(EXERCISES)
    everybodys = r"SCAN (grade|submitted_\w+)\b|SEARCH grade .*\(cell_id=\?\)|SEARCH submitted_\w+ .*\(notebook_id=\?\)"
    assert not [step for step in steps if re.match(everybodys, step)]


def test_a_gradebook_that_is_lost_in_the_middle_is_one_line(
    submitted: Path, out: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """nbgrader's own logger writes a hundred lines then."""
    opened = grading.Writer._open

    def open_and_lose(writer: grading.Writer) -> None:
        def lose(cursor: object, statement: str, *_: object) -> None:
            if statement.startswith("INSERT INTO submitted_assignment"):
                raise sqlite3.OperationalError("server closed the connection")

        opened(writer)
        event.listen(writer.book.db.get_bind(), "do_execute", lose)

    monkeypatch.setattr(grading.Writer, "_open", open_and_lose)
    status, said = run_instructors("grade", LESSON, "--submitted", submitted, "--out", out)
    assert status == 2
    assert "server closed the connection" in said.splitlines()[-1]
    assert "run the same command again" in said.splitlines()[-1]
    assert caplog.records == []
