"""Grading again: who gains and loses and why, scores that are never lowered, and the log of it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograde.batch import grading_log
from autograde.batch.recording import ScoreChange
from autograde.cli import grade as grade_command
from autograde.judge.submission import Submission
from autograde.judge.verdict import Verdict
from autograde.results.grades_table import read_table
from tests.support.commands import run_instructors
from tests.support.stand_ins import LESSON, SOLVED, Quick, submit

pytestmark = pytest.mark.usefixtures("quick")


def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the grader refuse what it passed before, as after a change in a hidden case."""
    passing = Quick.verdict

    def verdict(self: Quick, submission: Submission, name: str) -> Verdict:
        found = passing(self, submission, name)
        return replace(found, score=0, status="failed") if found.status == "passed" else found

    monkeypatch.setattr(Quick, "verdict", verdict)


def points(out: Path) -> dict[str, float]:
    rows = read_table(out / "grades.csv").rows
    return {row.student: row.score for row in rows if row.exercise == "row_softmax"}


def log(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / grading_log.FILE).read_text().splitlines()]


def test_a_score_that_was_given_is_not_lowered_unless_the_learner_hands_in_again(
    submitted: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["grade", LESSON, "--submitted", submitted, "--out", out]
    assert run_instructors(*words)[0] == 0
    assert points(out) == {"ada": 2, "ben": 2, "cleo": 2, "dan": 0}
    strict(monkeypatch)
    submit(submitted, "cleo", f"{SOLVED}  # another answer")
    status, output = run_instructors(*words, "--regrade", "--never-lower")
    assert status == 0, output
    assert f"ada keeps 2 in row_softmax of {LESSON}, which would be 0 (failed) now." in output
    assert points(out) == {"ada": 2, "ben": 2, "cleo": 0, "dan": 0}
    first, second = log(out)
    assert (first["lessons"], first["submissions"], first["finished"], first["changes"]) == ([LESSON], 4, True, [])
    assert first["who"] and first["version"] and first["time"].endswith("+00:00")
    changes = {c["student"]: (c["before"], c["after"], c["kept"], c["resubmitted"]) for c in second["changes"]}
    assert changes == {"ada": (2, 0, True, False), "ben": (2, 0, True, False), "cleo": (2, 0, False, True)}
    assert run_instructors(*words)[0] == 0, "what was kept stays without the option too"
    assert points(out)["ada"] == 2


def test_a_preview_names_who_gains_and_loses_and_why(
    submitted: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["grade", LESSON, "--submitted", submitted, "--out", out]
    assert run_instructors(*words)[0] == 0
    strict(monkeypatch)
    submit(submitted, "dan", f"{SOLVED}  # dan")
    hidden = grading_log.private_hashes(LESSON) | {"row_softmax": "changed"}
    monkeypatch.setattr(grading_log, "private_hashes", lambda lesson: hidden)
    monkeypatch.setattr(Quick, "verdict", _verdict_by_student(Quick.verdict))
    status, output = run_instructors(*words, "--regrade", "--diff")
    assert status == 0, output
    assert "Gain points: dan +2\n" in output
    assert "Lose points: ada -2, ben -2, cleo -2\n" in output
    assert "Handed in again: dan row_softmax +2\n" in output
    assert "the private half of row_softmax: ada row_softmax -2, ben row_softmax -2" in output
    assert len(log(out)) == 1, "a preview writes nothing"

    monkeypatch.setattr(grade_command, "is_interactive", lambda: True)
    monkeypatch.setattr(grade_command.typer, "confirm", lambda *_, **__: True)
    assert run_instructors(*words, "--regrade", "--diff")[0] == 0
    assert {c["student"] for c in log(out)[-1]["changes"]} == {"ada", "ben", "cleo", "dan"}


def _verdict_by_student(strictly: Any) -> Any:
    """Pass dan all the same."""

    def verdict(self: Quick, submission: Submission, name: str) -> Verdict:
        found: Verdict = strictly(self, submission, name)
        passes = submission.student == "dan" and name == "row_softmax"
        return replace(found, score=2, status="passed") if passes else found

    return verdict


def test_the_reason_says_what_changed_and_does_not_guess(tmp_path: Path) -> None:
    verdict = Verdict("ada", LESSON, "describe", 1, 1, "passed")
    change = ScoreChange(replace(verdict, score=0), verdict, resubmitted=False, kept=False)
    assert grading_log.reasons(tmp_path, 1, [change]) == [
        "Graded with another version, of which there is no log: ada describe +1"
    ]
    grading_log.append(tmp_path, grading_log.Run([LESSON], 1, 1, True, []))
    assert grading_log.reasons(tmp_path, 1, [change])[0].startswith("Nothing changed since ")
    assert ", when " in grading_log.reasons(tmp_path, 1, [change])[0]
    grading_log.append(tmp_path, grading_log.Run([LESSON], 1, 2, True, (), "nbgrader", "ada"))  # which is no edition
    assert "graded it: the seed: ada describe +1" in grading_log.reasons(tmp_path, 2, [change])[0]


def test_a_line_that_was_cut_off_costs_only_itself(tmp_path: Path) -> None:
    verdict = Verdict("ada", LESSON, "describe", 1, 1, "passed")
    change = ScoreChange(replace(verdict, score=0), verdict, resubmitted=False, kept=False)
    with (tmp_path / grading_log.FILE).open("wb") as file:
        file.write(b'[]\n"text"\n{"lessons": ["' + b"\xff")  # as where a disk was full
    grading_log.append(tmp_path, grading_log.Run([LESSON], 1, 1, True, []))
    grading_log.append(tmp_path, grading_log.Run([LESSON], 1, 1, True, []))
    assert len((tmp_path / grading_log.FILE).read_bytes().splitlines()) == 5
    assert grading_log.reasons(tmp_path, 1, [change])[0].startswith("Nothing changed since ")


def test_graders_that_log_at_the_same_time_lose_no_line(tmp_path: Path) -> None:
    def append(number: int) -> None:
        grading_log.append(tmp_path, grading_log.Run([LESSON], number, 1, True, (), "nbgrader", "ada"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(append, range(40)))
    assert sorted(line["submissions"] for line in log(tmp_path)) == list(range(40))


def test_a_grader_waits_while_another_one_writes_to_the_log(tmp_path: Path) -> None:
    run = grading_log.Run([], 1, 1, True, ())
    with ThreadPoolExecutor(1) as pool, (tmp_path / grading_log.FILE).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b"{")
        file.flush()
        waiting = pool.submit(grading_log.append, tmp_path, run)
        time.sleep(0.2)
        file.write(b"}\n")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_UN)
        waiting.result()
    assert len(log(tmp_path)) == 2


def test_the_best_submission_counts_where_the_instructor_chooses_that(submitted: Path, out: Path) -> None:
    words = ["grade", LESSON, "--submitted", submitted, "--out", out]
    assert run_instructors(*words)[0] == 0
    page = (out / "feedback" / "ada" / f"{LESSON}.html").read_text()
    submit(submitted, "ada", None)
    submit(submitted, "dan", SOLVED)
    for _ in range(2):
        status, output = run_instructors(*words, "--best")
        assert status == 0, output
        assert f"ada: an earlier submission of {LESSON} counts, with 2 more points than the latest." in output
        assert points(out) == {"ada": 2, "ben": 2, "cleo": 2, "dan": 2}
    assert (out / "feedback" / "ada" / f"{LESSON}.html").read_text() == page, "the page of the one that counts"
    assert run_instructors(*words)[0] == 0
    assert points(out)["ada"] == 0, "the latest counts otherwise"


def test_a_gradebook_that_lacks_rows_is_one_sentence(submitted: Path, out: Path) -> None:
    words = ["grade", LESSON, "--submitted", submitted, "--out", out]
    assert run_instructors(*words)[0] == 0
    with contextlib.closing(sqlite3.connect(out / "gradebook.db")) as book, book:
        book.execute("delete from grade")
    status, output = run_instructors(*words)
    assert (status, "The gradebook is damaged: it lacks grades of " in output) == (2, True), output
