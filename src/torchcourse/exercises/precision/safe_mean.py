"""The exercise `safe_mean`: its probe, visible cases and hints."""

from __future__ import annotations

import torch

from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import of_one_tensor


def cases(draw: Draw) -> list[Case]:
    n = draw.size(300, 400)
    near = {"rtol": 2e-3, "atol": 1e-7}
    return [
        case("float16, ordinary", **near, x=draw.uniform(1, 2, n, dtype=torch.float16)),
        case("the sum does not fit in float16", **near, x=draw.uniform(500, 900, n, dtype=torch.float16)),
        case("in two dimensions", **near, x=draw.uniform(3e4, 6e4, 6, 5, dtype=torch.float16)),
        case("tiny numbers", **near, x=1e-4 * draw.uniform(1, 2, 8 * n, dtype=torch.float16)),
        case(
            "more numbers than float16 can count", **near, x=draw.uniform(3, 4, 1, dtype=torch.float16).expand(70_000)
        ),
        case("bfloat16", rtol=1e-2, atol=1e-6, x=draw.uniform(1, 2, 2 * n, dtype=torch.bfloat16)),
        case(
            "large ones that cancel", rtol=1e-2, atol=1e-6, x=torch.tensor([6e4, 6e4, -6e4, -5e4], dtype=torch.float16)
        ),
        case("a single number", **near, x=draw.uniform(6e4, 6.5e4, 1, dtype=torch.float16)),
    ]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    x = inputs["x"]
    return {"count": x.numel(), "sum": x.double().sum().item(), "limit": f"{torch.finfo(x.dtype).max:.5g}"}


EXERCISE = Exercise(
    "safe_mean",
    of_one_tensor,
    cases,
    hints=(
        "The mean always fits: it lies between the smallest and the largest number. What on the way does not fit?",
        "In which dtype can the sum of a million float16 numbers be held? Most reductions of torch take a `dtype` to "
        "compute in.",
        "Dividing before adding avoids the large sum. What becomes of a number like 1e-4 when it is divided by some "
        "thousands in float16?",
    ),
    quotes=quotes,
)
