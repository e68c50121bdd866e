"""The exercise `train_step`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.probes.trainable_models import (
    LOSSES,
    RecordingLoss,
    RecordingModel,
    counted,
    flat,
    learning,
    number_or_kind,
    quotes_modes,
    returned,
)


def probe(
    answer: Watched, weights: dict[str, Tensor], xs: list[Tensor], ys: list[Tensor], loss: str, lr: float, starts: str
) -> dict[str, Any]:
    """Observe steps on several batches: losses, mode, hooks, and the order of backward and step."""
    inner, called = RecordingModel(weights), list[int]()
    model = nn.Sequential(inner).train(starts == "training")  # as in most models, the layers are in other modules
    model.register_forward_pre_hook(lambda *_: called.append(1))
    optimizer = torch.optim.SGD(model.parameters(), lr)
    steps, witness, first = counted(optimizer), RecordingLoss(LOSSES[loss]), list[str]()
    optimizer.register_step_post_hook(lambda *_: witness.events.append("step"))
    losses = []
    for x, y in zip(xs, ys, strict=True):
        losses.append(number_or_kind(answer(model, (x, y), witness, optimizer)))
        first = first or list(witness.events)
    return {
        **returned(losses),
        "the model ran in": inner.modes(),
        "hooks of the model": "ran" if len(called) >= len(inner.ran) else "were skipped",
        "optimizer steps": len(steps),
        "order in the first step": " before ".join(first),
        "parameters afterwards": flat(model.parameters()),
    }


def cases(draw: Draw) -> list[Case]:
    n, slow = draw.size(4, 6), dict[str, Any](lr=0.1)
    return [
        case("one step", **learning(draw, "mean squared error", [n], starts="training", **slow)),
        case("three steps", **learning(draw, "mean squared error", [n, n, n], starts="training", **slow)),
        case("a model that comes in evaluation mode", **learning(draw, "cross entropy", [n, n], starts="evaluation",
             **slow)),
        case("a loss that is not symmetric", **learning(draw, "lopsided", [n, 2], starts="training", lr=0.05)),
        case("a single output", **learning(draw, "lopsided", [n], outputs=1, starts="training", lr=0.05)),
    ]  # fmt: skip


EXERCISE = Exercise(
    "train_step",
    probe,
    cases,
    hints=(
        "A step is five things: forget the old gradients, predict, compare, differentiate, update. In which order, and "
        "which two of them belong to the optimizer?",
        "Dropout and batch norm look at the model's mode. Who guarantees that the model is in training mode when your "
        "step begins?",
        "A loss tensor carries the graph that made it. Which method gives its one number to Python without it?",
    ),
    quotes=quotes_modes,
)
