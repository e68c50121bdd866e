"""The exercise `derivative`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.functions import coefficients, function
from torchcourse.probes.observe import kind


def probe(answer: Watched, form: str, c: list[float], x: float) -> dict[str, Any]:
    return {"result": answer(function(form, c), x)}


def derive(_case: Case, seen: Observations) -> Observations:
    """Say whether a number has no more digits than a float32; if so, the last of them depend on the machine."""
    result = seen.get("result")
    if not isinstance(result, float) or result != torch.tensor(result, dtype=torch.float32).item():
        return {**seen, "digits": "those of a float64"}
    return {"result": float(f"{result:.5g}"), "digits": "those of a float32"}


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    f = function(inputs["form"], inputs["c"])
    value = f(torch.tensor(inputs["x"], dtype=torch.float64)).item()
    result = seen["result"]
    result = result.item() if isinstance(result, Tensor) and result.numel() == 1 else result
    exact = {"digits": f"{result:.13g}"} if isinstance(result, float) else {}
    return {"value": value, "kind": kind(seen["result"]), "want_digits": f"{wanted['result']:.13g}", **exact}


def cases(draw: Draw) -> list[Case]:
    def at(name: str, form: str, low: float, high: float) -> Case:
        x = float(draw.uniform(low, high, 1, dtype=torch.float64))
        return case(name, rtol=1e-11, atol=1e-13, form=form, c=coefficients(draw), x=x)

    return [
        at("a polynomial", "polynomial", 0.5, 2.0),
        at("a polynomial left of zero", "polynomial", -2.0, -0.5),
        at("a dot product with powers of x", "dot product", 0.5, 2.0),
        at("a growing wave", "wave", 0.5, 2.0),
        at("a growing wave, far out", "wave", 6.0, 8.0),
        at("a factor that is held fixed", "partly fixed", 0.5, 2.0),
    ]


EXERCISE = Exercise(
    "derivative",
    probe,
    cases,
    hints=(
        "f wants a tensor, and autograd only tracks tensors that require grad. How do you make such a tensor, in "
        "float64, from a Python float?",
        "After `backward()` on the value, where is the derivative? Which tensor has it: the value or the input?",
        "A 0-dimensional tensor is not a Python float yet, and a float32 one has lost digits before f even ran. Which "
        "method returns the number?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
)
