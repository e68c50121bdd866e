"""Grading a class: the sample of ten through both doors, with the verdicts they deserve."""

from __future__ import annotations

import csv
import dataclasses
import os
import shutil
import warnings
from pathlib import Path

import nbformat
import pytest

from autograde import grading
from autograde.grading import Graded, grade
from autograde.sample import LESSON, make_sample_class
from autograde.settings import LIMITS
from autograde.submission import release
from autograde.verdict import STATUSES
from tests.doors import scores, stock_scores

pytestmark = pytest.mark.sandbox

QUICK = dataclasses.replace(LIMITS, exercise_seconds=4.0, cell_seconds=4.0)
EXERCISES = release(LESSON).exercises
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
    make_sample_class(folder)
    return folder


@pytest.fixture(scope="module")
def out(submitted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graded")
    grade([LESSON], submitted, folder, workers=2, limits=QUICK)
    return folder


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "grades.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_student_has_a_row_for_every_exercise_in_order(out: Path) -> None:
    names = "ada ben cleo dan eve finn gil hana ivo jun"
    expected = [(student, LESSON, exercise) for student in names.split() for exercise in EXERCISES]
    assert [(r["student"], r["lesson"], r["exercise"]) for r in rows(out)] == expected
    assert tuple(rows(out)[0]) == grading.COLUMNS


def test_every_verdict_is_the_expected_one(out: Path) -> None:
    seen = {(r["student"], r["exercise"]): (r["status"], r["misconception"], float(r["score"])) for r in rows(out)}
    wanted = {}
    for student, exercise in seen:
        status, misconception, share = EXPECTED.get(student, {}).get(exercise, ("passed", "", 1))
        wanted[student, exercise] = (status, misconception, share * release(LESSON).points(exercise))
    assert seen == wanted


def test_every_message_is_one_plain_line_and_only_known_statuses_occur(out: Path) -> None:
    for row in rows(out):
        assert row["status"] in STATUSES
        assert row["message"]
        assert row["message"].isprintable()
        assert float(row["max_score"]) == release(LESSON).points(row["exercise"])


def test_the_gradebook_holds_the_same_scores(out: Path) -> None:
    in_csv = {(r["student"], r["exercise"]): float(r["score"]) for r in rows(out)}
    assert scores(f"sqlite:///{out / 'gradebook.db'}", LESSON) == in_csv


def test_autograded_notebooks_and_feedback_are_there_for_everyone(out: Path) -> None:
    for student in ["ada", "finn", "gil", "hana", "ivo", "jun"]:
        notebook = nbformat.read(out / "autograded" / student / LESSON / f"{LESSON}.ipynb", as_version=4)
        nbformat.validate(notebook)
        page = (out / "feedback" / student / f"{LESSON}.html").read_text()
        assert all(exercise in page for exercise in EXERCISES)
        assert "<script" not in page


def test_feedback_quotes_no_answer_of_ours(out: Path) -> None:
    page = (out / "feedback" / "cleo" / f"{LESSON}.html").read_text()
    assert "x.amax(dim=-1, keepdim=True)" not in page  # in the reference of row_softmax, which cleo has not solved
    assert "results are NaN" in page


def test_the_same_seed_gives_the_same_bytes(out: Path, submitted: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    for student in ("ben", "cleo", "dan", "finn"):
        shutil.copytree(submitted / student, few / student)
    again = tmp_path / "again"
    grade([LESSON], few, again, limits=QUICK)
    ours = [line for line in (out / "grades.csv").read_text().splitlines() if line.split(",")[0] in "ben cleo dan finn"]
    assert (again / "grades.csv").read_text().splitlines()[1:] == ours
    for path in sorted(again.rglob("*.ipynb")) + sorted(again.rglob("*.html")):
        assert path.read_bytes() == (out / path.relative_to(again)).read_bytes()


def test_another_seed_draws_other_hidden_cases_and_gives_the_same_verdicts(submitted: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"
    for student in ("ben", "cleo", "dan"):
        shutil.copytree(submitted / student, few / student)
    done = grade([LESSON], few, tmp_path / "out", seed=5, limits=QUICK)
    assert verdicts(done, "ben") == dict.fromkeys(EXERCISES, ("passed", ""))
    for student in ("cleo", "dan"):
        known = {e: (status, name) for e, (status, name, _) in EXPECTED[student].items()}
        assert verdicts(done, student) == dict.fromkeys(EXERCISES, ("passed", "")) | known


def verdicts(done: list[Graded], student: str) -> dict[str, tuple[str, str]]:
    (graded,) = (g for g in done if g.submission.student == student)
    return {v.exercise: (v.status, v.misconception) for v in graded.verdicts}


def test_a_later_worse_submission_replaces_the_score_and_a_manual_score_stays(submitted: Path, tmp_path: Path) -> None:
    from nbgrader.api import Gradebook

    mine, out = tmp_path / "class", tmp_path / "out"
    path = mine / "zoe" / LESSON / f"{LESSON}.ipynb"
    path.parent.mkdir(parents=True)
    url = f"sqlite:///{out / 'gradebook.db'}"
    shutil.copyfile(submitted / "ada" / LESSON / f"{LESSON}.ipynb", path)
    grade([LESSON], mine, out, limits=QUICK)
    assert scores(url, LESSON)["zoe", "row_softmax"] == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Gradebook(url) as book:
            book.find_grade("check_describe", LESSON, LESSON, "zoe").manual_score = 0.5
            book.db.commit()
    path.write_text("broken")
    grade([LESSON], mine, out, limits=QUICK)
    assert set(scores(url, LESSON).values()) == {0}
    with Gradebook(url) as book:
        assert book.find_grade("check_describe", LESSON, LESSON, "zoe").manual_score == 0.5


def test_stock_nbgrader_with_our_configuration_gives_the_same_scores(
    submitted: Path, out: Path, tmp_path: Path
) -> None:
    few = ("cleo", "dan", "finn", "ivo", "jun")
    for student in few:
        shutil.copytree(submitted / student, tmp_path / "submitted" / student)
    ours = scores(f"sqlite:///{out / 'gradebook.db'}", LESSON)
    assert stock_scores(LESSON, tmp_path) == {key: score for key, score in ours.items() if key[0] in few}


def test_many_endless_cells_cost_no_more_than_a_lane_may_take(submitted: Path, tmp_path: Path) -> None:
    import json
    import time

    hurried = dataclasses.replace(LIMITS, cell_seconds=1.0, lane_seconds=4.0, exercise_seconds=2.0)
    notebook = json.loads((submitted / "ada" / LESSON / f"{LESSON}.ipynb").read_text())
    endless = {"cell_type": "code", "metadata": {}, "outputs": [], "source": "while True: pass"}
    notebook["cells"][0:0] = [endless] * 30
    path = tmp_path / "class" / "max" / LESSON / f"{LESSON}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(notebook))
    begun = time.monotonic()
    done = grade([LESSON], tmp_path / "class", tmp_path / "out", limits=hurried)
    assert time.monotonic() - begun < 60
    assert {status for status, _ in verdicts(done, "max").values()} == {"timeout"}


def test_a_folder_whose_name_is_no_text_and_a_stray_file_stop_nothing(submitted: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9")
    shutil.copytree(submitted / "eve", tmp_path / "class" / odd)
    (tmp_path / "class" / "roster.csv").write_text("not a student")
    done = grade([LESSON], tmp_path / "class", tmp_path / "out", limits=QUICK)
    assert [g.submission.student for g in done] == ["caf\\udce9"]
    assert "caf" in (tmp_path / "out" / "grades.csv").read_text()


def test_an_exercise_that_runs_out_of_time_costs_the_next_one_nothing(submitted: Path, tmp_path: Path) -> None:
    import json

    hurried = dataclasses.replace(LIMITS, exercise_seconds=1.0)
    notebook = json.loads((submitted / "ada" / LESSON / f"{LESSON}.ipynb").read_text())
    for cell in notebook["cells"]:
        name = cell["metadata"].get("nbgrader", {}).get("grade_id")
        if name in ("describe", "standardize"):
            cell["source"] = f"def {name}(*args):\n    while True:\n        pass"
    path = tmp_path / "class" / "kim" / LESSON / f"{LESSON}.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(notebook))
    seen = verdicts(grade([LESSON], tmp_path / "class", tmp_path / "out", limits=hurried), "kim")
    assert seen == dict.fromkeys(EXERCISES, ("passed", "")) | dict.fromkeys(
        ("describe", "standardize"), ("timeout", "")
    )
