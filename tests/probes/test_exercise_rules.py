"""Rules of exercises: torch's own answers are seen where they are forbidden, and references agree with them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from autograde.judge.oracle import VISIBLE_SEED, references
from torchcourse.checking.call_watch import CallWatch
from torchcourse.checking.check import report_on
from torchcourse.checking.probe import observe
from torchcourse.exercises.precision.loss_scaler import drawn_pattern
from torchcourse.model.catalogue import exercises, find
from torchcourse.model.exercise import Case, Draw
from torchcourse.model.observations import Tolerance, differing
from torchcourse.probes.diagnosed_models import modes, modes_now

TRAINING, PRECISION = "05_training", "07_mixed_precision"


class InheritedAdamW(torch.optim.AdamW):
    pass


class WrappedAdam(torch.optim.Optimizer):
    def __init__(self, params: Any, **options: Any) -> None:
        self.inner = torch.optim.Adam(params, **options)
        super().__init__(self.inner.param_groups, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.inner.step()


class TorchsScaler:
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


class InheritedScaler(torch.amp.GradScaler):
    def __init__(self, scale: float = 2.0**16, **_: Any) -> None:
        super().__init__("cpu", init_scale=scale)


CLIP, SCALER = torch.nn.utils.clip_grad_norm_, "torch.amp.grad_scaler.GradScaler"


def forbidden(name: str, answer: Callable[..., Any]) -> list[list[str]]:
    """Return the forbidden calls of an answer in each of the visible cases of an exercise."""
    return [observe(find(name)[1], answer, case)["forbidden calls"] for case in find(name)[1].cases(Draw(VISIBLE_SEED))]


@pytest.mark.parametrize(
    ("name", "answer", "seen"),
    [
        ("AdamW", InheritedAdamW, r"torch\.optim\.adamw?\.AdamW?"),
        ("AdamW", WrappedAdam, r"torch\.optim\.adamw?\.AdamW?"),
        ("AdamW", torch.optim.AdamW, r"torch\.optim\.adamw?\.AdamW?"),
        ("clip_gradients", lambda p, m: float(CLIP(p, m)), r"torch\.nn\.utils\.clip_grad\..*"),
        ("cross_entropy", torch.nn.functional.cross_entropy, "cross_entropy"),
        ("cross_entropy", torch.nn.CrossEntropyLoss(), "cross_entropy"),
        ("LossScaler", TorchsScaler, SCALER),
        ("LossScaler", InheritedScaler, SCALER),
    ],
)
def test_torchs_own_is_seen_and_named_and_the_reference_does_without(
    name: str, answer: Callable[..., Any], seen: str
) -> None:
    first, *_ = forbidden(name, answer)
    assert re.fullmatch(seen, first[0])
    assert not any(forbidden(name, references(find(name)[0])[name]))


def test_our_adamw_follows_torchs_over_fifty_steps() -> None:
    generator, ways = torch.Generator().manual_seed(0), list[torch.Tensor]()
    gradients = torch.randn(50, 7, generator=generator)
    for make in (references(TRAINING)["AdamW"], torch.optim.AdamW):
        p = torch.nn.Parameter(torch.linspace(-3, 3, 7))
        optimizer = make([p], lr=0.05, weight_decay=0.3, betas=(0.8, 0.95), eps=1e-3)
        for gradient in gradients:
            p.grad = gradient.clone()
            optimizer.step()
        ways.append(p.detach())
    torch.testing.assert_close(*ways)


def test_only_the_modules_named_are_noted() -> None:
    with CallWatch(["torch.optim.sgd"]) as watch:
        torch.optim.Adam([torch.zeros(1, requires_grad=True)])
        torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    assert watch.forbidden(["torch.optim.sgd", "torch.optim.adam"]) == ["torch.optim.sgd.SGD"]


def differing_from_torchs(inputs: dict[str, Any], tolerance: Tolerance) -> list[str]:
    exercise = exercises(PRECISION)["LossScaler"]
    drawn = Case("drawn", inputs, tolerance)
    ours = observe(exercise, references(PRECISION)["LossScaler"], drawn)
    theirs = observe(exercise, TorchsScaler, drawn)
    assert "raised" not in theirs
    return [name for name in differing(ours, theirs, tolerance) if name != "forbidden calls"]


@pytest.mark.parametrize("seed", range(12))
def test_the_reference_is_torchs_grad_scaler_on_drawn_patterns(seed: int) -> None:
    draw = Draw(seed)
    learners = draw.size(1, 3)
    patterns = [drawn_pattern(draw, 20, draw.pick([0.0, 0.1, 0.3, 0.6])) for _ in range(learners)]
    options = {
        "scale": draw.pick([2.0**16, 2.0**4, 100.0]), "growth": draw.pick([2.0, 3.0, 1.5]),
        "backoff": draw.pick([0.5, 0.25, 0.1]), "interval": draw.size(1, 4),
    }  # fmt: skip
    inputs = {
        "options": options, "pattern": [",".join(each) for each in zip(*patterns, strict=True)],
        "gradients": [draw.normal(3) for _ in range(learners)], "idle": draw.pick([True, False]),
    }  # fmt: skip
    assert differing_from_torchs(inputs, Tolerance(1e-6, 1e-6)) == []


def test_every_visible_case_of_the_scaler_is_torchs_too_and_so_is_where_it_stops_growing() -> None:
    at_the_end = {"options": {"scale": 2.0**125, "interval": 1}, "pattern": ["fine"] * 5,
                  "gradients": [torch.ones(1)], "idle": False}  # fmt: skip
    visible = [case.inputs for case in exercises(PRECISION)["LossScaler"].cases(Draw(VISIBLE_SEED))]
    for inputs in (*visible, at_the_end):
        assert differing_from_torchs(inputs, Tolerance(1e-6, 1e-6)) == []


def test_master_weights_survive_a_checkpoint() -> None:
    make = references(PRECISION)["MasterSGD"]
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


def listed(path: Path) -> list[str]:
    return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(str(path)))


def test_what_somebody_admitted_before_neither_changes_the_verdict_nor_is_forgotten() -> None:
    own = torch.serialization.get_safe_globals()
    torch.serialization.add_safe_globals([argparse.Namespace])
    try:
        assert report_on("unsafe_globals", {"unsafe_globals": listed}).passed
        assert set(torch.serialization.get_safe_globals()) == {*own, argparse.Namespace}
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(own)


class AffineWithBiasOfInputSize(torch.nn.Module):
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(out_features, in_features) - 0.5)
        self.bias = torch.nn.Parameter(torch.zeros(in_features)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


def test_a_parameter_of_a_wrong_shape_is_told_as_a_shape() -> None:
    message = report_on("Affine", {"Affine": AffineWithBiasOfInputSize}).message
    assert re.search(r"`parameters` .*bias \(\d,\).*is wanted", message), message
    assert "mT" not in message and "the answer raised" not in message


class LogSigmoidWithoutLog1p(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(max=0) - torch.log(1 + torch.exp(-x.abs()))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output * torch.sigmoid(-ctx.saved_tensors[0])


def size_rounded_toward_zero(size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1) -> int:
    length = int((size + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1
    if length < 1:
        raise ValueError(f"kernel {kernel} does not fit into {size}")
    return length


def strays_of_another_kind(model: torch.nn.Module, device: torch.device) -> list[str]:
    tensors = [*model.named_parameters(), *model.named_buffers()]
    tensors += [
        (f"{path}.{name}".strip("."), value)
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, Tensor)
    ]
    return sorted(name for name, tensor in tensors if tensor.device.type != device.type)


def weights_from_where_they_are(model: torch.nn.Module, path: Path) -> None:
    draft = path.with_suffix(".new")
    torch.save(model.state_dict(), draft)
    draft.replace(path)


def weights_of_the_moved_model(model: torch.nn.Module, path: Path) -> None:
    weights_from_where_they_are(model.cpu(), path)


@pytest.mark.parametrize(
    ("exercise", "answer", "mistake"),
    [
        ("LogSigmoid", LogSigmoidWithoutLog1p, "loses-small-values"),
        ("conv_output_size", size_rounded_toward_zero, "accepts-what-does-not-fit"),
        ("stray_tensors", strays_of_another_kind, "index-ignored"),
        ("save_weights", weights_from_where_they_are, "left-on-the-device"),
        ("save_weights", weights_of_the_moved_model, "moves-the-model"),
    ],
)
def test_what_the_text_rules_out_is_refused_and_named(exercise: str, answer: Callable[..., Any], mistake: str) -> None:
    assert report_on(exercise, {exercise: answer}).misconception == mistake


def fitting_with(loss_of: Callable[[float, int], float]) -> Callable[..., Any]:
    """Return a training whose train_loss is `loss_of` the sum of the batch means and their number."""

    def fit(model: Any, train_loader: Any, val_loader: Any, *, epochs: int, lr: float, device: Any) -> Any:
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        lists: dict[str, list[float]] = {"train_loss": [], "val_loss": [], "val_accuracy": [], "lr": []}
        for _ in range(epochs):
            total = 0.0
            for x, y in train_loader:
                loss = torch.nn.functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total += loss.item()
            for name, value in (("train_loss", loss_of(total, len(train_loader))), ("lr", lr)):
                lists[name].append(value)
            for name in ("val_loss", "val_accuracy"):
                lists[name].append(1.0)
        return lists

    return fit


@pytest.mark.parametrize(
    ("loss_of", "told"),
    [
        (lambda total, batches: total / batches, "about the mean loss over the samples"),
        (lambda total, batches: total, "far above the mean loss"),
        (lambda total, batches: total / batches / 8, "far below the mean loss"),
    ],
)
def test_fit_is_asked_for_a_mean_training_loss(loss_of: Callable[[float, int], float], told: str) -> None:
    exercise = exercises(TRAINING)["fit"]
    small = exercise.cases(Draw(VISIBLE_SEED))[0]
    assert exercise.derive is not None
    seen = exercise.derive(small, observe(exercise, fitting_with(loss_of), small))
    assert seen["train_loss"].kind == told, seen


@pytest.mark.parametrize(("right", "told"), [(289, "97% or more"), (286, "97% or more"), (280, "less than 97%")])
def test_fit_may_fall_short_of_its_goal_by_chance_and_no_further(right: int, told: str) -> None:
    exercise = exercises(TRAINING)["fit"]
    history = {"train_loss": [0.5], "val_loss": [0.1], "val_accuracy": [0.98], "lr": [0.01]}
    seen = {"history": history, "epochs": 1, "rates": [0.01], "real": True, "moved": True, "final val": (0.1, 0.98),
            "final test": (0.2, right / 297), "validated in": "evaluation mode"}  # fmt: skip
    digits = exercise.cases(Draw(VISIBLE_SEED))[2]
    assert exercise.derive(digits, seen)["accuracy on held-out digits"].kind == told


def test_a_submodule_that_an_answer_adds_is_a_change() -> None:
    model = nn.Sequential(nn.ReLU())
    before = modes(model)
    model.add_module("more", nn.ReLU())
    assert modes_now(before, model) == {"modes afterwards": "changed: more"}
