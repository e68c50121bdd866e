"""The exercise `LogSigmoid`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.functions import probe_function, quotes_function


def probe(answer: Watched, x: Tensor, g: Tensor, far: bool) -> dict[str, Any]:
    return probe_function(answer, x, g)


FAR = "gradient of x, times exp(x)"
FAR_VALUE = "value, times exp(x)"


def derive(case: Case, seen: Observations) -> Observations:
    """Look at the leading digits alone far to the right, where both value and gradient are tiny."""
    if not case.inputs["far"] or not isinstance(seen.get("gradient of x"), Tensor):
        return seen
    scale = case.inputs["x"].double().exp()
    large = {FAR: seen["gradient of x"].double() * scale, FAR_VALUE: seen["result"].double() * scale}
    return large | {n: v for n, v in seen.items() if n in ("device", "follows the graph", "forbidden calls")}


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    far = {"far_got": FAR, "far_y": FAR_VALUE}
    fields = {field: seen[name][0] for field, name in far.items()} if FAR in seen else {}
    fields |= {"x0": inputs["x"].flatten()[0]}
    return fields if FAR in wanted else quotes_function(inputs, seen, wanted)


def cases(draw: Draw) -> list[Case]:
    n = draw.size(4, 6)
    far = torch.tensor([-1000.0, -200.0, -90.0, 0.0, 90.0, 200.0, 1000.0])
    near: dict[str, Any] = {"far": False}
    return [
        case("ordinary entries", **near, x=2 * draw.normal(n), g=draw.normal(n)),
        case("entries up to 1000", **near, x=far, g=draw.uniform(1, 2, 7)),
        case("a matrix, float64", **near, x=2 * draw.normal(2, n, dtype=torch.float64),
             g=draw.normal(2, n, dtype=torch.float64)),
        case("float64, to ten digits", rtol=1e-10, atol=1e-12, **near, x=2 * draw.normal(n, dtype=torch.float64),
             g=draw.normal(n, dtype=torch.float64)),
        case("entries up to 1000, float64", **near, x=far.double(), g=-draw.uniform(1, 2, 7, dtype=torch.float64)),
        case("small values and gradients, from 20 to 60", rtol=1e-3, far=True, x=torch.linspace(20, 60, n),
             g=torch.ones(n)),
        case("small values and gradients, from 100 to 700, float64", rtol=1e-3, far=True,
             x=torch.linspace(100, 700, n, dtype=torch.float64), g=torch.ones(n, dtype=torch.float64)),
        case("transposed", **near, x=draw.normal(n, 3).t(), g=torch.ones(1).expand(3, n)),
    ]  # fmt: skip


EXERCISE = Exercise(
    "LogSigmoid",
    probe,
    cases,
    hints=(
        "log(1 / (1 + exp(-x))) overflows for large negative x. Could you write it so that `exp` only ever sees "
        "numbers that are not positive?",
        "min(x, 0) minus a term that depends on abs(x) alone: which one? `torch.log1p` keeps its digits.",
        "The derivative of log(sigmoid(x)) is 1 - sigmoid(x), but in float32 that is 0 from about 17 on. Which "
        "expression is equal to it and keeps its digits? And what multiplies it by the chain rule?",
    ),
    forbids=("logsigmoid", "log_sigmoid", "log_sigmoid_forward", "softplus"),
    derive=derive,
    quotes=quotes,
)
