"""The exercise `accumulated_step`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.trainable_models import (
    LOSSES,
    GraphsHeld,
    RecordingModel,
    counted,
    flat,
    learning,
    mode,
    number_or_kind,
    quotes_modes,
    returned,
)


def probe(
    answer: Watched, weights: dict[str, Tensor], xs: list[Tensor], ys: list[Tensor], loss: str, lr: float, starts: str,
    times: int,
) -> dict[str, Any]:  # fmt: skip
    """Observe several steps with momentum: losses, number of steps, mode and parameters."""
    model = RecordingModel(weights).train(starts == "training")
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.5)
    steps, held = counted(optimizer), GraphsHeld(model)
    micro_batches = list(zip(xs, ys, strict=True))
    losses = [number_or_kind(answer(model, list(micro_batches), LOSSES[loss], optimizer)) for _ in range(times)]
    return {
        **returned(losses),
        "optimizer steps": len(steps),
        "the model ran in": model.modes(),
        "mode afterwards": f"{mode(model)} mode",
        "graphs held at once": "of one micro-batch" if held.most <= max(map(len, xs)) else f"of {held.most} examples",
        "parameters afterwards": flat(model.parameters()),
    }


def cases(draw: Draw) -> list[Case]:
    def pieces(
        loss: str, sizes: list[int], starts: str = "training", times: int = 1, outputs: int = 0
    ) -> dict[str, Any]:
        return learning(draw, loss, sizes, torch.float64, outputs, lr=0.2, starts=starts, times=times)

    closely = {"rtol": 1e-6, "atol": 1e-7}  # the shares of the micro-batches may be float32
    return [
        case("three of one size", **closely, **pieces("mean squared error", [4, 4, 4])),
        case("sizes differ", **closely, **pieces("cross entropy", [5, 2, 1])),
        case("a single micro-batch, a single output", **closely, **pieces("lopsided", [draw.size(3, 5)], outputs=1)),
        case("two steps in a row", **closely, **pieces("mean squared error", [4, 1], times=2)),
        case("a model in evaluation mode", **closely, **pieces("cross entropy", [3, 3], "evaluation")),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    return quotes_modes(inputs, seen, wanted) | {"held": seen["graphs held at once"]}


EXERCISE = Exercise(
    "accumulated_step",
    probe,
    cases,
    hints=(
        "`backward` adds to `.grad`. How many times do you call it, how many times `step`, and when are the old "
        "gradients forgotten?",
        "The mean over all examples is a weighted mean of the micro-batches' means. Which weight does one of 2 "
        "examples get, compared with one of 6?",
        "You need the number of examples of all micro-batches before the first backward. What do you return, so that "
        "it is the loss of the whole batch?",
    ),
    quotes=quotes,
)
