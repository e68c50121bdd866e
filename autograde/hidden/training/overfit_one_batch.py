"""The exercise `overfit_one_batch`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.training.shared import STALE, VALUE, step_clearing_afterwards
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.trainable_models import learning as _learning

WHY = (
    "The batch is the same each time, so a sound model and loss must get to nearly 0; whatever keeps it up is "
    "a bug, found in seconds. Training mode is set, because that is what is tested. The loss noted is the one "
    "before the step, so the first number is that of the untrained model."
)
"""Why the reference is written as it is."""
REQUIRED = ("stores-graph", "missing-zero-grad")
"""The mistakes that a check must always be able to name."""

ONE_BATCH, LOSSES = "Overfit one batch first", "Losses from logits"


def losses_of(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[Tensor]:
    """Learn, and return the losses as tensors, each with its graph."""
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        history.append(loss)
    return history


def numbers_at_the_end(*given: Any) -> list[float]:
    return [loss.item() for loss in losses_of(*given)]


def overfit(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    return [losses_of(model, batch, loss_fn, optimizer, 1)[0].item() for _ in range(steps)]


def detached_losses(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[Tensor]:
    return [losses_of(model, batch, loss_fn, optimizer, 1)[0].detach() for _ in range(steps)]


def never_cleared(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    history = []
    for _ in range(steps):
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


def never_differentiated(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        optimizer.step()
        history.append(loss.item())
    return history


def never_stepped(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        history.append(loss.item())
    return history


def loss_after_the_step(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    history = []
    for _ in range(steps):
        losses_of(model, batch, loss_fn, optimizer, 1)
        with torch.no_grad():
            history.append(loss_fn(model(batch[0]), batch[1]).item())
    return history


def one_step_more(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    return overfit(model, batch, loss_fn, optimizer, steps + 1)


def first_loss_twice(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    with torch.no_grad():
        before = loss_fn(model.train()(batch[0]), batch[1]).item()
    return [before, *overfit(model, batch, loss_fn, optimizer, steps)]


def stops_when_small(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    history: list[float] = []
    while len(history) < steps and not (history and history[-1] < 1e-3):
        history += overfit(model, batch, loss_fn, optimizer, 1)
    return history


def squeezes_the_prediction(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    return overfit(lambda x: model(x).squeeze(-1), batch, loss_fn, optimizer, steps)


def last_only(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> Any:
    history = overfit(model, batch, loss_fn, optimizer, steps)
    return history[-1] if history else history


STORED = (
    "Graphs kept alive: {alive}. A stored loss tensor holds the graph that made it; store its number, and the graph "
    "can go."
)
MISTAKES = [
    Mistake("stores-graph", losses_of, STORED, ONE_BATCH),
    Mistake("stores-graph", numbers_at_the_end, STORED, ONE_BATCH),
    Mistake("missing-zero-grad", never_cleared, STALE, ONE_BATCH),
    Mistake("loss-after-the-step", loss_after_the_step, VALUE + "the first entry is the loss of the untouched model, "
            "from which the first step starts.", ONE_BATCH),
    Mistake("returns-tensors", detached_losses, "The history came out as {got} where {want} is wanted: Python floats, "
            "which a log or a plot can take.", ONE_BATCH),
    Mistake("returns-tensors", lambda *given: torch.tensor(numbers_at_the_end(*given)), "The history came out as {got} "
            "where {want} is wanted: a list of Python floats.", ONE_BATCH),
    Mistake("one-step-more", one_step_more, VALUE + "the loop ran once too often.", ONE_BATCH),
    Mistake("first-loss-twice", first_loss_twice, VALUE + "the loss of the untouched model comes twice, once from "
            "before the loop and once from its first step.", ONE_BATCH),
    Mistake("trains-in-eval-mode", lambda model, *given: overfit(model.eval(), *given), VALUE + "the model was put "
            "into evaluation mode, where dropout and batch norm do not behave as in training.", ONE_BATCH),
    Mistake("never-differentiates", never_differentiated, VALUE + "the loss stays where it is. Either no gradient was "
            "computed, or it was cleared before the step, or it went to a copy of the model.", ONE_BATCH),
    Mistake("never-steps", never_stepped, VALUE + "the optimizer never made a step, so the loss stays where it is.",
            ONE_BATCH),
    Mistake("stops-when-small", stops_when_small, 'In the case "{case}", `{what}` came out as {got} where {want} is '
            "wanted: the loop ended early, because the loss was small. There should be `steps` steps, and as many "
            "losses.",
            ONE_BATCH),
    Mistake("squeezes-the-prediction", squeezes_the_prediction, VALUE + "the prediction lost its dimension of size 1, "
            "so it broadcasts against the target, which has it, to a table. Give both to `loss_fn` as they are.",
            LOSSES),
    Mistake("last-loss-only", last_only, "What came back is {got} where {want} is wanted: the losses of all steps.",
            ONE_BATCH),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        case("one example", **_learning(draw, "cross entropy", [1], lr=0.2, steps=draw.size(3, 9))),
        case("many steps", **_learning(draw, "mean squared error", [8], lr=0.05, steps=40)),
        case("float64", **_learning(draw, "lopsided", [5], torch.float64, lr=0.02, steps=5)),
    ]


# Right answers unlike the reference


def overfit_by_steps(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    return [step_clearing_afterwards(model, batch, loss_fn, optimizer) for _ in range(steps)]


def overfit_with_while(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    history: list[float] = []
    while len(history) < steps:
        model.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        history += [float(loss.detach())]
        loss.backward()
        optimizer.step()
        del loss
    return history


def overfit_numbers_at_the_end(model: Any, batch: Any, loss_fn: Any, optimizer: Any, steps: int) -> list[float]:
    x, y = batch
    losses = torch.zeros(steps, dtype=x.dtype, device=x.device)
    for i in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        losses[i] = loss.detach()
        optimizer.step()
    return [float(loss) for loss in losses.cpu()]


RIGHT_ANSWERS: list[Callable[..., Any]] = [overfit_by_steps, overfit_with_while, overfit_numbers_at_the_end]
