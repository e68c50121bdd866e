"""The exercise `overfit_one_batch`: its probe, visible cases and hints."""

from __future__ import annotations

import gc
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import (
    LOSSES,
    RecordingLoss,
    RecordingModel,
    counted,
    flat,
    learning,
    number_or_kind,
    with_detail,
)


def probe(
    answer: Watched, weights: dict[str, Tensor], xs: list[Tensor], ys: list[Tensor], loss: str, lr: float, steps: int
) -> dict[str, Any]:
    """Observe the losses, the parameters, and how many graphs of earlier steps are still alive."""
    model, witness = RecordingModel(weights).train(), RecordingLoss(LOSSES[loss])
    optimizer = torch.optim.SGD(model.parameters(), lr)
    taken = counted(optimizer)
    history = answer(model, (xs[0], ys[0]), witness, optimizer, steps)
    if witness.alive():  # they may be in reference cycles, which are freed later
        gc.collect()
    kept = max(witness.alive(), witness.most - 1)  # the step before may still be bound to a name
    listed = [number_or_kind(loss) for loss in history] if isinstance(history, list) else kind(history)
    alive = ("more with every step", f"{kept} of {steps}") if kept > 1 else ("none", "0")
    return {
        "returned": listed,
        "optimizer steps": len(taken),
        "graphs kept alive": with_detail(*alive),
        "parameters afterwards": flat(model.parameters()),
    }


def _fitted_already(draw: Draw, rows: int) -> dict[str, Any]:
    """Return inputs with a batch that the model predicts without any loss."""
    inputs = learning(draw, "mean squared error", [rows], lr=0.1, steps=3)
    return {**inputs, "ys": [RecordingModel(inputs["weights"])(x).detach() for x in inputs["xs"]]}


def cases(draw: Draw) -> list[Case]:
    n = draw.size(4, 6)
    return [
        case("six steps", **learning(draw, "mean squared error", [n], lr=0.1, steps=6)),
        case("cross entropy", **learning(draw, "cross entropy", [n], lr=0.3, steps=12)),
        case("a single step", **learning(draw, "lopsided", [n], outputs=1, lr=0.05, steps=1)),
        case("no step at all", **learning(draw, "mean squared error", [n], lr=0.1, steps=0)),
        case("a loss of nearly 0 from the start", **_fitted_already(draw, n)),
    ]


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {"alive": seen["graphs kept alive"]}


EXERCISE = Exercise(
    "overfit_one_batch",
    probe,
    cases,
    hints=(
        "It is the training step you know, `steps` times on the same batch. Which line must not be left out when it "
        "runs more than once?",
        "What does a loss tensor hold on to, besides its number? If a list holds a thousand of them, what stays in "
        "memory?",
        "Which loss belongs at place i of the list: the one that step i started from, or the one it led to? The first "
        "entry is the loss of the untouched model.",
    ),
    quotes=quotes,
)
