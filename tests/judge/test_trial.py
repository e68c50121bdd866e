"""A machine on which nothing can be graded gives nobody a verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from autograde.judge.lesson_grader import LessonGrader
from autograde.judge.submission import Submission, SubmittedCell
from autograde.judge.trial import trial_submission
from autograde.sandbox.sandbox import Sandbox, SandboxError
from autograde.settings import LIMITS

LESSON = "01_tensors"
pytestmark = pytest.mark.sandbox


@pytest.fixture
def broken() -> Iterator[Sandbox]:
    """A sandbox in which no answer's process can be set up."""
    made = Sandbox(dataclasses.replace(LIMITS, open_files=3), number=26)
    yield made
    made.close()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(number=27)
    yield made
    made.close()


def test_where_a_right_answer_does_not_pass_nobody_gets_a_verdict(broken: Sandbox) -> None:
    with pytest.raises(SandboxError, match="`describe` that is known to be right is crashed"):
        LessonGrader(LESSON).grade(broken, trial_submission(LESSON))


def test_a_machine_that_breaks_later_is_noticed_by_what_it_does_to_a_whole_submission(
    broken: Sandbox, sandbox: Sandbox
) -> None:
    grader, right = LessonGrader(LESSON), trial_submission(LESSON)
    assert [v.status for v in grader.grade(sandbox, right).verdicts] == ["passed"] + ["unattempted"] * 11
    with pytest.raises(SandboxError, match="does not work on this machine"):
        grader.grade(broken, right)


def test_an_answer_that_ends_its_process_gets_its_verdict(sandbox: Sandbox) -> None:
    right = trial_submission(LESSON)
    ends = SubmittedCell("code", "import os\ndef describe(t):\n    os._exit(3)", "describe")
    cells = tuple(ends if cell.grade_id == "describe" else cell for cell in right.cells)
    verdicts = LessonGrader(LESSON).grade(sandbox, dataclasses.replace(right, cells=cells)).verdicts
    assert verdicts[0].status == "crashed"


def test_who_handed_in_nothing_needs_no_sandbox(broken: Sandbox) -> None:
    missing = Submission("ada", trial_submission(LESSON).release, problem="missing", reason="it is missing")
    assert {v.status for v in LessonGrader(LESSON).grade(broken, missing).verdicts} == {"missing"}
