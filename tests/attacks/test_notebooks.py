"""What is done to a notebook or to its file: each changes nothing, or costs what it says, and gains nothing.

All are made from one notebook with right answers, wrong ones and stubs, and graded as one class.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from autograde.batch.grading import Graded, grade
from autograde.classroom.synthetic_class import SAMPLE_LESSON as LESSON
from autograde.judge.oracle import hidden, visible
from autograde.judge.verdict import NOT_ALLOWED, STATUSES
from autograde.settings import LIMITS, SEED
from autograde.source import paths
from autograde.source.release import load_release
from tests.attacks import spoiled_notebooks as spoiled
from tests.attacks.spoiled_notebooks import EXERCISES, RIGHT, WRONG
from torchcourse.model.catalogue import exercises

pytestmark = pytest.mark.sandbox

PATIENT = dataclasses.replace(LIMITS, exercise_seconds=60, cell_seconds=60, device_seconds=3600, start_seconds=600)
"""Nothing here takes long, so nothing here has to end because a machine is busy."""


def hidden_numbers() -> set[str]:
    """The first digits of what stands in hidden cases of an exercise, and in no visible one."""
    exercise = exercises(LESSON)[WRONG]

    def numbers(cases: list[Any]) -> set[str]:
        values = (v for c in cases for v in c.inputs["x"].flatten().tolist())
        return {f"{v!r}"[:8] for v in values if len(f"{v!r}") > 8}

    return numbers(hidden(LESSON, exercise, SEED)) - numbers(visible(exercise))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graded")


@pytest.fixture(scope="module")
def graded(out: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graded]:
    submitted, notebook = tmp_path_factory.mktemp("place") / "class", spoiled.original()
    for name, write in spoiled.CLASS.items():
        path = submitted / name.replace("/", "_") / LESSON / f"{LESSON}.ipynb"
        path.parent.mkdir(parents=True)
        write(path, copy.deepcopy(notebook))
    secret = spoiled.SOLVED.stat()
    done = {g.submission.student: g for g in grade([LESSON], submitted, out, limits=PATIENT)}
    assert stat.S_IMODE(secret.st_mode) == stat.S_IMODE(spoiled.SOLVED.stat().st_mode)
    return done


def rows(graded: Graded) -> list[tuple[str, str, float, str]]:
    return [(v.exercise, v.status, v.score, v.misconception) for v in graded.verdicts]


def test_there_is_something_to_gain_and_something_to_lose(graded: dict[str, Graded]) -> None:
    found = {v.exercise: (v.status, v.misconception, v.score) for v in graded["honest"].verdicts}
    assert found[WRONG] == ("failed", "global-maximum", 0)
    assert found["standardize"] == ("failed", "sample-variance", 0)
    assert found[RIGHT] == ("passed", "", load_release(LESSON).points(RIGHT))
    assert all(found[name] == ("unattempted", "", 0) for name in EXERCISES if name not in spoiled.ATTEMPTED)


def test_everyone_gets_exactly_one_sound_verdict_for_each_exercise(graded: dict[str, Graded]) -> None:
    assert set(graded) == {name.replace("/", "_") for name in spoiled.CLASS}
    for each in graded.values():
        assert [v.exercise for v in each.verdicts] == EXERCISES
        for v in each.verdicts:
            assert v.status in STATUSES
            assert 0 <= v.score <= v.max_score == load_release(LESSON).points(v.exercise)
            assert v.message.isprintable()
            assert v.message


@pytest.mark.parametrize("name", [*spoiled.CHANGES_NOTHING, *spoiled.WRITTEN_ODDLY])
def test_it_costs_and_gains_nothing(graded: dict[str, Graded], name: str) -> None:
    assert rows(graded[f"same: {name}"]) == rows(graded["honest"])


@pytest.mark.parametrize("name", spoiled.BROKEN)
def test_a_broken_file_is_recorded_as_what_it_is(graded: dict[str, Graded], name: str) -> None:
    status, _ = spoiled.BROKEN[name]
    assert {(v.status, v.score) for v in graded[f"broken: {name}"].verdicts} == {(status, 0)}


@pytest.mark.parametrize("name", spoiled.TAMPERED)
def test_tampering_costs_its_own_exercise_alone(graded: dict[str, Graded], name: str) -> None:
    exercise, _ = spoiled.TAMPERED[name]
    wanted = [(e, "tampered", 0, "") if e == exercise else (e, *row) for e, *row in rows(graded["honest"])]
    assert rows(graded[f"tampered: {name}"]) == wanted


def test_deep_nesting_is_read_or_named(graded: dict[str, Graded]) -> None:
    assert rows(graded["nested"]) == rows(graded["honest"]) or {v.status for v in graded["nested"].verdicts} == {
        "unreadable"
    }


@pytest.mark.parametrize("name", spoiled.TALKS)
def test_nothing_of_a_hidden_case_is_shown(graded: dict[str, Graded], out: Path, name: str) -> None:
    each = graded[f"talks: {name}"]
    messages = " ".join(v.message for v in each.verdicts)
    page = (out / "feedback" / f"talks: {name}" / f"{LESSON}.html").read_text()
    cards = json.loads((out / "autograded" / f"talks: {name}" / LESSON / f"{LESSON}.ipynb").read_text())
    outputs = json.dumps([c.get("outputs") for c in cards["cells"]])
    secret = hidden_numbers()
    assert len(secret) > 20
    for shown in (messages, outputs, re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)):
        assert "LEAK" not in shown
        assert not [number for number in secret if number in shown]
        assert "Traceback" not in shown
        assert str(paths.ROOT) not in shown


def test_what_fails_in_hidden_cases_alone_is_named_and_not_quoted(graded: dict[str, Graded]) -> None:
    found = {v.exercise: v for v in graded["talks: only as shown"].verdicts}[WRONG]
    assert (found.status, found.score) == ("error", 0)
    assert "right in every case that the notebook shows. In others it raised an exception" in found.message


def test_the_notes_were_taken_and_told(graded: dict[str, Graded]) -> None:
    """Or the test above would show nothing."""
    told = {v.exercise: v.message for v in graded["talks: notes"].verdicts}
    assert re.search(r"TOLD .*\d\.\d", told[RIGHT])
    assert {v.exercise: v.message for v in graded["talks: forged text"].verdicts}[WRONG].startswith(NOT_ALLOWED)
