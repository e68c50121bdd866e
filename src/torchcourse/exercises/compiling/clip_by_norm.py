"""The exercise `clip_by_norm`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.compilers import COMPILER, captured_whole, eagerly, uncompiled, with_waits
from torchcourse.probes.modules import ramp
from torchcourse.probes.observe import kept, look


def probe(answer: Watched, x: Tensor, max_norm: float, captured: bool) -> Observations:
    """Clip, note what the host waits for, take a gradient, and try to capture the function in one graph."""
    function, raw = uncompiled(answer.answer), x.clone()
    leaf = x.requires_grad_()
    with eagerly(x.device):
        result, waited = with_waits(lambda: function(leaf, max_norm))
    seen = {**look(result, x), **kept(x=(x.detach(), raw)), "waits for": waited or "nothing"}
    if isinstance(result, Tensor) and bool(raw.any()):
        seen["gradient"] = _gradient(result, leaf)
    elif isinstance(result, Tensor) and result.requires_grad:  # what it is at zero is free, if it is a number
        (there,) = torch.autograd.grad(result.sum(), leaf)
        seen["gradient at zero"] = "finite" if bool(there.isfinite().all()) else "not finite"
    if captured and x.device.type == "cpu":
        seen |= captured_whole(function, (raw, max_norm), (raw / 8, max_norm))
    return seen


def _gradient(result: Tensor, leaf: Tensor) -> Tensor | str:
    if not result.requires_grad:
        return "none: the result has no history"
    return torch.autograd.grad((result * ramp(*result.shape, low=-1, high=2, like=result)).sum(), leaf)[0]


def cases(draw: Draw) -> list[Case]:
    n = draw.size(4, 6)
    unit = F.normalize(draw.normal(3, n).flatten(), dim=0).view(3, n)
    return [
        case("too long", x=3 * unit, max_norm=1.0, captured=True),
        case("short enough", x=0.4 * unit, max_norm=2.0, captured=False),
        case("nothing but zeros", x=torch.zeros(n), max_norm=1.0, captured=False),
        case("much too long", x=4000 * unit, max_norm=0.5, captured=True),
        case("float64", x=5 * unit.double(), max_norm=1.5, captured=False),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, Any] = {"norm": torch.linalg.vector_norm(inputs["x"]).item()}
    if isinstance(seen.get("result"), Tensor):
        now = torch.linalg.vector_norm(seen["result"]).item()
        fields |= {"longer": now} if now > 1.01 * fields["norm"] else {}
    if isinstance(seen.get("waits for"), list):
        fields["operator"] = seen["waits for"][0]
    captured = seen.get("in one graph")
    return {**fields, "why": captured} if isinstance(captured, Raised) else fields


EXERCISE = Exercise(
    "clip_by_norm",
    probe,
    cases,
    hints=(
        "The whole of x is multiplied by one factor. What is it where the norm is too large, what where it is not, and "
        "which function takes the smaller of two?",
        "If the norm becomes a Python number, the host waits for the device, and the gradient forgets that the factor "
        "depends on x. Which form does the norm have to keep?",
        "What is max_norm divided by zero in floats, and what is zero divided by zero? In which order can neither "
        "reach the result?",
    ),
    quotes=quotes,
    seconds=20.0,
    imports=COMPILER,
)
