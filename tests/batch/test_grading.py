"""Grading a class: the sample of ten through both doors, with the verdicts they deserve."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograde.batch.grading import Graded, grade, grade_class
from autograde.classroom.synthetic_class import SAMPLE_LESSON as LESSON
from autograde.classroom.synthetic_class import answered_notebook, code_cell, write_notebook, write_sample_class
from autograde.cli.grade import Tally
from autograde.judge.oracle import hidden
from autograde.judge.submission import Submission
from autograde.results.grades_table import COLUMNS
from autograde.settings import LIMITS, SEED, Limits
from autograde.source import paths
from autograde.source.release import load_release
from autograde.source.script import answers_as_text
from tests.support.doors import scores, stock_scores
from tests.support.results import grade_rows
from torchcourse.model import codec
from torchcourse.model.catalogue import exercises

pytestmark = pytest.mark.sandbox

QUICK = dataclasses.replace(LIMITS, exercise_seconds=4.0, cell_seconds=4.0)
EXERCISES = load_release(LESSON).exercises
RIGHT = answers_as_text(paths.SOLUTIONS / f"{LESSON}.py")
EXPECTED = {  # what is not "passed" with all points, as (status, misconception, share of the points)
    "cleo": {
        "image_to_chw": ("failed", "reshaped-not-permuted", 0),
        "standardize": ("failed", "sample-variance", 0),
        "row_softmax": ("failed", "global-maximum", 0),
        "masked_mean": ("failed", "masked-values-leak", 0),
        "attention_scores": ("failed", "not-scaled", 0),
    },
    "dan": {
        "one_hot": ("failed", "made-on-cpu", 0.5),
        "pairwise_distances": ("forbidden", "", 0),
        "describe": ("error", "", 0),
    },
    "eve": dict.fromkeys(EXERCISES, ("unattempted", "", 0)),
    "finn": dict.fromkeys(EXERCISES, ("unreadable", "", 0)),
    "gil": dict.fromkeys(EXERCISES, ("missing", "", 0)),
    "ivo": {"standardize": ("timeout", "", 0), "masked_mean": ("crashed", "", 0)},
    "jun": {"describe": ("tampered", "", 0), "one_hot": ("tampered", "", 0), "to_numpy": ("tampered", "", 0)},
}


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    write_sample_class(folder)
    return folder


@pytest.fixture(scope="module")
def out(submitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graded")
    grade([LESSON], submitted, folder, workers=2, limits=QUICK)
    return folder


def some_of(submitted: Path, folder: Path, *students: str) -> Path:
    """Return a class of some students, in a folder of its own."""
    for student in students:
        shutil.copytree(submitted / student, folder / "submitted" / student)
    return folder / "submitted"


def test_every_student_has_a_row_for_every_exercise_in_order(out: Path) -> None:
    names = "ada ben cleo dan eve finn gil hana ivo jun"
    expected = [(student, LESSON, exercise) for student in names.split() for exercise in EXERCISES]
    assert [(r["student"], r["lesson"], r["exercise"]) for r in grade_rows(out / "grades.csv")] == expected
    assert tuple(grade_rows(out / "grades.csv")[0]) == COLUMNS


def test_every_verdict_is_the_expected_one(out: Path) -> None:
    seen = {
        (r["student"], r["exercise"]): (r["status"], r["misconception"], float(r["score"]))
        for r in grade_rows(out / "grades.csv")
    }
    wanted = {}
    for student, exercise in seen:
        status, misconception, share = EXPECTED.get(student, {}).get(exercise, ("passed", "", 1))
        wanted[student, exercise] = (status, misconception, share * load_release(LESSON).points(exercise))
    assert seen == wanted


def test_autograded_notebooks_and_feedback_are_there_for_everyone(out: Path) -> None:
    for student in ["ada", "finn", "gil", "hana", "ivo", "jun"]:
        notebook = nbformat.read(out / "autograded" / student / LESSON / f"{LESSON}.ipynb", as_version=4)
        nbformat.validate(notebook)
        page = (out / "feedback" / student / f"{LESSON}.html").read_text()
        assert all(exercise in page for exercise in EXERCISES)
        assert "<script" not in page


def test_feedback_on_a_failed_answer_does_not_quote_its_reference(out: Path) -> None:
    page = (out / "feedback" / "cleo" / f"{LESSON}.html").read_text()
    assert "x.amax(dim=-1, keepdim=True)" not in page  # in the reference of row_softmax, which cleo has not solved
    assert "results are NaN" in page


def test_the_same_seed_gives_the_same_bytes(out: Path, submitted: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    grade([LESSON], some_of(submitted, tmp_path, "ben", "cleo", "dan", "finn"), again, limits=QUICK)
    ours = [line for line in (out / "grades.csv").read_text().splitlines() if line.split(",")[0] in "ben cleo dan finn"]
    assert (again / "grades.csv").read_text().splitlines()[1:] == ours
    for path in sorted(again.rglob("*.ipynb")) + sorted(again.rglob("*.html")):
        assert path.read_bytes() == (out / path.relative_to(again)).read_bytes()


def test_another_seed_draws_other_hidden_cases_and_gives_the_same_verdicts(submitted: Path, tmp_path: Path) -> None:
    few = some_of(submitted, tmp_path, "ben", "cleo", "dan")
    done = grade([LESSON], few, tmp_path / "out", seed=5, limits=QUICK)
    assert verdicts(done, "ben") == dict.fromkeys(EXERCISES, ("passed", ""))
    for exercise in exercises(LESSON).values():
        one, other = ([codec.pack(case.inputs) for case in hidden(LESSON, exercise, seed)] for seed in (5, SEED))
        assert one != other, exercise.name
    for student in ("cleo", "dan"):
        known = {e: (status, name) for e, (status, name, _) in EXPECTED[student].items()}
        assert verdicts(done, student) == dict.fromkeys(EXERCISES, ("passed", "")) | known


def test_the_bar_moves_before_the_first_submission_is_done(submitted: Path, tmp_path: Path) -> None:
    tally, seen = Tally(), list[float]()

    def part_done(submission: Submission, share: float) -> None:
        tally.part_done(submission, share)
        seen.append(tally.completed)

    few = some_of(submitted, tmp_path, "hana")
    grade_class([LESSON], few, tmp_path / "out", limits=QUICK, progress=tally.add, part_done=part_done)
    assert len(seen) > len(EXERCISES), "nothing was told while the submission ran"
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1.0)
    assert tally.completed == 1


def verdicts(done: list[Graded], student: str) -> dict[str, tuple[str, str]]:
    (graded,) = (g for g in done if g.submission.student == student)
    return {v.exercise: (v.status, v.misconception) for v in graded.verdicts}


def test_stock_nbgrader_with_our_configuration_gives_the_same_scores(
    submitted: Path, out: Path, tmp_path: Path
) -> None:
    few = ("cleo", "dan", "finn", "ivo", "jun")
    some_of(submitted, tmp_path, *few)
    ours = scores(f"sqlite:///{out / 'gradebook.db'}", LESSON)
    assert stock_scores(LESSON, tmp_path) == {key: score for key, score in ours.items() if key[0] in few}


def of_one(student: str, notebook: dict[str, Any], folder: Path, limits: Limits) -> dict[str, tuple[str, str]]:
    """Return the verdicts on a class of one."""
    write_notebook(folder / "class", student, LESSON, notebook)
    return verdicts(grade([LESSON], folder / "class", folder / "out", limits=limits), student)


def test_many_endless_cells_cost_no_more_than_a_device_may_take(tmp_path: Path) -> None:
    hurried = dataclasses.replace(LIMITS, cell_seconds=1.0, device_seconds=8.0, exercise_seconds=2.0)
    solved = answered_notebook(LESSON, RIGHT)
    solved["cells"][0:0] = [code_cell("while True: pass")] * 30
    begun = time.monotonic()
    seen = of_one("max", solved, tmp_path, hurried)
    assert time.monotonic() - begun < 60
    assert {status for status, _ in seen.values()} == {"timeout"}


def test_an_exercise_that_runs_out_of_time_costs_the_next_one_nothing(tmp_path: Path) -> None:
    slow = ("describe", "standardize")
    answers = RIGHT | {name: f"def {name}(*args):\n    while True:\n        pass" for name in slow}
    seen = of_one(
        "kim", answered_notebook(LESSON, answers), tmp_path, dataclasses.replace(LIMITS, exercise_seconds=1.0)
    )
    assert seen == dict.fromkeys(EXERCISES, ("passed", "")) | dict.fromkeys(slow, ("timeout", ""))


def test_a_folder_whose_name_is_no_text_and_a_stray_file_stop_nothing(submitted: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9")
    shutil.copytree(submitted / "eve", tmp_path / "class" / odd)
    (tmp_path / "class" / "roster.csv").write_text("not a student")
    done = grade([LESSON], tmp_path / "class", tmp_path / "out", limits=QUICK)
    assert [g.submission.student for g in done] == ["caf\\udce9"]
    assert "caf" in (tmp_path / "out" / "grades.csv").read_text()


def test_relative_folders_stay_where_they_are_when_the_working_folder_changes(
    submitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some_of(submitted, tmp_path, "ada", "eve", "hana")
    monkeypatch.chdir(tmp_path)
    url = "sqlite:///own.db"
    grade([LESSON], Path("submitted"), Path("out"), progress=lambda _: os.chdir("/"), gradebook=url, limits=QUICK)
    assert {
        row["student"] for row in grade_rows(tmp_path / "out" / "grades.csv") if row["status"] == "missing"
    } == set()
    assert (tmp_path / "own.db").exists()
    assert len(grade_rows(tmp_path / "out" / "grades.csv")) == 3 * len(EXERCISES)
