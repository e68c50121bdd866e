"""What an answer returns may be anything: a probe that cannot go on with it says so, and does not blame the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch

from autograde.judge.oracle import VISIBLE_SEED
from torchcourse.checking.probe import INTERNALS, observe
from torchcourse.model.catalogue import LESSONS, exercises
from torchcourse.model.exercise import Draw
from torchcourse.model.observations import kind


class Bare:
    """Has nothing that an exercise asks of its classes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


def generator(*_: Any, **__: Any) -> Iterator[int]:
    yield 1


def itself(*_: Any, **__: Any) -> Any:
    return itself


def returning(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


STRANGE: dict[str, Callable[..., Any]] = {
    "nothing": returning(None), "a number": returning(3.5), "text": returning("text"), "a list": returning([1, "a"]),
    "a dict": returning({"a": 1}), "a scalar tensor": returning(torch.tensor(2.0)),
    "a tensor of another shape": returning(torch.ones(7, 1, 2)), "a mask": returning(torch.ones(3) > 0),
    "an object": Bare, "a generator": generator, "itself": itself,
}  # fmt: skip
ASKED_FOR = {("rms_norm_cpp", "text")}
"""What is no strange result: text is C++ there, and the compiler's error is shown as one."""


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS)
def test_a_strange_result_is_described_and_not_called_the_answers_exception(lesson: str) -> None:
    blamed, unclear = {}, {}
    for name, exercise in exercises(lesson).items():
        for what, answer in islice(STRANGE.items(), 0, None, 4 if lesson == "12_distributed" else 1):  # 2 s each there
            seen = observe(exercise, answer, exercise.cases(Draw(VISIBLE_SEED))[0])
            if "raised" in seen and (name, what) not in ASKED_FOR:
                blamed[name, what] = str(seen["raised"])
            if (name, what) not in ASKED_FOR and INTERNALS.search(words := str(seen.get("returned", ""))):
                unclear[name, what] = words
    assert (blamed, unclear) == ({}, {})


def test_of_an_answer_that_returns_nothing_no_more_is_said() -> None:
    exercise = exercises("05_training")["fit"]
    seen = observe(exercise, returning(None), exercise.cases(Draw(VISIBLE_SEED))[0])
    assert seen == {"returned": kind(None)}
