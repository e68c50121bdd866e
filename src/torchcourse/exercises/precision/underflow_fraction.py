"""The exercise `underflow_fraction`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.mixed_precision import probe_number, steps_of


def spread(draw: Draw, low: int, high: int, *shape: int) -> Tensor:
    """Draw numbers of either sign and of sizes from about 2**low to 2**high."""
    return steps_of(draw, *shape) * 2.0 ** draw.integers(low, high, *shape, dtype=torch.float32)


def cases(draw: Draw) -> list[Case]:
    n = draw.size(20, 30)
    many = torch.where(draw.flags(5, 8), spread(draw, -34, -8, 5, 8), 0.0)
    uneven = [spread(draw, -40, -26, 3), spread(draw, -32, -5, 20), spread(draw, -10, 0, 4, 4)]
    listed = [
        case("float16", grads=spread(draw, -36, -4, n), dtype=torch.float16),
        case("half of them zero before", grads=many, dtype=torch.float16),
        case("bfloat16 keeps them all", grads=spread(draw, -60, -4, n), dtype=torch.bfloat16),
        case("bfloat16 has an end too", grads=1e-20 * (1e-20 * spread(draw, -14, 4, n)), dtype=torch.bfloat16),
        case("subnormal but not zero", grads=spread(draw, -23, -15, n), dtype=torch.float16),
        case("a list of tensors of different sizes", grads=uneven, dtype=torch.float16),
        case("all zero", grads=torch.zeros(3, 2), dtype=torch.float16),
        case("a list of zeros", grads=[torch.zeros(2), torch.zeros(1)], dtype=torch.bfloat16),
    ]
    wide = steps_of(draw, 12).double() * 10.0 ** torch.tensor([-60] * 3 + [-10] * 2 + [-2] * 7, dtype=torch.float64)
    return [*listed, case("some that only float64 can hold", grads=wide, dtype=torch.float16)]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    grads, dtype = inputs["grads"], inputs["dtype"]
    tensors = [g.flatten() for g in (grads if isinstance(grads, list) else [grads])]
    g = torch.cat(tensors)
    gone, some = int(((g != 0) & (g.to(dtype) == 0)).sum()), int((g != 0).sum())
    return {"gone": gone, "some": some, "all": g.numel(), "pieces": len(tensors)}


EXERCISE = Exercise(
    "underflow_fraction",
    probe_number,
    cases,
    hints=(
        "Which gradients can become zero at all? Count them, and among them those that are zero after the cast.",
        "The smallest normal number of float16 is 6e-5, but below it there are numbers still. Can you let the cast "
        "itself decide, rather than a threshold?",
        "A list may hold one tensor of three gradients and one of a million. Is the share of the whole the mean of the "
        "two shares? And what if there is nothing to divide by?",
    ),
    quotes=quotes,
)
