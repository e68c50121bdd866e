"""A batch that is killed or interrupted, and the same command again: nothing lost, nothing graded twice.

What is killed here writes everything for real and runs no submission; `benchmarks/interrupted.py` does the same to
whole batches, and one of its trials is run at the end.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from sqlalchemy import event

from autograde.batch import recording
from autograde.batch.grading import OverlapError, grade
from autograde.batch.journal import Journal
from autograde.classroom.compare import preview
from autograde.classroom.synthetic_class import write_notebook
from autograde.errors import BusyError
from autograde.judge.verdict import unjudged
from autograde.results import gradebook as gradebook_module
from autograde.settings import LIMITS
from autograde.source import paths
from autograde.source.release import load_release
from tests.support.commands import run_instructors
from tests.support.results import grade_rows, recorded, tree
from tests.support.stand_ins import LESSON, SOLVED, Quick, examined, submit, with_gradebook

EXERCISES = load_release(LESSON).exercises
pytestmark = pytest.mark.usefixtures("quick")
EVERY = int(os.environ.get("TORCHCOURSE_KILL_EVERY", "11"))
"""A batch is killed at each so-manieth write; `make test-all` takes every one."""


def killed_at(count: int, submitted: Path, out: Path) -> bool:
    """Grade in a process that kills itself at its so-manieth step to the disk; False if it has fewer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of forking while there are threads: the child uses none of them
        pid = os.fork()
    if pid == 0:
        try:
            sys.addaudithook(Killer(count, str(out)))
            grade([LESSON], submitted, out)
        finally:
            os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


class Killer:
    """Counts what touches a folder, and kills this process when it has counted far enough."""

    def __init__(self, count: int, folder: str) -> None:
        from sqlalchemy.orm import Session

        self.count, self.folder = count, folder
        for moment in ("before_commit", "after_commit"):
            event.listen(Session, moment, self.step)

    def __call__(self, name: str, arguments: tuple[Any, ...]) -> None:
        writes = name in ("os.rename", "os.mkdir", "os.chmod") or (name == "open" and arguments[2] & os.O_WRONLY)
        if writes and str(arguments[0]).startswith(self.folder):
            self.step()

    def step(self, *session: object) -> None:
        self.count -= 1
        if self.count == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def test_killed_at_any_step_the_same_command_ends_in_the_same_bytes(
    submitted: Path, tmp_path: Path, gradebook: Path
) -> None:
    whole = with_gradebook(tmp_path / "whole", gradebook)
    grade([LESSON], submitted, whole)
    wanted = tree(whole), recorded(whole, LESSON)
    assert set(wanted[1]) == {(s, e) for s in ("ada", "ben", "cleo", "dan") for e in EXERCISES}
    step, trials = 1, 0
    while True:
        out = with_gradebook(tmp_path / f"out{step}", gradebook)
        examined()
        if not killed_at(step, submitted, out):
            break
        noted = {path.parent.name for path in out.glob("journal/*/*.json")}
        before = examined()
        grade([LESSON], submitted, out)
        again = examined()
        assert not noted & set(again), f"graded twice, killed at step {step}"
        assert set(before) | set(again) == {"ada", "ben", "cleo", "dan"}
        assert (tree(out), recorded(out, LESSON)) == wanted, f"killed at step {step}"
        step, trials = step + EVERY, trials + 1
    assert trials * EVERY > 40  # or this kills nothing worth it


def test_killed_while_it_makes_the_gradebook_it_makes_it_anew(submitted: Path, tmp_path: Path, out: Path) -> None:
    fresh = tmp_path / "fresh"
    assert killed_at(8, submitted, fresh)
    assert not (fresh / "gradebook.db").exists()
    grade([LESSON], submitted, fresh)
    grade([LESSON], submitted, out)
    assert (tree(fresh), recorded(fresh, LESSON)) == (tree(out), recorded(out, LESSON))


def test_only_what_is_new_or_asked_for_is_examined_again(submitted: Path, out: Path) -> None:
    everyone = ["ada", "ben", "cleo", "dan"]
    grade([LESSON], submitted, out)
    first = tree(out)
    assert examined() == everyone
    grade([LESSON], submitted, out)
    assert examined() == []
    grade([LESSON], submitted, out, regrade=True)
    assert examined() == everyone
    assert tree(out) == first
    submit(submitted, "ben", SOLVED + "  # better")
    grade([LESSON], submitted, out)
    assert examined() == ["ben"]
    for change in ({"seed": 5}, {"limits": dataclasses.replace(LIMITS, cell_seconds=9)}):
        grade([LESSON], submitted, out, **change)
        assert examined() == everyone


