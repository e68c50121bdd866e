"""Replies that were judged right before are not read again, and nothing else is taken for known."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from autograde.judge import oracle as oracles
from autograde.judge.lesson_grader import LessonGrader
from autograde.judge.oracle import MAX_REMEMBERED, MAX_REMEMBERED_LENGTH, REFERENCE, Oracle, oracle
from autograde.judge.submission import Submission, read_submission
from autograde.sandbox.sandbox import Sandbox
from autograde.source.release import load_release
from tests.support.solved import write_solved
from torchcourse.checking.probe import observe
from torchcourse.model import codec
from torchcourse.model.observations import Observations

LESSON, NAME = "01_tensors", "row_softmax"


@pytest.fixture
def judge() -> Oracle:
    return oracle(LESSON, NAME)


@pytest.fixture
def right(judge: Oracle) -> Observations:
    return observe(judge.exercise, judge.reference, judge.cases[0])


def test_the_bytes_of_a_right_reply_are_known_in_that_case_alone(judge: Oracle, right: Observations) -> None:
    data = codec.pack({"seen": right})
    assert judge.remembered("cpu", 0, data) is None
    found = judge.result("cpu", 0, right, data)
    assert found.passed
    assert judge.remembered("cpu", 0, data) is found
    assert judge.remembered("cpu", 1, data) is None
    assert judge.remembered("simulated", 0, data) is None
    assert judge.remembered("cpu", 0, data + b" ") is None
    assert judge.narrowed(1).remembered("cpu", 0, data) is None, "an oracle of other cases begins anew"


def test_a_wrong_reply_is_never_known(judge: Oracle, right: Observations) -> None:
    wrong = {**right, "result": right["result"] + 1}
    data = codec.pack({"seen": wrong})
    assert not judge.result("cpu", 0, wrong, data).passed
    assert judge.remembered("cpu", 0, data) is None


def test_so_many_replies_are_kept_and_no_more(judge: Oracle, right: Observations) -> None:
    written = [bytes([number]) for number in range(MAX_REMEMBERED + 1)]
    for data in written:
        assert judge.result("cpu", 0, right, data).passed
    assert [judge.remembered("cpu", 0, data) is not None for data in written] == [True] * MAX_REMEMBERED + [False]
    assert judge.result("cpu", 1, right, b"").case is judge.cases[1]
    assert judge.remembered("cpu", 1, b"") is None, "which stands for one that was too long to be kept"


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    write_solved(tmp_path, [LESSON], 1)
    path = tmp_path / "student000000" / LESSON / f"{LESSON}.ipynb"
    return read_submission(path, "student000000", LESSON)


@pytest.mark.sandbox
def test_whoever_comes_second_gets_the_same_verdicts_without_being_read(
    submission: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader = LessonGrader(LESSON, use_cache=False)
    with closing(Sandbox(number=21)) as sandbox:
        first = grader.grade(sandbox, submission).verdicts
        assert {verdict.status for verdict in first} == {"passed"}
        assert [o.exercise.name for o in grader.oracles.values() if not o._remembered] == []
        compared = []
        compare = oracles.compare_derived
        monkeypatch.setattr(oracles, "compare_derived", lambda *a: compared.append(a[1]) or compare(*a))
        assert grader.grade(sandbox, submission).verdicts == first
    cases = sum(len(o.cases) for o in grader.oracles.values())
    assert len(compared) < cases / 10, f"replies of more than {MAX_REMEMBERED_LENGTH} bytes, and no others"


@pytest.mark.sandbox
def test_what_is_found_out_ahead_is_what_the_submission_attempts(submission: Submission) -> None:
    grader = LessonGrader(LESSON, use_cache=False)
    steps = sum(1 for _ in grader.prepare(submission))
    found = {(o.exercise.name, device, n) for o in grader.oracles.values()
             for who, device, n in o.observed if who == REFERENCE}  # fmt: skip
    wanted = {(o.exercise.name, device, n) for o in grader.oracles.values() for n in range(len(o.cases))
              for device in (("cpu", "simulated") if o.exercise.any_device else ("cpu",))}  # fmt: skip
    assert found == wanted
    assert steps == len(wanted)
    empty = LessonGrader(LESSON, use_cache=False)
    assert list(empty.prepare(Submission("ada", load_release(LESSON), problem="missing", reason="it is missing"))) == []
    assert not any(o.observed for o in empty.oracles.values())
