"""The exercise `td_loss`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.autograd.shared import DTYPE
from autograde.hidden.common import CHANGED, ERRORS, LEFT, MIXED, ROUNDED, on_the_cpu, through_float32
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`detach` takes the target out of the graph, so it counts as a constant. `no_grad` around the whole loss "
    "would take out `online` as well, and a copy is not needed, because nothing is written."
)
"""Why the reference is written as it is."""
REQUIRED = ("gradient-leaks-into-target", "prediction-detached")
"""The mistakes that a check must always be able to name."""

CUT = "Detach, clone and .data"


def squares(online: Tensor, target: Tensor) -> Tensor:
    return (online - target.detach()) ** 2


def td_loss(online: Tensor, target: Tensor) -> Tensor:
    return squares(online, target).mean()


DETACHED = (
    "The loss does not follow the graph (`{what}` is {got}): the prediction was cut off, or the whole loss was "
    "computed with recording off, so there is nothing to train."
)
SCALED = "The loss is {loss} where {right} is wanted: "


def flag_switched_off(online: Tensor, target: Tensor) -> Tensor:
    return td_loss(online, target.requires_grad_(False) if target.is_leaf else target)


MISTAKES = [
    Mistake("gradient-leaks-into-target", lambda online, target: ((online - target) ** 2).mean(), "In the case "
            "\"{case}\" `{what}` is {got} where {want} is wanted: the target is pulled towards the prediction too, "
            "unless it is detached.", CUT),
    Mistake("prediction-detached", torch.no_grad()(td_loss), DETACHED, CUT),
    Mistake("wrong-side-detached", lambda online, target: ((online.detach() - target) ** 2).mean(), "In the case "
            "\"{case}\" `{what}` is {got} where {want} is wanted: the prediction was cut off, and the gradient goes to "
            "the target.", CUT),
    Mistake("detaches-in-place", lambda online, target: ((online - target.detach_()) ** 2).mean(), "`target."
            "requires_grad` is {requires} after the call: `detach_()` works in place, and cut the caller's own tensor "
            "off from its graph.", CUT),
    Mistake("switches-the-flag-off", flag_switched_off, "`target.requires_grad` is {requires} after the call: the flag "
            "was changed on the caller's own tensor; `detach()` gives another one.", CUT),
    Mistake("sum-not-mean", lambda o, t: squares(o, t).sum(), SCALED + "the squares were added up, not averaged.", CUT),
    Mistake("absolute-not-squared", lambda o, t: (o - t.detach()).abs().mean(), SCALED + "the error was not squared.",
            CUT),
    Mistake("huber-not-squared", lambda o, t: nn.functional.smooth_l1_loss(o, t.detach()), SCALED + "`smooth_l1_loss` "
            "halves the squares of small errors, and takes large ones as they are.", CUT),
    Mistake("rooted", lambda o, t: squares(o, t).mean().sqrt(), SCALED + "no root is taken of the mean.", CUT),
    Mistake("halved", lambda o, t: squares(o, t).mean() / 2, SCALED + "the mean was halved.", CUT),
    Mistake("not-reduced", squares, "The loss has shape {got_shape}, where a single number is wanted: the mean is "
            "missing.", CUT),
    Mistake("changes-its-input", lambda o, t: t.detach().sub_(o).square().mean(), CHANGED, CUT),
    Mistake("made-on-cpu", on_the_cpu(td_loss), LEFT, ERRORS),
    Mistake("made-on-cpu", lambda o, t: td_loss(o, t) + (o * torch.zeros(o.shape, dtype=o.dtype)).sum(), MIXED, ERRORS),
    Mistake("dtype-not-kept", lambda o, t: td_loss(o, t).float(), DTYPE, CUT),
    Mistake("computes-in-float32", through_float32(td_loss), ROUNDED, CUT),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(1, 8)
    return [
        case("one entry", online=draw.normal(1), target=draw.normal(1), shared=False),
        case("transposed", online=draw.normal(n, 3).t(), target=draw.normal(n, 3).t(), shared=True),
        case("three dimensions", online=draw.normal(2, n, 3), target=draw.normal(2, n, 3), shared=False),
        case("far apart", online=draw.normal(n), target=100 * draw.normal(n), shared=True),
    ]


# Right answers unlike the reference


def td_by_mse(online: Tensor, target: Tensor) -> Tensor:
    return nn.functional.mse_loss(online, target.detach())


def td_by_data(online: Tensor, target: Tensor) -> Tensor:
    gap = online - target.data
    return (gap * gap).sum() / gap.numel()


def td_by_no_grad(online: Tensor, target: Tensor) -> Any:
    with torch.no_grad():
        fixed = target.clone()
    return nn.MSELoss()(online, fixed)


def td_by_norm(online: Tensor, target: Tensor) -> Tensor:
    return torch.mean(torch.square(target.detach() - online))


RIGHT_ANSWERS: list[Callable[..., Any]] = [td_by_mse, td_by_data, td_by_no_grad, td_by_norm]
