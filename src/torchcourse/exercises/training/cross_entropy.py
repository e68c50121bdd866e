"""The exercise `cross_entropy`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import float32_digits, look


def probe(answer: Watched, logits: Tensor, labels: Tensor) -> dict[str, Any]:
    """Observe the loss and the gradient that it gives the logits."""
    logits = logits.requires_grad_()
    loss = answer(logits, labels)
    seen = look(loss, logits)
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
        return {**seen, "gradient of the logits": "none: the result has no history"}
    loss.sum().backward()  # type: ignore[no-untyped-call]
    return {**seen, "gradient of the logits": logits.grad}


def cases(draw: Draw) -> list[Case]:
    n, c = draw.size(5, 7), draw.size(3, 4)
    labels = draw.integers(0, c, n)
    far = torch.full((4, c), -1000.0)
    far[torch.arange(4), draw.integers(0, c, 4)] = 0.0
    return [
        case("a batch", logits=draw.normal(n, c), labels=labels),
        case("as many examples as classes", logits=2 * draw.normal(c, c), labels=draw.integers(0, c, c)),
        case("one example", logits=draw.normal(1, c), labels=draw.integers(0, c, 1)),
        case("logits in the hundreds", logits=draw.uniform(-900, 900, n, c), labels=labels),
        case("sure of itself, and often wrong", logits=far, labels=draw.integers(0, c, 4)),
        case("logits all near 10000", atol=2e-3, logits=1e4 + draw.normal(n, c), labels=labels),
        case("float64", rtol=1e-10, atol=1e-12, logits=draw.normal(n, c, dtype=torch.float64), labels=labels),
    ]


def quotes(inputs: Observations, _seen: Observations, _wanted: Observations) -> dict[str, object]:
    n, c = inputs["logits"].shape
    return {"n": n, "c": c, "largest": inputs["logits"].max().item()}


EXERCISE = Exercise(
    "cross_entropy",
    probe,
    cases,
    hints=(
        "The loss of one example is minus the logarithm of the probability that its label gets. Which number of each "
        "row do you have to look up, and which function looks up one per row?",
        "Write log(exp(z_y) / Σ exp(z)) as a difference of two terms. Which of the two needs no exponential at all?",
        "What is exp(1000) in float32? `torch.logsumexp` takes the largest entry out of the sum before it "
        "exponentiates. Does what you use do so too?",
    ),
    forbids=(
        "cross_entropy", "log_softmax", "nll_loss", "cross_entropy_loss", "nll_loss_nd", "nll_loss2d",
        "nll_loss_forward", "nll_loss2d_forward", "special_log_softmax", "sparse_log_softmax", "linear_cross_entropy",
    ),
    derive=float32_digits,
    quotes=quotes,
)  # fmt: skip
