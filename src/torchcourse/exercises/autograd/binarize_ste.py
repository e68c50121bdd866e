"""The exercise `BinarizeSTE`: its probe, visible cases and hints."""

from __future__ import annotations

import torch

from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.probes.functions import probe_function, quotes_function


def cases(draw: Draw) -> list[Case]:
    n = draw.size(5, 7)
    edges = torch.tensor([-3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.5])
    signs = torch.tensor([2.0, -3.0, 0.5, -1.5, 4.0, 2.5, -0.5])
    return [
        case("from -3 to 2.5, the edges included", x=edges, g=signs),
        case("a matrix", x=draw.uniform(-2, 2, 2, n), g=3 * draw.normal(2, n)),
        case("float64", x=draw.uniform(-2, 2, n, dtype=torch.float64), g=3 * draw.normal(n, dtype=torch.float64)),
        case("bfloat16", x=draw.uniform(-2, 2, n, dtype=torch.bfloat16), g=draw.normal(n, dtype=torch.bfloat16)),
        case("an infinite gradient", x=torch.tensor([2.0, 0.5, -3.0, -0.25]),
             g=torch.tensor([torch.inf, 1.5, -torch.inf, torch.inf])),
        case("transposed", x=draw.uniform(-2, 2, n, 3).t(), g=3 * draw.normal(3, n)),
    ]  # fmt: skip


EXERCISE = Exercise(
    "BinarizeSTE",
    probe_function,
    cases,
    hints=(
        "The true derivative of a step is zero wherever it exists. Which gradient does the straight-through trick pass "
        "on instead, and for which x?",
        "The mask in the backward is made from x and not from the gradient. How does x get from `forward` to "
        "`backward`?",
        "`ctx.save_for_backward(x)` on the way there, `ctx.saved_tensors` on the way back. At x = 1 exactly: does the "
        "gradient pass?",
    ),
    quotes=quotes_function,
)
