"""The exercise `linear_mse_gradients`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, kind, look


def probe(answer: Watched, x: Tensor, w: Tensor, b: Tensor, y: Tensor) -> dict[str, Any]:
    """Observe both gradients, and that the four inputs stay as they were."""
    before = [t.clone() for t in (x, w, b, y)]
    result = answer(x, w, b, y)
    if not isinstance(result, list | tuple) or len(result) != 2:
        return {"returned": kind(result)}
    seen: dict[str, Any] = {}
    for name, part in zip(("dw", "db"), result, strict=True):
        looked = look(part, x)
        seen[name] = looked.get("result", looked.get("returned"))
        seen[f"device of {name}"] = looked.get("device", "none")
    inputs = {name: (now, old) for name, now, old in zip("xwby", (x, w, b, y), before, strict=True)}
    return seen | kept(**inputs)


def cases(draw: Draw) -> list[Case]:
    n, i, o = draw.size(5, 7), draw.size(3, 4), 2

    def drawn(name: str, n: int, i: int, o: int, dtype: torch.dtype = torch.float32) -> Case:
        x, w = draw.normal(n, i, dtype=dtype), draw.normal(o, i, dtype=dtype)
        return case(name, atol=1e-4, x=x, w=w, b=draw.normal(o, dtype=dtype), y=draw.normal(n, o, dtype=dtype))

    return [
        drawn("all sizes differ", n, i, o),
        drawn("as many outputs as inputs", n, i, i),
        drawn("one example", 1, i, o),
        drawn("one output", n, i, 1),
        drawn("float64", n, i, o, torch.float64),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    n, o = inputs["y"].shape
    fields: dict[str, object] = {"n": n, "o": o, "count": n * o, "error": seen.get("raised")}
    if isinstance(seen.get("dw"), Tensor):
        fields |= {"dw_shape": tuple(seen["dw"].shape), "w_shape": tuple(inputs["w"].shape)}
    if isinstance(seen.get("db"), Tensor):
        fields |= {"db_shape": tuple(seen["db"].shape), "b_shape": tuple(inputs["b"].shape)}
        if seen["db"].shape == wanted["db"].shape:
            fields["ratio"] = (seen["db"].norm() / wanted["db"].norm()).item()
    return fields


EXERCISE = Exercise(
    "linear_mse_gradients",
    probe,
    cases,
    hints=(
        "Start from the outside: the mean of n·o squares. What is the derivative of that mean with respect to one "
        "entry of the difference? It has shape (n, o).",
        "Each entry of w meets one input and one output of every example. Which matrix product of the (n, o) gradient "
        "with x sums over the n examples and leaves the shape of w?",
        "b is added to every example by broadcasting. What undoes a broadcast on the way back: over which dimension "
        "are its copies summed?",
    ),
    forbids=("autograd",),
    quotes=quotes,
)
