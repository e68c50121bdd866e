"""A machine on which nothing can be graded gives nobody a verdict."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from autograde.classroom.synthetic_class import answered_notebook, write_notebook
from autograde.judge import lesson_grader
from autograde.judge.lesson_grader import LessonGrader
from autograde.judge.oracle import Oracle
from autograde.judge.run_submission import LACKS_TOOLS
from autograde.judge.submission import Submission, SubmittedCell
from autograde.judge.trial import trial_submission
from autograde.judge.verdict import Verdict, decide
from autograde.sandbox.sandbox import Sandbox, SandboxError
from autograde.settings import LIMITS
from tests.support.alone import COMMAND, environment
from torchcourse.probes.native import missing_tools

LESSON = "01_tensors"
pytestmark = pytest.mark.sandbox


@pytest.fixture
def broken() -> Iterator[Sandbox]:
    """A sandbox in which no process that answers can be started."""
    made = Sandbox(dataclasses.replace(LIMITS, processes=0), number=26)
    yield made
    made.close()


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(number=27)
    yield made
    made.close()


def with_answer(submission: Submission, exercise: str, source: str) -> Submission:
    """Return a submission with another answer to one exercise."""
    answer = SubmittedCell("code", source, exercise)
    cells = tuple(answer if cell.grade_id == exercise else cell for cell in submission.cells)
    return dataclasses.replace(submission, cells=cells)


def test_where_a_right_answer_does_not_pass_nobody_gets_a_verdict(broken: Sandbox) -> None:
    with pytest.raises(SandboxError, match="`describe` that is known to be right is crashed"):
        LessonGrader(LESSON).grade(broken, trial_submission(LESSON))


def test_a_machine_that_breaks_later_is_noticed_by_what_it_does_to_a_whole_submission(
    broken: Sandbox, sandbox: Sandbox
) -> None:
    grader, right = LessonGrader(LESSON), trial_submission(LESSON)
    first, *others = [verdict.status for verdict in grader.grade(sandbox, right).verdicts]
    assert (first, set(others)) == ("passed", {"unattempted"})
    with pytest.raises(SandboxError, match="does not work on this machine"):
        grader.grade(broken, right)


def test_where_no_job_can_be_set_up_the_cause_is_named(sandbox: Sandbox) -> None:
    sandbox.limits = dataclasses.replace(LIMITS, open_files=3)
    with pytest.raises(
        SandboxError, match=r"OSError: \[Errno 24\] Too many open files: '/dev/null'.*No learner is marked down"
    ):
        LessonGrader(LESSON).grade(sandbox, trial_submission(LESSON))


def test_a_machine_that_lacks_what_one_exercise_needs_gives_nobody_a_verdict_on_it(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader, tried = LessonGrader(LESSON), list[list[str]]()
    run = grader._run

    def lacking(sandbox: Sandbox, submission: Submission, names: list[str]) -> dict[str, Verdict]:
        tried.append(names)
        verdicts = run(sandbox, submission, names)
        hurt = dataclasses.replace(verdicts["one_hot"], score=0.0, status=status, message=message)
        return {**verdicts, "one_hot": hurt}

    right = trial_submission(LESSON, ["describe", "one_hot"])
    grader.grade(sandbox, right)
    monkeypatch.setattr(grader, "_run", lambda *of, **how: lacking(*of) if "one_hot" in of[2] else run(*of))
    for status, message in (("error", "no tool"), ("crashed", "it ended"), ("unattempted", LACKS_TOOLS)):
        tried.clear()
        says = f"`one_hot` that is known to be right is {status}. {re.escape(message)}"
        with pytest.raises(SandboxError, match=says):
            grader.grade(sandbox, right)
        again = [["one_hot"]] if status == "crashed" else []  # the learner's answer itself runs again
        assert tried[1:] == [*again, ["one_hot"], ["one_hot"]]


@pytest.mark.skipif(bool(missing_tools()), reason="there is no compiler here")
def test_an_answer_cannot_say_that_this_machine_lacks_a_tool(sandbox: Sandbox) -> None:
    right = trial_submission(LESSON)
    lie = "def one_hot(*of):\n    from torchcourse.probes.native import MissingToolsError as E\n    raise E(['g++'])"
    liar = with_answer(right, "one_hot", lie)
    verdict = {v.exercise: v for v in LessonGrader(LESSON).grade(sandbox, liar).verdicts}["one_hot"]
    assert (verdict.status, verdict.message) == ("unattempted", "`one_hot` is not written yet.")


def test_an_exercise_is_tried_once_whoever_fails_it(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    grader = LessonGrader(LESSON)
    right = trial_submission(LESSON)
    wrong = with_answer(right, "one_hot", "def one_hot(*of):\n    raise RuntimeError")
    runs = mock.Mock(wraps=grader._run)
    monkeypatch.setattr(grader, "_run", runs)
    for _ in range(2):
        assert {v.exercise: v.status for v in grader.grade(sandbox, wrong).verdicts}["one_hot"] == "error"
    assert [call.args[2] for call in runs.call_args_list] == [
        ["describe"], ["describe", "one_hot"], ["one_hot"], ["describe", "one_hot"],
    ]  # fmt: skip


def test_a_trial_that_fails_once_is_repeated(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    grader, right = LessonGrader(LESSON), trial_submission(LESSON)
    run, tried = grader._run, list[list[str]]()

    def failing_once(sandbox: Sandbox, submission: Submission, names: list[str], **_: Any) -> dict[str, Verdict]:
        tried.append(names)
        verdicts = run(sandbox, submission, names)
        if len(tried) > 1:
            return verdicts
        return {name: dataclasses.replace(v, status="crashed", score=0.0) for name, v in verdicts.items()}

    monkeypatch.setattr(grader, "_run", failing_once)
    grader._try(sandbox, ["describe"])
    assert tried == [["describe"], ["describe"]]
    assert grader.grade(sandbox, right).verdicts[0].status == "passed"


def test_an_answer_whose_process_is_ended_from_outside_runs_again(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader, right = LessonGrader(LESSON), trial_submission(LESSON, ["describe", "one_hot"])
    grader.grade(sandbox, right)
    run, asked = grader._run, list[list[str]]()

    def ended_once(sandbox: Sandbox, submission: Submission, names: list[str], **how: bool) -> dict[str, Verdict]:
        asked.append(names)
        verdicts = run(sandbox, submission, names, **how)
        if len(asked) == 1:
            verdicts["one_hot"] = dataclasses.replace(verdicts["one_hot"], status="crashed", score=0.0)
        return verdicts

    monkeypatch.setattr(grader, "_run", ended_once)
    verdicts = {v.exercise: v.status for v in grader.grade(sandbox, right).verdicts}
    assert asked[:2] == [["describe", "one_hot"], ["one_hot"]]
    assert (verdicts["describe"], verdicts["one_hot"]) == ("passed", "passed")


def test_an_answer_that_ends_its_process_gets_its_verdict(sandbox: Sandbox) -> None:
    right = trial_submission(LESSON)
    ends = with_answer(right, "describe", "import os\ndef describe(t):\n    os._exit(3)")
    verdicts = LessonGrader(LESSON).grade(sandbox, ends).verdicts
    assert verdicts[0].status == "crashed"


def test_how_a_process_ended_is_not_quoted_once_it_knows_hidden_inputs(sandbox: Sandbox) -> None:
    """The exit status would carry eight bits of them."""
    right, grader = trial_submission(LESSON), LessonGrader(LESSON)
    for allowed, words in ((0, "ran (exit 77)."), (grader.visible["describe"], "`describe` ran.")):
        body = f"    calls.append(1)\n    len(calls) > {allowed} and os._exit(77)"
        source = f"import os\ncalls = []\ndef describe(t):\n{body}"
        verdict = grader.grade(sandbox, with_answer(right, "describe", source)).verdicts[0]
        assert verdict.message.endswith(words)


SECOND_RUN = """import os
calls = []
def describe(t):
    calls.append(1)
    if {knows}:
        raise ValueError("HIDDEN 8")
    if len(calls) > {visible}:
        {asks}
    return RIGHT(t)
