"""Judging what an answer sends, by comparing and explaining, costs no more than a moment, whatever it is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from autograde.judge.oracle import Oracle, oracle
from autograde.judge.run_submission import ExerciseRun, Reply
from autograde.judge.submission import Submission
from autograde.judge.verdict import MAX_MESSAGE_LENGTH, decide
from autograde.settings import LIMITS
from autograde.source.release import load_release
from tests.support.costs import cpu_below
from torchcourse.model import codec
from torchcourse.model.devices import CPU
from torchcourse.model.observations import Raised

LESSON, NAME = "01_tensors", "row_softmax"
BYTES = LIMITS.reply_bytes - (1 << 16)


def nested(depth: int) -> Any:
    return [nested(depth - 1) for _ in range(8)] if depth else 0


LARGE: dict[str, Any] = {
    "a tensor": torch.zeros(BYTES // 4),
    "a column, which broadcasts": torch.zeros(BYTES // 4, 1),
    "numbers": [0] * 90_000,
    "one number": 10**4000,
    "lists in lists": nested(5),
    "a text": "x" * BYTES,
    "a dict": {str(number): number for number in range(90_000)},
    "an exception": Raised("ValueError", "x\n" * (BYTES // 2)),
}


@pytest.fixture(scope="module")
def judge() -> Oracle:
    found = oracle(LESSON, NAME)
    decided(found, {"result": 1})  # references and mistakes are observed once
    return found


def decided(judge: Oracle, seen: Any) -> Any:
    run = ExerciseRun([Reply(seen) for _ in judge.cases])
    return decide(Submission("ann", load_release(LESSON)), judge, 3, {CPU.name: run})


@pytest.mark.parametrize("what", LARGE)
def test_a_reply_as_long_as_allowed_is_judged_in_a_moment(judge: Oracle, what: str) -> None:
    """In every case of an exercise, under every name."""
    value = LARGE[what]
    codec.unpack(codec.pack(value))  # it can come
    seen = {"raised": value} if isinstance(value, Raised) else {"result": value, "changed": value, "device": value}
    with cpu_below(3):
        verdict = decided(judge, seen)
    assert verdict.score == 0
    assert len(verdict.message) <= MAX_MESSAGE_LENGTH
