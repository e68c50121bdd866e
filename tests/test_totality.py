"""Whatever a submission's file holds, reading it ends in one submission with a sound verdict for each exercise."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograde import course
from autograde.autograded import autograded
from autograde.feedback import feedback
from autograde.submission import Submission, read_submission, release
from autograde.verdict import Verdict, without_examination
from benchmarks import mutants

LESSON = "01_tensors"
NOTEBOOK = (course.NOTEBOOKS / f"{LESSON}.ipynb").read_bytes()
EXERCISES = release(LESSON).exercises

calm = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "ann" / LESSON / f"{LESSON}.ipynb"
    made.parent.mkdir(parents=True)
    return made


def is_sound(path: Path, data: bytes) -> Submission:
    """Read `data` as a submission, and put it through all that follows but for running it."""
    path.write_bytes(data)
    submission = read_submission(path, "ann", LESSON)
    assert submission.problem in ("", "unreadable")
    assert bool(submission.problem) == bool(submission.reason)
    assert all(isinstance(cell, str) for cell in submission.to_run())
    verdicts = []
    for name in EXERCISES:
        early = without_examination(submission, name)
        assert early is None or (early.score == 0 and early.message)
        verdicts.append(early or Verdict("ann", LESSON, name, 1, release(LESSON).points(name), "passed", "", "Right."))
        place = submission.solution(name)
        assert place is None or 0 <= place < len(submission.to_run())
    nbformat.validate(nbformat.reads(autograded(submission, verdicts), as_version=4))
    page = feedback(submission, verdicts)
    assert "<script" not in page
    return submission


@calm
@given(st.binary(max_size=300))
def test_any_bytes(path: Path, data: bytes) -> None:
    is_sound(path, data)


@calm
@given(anything)
def test_any_json(path: Path, value: Any) -> None:
    is_sound(path, json.dumps(value).encode())


@calm
@given(st.lists(st.tuples(st.integers(0, len(NOTEBOOK) - 1), st.binary(max_size=6)), min_size=1, max_size=6))
def test_a_notebook_with_some_bytes_replaced(path: Path, patches: list[tuple[int, bytes]]) -> None:
    data = bytearray(NOTEBOOK)
    for place, patch in patches:
        data[place : place + len(patch)] = patch
    is_sound(path, bytes(data))


@calm
@given(st.integers(0, len(NOTEBOOK)))
def test_a_notebook_cut_off(path: Path, length: int) -> None:
    is_sound(path, NOTEBOOK[:length])


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at] * bool(at) + [place for key, item in pairs for place in places(item, (*at, key))]


PLACES = places(json.loads(NOTEBOOK))


@calm
@given(st.lists(st.tuples(st.sampled_from(PLACES), anything), min_size=1, max_size=4))
def test_a_notebook_with_some_values_replaced(path: Path, changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    notebook = json.loads(NOTEBOOK)
    for place, value in changes:
        inner = notebook
        try:
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
    is_sound(path, json.dumps(notebook).encode())


@calm
@given(st.data())
def test_cells_shuffled_doubled_and_dropped(path: Path, data: st.DataObject) -> None:
    notebook = json.loads(NOTEBOOK)
    count = len(notebook["cells"])
    order = data.draw(st.lists(st.integers(0, count - 1), max_size=2 * count))
    notebook["cells"] = [copy.deepcopy(notebook["cells"][i]) for i in order]
    submission = is_sound(path, json.dumps(notebook).encode())
    assert not submission.tampered


@pytest.mark.sandbox
def test_mutants_get_a_verdict_each_and_none_scores_above_the_honest_one(tmp_path: Path) -> None:
    """A few of those that `make test-all` grades ten thousand of."""
    found = mutants.run(tmp_path, range(16), seed=1)
    assert (found.graded, found.aborts, found.unsound) == (16, 0, [])
    assert {"passed", "failed", "unattempted", "unreadable"} <= set(found.statuses)
