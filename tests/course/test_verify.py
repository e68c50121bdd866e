"""The gate: every claim about the course holds, exercise by exercise and notebook by notebook."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, takewhile
from typing import Any

import psutil
import pytest
import torch

from autograde.course import verify as verifying
from autograde.course.verify import verify
from autograde.judge.oracle import Oracle, references
from autograde.settings import SEED
from autograde.source import paths
from autograde.source.mistakes import Mistake
from autograde.source.private_half import private_half
from autograde.source.release import load_release
from tests.support.worker_processes import has_ended
from torchcourse.model.catalogue import LESSONS, UnknownExerciseError, exercises

EXERCISES = [f"{lesson}:{name}" for lesson in LESSONS for name in exercises(lesson)]


@pytest.mark.parametrize("which", EXERCISES)
def test_every_claim_about_an_exercise_holds(which: str) -> None:
    claims = list(verify([which]))
    assert len(claims) > 10
    assert not [claim for claim in claims if not claim.holds]


def test_right_answers_pass_in_the_notebook_on_a_cpu_whose_last_digits_differ() -> None:
    env = {**os.environ, "ATEN_CPU_CAPABILITY": "default", "TORCHCOURSE_ACCELERATOR": "simulated"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.right_answers"]
    done = subprocess.run(command, cwd=paths.ROOT, env=env, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == ""


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_notebooks_are_fresh_and_run_unsolved_and_solved(lesson: str) -> None:
    claims = list(verifying._notebook_claims(lesson))
    assert len(claims) == 3
    assert not [claim for claim in claims if not claim.holds]


@pytest.mark.slow
def test_several_workers_make_the_same_claims_in_the_same_order() -> None:
    which = ["01_tensors:select_scores", "01_tensors:describe"]
    assert list(verify(which, workers=2)) == list(verify(which))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends processes with their parent")
def test_workers_end_with_a_command_that_was_ended_from_outside() -> None:
    program = "from autograde.course.verify import verify; list(verify(['01_tensors'], workers=2))"
    with subprocess.Popen([sys.executable, "-c", f"if __name__ == '__main__': {program}"]) as command:
        while len(workers := _spawned(command.pid)) < 2:
            assert command.poll() is None
            time.sleep(0.05)
        command.terminate()
    deadline = time.monotonic() + 30
    while (left := [worker for worker in workers if not has_ended(worker)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    for worker in left:
        worker.kill()
    assert not left


def _spawned(pid: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(pid).children() if "spawn_main" in " ".join(child.cmdline())]


def test_what_has_not_changed_is_recalled_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    which = ["01_tensors:select_scores"]
    first = list(verify(which))
    said = [claim.says for claim in first if "fails by name" in claim.says]
    assert len(said) >= 3
    assert all(re.search(r"fails by name: [A-Z`].{20,}\.$", text, re.DOTALL) for text in said), "not what learners get"
    half = private_half("01_tensors", "select_scores")
    programs = {id(program) for program in (*(mistake.program for mistake in half.mistakes), *half.right_answers)}
    ran: list[int] = []
    run = Oracle.run

    def counted(oracle: Oracle, answer: Any, device: str, number: int, *, trusted: bool = True) -> Any:
        ran.append(id(answer))
        return run(oracle, answer, device, number, trusted=trusted)

    monkeypatch.setattr(Oracle, "run", counted)
    verifying._oracles.cache_clear()
    assert list(verify(which, use_cache=True)) == first
    assert not ran
    verifying._oracles.cache_clear()
    assert list(verify(which)) == first
    assert programs <= set(ran)


def test_what_was_observed_where_a_claim_is_broken_is_not_recalled(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [lambda x: x, *private_half("01_tensors", "row_softmax").right_answers]
    which = ["01_tensors:row_softmax"]
    with monkeypatch.context() as changed:
        changed.setattr(private_half("01_tensors", "row_softmax"), "right_answers", wrong)
        assert not all(claim.holds for claim in verify(which))
    verifying._oracles.cache_clear()
    assert all(claim.holds for claim in verify(which, use_cache=True))


@pytest.fixture(autouse=True)
def forget_oracles() -> Iterator[None]:
    """Oracles are kept from claim to claim; a test that changes what mistakes there are must not leave its own."""
    yield
    verifying._oracles.cache_clear()


def mistake(name: str, sentence: str = "The value at {at} is {got_at}.", program: Any = lambda x: x * 0) -> Mistake:
    return Mistake(name, program, sentence, "Reductions")


RIGHT = private_half("01_tensors", "row_softmax").right_answers[0]


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("mistakes", [mistake("harmless", program=RIGHT)], "harmless is taken for passed"),
        ("mistakes", [mistake("mute", "This is wrong, and nothing more is output about it.")], "quotes nothing"),
        ("mistakes", [mistake("one"), mistake("two")], "taken for one"),
        ("required", ("overflow", "never-heard-of"), "never-heard-of is not"),
        ("right_answers", [lambda x: x, lambda x: x], "right answer 1 does not pass"),
    ],
)
def test_what_does_not_hold_is_a_broken_claim(
    monkeypatch: pytest.MonkeyPatch, field: str, value: object, says: str
) -> None:
    monkeypatch.setattr(private_half("01_tensors", "row_softmax"), field, value)
    assert any(says in claim.says for claim in verify(["01_tensors:row_softmax"]) if not claim.holds)


def test_a_reference_that_raises_does_not_pass_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "_reference_runs", lambda oracles: (False, "the reference raises"))
    before = takewhile(lambda claim: "known mistakes" not in claim.says, verify(["01_tensors:select_scores"]))
    said = [claim.says for claim in before]
    assert "the reference raises" in said
    assert "the reference passes" not in said


def test_a_stub_that_is_out_of_date_says_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    release = load_release("01_tensors")
    stub = replace(release.cells["select_scores"], source="def select_scores(*of):\n    raise ValueError")
    changed = replace(release, cells={**release.cells, "select_scores": stub})
    monkeypatch.setattr(verifying, "load_release", lambda lesson: changed)
    assert verifying._stub("01_tensors", "select_scores") == (
        False, "the stub is error: the notebook was not built by this version, run torchcourse build 01_tensors",
    )  # fmt: skip


def test_a_stub_that_registers_the_references_operator_leaves_no_oracle_with_the_old_one() -> None:
    verifying._oracles("08_compile", "swiglu")[SEED]  # as a claim before this one could have left it
    claims = verify(["08_compile:swiglu"])
    assert all(claim.holds for claim in islice(claims, 2))  # the second is of the stub
    judged_by = verifying._oracles("08_compile", "swiglu")[SEED].reference
    assert judged_by is references("08_compile")["swiglu"]
    assert judged_by(torch.tensor([2.0]), torch.tensor([0.0])).tolist() == [0.0]


def test_an_unknown_exercise_is_named() -> None:
    for name, remedy in (("softmax", "Did you mean 'row_softmax'"), ("zzz", "It has attention_scores, describe, ")):
        with pytest.raises(UnknownExerciseError, match=f"no exercise '{name}'. {remedy}"):
            list(verify([f"01_tensors:{name}"]))
