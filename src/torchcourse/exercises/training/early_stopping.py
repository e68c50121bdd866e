"""The exercise `EarlyStopping`: its probe, visible cases and hints."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import number


def _fill(model: nn.BatchNorm1d, value: float) -> None:
    """Make a model recognisable: every weight and every buffer is `value`."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.fill_(int(value) if tensor.dtype == torch.int64 else value)


def _restored(stopper: Any, answer: Watched, model: nn.BatchNorm1d) -> tuple[float, float, float]:
    """Restore a model; return its weight, its mean and its counter, which say which update they are of."""
    with answer.watched():
        stopper.restore(model)
    assert model.running_mean is not None and model.num_batches_tracked is not None
    return model.weight[0].item(), model.running_mean[0].item(), float(model.num_batches_tracked.item())


def _update(value: float) -> float | str:
    """Return the update that a restored value is of; a value from after the last one is of none."""
    return "none of them" if value < 0 else value


def probe(answer: Watched, metrics: Tensor, patience: int, min_delta: float | None, width: int) -> dict[str, Any]:
    """Observe when the stop comes, the best metric, and of which update the restored weights are."""
    more = {} if min_delta is None else {"min_delta": min_delta}
    stopper = answer(patience=patience, **more)
    model, returned = nn.BatchNorm1d(width), list[Any]()
    for count, metric in enumerate(metrics.tolist(), 1):
        _fill(model, count)
        with answer.watched():
            stop = stopper.update(metric, model)
        returned.append(kind(stop) if stop is None or isinstance(stop, str) else bool(stop))
    best = number(stopper.best)
    _fill(model, -1)
    weights, buffers, counter = _restored(stopper, answer, model)
    _fill(model, -2)
    again, _, _ = _restored(stopper, answer, nn.BatchNorm1d(width))
    return {
        "update returned": returned,
        "best": best,
        "update whose weights restore gave": _update(weights),
        "update whose buffers restore gave": _update(buffers),
        "restored into a second model": again,
        "update whose counter of batches restore gave": _update(counter),
    }


def cases(draw: Draw) -> list[Case]:
    width, nan = draw.size(2, 4), math.nan

    def updates(metrics: list[float], patience: int, min_delta: float | None = None) -> dict[str, Any]:
        series = torch.tensor(metrics, dtype=torch.float64)
        return {"metrics": series, "patience": patience, "min_delta": min_delta, "width": width}

    low = draw.uniform(0.3, 0.5).item()
    return [
        case("better, then worse", **updates([1.0, 0.8, 0.9, 1.0, 1.1, 1.2], 3)),
        case("worse in between, then better", **updates([1.0, 1.2, 1.1, low, 0.9, 0.8, 0.7], 3)),
        case("a plateau", **updates([1.0, low, low, low], 2)),
        case("NaN at the start", **updates([nan, 1.0, low, 0.9], 2)),
        case("NaN on the way", **updates([1.0, low, nan, nan, nan], 2)),
        case("gains below min_delta", **updates([1.0, 0.96, 0.92, 0.4, 0.38, 0.36], 2, 0.1)),
        case("a patience of one", **updates([1.0, 0.9, 0.95, 0.5], 1)),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    def first(returned: list[Any]) -> object:
        return f"at update {returned.index(True) + 1}" if True in returned else "at no update"

    return {
        "metrics": ", ".join(f"{m:.3g}" for m in inputs["metrics"].tolist()),
        "stopped": first(seen["update returned"]), "should_stop": first(wanted["update returned"]),
    }  # fmt: skip


EXERCISE = Exercise(
    "EarlyStopping",
    probe,
    cases,
    hints=(
        "Besides the weights, two things have to be remembered from one update to the next. Which, and when is each "
        "of them reset?",
        "`model.state_dict()` holds the very tensors that the next optimizer step changes. What do you have to do so "
        "that the best weights stay what they were?",
        "`<` and `>` are False for NaN. Ask the question so that False means no improvement, even when NaN is the "
        "first value ever seen.",
    ),
    any_device=False,
    quotes=quotes,
)
