"""The gate: every claim about the course holds, exercise by exercise and notebook by notebook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import torch

from autograde import course, verifying
from autograde.mistakes import Mistake
from autograde.oracle import references
from autograde.verifying import verify
from torchcourse.exercise import LESSONS, UnknownExerciseError, exercises

EXERCISES = [f"{lesson}:{name}" for lesson in LESSONS for name in exercises(lesson)]
SYLLABUS = json.loads((Path(__file__).parent / "syllabus.json").read_text())


@pytest.mark.parametrize("which", EXERCISES)
def test_every_claim_about_an_exercise_holds(which: str) -> None:
    claims = list(verify([which]))
    assert len(claims) > 10
    assert not [claim for claim in claims if not claim.holds]


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_notebooks_are_fresh_and_run_solved_and_unsolved(lesson: str) -> None:
    claims = list(verifying._notebooks(lesson))
    assert len(claims) == 4
    assert not [claim for claim in claims if not claim.holds]


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_exercise_and_misconception_of_the_syllabus_is_there(lesson: str) -> None:
    assert exercises(lesson).keys() == SYLLABUS[lesson].keys()
    for name, wanted in SYLLABUS[lesson].items():
        known = {mistake.name for mistake in course.mistakes(lesson)[name]}
        assert set(wanted["misconceptions"]) <= known
        assert exercises(lesson)[name].any_device == wanted["any_device"]


@pytest.fixture(autouse=True)
def forget_oracles() -> Iterator[None]:
    """Oracles are kept from claim to claim; a test that changes what mistakes there are must not leave its own."""
    yield
    verifying._graded.cache_clear()
    verifying._drawn_again.cache_clear()


def test_a_mistake_that_passes_breaks_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    harmless = Mistake("harmless", lambda x: x.softmax(-1), "Row {row} is right.", "Reductions")
    monkeypatch.setitem(course.mistakes("01_tensors"), "row_softmax", [harmless])
    assert any(not claim.holds for claim in verify(["01_tensors:row_softmax"]))


def test_a_stub_that_registers_the_references_operator_leaves_no_oracle_with_the_old_one() -> None:
    verifying._graded("08_compile", "swiglu")  # as a claim before this one could have left it
    claims = verify(["08_compile:swiglu"])
    assert all(claim.holds for claim in islice(claims, 2))  # the second is of the stub
    judged_by = verifying._graded("08_compile", "swiglu").reference
    assert judged_by is references("08_compile")["swiglu"]
    assert judged_by(torch.tensor([2.0]), torch.tensor([0.0])).tolist() == [0.0]


def test_a_message_that_quotes_nothing_breaks_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    mute = Mistake("mute", lambda x: x * 0, "This is wrong, and nothing more is said about it.", "Reductions")
    monkeypatch.setitem(course.mistakes("01_tensors"), "row_softmax", [mute])
    assert any("quotes nothing" in claim.says for claim in verify(["01_tensors:row_softmax"]) if not claim.holds)


def test_two_mistakes_that_do_the_same_break_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    twins = [Mistake(n, lambda x: x * 0, "The value at {at} is {got_at}.", "Reductions") for n in ("one", "two")]
    monkeypatch.setitem(course.mistakes("01_tensors"), "row_softmax", twins)
    assert any("taken for one" in claim.says for claim in verify(["01_tensors:row_softmax"]) if not claim.holds)


def test_a_reference_that_fails_breaks_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "right_answers", lambda lesson: {"row_softmax": [lambda x: x, lambda x: x]})
    broken = [claim.says for claim in verify(["01_tensors:row_softmax"]) if not claim.holds]
    assert any("right answer 1 does not pass" in says for says in broken)


def test_unknown_lessons_and_exercises_are_named() -> None:
    with pytest.raises(UnknownExerciseError, match="Did you mean '01_tensors'"):
        list(verify(["01_tensor"]))
    with pytest.raises(UnknownExerciseError, match="no exercise 'softmax'"):
        list(verify(["01_tensors:softmax"]))
