"""The exercise `EMA`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import where
from torchcourse.probes.savable_models import copy_of, filled, savable, untouched, values


def held_tensors(value: object, depth: int = 5) -> Iterable[Tensor]:
    """Yield the tensors that an object holds in its attributes, and in theirs, to this depth."""
    if isinstance(value, Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from held_tensors(item, depth - 1)
    elif depth and isinstance(value, list | tuple):
        for item in value:
            yield from held_tensors(item, depth - 1)
    elif depth and isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, type):
        yield from held_tensors(vars(value), depth - 1)


def probe(answer: Watched, which: str, width: int, decay: float, fills: list[float], x: Tensor) -> Observations:
    """Average a model through several updates, copy the average into another model, and see what the two share."""
    net = savable(which, width, fills[0], x.device)
    average = answer(net, decay=decay)
    for fill in fills[1:]:
        filled(net, fill)
        average.update(net)
    filled(net, 0.35)  # the model goes on without the average
    graph = any(tensor.grad_fn is not None for tensor in held_tensors(average))
    before, other = copy_of(net), savable(which, width, 0.95, x.device)
    held = {name: id(p) for name, p in other.named_parameters()}
    places = {name: tensor.data_ptr() for name, tensor in other.state_dict().items()}
    average.copy_to(other)
    now = dict(other.named_parameters())
    seen: Observations = {
        "copied": values(other.state_dict()),
        "graph kept": graph or any(p.grad_fn is not None for p in now.values()),
        "parameters replaced": sorted(name for name, p in now.items() if held.get(name) != id(p)),
        "memory exchanged": [n for n, t in other.state_dict().items() if t.data_ptr() != places[n]],
        "flags": all(p.requires_grad for p in now.values()),
        "they live": sorted({where(t, x) for t in other.state_dict().values()}),
        "model afterwards": untouched(net, before),
    }
    filled(other, 0.5)  # the copy changes independently
    third = savable(which, width, 0.75, x.device)
    average.copy_to(third)
    return {**seen, "copied again": values(third.state_dict())}


def cases(draw: Draw) -> list[Case]:
    w, fill = draw.size(3, 5), draw.size(1, 5) / 10
    common: dict[str, Any] = {"width": w, "x": torch.zeros(1)}
    return [
        case("one update", which="mlp", decay=0.9, fills=[fill, fill + 0.3], **common),
        case("three updates", which="mlp", decay=0.75, fills=[fill, fill + 0.3, fill + 0.6, fill + 0.1], **common),
        case("with a batch norm", which="normed", decay=0.6, fills=[fill, fill + 0.5, fill + 0.7], **common),
        case("no update yet", which="normed", decay=0.5, fills=[fill], **common),
        case("weights tied", which="tied", decay=0.6, fills=[fill, fill + 0.2, fill + 0.4], **common),
        case("a parameter of one number", which="loose", decay=0.7, fills=[fill, fill + 0.3, fill + 0.5], **common),
        case("the decay is 0", which="mlp", decay=0.0, fills=[fill, fill + 0.2], **common),
        case("small steps in bfloat16", which="bfloat16", decay=0.998, fills=[fill] + [fill + 0.6] * 20,
             rtol=8e-3, atol=4e-3, **common),
        case("small steps in float16", which="float16", decay=0.9998, fills=[fill] + [fill + 0.6] * 40,
             rtol=5e-4, atol=1e-3, **common),
        case("in float64", which="double", decay=0.8, fills=[fill, fill + 0.2, fill + 0.5], **common),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"graph": seen.get("graph kept")}
    for name in ("copied", "copied again"):
        got, want = seen.get(name), wanted.get(name)
        if not (isinstance(got, dict) and isinstance(want, dict)):
            continue
        for entry, right in want.items():
            theirs = got.get(entry)
            if isinstance(theirs, Tensor) and theirs.shape == right.shape and "entry" not in fields:
                gap = (theirs.double() - right.double()).abs().flatten()
                if theirs.dtype != right.dtype or gap.max() > 1e-4:
                    at = int(gap.argmax())
                    pair = (theirs.flatten()[at].item(), right.flatten()[at].item())
                    fields |= {"entry": entry, "value": pair[0], "want_value": pair[1]}
    replaced = seen.get("parameters replaced")
    fields |= {"replaced": replaced[0]} if replaced else {}
    exchanged = seen.get("memory exchanged")
    fields |= {"exchanged": exchanged[0]} if exchanged else {}
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "EMA",
    probe,
    cases,
    hints=(
        "The average has to stay where it is while the model moves on. What does `state_dict()` give you: copies, or "
        "the model's own tensors?",
        "`average = decay * average + (1 - decay) * value`, for floats. A counter of batches has no average: which "
        "method of a tensor tells the two kinds apart?",
        "Averaging is no part of what is learned. In which context does an operation record nothing? Which in-place "
        "method writes an average into a model's own parameters?",
    ),
    quotes=quotes,
)
