"""Lesson 07's rules: the scaler that answers are compared with is torch's own, and using torch's own is seen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from autograde.oracle import VISIBLE_SEED, references
from torchcourse.exercise import Draw, exercises
from torchcourse.exercises.precision import _drawn_pattern
from torchcourse.observations import Tolerance, differing
from torchcourse.probing import observe

LESSON = "07_mixed_precision"


class TorchsOwn:
    """torch.amp.GradScaler with the exercise's names."""

    def __init__(self, scale: float = 2.0**16, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000) -> None:
        self.scaler = torch.amp.GradScaler(
            device="cpu", init_scale=scale, growth_factor=growth, backoff_factor=backoff, growth_interval=interval
        )

    def scale(self, loss: Tensor) -> Any:
        return self.scaler.scale(loss)

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        stepped: list[bool] = []
        handle = optimizer.register_step_pre_hook(lambda *_: stepped.append(True))
        self.scaler.step(optimizer)
        handle.remove()
        return bool(stepped)

    def update(self) -> None:
        self.scaler.update()


class Inherited(torch.amp.GradScaler):
    def __init__(self, scale: float = 2.0**16, **_: Any) -> None:
        super().__init__("cpu", init_scale=scale)


def _same(inputs: dict[str, Any], tolerance: Tolerance) -> list[str]:
    exercise = exercises(LESSON)["LossScaler"]
    case = exercise.cases(Draw(VISIBLE_SEED))[0]
    case = type(case)("drawn", inputs, tolerance)
    ours = observe(exercise, references(LESSON)["LossScaler"], case)
    theirs = observe(exercise, TorchsOwn, case)
    assert "raised" not in theirs
    return [name for name in differing(ours, theirs, tolerance) if name != "forbidden calls"]


@pytest.mark.parametrize("seed", range(12))
def test_the_reference_is_torchs_grad_scaler_on_drawn_patterns(seed: int) -> None:
    draw = Draw(seed)
    learners = draw.size(1, 3)
    patterns = [_drawn_pattern(draw, 20, draw.pick([0.0, 0.1, 0.3, 0.6])) for _ in range(learners)]
    options = {
        "scale": draw.pick([2.0**16, 2.0**4, 100.0]), "growth": draw.pick([2.0, 3.0, 1.5]),
        "backoff": draw.pick([0.5, 0.25, 0.1]), "interval": draw.size(1, 4),
    }  # fmt: skip
    inputs = {
        "options": options, "pattern": [",".join(each) for each in zip(*patterns, strict=True)],
        "gradients": [draw.normal(3) for _ in range(learners)], "idle": draw.pick([True, False]),
    }  # fmt: skip
    assert _same(inputs, Tolerance(1e-5, 1e-6)) == []


def test_the_reference_stops_growing_where_torchs_does() -> None:
    inputs = {
        "options": {"scale": 2.0**125, "interval": 1}, "pattern": ["fine"] * 5, "gradients": [torch.ones(1)],
        "idle": False,
    }  # fmt: skip
    assert _same(inputs, Tolerance(1e-6, 1e-6)) == []


def test_every_visible_case_of_the_scaler_is_torchs_too() -> None:
    for case in exercises(LESSON)["LossScaler"].cases(Draw(VISIBLE_SEED)):
        assert _same(case.inputs, Tolerance(1e-5, 1e-6)) == []


@pytest.mark.parametrize("answer", [TorchsOwn, Inherited])
def test_torchs_scaler_is_seen_and_named(answer: type) -> None:
    exercise = exercises(LESSON)["LossScaler"]
    seen = observe(exercise, answer, exercise.cases(Draw(VISIBLE_SEED))[0])
    assert seen["forbidden calls"] == ["torch.amp.grad_scaler.GradScaler"]


def test_the_reference_uses_no_scaler_of_torch() -> None:
    exercise = exercises(LESSON)["LossScaler"]
    for case in exercise.cases(Draw(VISIBLE_SEED)):
        assert observe(exercise, references(LESSON)["LossScaler"], case)["forbidden calls"] == []


def test_master_weights_survive_a_checkpoint() -> None:
    make = references(LESSON)["MasterSGD"]
    weights = [torch.nn.Parameter(torch.full((3,), 1.5, dtype=torch.bfloat16)) for _ in range(2)]
    first, second = (make([w], lr=1e-4) for w in weights)
    for w in weights:
        w.grad = torch.ones_like(w)
    first.step()
    second.load_state_dict(first.state_dict())
    for _ in range(60):
        first.step()
        second.step()
    assert torch.equal(*weights)
    assert weights[0][0] < 1.5
