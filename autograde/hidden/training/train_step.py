"""The exercise `train_step`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograde.hidden.training.shared import NO_NUMBER, STALE, VALUE, step_clearing_afterwards, step_with_closure
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.trainable_models import learning as _learning

WHY = (
    "Gradients add up, so they are cleared before backward. The step comes after it, since it uses what "
    "backward has written. `item()` gives a number: the loss itself would keep the graph of the step alive for "
    "as long as somebody logs it."
)
"""Why the reference is written as it is."""
REQUIRED = ("missing-zero-grad", "returns-tensor", "step-before-backward", "calls-forward-directly", "eval-mode")
"""The mistakes that a check must always be able to name."""

LOOP, LOSSES = "The loop, line by line", "Losses from logits"


def loss_of(model: Any, batch: Any, loss_fn: Any) -> Any:
    return loss_fn(model.train()(batch[0]), batch[1])


def train_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    """Make a right step, but return the loss as a tensor."""
    return learned(loss_of(model, batch, loss_fn), optimizer)


def learned(loss: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def missing_zero_grad(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    loss = loss_of(model, batch, loss_fn)
    loss.backward()
    optimizer.step()
    return loss.item()


def step_before_backward(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    loss = loss_of(model, batch, loss_fn)
    optimizer.step()
    loss.backward()
    return loss.item()


def step_before_backward_never_cleared(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    loss = loss_of(model, batch, loss_fn)
    optimizer.step()
    loss.backward()
    return loss.item()


def forward_directly(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    return learned(loss_fn(model.train().forward(batch[0]), batch[1]), optimizer).item()


def in_eval_mode(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    return learned(loss_fn(model.eval()(batch[0]), batch[1]), optimizer).item()


def in_the_mode_it_came(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    return learned(loss_fn(model(batch[0]), batch[1]), optimizer).item()


def cleared_before_the_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    loss = loss_of(model, batch, loss_fn)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


def never_steps(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    loss = loss_of(model, batch, loss_fn)
    loss.backward()
    return loss.item()


def never_differentiates(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    optimizer.zero_grad()
    loss = loss_of(model, batch, loss_fn)
    optimizer.step()
    return loss.item()


def steps_twice(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    loss = train_step(model, batch, loss_fn, optimizer)
    optimizer.step()
    return loss.item()


def loss_after_the_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    train_step(model, batch, loss_fn, optimizer)
    with torch.no_grad():
        return loss_fn(model(batch[0]), batch[1]).item()


def arguments_swapped(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    return learned(loss_fn(batch[1], model.train()(batch[0])), optimizer).item()


def squeezes_the_prediction(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> Any:
    return learned(loss_fn(model.train()(batch[0]).squeeze(-1), batch[1]), optimizer).item()


def returns_nothing(*arguments: Any) -> None:
    train_step(*arguments)


BEFORE = VALUE + "`step` ran before `backward`, so it found no gradients, or those of the batch before."
MODE = "The model ran in {ran} where {should_run} is wanted: "
STEPS = "The optimizer took {got} steps where {want} is wanted: "
MISTAKES = [
    Mistake("missing-zero-grad", missing_zero_grad, STALE, LOOP),
    Mistake("returns-tensor", train_step, NO_NUMBER, LOOP),
    Mistake("returns-tensor", lambda *given: train_step(*given).detach(), NO_NUMBER, LOOP),
    Mistake("step-before-backward", step_before_backward, BEFORE, LOOP),
    Mistake("step-before-backward", step_before_backward_never_cleared, BEFORE, LOOP),
    Mistake("calls-forward-directly", forward_directly, "The hooks of the model {got}, but should have run: `model(x)` "
            "runs them, `model.forward(x)` bypasses them.", LOOP),
    Mistake("eval-mode", in_eval_mode, MODE + "dropout does nothing there, and batch norm learns no statistics.", LOOP),
    Mistake("eval-mode", in_the_mode_it_came, MODE + "it came in that mode, and the step did not change it, or only in "
            "the outermost module; `model.train()` changes all modules.", LOOP),
    Mistake("gradients-cleared-before-step", cleared_before_the_step, VALUE + "the gradients were cleared between "
            "`backward` and `step`, so nothing was learned from them.", LOOP),
    Mistake("never-steps", never_steps, STEPS + "gradients alone change no parameter.", LOOP),
    Mistake("never-differentiates", never_differentiates, VALUE + "without `backward` there are no gradients to step "
            "along.", LOOP),
    Mistake("steps-twice", steps_twice, STEPS + "one batch, one step.", LOOP),
    Mistake("loss-after-the-step", loss_after_the_step, VALUE + "this loss was computed anew after the step. Return "
            "the one that was differentiated.", LOOP),
    Mistake("arguments-swapped", arguments_swapped, VALUE + "`loss_fn` takes the prediction first and the target "
            "second; for many losses the order matters.", LOOP),
    Mistake("squeezes-the-prediction", squeezes_the_prediction, VALUE + "the prediction lost its dimension of size 1, "
            "so it broadcasts against the target, which has it, to a table. Give both to `loss_fn` as they are.",
            LOSSES),
    Mistake("returns-nothing", returns_nothing, "The loss before the step should come back, {want}, but what came back "
            "is {got}.", LOOP),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 9)
    return [
        case("five steps from evaluation mode", **_learning(draw, "mean squared error", [n] * 5, starts="evaluation",
             lr=0.05)),
        case("a batch of one", **_learning(draw, "cross entropy", [1, n], starts="training", lr=0.3)),
        case("float64", **_learning(draw, "lopsided", [n, n], torch.float64, starts="training", lr=0.02)),
    ]  # fmt: skip


# Right answers unlike the reference


def step_clearing_by_hand(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> float:
    model.train(True)
    for p in model.parameters():
        p.grad = None
    loss = loss_fn(model(batch[0]), batch[1])
    torch.autograd.backward(loss)
    optimizer.step()
    return float(loss)


def step_from_gradients(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> float:
    model.train()
    loss = loss_fn(model(batch[0]), batch[1])
    parameters = list(model.parameters())
    for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        p.grad = g
    optimizer.step()
    return float(loss.item())


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    step_clearing_by_hand,
    step_clearing_afterwards,
    step_with_closure,
    step_from_gradients,
]
