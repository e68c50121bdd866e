"""What a wrong answer is observed to do does not depend on the order in which this CPU adds floats up."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from autograde.judge.oracle import oracle
from torchcourse.checking.probe import observe
from torchcourse.checking.result import derive
from torchcourse.model.devices import CPU
from torchcourse.model.observations import Observations, Raised, agree


def int8_product(chunk: int, backwards: bool) -> Callable[..., Tensor]:
    """Return a product that is added up in float32, this many columns at a time."""

    def product(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
        total = torch.zeros(len(a), len(b))
        parts = [*zip(a.float().split(chunk, 1), b.float().split(chunk, 1), strict=True)]  # type: ignore[no-untyped-call]
        for left, right in reversed(parts) if backwards else parts:
            total = total + left @ right.T
        return total * a_scale * b_scale.T

    return product


@pytest.mark.parametrize(("chunk", "backwards"), [(7, False), (96, True), (4096, False)])
def test_a_float32_sum_in_any_order_is_the_known_mistake(chunk: int, backwards: bool) -> None:
    judge = oracle("13_efficiency", "int8_matmul")
    known = next(mistake for mistake in judge.known if mistake.name == "accumulates-in-float32")
    for number, case in enumerate(judge.cases):
        seen = judge.run(int8_product(chunk, backwards), "cpu", number)
        assert agree(seen, known.seen("cpu", number), case.tolerance), case.name


def distances(clamped: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """Return distances whose smallest squares round below zero, for few rows only if not `clamped`."""

    def between(a: Tensor, b: Tensor) -> Tensor:
        squares = (a[:, None] - b).square().sum(-1) - (0.0 if clamped and len(a) < 24 else 1e-7)
        return squares.sqrt()

    return between


def test_the_observation_does_not_say_how_many_rows_are_nan() -> None:
    judge = oracle("01_tensors", "pairwise_distances")
    number = next(n for n, case in enumerate(judge.cases) if case.name == "a against itself")

    def seen(clamped: bool) -> Observations:
        raw = observe(judge.exercise, distances(clamped), judge.cases[number], CPU, trusted=True)
        assert not any(isinstance(value, Raised) for value in raw.values())
        return derive(judge.exercise, judge.cases[number], raw)

    assert seen(True) == seen(False)
    assert seen(True)["result"] == "NaN in a tensor of shape (24, 24)"