"""


def test_nothing_that_a_second_run_says_is_quoted(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run may have left hidden inputs in a counter of the machine, for the second one to read."""
    right, grader = trial_submission(LESSON), LessonGrader(LESSON)
    example = min(frozenset[str]().union(*right.release.examples.values()))
    (reference,) = (cell.source for cell in right.cells if cell.grade_id == "describe")
    source = SECOND_RUN.format(knows=f"{example!r} in globals()", visible=grader.visible["describe"], asks=example)
    answer = f"{reference}\n\nRIGHT = describe\n{source}"
    verdict = grader.grade(sandbox, with_answer(right, "describe", answer)).verdicts[0]
    assert (verdict.status, verdict.score) == ("error", 0.0)
    assert verdict.message.startswith("The answer had to run twice. In the second run it raised an exception")
    assert "HIDDEN" not in verdict.message


def test_an_answer_that_ended_its_process_runs_again_without_being_quoted(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, grader = trial_submission(LESSON), LessonGrader(LESSON)
    answer = 'def describe(t):\n    raise ValueError("HIDDEN 8")'
    wrong = with_answer(right, "describe", answer)
    run, asked = grader._run, list[list[str]]()

    def ended_once(sandbox: Sandbox, submission: Submission, names: list[str], **how: bool) -> dict[str, Verdict]:
        verdicts = run(sandbox, submission, names, **how)
        if names == ["describe"] and submission == wrong:
            asked.append(names)
            if len(asked) == 1:
                return {name: dataclasses.replace(v, status="crashed", score=0.0) for name, v in verdicts.items()}
        return verdicts

    monkeypatch.setattr(grader, "_run", ended_once)
    verdict = grader.grade(sandbox, wrong).verdicts[0]
    assert verdict.status == "error" and len(asked) == 2
    assert "HIDDEN" not in verdict.message


def test_judging_that_fails_once_is_done_again_and_for_a_right_answer_never_ends_in_a_verdict(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, grader = trial_submission(LESSON), LessonGrader(LESSON)
    judged, broken = list[str](), [2]  # the trial is the first

    def failing(submission: Submission, oracle: Oracle, *of: Any) -> Verdict:
        judged.append(oracle.exercise.name)
        if len(judged) in broken:
            raise OSError("no descriptors")
        return decide(submission, oracle, *of)

    monkeypatch.setattr(lesson_grader, "decide", failing)
    assert grader.grade(sandbox, right).verdicts[0].status == "passed"
    broken += range(3, 100)
    with pytest.raises(SandboxError, match="known to be right is crashed"):
        grader.grade(sandbox, right)


def test_who_handed_in_nothing_needs_no_sandbox(broken: Sandbox) -> None:
    missing = Submission("ada", trial_submission(LESSON).release, problem="missing", reason="it is missing")
    assert {v.status for v in LessonGrader(LESSON).grade(broken, missing).verdicts} == {"missing"}


@pytest.mark.root
def test_a_machine_whose_devices_are_broken_is_refused_and_the_doctor_names_the_cause(tmp_path: Path) -> None:
    """Inside a namespace of mounts of its own, /dev/null is an ordinary file, which only root may write to."""
    write_notebook(tmp_path / "class", "ada", LESSON, answered_notebook(LESSON, {}))
    script = 'mount -t tmpfs tmpfs "$1" && : > "$1/null" && mount --bind "$1/null" /dev/null && shift && exec "$@"'
    (tmp_path / "dev").mkdir()
    apart = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path / "dev")]
    env = environment()
    for words, status in ((["grade", LESSON, "--submitted", "class", "--out", "out"], 2), (["doctor"], 1)):
        command = [*apart, sys.executable, "-c", COMMAND, *words]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=300)
        assert "Permission denied: '/dev/null'" in done.stdout, done.stdout + done.stderr
        assert done.returncode == status
    assert not (tmp_path / "out").exists()


def test_a_right_answer_that_calls_other_exercises_is_tried_together_with_them(sandbox: Sandbox) -> None:
    lesson = "11_architectures"
    right = trial_submission(lesson, ["TransformerBlock"])
    answered = {cell.grade_id for cell in right.cells if "Unattempted(" not in cell.source}
    assert {"TransformerBlock", "MultiHeadAttention"} <= answered
    wrong = with_answer(right, "TransformerBlock", "def TransformerBlock(*of):\n    raise RuntimeError")
    graded = LessonGrader(lesson).grade(sandbox, wrong)
    assert {v.exercise: v.status for v in graded.verdicts}["TransformerBlock"] == "error"
