"""The exercise `row_softmax`: its probe, visible cases and hints."""

from __future__ import annotations

import torch

from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import of_one_tensor


def cases(draw: Draw) -> list[Case]:
    n, d = draw.size(3, 4), draw.size(5, 6)
    ordinary = {"rtol": 0.0, "atol": 1e-5}
    return [
        case("a matrix", **ordinary, x=draw.normal(n, d)),
        case("a square matrix", **ordinary, x=2 * draw.normal(n, n)),
        case("three dimensions", **ordinary, x=draw.normal(2, n, d)),
        case("one row, bfloat16", rtol=0.0, atol=0.02, x=draw.normal(d, dtype=torch.bfloat16)),
        case("a transposed matrix", **ordinary, x=draw.normal(d, n).t()),
        case("entries up to 10000", rtol=0.0, atol=1e-3, x=draw.uniform(-1e4, 1e4, d, d)),
        case("rows far apart", rtol=0.0, atol=1e-3, x=draw.normal(2, d) + torch.tensor([[-1e4], [1e4]])),
        case("float64", rtol=0.0, atol=2e-9, x=draw.normal(n, d, dtype=torch.float64)),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    result = seen["result"]
    sums = result.reshape(-1, result.shape[-1]).double().sum(-1)
    row = int((sums - 1).abs().nan_to_num(nan=torch.inf).argmax())
    largest = float(inputs["x"].max())
    return {
        "row": row,
        "row_sum": sums[row].item(),
        "nans": int(result.isnan().sum()),
        "count": result.numel(),
        "largest": largest,
        "exp_largest": float(torch.tensor(largest, dtype=inputs["x"].dtype).exp()),
    }


EXERCISE = Exercise(
    "row_softmax",
    of_one_tensor,
    cases,
    hints=(
        "For a tensor of any rank, what is the last dimension called, and what must stay so that the division "
        "broadcasts?",
        "What is `torch.tensor(100.).exp()` in float32, and what is inf / inf?",
        "Softmax does not change when the same number is taken from a whole row. Which number makes the largest "
        "exponent 0?",
    ),
    forbids=("softmax", "log_softmax", "safe_softmax", "scaled_dot_product_attention", "attention"),
    quotes=quotes,
)  # fmt: skip