def test_a_failure_of_the_graders_own_is_not_believed_later(
    submitted: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(submitted, "eve", SOLVED)  # the same cells as somebody else's
    with monkeypatch.context() as broken:
        broken.setattr(Quick, "verdict", lambda self, submission, name: unjudged(submission, name, OSError()))
        grade([LESSON], submitted, out)
    assert recorded(out, LESSON)["eve", "row_softmax"] == 0
    examined()
    grade([LESSON], submitted, out)
    assert "eve" in examined()
    assert recorded(out, LESSON)["eve", "row_softmax"]


def test_lost_files_and_changed_scores_are_put_right_without_examining(submitted: Path, out: Path) -> None:
    from nbgrader.api import Gradebook

    grade([LESSON], submitted, out)
    wanted = tree(out), recorded(out, LESSON)
    examined()
    (out / "feedback" / "ada" / f"{LESSON}.html").unlink()
    (out / "autograded" / "ben" / LESSON / f"{LESSON}.ipynb").write_text("half")
    (out / "grades.csv").unlink()
    with Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        book.find_grade("check_row_softmax", LESSON, LESSON, "ada").auto_score = 100
        book.db.commit()
    grade([LESSON], submitted, out)
    assert (tree(out), recorded(out, LESSON)) == wanted
    assert examined() == []


def test_the_table_keeps_what_was_graded_before_of_other_lessons(submitted: Path, tmp_path: Path) -> None:
    """In the course's order, whichever was graded last; a preview compares what it is for, and no other."""
    other, out = "02_autograd", tmp_path / "out"
    write_notebook(submitted, "ada", other, (paths.NOTEBOOKS / f"{other}.ipynb").read_bytes())

    def lessons() -> dict[str, list[str]]:
        rows = grade_rows(out / "grades.csv")
        names = ("ada", "dan")
        return {name: list(dict.fromkeys(row["lesson"] for row in rows if row["student"] == name)) for name in names}

    grade([other], submitted, out)
    assert lessons() == {"ada": [other], "dan": [other]}
    grade([LESSON], submitted, out)
    both = (out / "grades.csv").read_bytes()
    assert lessons() == {"ada": [LESSON, other], "dan": [LESSON, other]}
    grade([other], submitted, out)
    assert (out / "grades.csv").read_bytes() == both
    (submitted / "ada" / LESSON / f"{LESSON}.ipynb").unlink()
    with preview(out, [other], lambda new: grade([other, LESSON], submitted, new)) as (_, changed):
        assert changed == []


def test_the_table_keeps_who_is_not_among_the_submissions_this_time(submitted: Path, out: Path, tmp_path: Path) -> None:
    grade([LESSON], submitted, out)
    before = (out / "grades.csv").read_text()
    submit(tmp_path / "late", "zoe", SOLVED)
    grade([LESSON], tmp_path / "late", out)
    after = (out / "grades.csv").read_text()
    assert after.startswith(before)
    assert {line.split(",")[0] for line in after[len(before) :].splitlines()} == {"zoe"}


def test_points_are_not_lost_with_a_file_unless_somebody_says_so(
    submitted: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    student = sorted(path.name for path in submitted.iterdir())[0]
    submit(submitted, student, SOLVED)
    grade([LESSON], submitted, out)
    before = (out / "grades.csv").read_text()
    (submitted / student / LESSON / f"{LESSON}.ipynb").unlink()
    words = "grade", LESSON, "--submitted", submitted, "--out", out
    status, output = run_instructors(*words)
    assert status == 0, output
    assert f"{student} has no {LESSON} any more" in output
    assert (out / "grades.csv").read_text() == before
    monkeypatch.setattr("autograde.cli.grade.is_interactive", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    status, output = run_instructors(*words)
    assert status == 0, output
    assert f"{student},{LESSON},row_softmax,0," in (out / "grades.csv").read_text()


def test_a_comment_makes_that_page_anew_and_no_other(submitted: Path, out: Path) -> None:
    grade([LESSON], submitted, out)
    examined()
    before = tree(out)
    with warnings.catch_warnings(), gradebook_module.Gradebook(f"sqlite:///{out / 'gradebook.db'}") as book:
        warnings.simplefilter("ignore")
        book.find_comment("row_softmax", LESSON, LESSON, "ben").manual_comment = " Nicely done. "
        book.find_comment("row_softmax", LESSON, LESSON, "ada").auto_comment = "No response."
        book.find_grade("check_row_softmax", LESSON, LESSON, "ben").manual_score = 1.5
        book.db.commit()
    for _ in range(2):
        grade([LESSON], submitted, out)
        after = tree(out)
        changed = {path for path in after if after[path] != before[path]}
        assert changed == {f"feedback/ben/{LESSON}.html", f"journal/ben/{LESSON}.json"}
        assert examined() == []
    assert "Your instructor:</b> <p>Nicely done.<" in (out / "feedback" / "ben" / f"{LESSON}.html").read_text()


def test_a_torn_entry_is_no_entry(submitted: Path, out: Path) -> None:
    grade([LESSON], submitted, out)
    wanted = tree(out)
    examined()
    whole = json.loads((out / "journal" / "ada" / f"{LESSON}.json").read_text())
    scored = [["row_softmax", "2", *whole["verdicts"][0][2:]]]
    changed = [json.dumps(whole | {"files": "x"}), json.dumps(whole | {"verdicts": scored})]
    for torn in (
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        '{"key": "x"}',
        '{"key": 1, "verdicts": 2, "good": 3}',
        *changed,
    ):
        (out / "journal" / "ada" / f"{LESSON}.json").write_text(torn)
        grade([LESSON], submitted, out)
        assert examined() == [], torn  # what it came to is kept apart, by key
        assert tree(out) == wanted, torn


@pytest.mark.parametrize("place", [".", "results", "ada/01_tensors"])
def test_results_are_never_kept_among_submissions(submitted: Path, place: str) -> None:
    with pytest.raises(OverlapError, match="elsewhere"):
        grade([LESSON], submitted, submitted / place)
    assert not (submitted / place / "journal").exists()


@pytest.mark.parametrize("place", ["journal", "autograded", "feedback/class"])
def test_submissions_are_not_taken_from_where_results_are_written(submitted: Path, out: Path, place: str) -> None:
    shutil.copytree(submitted, out / place)
    before = tree(out / place)
    with pytest.raises(OverlapError, match="elsewhere"):
        grade([LESSON], out / place, out)
    assert tree(out / place) == before


def test_an_entry_that_came_with_a_submission_is_not_believed(submitted: Path, out: Path, tmp_path: Path) -> None:
    grade([LESSON], submitted, out)
    shutil.copytree(out / "journal" / "ada", submitted / "eve" / "journal" / "eve")
    submit(submitted, "eve", None)
    done = {g.submission.student: g for g in grade([LESSON], submitted, out)}
    assert {v.status for v in done["eve"].verdicts} == {"unreadable"}


def test_two_graders_do_not_write_to_one_folder(submitted: Path, out: Path) -> None:
    with Journal(out / "journal"), pytest.raises(BusyError, match="Another grader"):
        grade([LESSON], submitted, out)
    assert len(grade([LESSON], submitted, out)) == 4


def test_after_an_interrupt_the_same_command_goes_on(submitted: Path, out: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        grade([LESSON], submitted, out, progress=mock.Mock(side_effect=KeyboardInterrupt))
    once = [mock.DEFAULT, KeyboardInterrupt]
    with mock.patch.object(recording, "feedback", wraps=recording.feedback, side_effect=once):
        status, output = run_instructors("grade", LESSON, "--submitted", submitted, "--out", out)
    assert status == 130
    assert "2 of 4 submissions are recorded" in output
    assert "run the same command again" in output.lower()
    assert len(grade([LESSON], submitted, out)) == 4


def test_the_cells_of_a_graded_submission_are_not_kept(submitted: Path, out: Path) -> None:
    assert all(not graded.submission.cells for graded in grade([LESSON], submitted, out))


@pytest.mark.sandbox
def test_a_whole_batch_that_is_killed_loses_nothing() -> None:
    command = [sys.executable, "-m", "benchmarks.interrupted", "--kills", "1", "--repeats", "1", "--students", "2"]
    said = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, timeout=590, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "the same bytes" in said.stdout
