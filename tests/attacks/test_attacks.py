"""Each file of cells/ is one way to cheat or to break: an answer to `row_softmax`, and the verdict it must get.

Every other answer of the submission is right and has to keep its points; so have two honest learners, graded between
and after the attacks in the same workers.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from autograde import course
from autograde.grading import Graded, grade
from autograde.sample import LESSON, make_sample_class
from autograde.settings import LIMITS
from autograde.submission import release

pytestmark = pytest.mark.sandbox

HERE = Path(__file__).parent / "cells"
ATTACKS = sorted(path.stem for path in HERE.glob("*.py"))
QUICK = dataclasses.replace(LIMITS, exercise_seconds=4.0, cell_seconds=4.0)
TARGET = "row_softmax"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graded")


@pytest.fixture(scope="module")
def graded(out: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graded]:
    """A class of attackers with an honest learner among them and another at its end."""
    folder, sample = tmp_path_factory.mktemp("class"), tmp_path_factory.mktemp("sample")
    make_sample_class(sample)
    honest = json.loads((sample / "ada" / LESSON / f"{LESSON}.ipynb").read_text())
    for name in [*ATTACKS, "honest", "zz_honest"]:
        notebook = json.loads(json.dumps(honest))
        for cell in notebook["cells"]:
            if name in ATTACKS and cell["metadata"].get("nbgrader", {}).get("grade_id") == TARGET:
                cell["source"] = (HERE / f"{name}.py").read_text()
        path = folder / name / LESSON / f"{LESSON}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(notebook))
    return {g.submission.student: g for g in grade([LESSON], folder, out, workers=2, limits=QUICK)}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_gets_its_verdict_and_no_points(graded: dict[str, Graded], name: str) -> None:
    header = (HERE / f"{name}.py").read_text().splitlines()[1]
    allowed = header.removeprefix("# verdict: ").split(",")
    verdict = next(v for v in graded[name].verdicts if v.exercise == TARGET)
    assert (verdict.status in allowed, verdict.score) == (True, 0), verdict


@pytest.mark.parametrize("name", ["honest", "zz_honest"])
def test_honest_learners_keep_every_point(graded: dict[str, Graded], name: str) -> None:
    assert {v.status for v in graded[name].verdicts} == {"passed"}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_gains_nothing_elsewhere(graded: dict[str, Graded], name: str) -> None:
    for verdict in graded[name].verdicts:
        assert 0 <= verdict.score <= release(LESSON).points(verdict.exercise)


def test_what_they_wrote_is_shown_as_text_only(graded: dict[str, Graded], out: Path) -> None:
    assert graded
    page = (out / "feedback" / "docstring_with_script" / f"{LESSON}.html").read_text()
    assert "<script" not in page
    assert "<img" not in page
    table = (out / "grades.csv").read_text()
    assert "\x1b" not in table
    assert "\u202e" not in table
    assert not [line for line in table.splitlines() if line.startswith("=")]


def test_nothing_of_the_course_was_touched(graded: dict[str, Graded]) -> None:
    assert graded
    assert not list(course.ROOT.glob("**/*left by another*"))
    assert all(release(LESSON).points(name) > 0 for name in release(LESSON).exercises)
