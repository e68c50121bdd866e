"""Whatever a submission's file holds, reading it ends in one submission with a sound verdict for each exercise."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograde.classroom.synthetic_class import write_notebook
from autograde.judge.submission import read_submission
from autograde.judge.verdict import Verdict, verdict_without_running
from autograde.results.autograded_notebook import autograded
from autograde.results.feedback import feedback
from autograde.source.release import load_release
from tests.support import mutants
from tests.support.honest import honest

LESSON = "01_tensors"
EXERCISES = load_release(LESSON).exercises

originals = cache(honest)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
any_json = anything.map(lambda value: json.dumps(value).encode())
any_mutant = st.integers(min_value=0).map(lambda number: mutants.mutant(originals(), 0, number))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300) | any_json | any_mutant)
def test_any_bytes_any_json_and_any_mutant_are_read_and_written_about(tmp_path: Path, data: bytes) -> None:
    """All that is done with a submission, but for running it."""
    submission = read_submission(write_notebook(tmp_path, "ann", LESSON, data), "ann", LESSON)
    assert submission.problem in ("", "unreadable")
    assert bool(submission.problem) == bool(submission.reason)
    assert all(isinstance(cell.source, str) for cell in submission.cells_to_run())
    verdicts = []
    for name in EXERCISES:
        early = verdict_without_running(submission, name)
        assert early is None or (early.score == 0 and early.message)
        points = submission.release.points(name)
        verdicts.append(early or Verdict("ann", LESSON, name, 1, points, "passed", "", "Right."))
    nbformat.validate(nbformat.reads(autograded(submission, verdicts), as_version=4))
    assert "<script" not in feedback(submission, verdicts)


@pytest.mark.sandbox
def test_mutants_get_a_verdict_each_and_none_scores_above_the_honest_one(tmp_path: Path) -> None:
    """A few of those that `make test-all` grades ten thousand of."""
    found = mutants.run(tmp_path, range(16), seed=1)
    assert (found.graded, found.aborts, found.unsound) == (16, 0, [])
    assert {"passed", "failed", "unattempted", "unreadable"} <= set(found.statuses)
