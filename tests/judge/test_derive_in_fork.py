"""Deriving from long observations: what an honest answer sends, and what costs much more than its length."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from autograde.judge.derive_in_fork import JudgingError, derive_in_fork, may_grow
from autograde.judge.oracle import Oracle, oracle
from tests.support.costs import cpu_below
from torchcourse.checking.result import derive
from torchcourse.model.devices import CPU
from torchcourse.model.exercise import Case, Exercise
from torchcourse.model.observations import Observations

PRIME = (1 << 61) - 1
EQUAL_HASHES = [PRIME * k * k for k in range(1, 17_001)]


@cache
def split() -> Oracle:
    return oracle("04_data", "split_indices")


def deriving(function: Any) -> Exercise:
    return replace(split().exercise, derive=function)


def test_it_derives_what_this_process_would() -> None:
    judge = split()
    judge.wanted(CPU.name, 0)
    judge.wanted(CPU.name, 1)
    observed = [(judge.cases[number], judge.observed[-2, CPU.name, number]) for number in (1, 0)]
    assert derive_in_fork(judge.exercise, observed) == [derive(judge.exercise, *one) for one in observed]


def test_a_replys_result_is_the_same_in_the_other_process() -> None:
    judge = split()
    judge.wanted(CPU.name, 0)
    raw = judge.observed[-2, CPU.name, 0]
    assert judge.long_results(CPU.name, {0: raw})[0].passed


def test_numbers_with_one_hash_take_no_longer_than_the_limit() -> None:
    seconds = 0.5
    raw: Observations = {"parts": [EQUAL_HASHES], "again": [], "with another seed": [], "global generators": []}
    began = time.monotonic()
    with pytest.raises(JudgingError):
        derive_in_fork(split().exercise, [(split().cases[0], raw)], seconds)
    assert time.monotonic() - began < seconds + 5


def busy(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(
    ("seen", "grows"),
    [({"a": torch.zeros(800, 1, 1), "b": [torch.zeros(800, 1), {"c": torch.zeros(800)}]}, True),
     ({"a": torch.zeros(4000, 1), "b": torch.zeros(4000)}, True),
     ({"a": torch.zeros(4000), "b": [torch.zeros(300), 1.0, "text"]}, False),
     ({"a": torch.zeros(0, 4000, 1), "b": torch.zeros(4000, 0)}, False), ({}, False)],
)  # fmt: skip
def test_tensors_that_make_a_large_one_when_they_broadcast_are_not_derived_from_in_this_process(
    seen: Observations, grows: bool
) -> None:
    assert may_grow(split().cases[0], seen) == grows


def test_small_replies_that_make_a_large_tensor_are_judged_within_the_limits() -> None:
    """Four tensors of 800 numbers took 5 GB and 80 seconds of the grading process."""
    judge = oracle("14_ticket_router", "TicketRouter")
    wanted = judge.wanted(CPU.name, 0)
    raw = dict(judge.observed[-2, CPU.name, 0])
    shapes = (3000, 1, 1), (1, 3000, 1), (1, 1, 3000), (1, 1, 1)
    raw["at two real places"] = [torch.full(shape, 3 * number, dtype=torch.int8) for number, shape in enumerate(shapes)]
    assert wanted and may_grow(judge.cases[0], raw)
    with cpu_below(3):
        assert not judge.long_results(CPU.name, {0: raw})[0].passed


def test_all_long_observations_share_one_limit() -> None:
    slow = deriving(lambda case, seen: busy(0.5) or seen)
    one: tuple[Case, Observations] = (split().cases[0], {})
    assert derive_in_fork(slow, [one], 4.0) == [{}]
    with pytest.raises(JudgingError):
        derive_in_fork(slow, 8 * [one], 2.0)


def test_memory_has_a_limit_too() -> None:
    def hungry(_case: Case, _seen: Observations) -> Observations:
        return {"size": len(bytearray(4 << 30))}

    seen = derive_in_fork(deriving(hungry), 2 * [(split().cases[0], {"raw": 1})])
    assert seen == 2 * [{"raw": 1}], "what cannot be derived stays as it came"


def test_a_broadcast_is_refused_by_shape() -> None:
    judge = oracle("06_gpu", "checkpointed")
    own = {"kept": 0, "x.requires_grad": "as before", "device": "the input's", "result": torch.zeros(50, 1)}
    raw = {"own": own, "plain": {"kept": 1, "result": torch.zeros(1, 50)}}
    dropping = next(case for case in judge.cases if case.inputs["dropout"])
    assert judge.exercise.derive(dropping, raw)["result"] == "others than without"


def test_counting_all_numbers_with_one_hash_would_take_more_than_a_second() -> None:
    began = time.monotonic()
    Counter(EQUAL_HASHES[:2000])
    assert (time.monotonic() - began) * (17_000 / 2000) ** 2 > 1.0
