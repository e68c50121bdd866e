"""The exercise `amp_step`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.probes.mixed_precision import RecordingScaler, RecordingTask
from torchcourse.probes.trainable_models import LOSSES, drawn_weights, flat, number_or_kind, returned


def probe(
    answer: Watched, weights: dict[str, Tensor], xs: list[Tensor], ys: list[Tensor], loss: str, dtype: torch.dtype,
    max_norm: float | None, scale: float, options: dict[str, float], stale: float,
) -> dict[str, Any]:  # fmt: skip
    """Make a step on each batch, with a model and a scaler that note what happens to them in which order."""
    device = xs[0].device
    task = RecordingTask(weights, LOSSES[loss], device)
    weight, *others = task.model.parameters()
    other = nn.Parameter(torch.ones(2, device=device))  # not the model's, as if the loss had it
    optimizer = torch.optim.SGD([{"params": [weight]}, {"params": others}, {"params": [other]}], lr=0.1)
    scaler = RecordingScaler(task, device=device.type, init_scale=scale, **options)
    for parameter in (weight, *others, other):
        parameter.grad = torch.full_like(parameter, stale) if stale else None
    more: dict[str, Any] = {} if max_norm is None else {"max_norm": max_norm}
    losses, scales, orders = list[Any](), list[float](), list[str]()
    for x, y in zip(xs, ys, strict=True):
        task.events.clear()
        losses.append(number_or_kind(
            answer(task.model, (x, y), task.loss, optimizer, scaler, device=device, dtype=dtype, **more)
        ))  # fmt: skip
        orders.append(task.order(clipping=max_norm is not None))
        scales.append(scaler.get_scale())
    return {
        "model ran in": task.under["model"],
        "loss computed in": task.under["loss"],
        "backward ran in": task.under["backward"],
        "order": orders[0],
        "scale after each step": scales,
        **returned(losses),
        "parameters afterwards": flat((weight, *others, other)),
    }


def cases(draw: Draw) -> list[Case]:
    def task(sizes: list[int], loss: str, dtype: torch.dtype = torch.bfloat16, *, max_norm: float | None = None,
             scale: float = 1024.0, stale: float = 0.0, **options: float) -> dict[str, Any]:  # fmt: skip
        inputs, hidden, outputs = 3, 5, draw.size(2, 3)
        xs = [draw.normal(n, inputs) for n in sizes]
        labels = loss == "cross entropy"
        ys = [draw.integers(0, outputs, n) if labels else 3 + draw.normal(n, outputs) for n in sizes]
        return {"weights": drawn_weights(draw, inputs, hidden, outputs), "xs": xs, "ys": ys, "loss": loss,
                "dtype": dtype, "max_norm": max_norm, "scale": scale, "options": options, "stale": stale}  # fmt: skip

    n, near = draw.size(4, 6), {"rtol": 2e-2, "atol": 5e-3}
    overflow = {"scale": 2.0**40, "backoff_factor": 2.0**-32}
    return [
        case("one step in float16", **near, **task([n], "cross entropy", torch.float16, growth_interval=1)),
        case("two steps in bfloat16", **near, **task([n, n], "mean squared error", growth_interval=2)),
        case("gradients left over from before", **near, **task([n], "cross entropy", stale=512.0, growth_interval=1)),
        case("gradients that are clipped", **near, **task([n], "mean squared error", max_norm=0.5)),
        case("gradients that are clipped to 0", **near, **task([n], "mean squared error", max_norm=0.0)),
        case("an overflow, then a step", **near, **task([n, n], "mean squared error", torch.float16, **overflow)),
        case("an overflow while clipping", **near,
             **task([n, n], "mean squared error", torch.float16, max_norm=0.5, **overflow)),
    ]  # fmt: skip


EXERCISE = Exercise(
    "amp_step",
    probe,
    cases,
    hints=(
        "Write the training step of lesson 5 first. Which of its lines go inside `torch.autocast`, and with which "
        "device type and dtype?",
        "Three lines change: what `backward` is called on, who calls the optimizer's step, and one that comes after "
        "it. Which number do you return, the scaled one or the loss itself?",
        "`max_norm` is meant for gradients as they are. What are they multiplied by right after `backward`, and which "
        "method of the scaler takes it away for one optimizer?",
    ),
)
