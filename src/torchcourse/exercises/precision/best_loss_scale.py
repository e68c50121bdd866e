"""The exercise `best_loss_scale`: its probe, visible cases and hints."""

from __future__ import annotations

import torch

from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.mixed_precision import probe_number


def cases(draw: Draw) -> list[Case]:
    small = 10.0 ** draw.uniform(-7, -3, 4, 5)
    return [
        case("small gradients", grads=torch.where(draw.flags(4, 5), small, -small), dtype=torch.float16),
        case("the dtype that is the default", grads=draw.uniform(0.5, 3, 6) * 1e-4, dtype=None),
        case("the largest one is negative", grads=torch.tensor([1e-5, -0.75, 2e-3]), dtype=torch.float16),
        case("too large as they are", grads=1e9 * draw.uniform(-3e5, 3e5, 12).clamp(-4e5, -1e5), dtype=torch.float16),
        case("a list, the largest in the middle", grads=[1e-4 * draw.normal(3), draw.uniform(1, 2, 2, 2),
             1e-2 * draw.normal(5)], dtype=torch.float16),
        case("exactly a power of two", grads=torch.tensor([2.0**-10, 2.0**-12]), dtype=torch.float16),
        case("almost at the edge", grads=torch.tensor([65504 * 2.0**-12, 1.0]), dtype=torch.float16),
        case("above the largest number, but not inf", grads=torch.tensor([65512 * 2.0**-9, 1.0]), dtype=torch.float16),
        case("bfloat16", grads=draw.uniform(2, 100, 5), dtype=torch.bfloat16),
        case("all zero", grads=torch.zeros(4), dtype=torch.float16),
        case("a list of zeros", grads=[torch.zeros(2), torch.zeros(3, 1)], dtype=torch.float16),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    grads, dtype = inputs["grads"], inputs["dtype"] or torch.float16
    largest = max(g.abs().max().item() for g in (grads if isinstance(grads, list) else [grads]))

    def times(scale: object) -> object:
        return largest * scale if isinstance(scale, float) else "…"

    return {
        "largest": largest, "product": times(seen["returned"]), "right_product": times(wanted["returned"]),
        "limit": f"{torch.finfo(dtype).max:.5g}", "format": dtype, "scale": repr(seen["returned"]),
        "right_scale": repr(wanted["returned"]),
    }  # fmt: skip


EXERCISE = Exercise(
    "best_loss_scale",
    probe_number,
    cases,
    hints=(
        "Only one gradient decides how far all of them may be scaled. Which one, whatever its sign, and in which of "
        "the tensors?",
        "How often can you double that number before it becomes inf in `dtype`? A logarithm to the base two says it at "
        "once, a loop with `torch.isfinite` says it surely.",
        "What should happen where the largest gradient is already above the range: can a power of two be smaller than "
        "one? And where there is nothing to scale?",
    ),
    quotes=quotes,
)
