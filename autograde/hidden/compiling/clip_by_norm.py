"""The exercise `clip_by_norm`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import MIXED, anywhere
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`torch.where` takes the place of the branch: short vectors come back untouched, to the last bit. Nothing "
    "reads a value back to Python, so the device never waits and gradients flow through the norm. The clamp "
    "keeps the side that is not taken finite, or its gradient would be NaN."
)
"""Why the reference is written as it is."""
REQUIRED = ("item-call", "scales-up", "nan-on-zero")
"""The mistakes that a check must always be able to name."""


def scaled(x: Tensor, length: Tensor, max_norm: float) -> Tensor:
    factor: Tensor = max_norm / length.clamp(min=1e-12)
    return x * factor.clamp(max=1.0)


def right(x: Tensor, max_norm: float) -> Tensor:
    return scaled(x, torch.linalg.vector_norm(x), max_norm)


def calls_item(x: Tensor, max_norm: float) -> Tensor:
    factor: Tensor = max_norm / torch.linalg.vector_norm(x).clamp(min=1e-12)
    return x * factor.clamp(max=1.0).item()


def branches(x: Tensor, max_norm: float) -> Tensor:
    length = torch.linalg.vector_norm(x)
    factor: Tensor = max_norm / length
    return x * factor if length > max_norm else x * 1


def branches_on_item(x: Tensor, max_norm: float) -> Tensor:
    length = torch.linalg.vector_norm(x).item()
    return x * (max_norm / length) if length > max_norm else x * 1


def branches_by_cond(x: Tensor, max_norm: float) -> Tensor:
    length = torch.linalg.vector_norm(x)
    scaled_down: Tensor = torch.cond(
        length > max_norm, lambda x, length: x * (max_norm / length), lambda x, _length: x.clone(), (x, length)
    )
    return scaled_down


def takes_pythons_min(x: Tensor, max_norm: float) -> Tensor:
    factor: Tensor = max_norm / torch.linalg.vector_norm(x).clamp(min=1e-12)
    smaller: Any = min(1.0, factor)
    result: Tensor = x * smaller
    return result


def prints_the_norm(x: Tensor, max_norm: float) -> Tensor:
    length = torch.linalg.vector_norm(x)
    print(length.shape, file=io.StringIO())
    return scaled(x, length, max_norm)


def scales_up(x: Tensor, max_norm: float) -> Tensor:
    factor: Tensor = max_norm / torch.linalg.vector_norm(x).clamp(min=1e-12)
    return x * factor


def divides_by_zero(x: Tensor, max_norm: float) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(x)
    return x / length * length.clamp(max=max_norm)


def root_of_squares(x: Tensor, max_norm: float) -> Tensor:
    return x * (max_norm / (x * x).sum().sqrt().clamp(min=max_norm))


def detaches_the_norm(x: Tensor, max_norm: float) -> Tensor:
    return scaled(x, torch.linalg.vector_norm(x).detach(), max_norm)


def forgets_the_history(x: Tensor, max_norm: float) -> Tensor:
    with torch.no_grad():
        return right(x, max_norm)


def norm_of_each_row(x: Tensor, max_norm: float) -> Tensor:
    return scaled(x, torch.linalg.vector_norm(x, dim=-1, keepdim=True), max_norm)


def forgets_the_root(x: Tensor, max_norm: float) -> Tensor:
    return scaled(x, (x * x).sum(), max_norm)


def clips_values(x: Tensor, max_norm: float) -> Tensor:
    return x.clamp(-max_norm, max_norm)


MENDING = "Mending a break"
LENGTH = 'In the case "{case}" x has the norm {norm}, and {what} came out as {got} where {want} is wanted: '
WAITS = (
    'In the case "{case}" the call waits for {operator}: the norm, or the factor, became a Python number. Dynamo can '
    "take that into its graph, so neither a break nor `fullgraph=True` shows it. But the host stands still until the "
    "device is done, and the gradient takes the factor for a constant."
)
COND = (
    'In the case "{case}" the call waits for {operator}: when it is not compiled, `torch.cond` has to read whether the '
    "norm is too large, and the host stands still until the device is done. `torch.where` chooses on the device."
)
STOPS = (
    "It does not fit in one graph: {why}. Python asks for the value of a tensor, as an `if` does, and there the graph "
    "has to end."
)
PRINTS = (
    "It does not fit in one graph: {why}. Something in it is for Python alone, as a `print` is, and there the graph "
    "has to end."
)
ASKS = (
    'In the case "{case}" the call waits for {operator}: something asks for the value of a tensor, as Python\'s `min` '
    "or an `assert` does, and the host stands still until the device is done. `clamp` compares on the device."
)
MISTAKES = [
    Mistake("item-call", calls_item, WAITS, MENDING),
    Mistake("scales-up", scales_up, 'In the case "{case}" x has the norm {norm}, and the result {longer}: it was '
            "scaled up, towards max_norm = {max_norm}, but what is short enough stays as it is.", MENDING),
    Mistake("nan-on-zero", divides_by_zero, LENGTH + "something was divided by the norm, and neither zero by zero "
            "nor infinity times zero is a number.", MENDING),
    Mistake("nan-gradient-at-zero", root_of_squares, 'In the case "{case}" the value is right, but the {what} is '
            "{got}: infinity times 0 is not a number. Either the slope of `sqrt` at 0 is infinite, which `vector_norm` "
            "takes care of; or `max_norm / norm` is infinite in the branch that `where` does not choose, so clamp the "
            "norm.",
            MENDING),
    Mistake("python-branch", branches, STOPS, MENDING),
    Mistake("python-branch", branches_on_item, STOPS, MENDING),
    Mistake("waits-for-a-branch", branches_by_cond, COND, MENDING),
    Mistake("waits-for-a-branch", takes_pythons_min, ASKS, MENDING),
    Mistake("prints", prints_the_norm, PRINTS, MENDING),
    Mistake("detached", detaches_the_norm, LENGTH + "the norm was cut out of the graph, so the gradient takes the "
            "factor for a constant.", MENDING),
    Mistake("no-history", forgets_the_history, 'In the case "{case}" no gradient leads back to x: the result was '
            "computed under `no_grad`, or from a detached x.", MENDING),
    Mistake("norm-per-row", norm_of_each_row, LENGTH + "each row was scaled by a norm of its own, but there is only "
            "one, of the whole tensor.", MENDING),
    Mistake("squared-not-rooted", forgets_the_root, LENGTH + "the sum of squares is the square of the norm.", MENDING),
    Mistake("clips-values", clips_values, LENGTH + "every element was cut off at ±{max_norm}, which changes the "
            "direction; scaling keeps it.", MENDING),
    Mistake("made-on-cpu", anywhere(right)[0].program, MIXED, MENDING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        case(
            "drawn",
            x=draw.normal(draw.size(1, 4), draw.size(2, 5)),
            max_norm=draw.uniform(0.1, 4).item(),
            captured=True,
        ),
        case("one number", x=torch.tensor(-3.0), max_norm=2.0, captured=False),
        case("a table of zeros in float64", x=torch.zeros(2, 3, dtype=torch.float64), max_norm=0.5, captured=False),
        case("very short", x=1e-6 * draw.normal(5), max_norm=1.0, captured=False, rtol=1e-3, atol=1e-12),
    ]


# Right answers unlike the reference


def clip_with_minimum(x: Tensor, max_norm: float) -> Tensor:
    norm = x.norm(p=2)
    return x * torch.clamp(max_norm / (norm + 1e-6), max=1.0)


def clip_with_where(x: Tensor, max_norm: float) -> Tensor:
    norm = x.norm()
    safe = torch.where(norm > 0, norm, torch.ones_like(norm))
    return torch.where(norm > max_norm, x / safe * max_norm, x)


def clip_dividing(x: Tensor, max_norm: float) -> Tensor:
    return x / torch.maximum(torch.linalg.norm(x.flatten()) / max_norm, x.new_ones(()))


RIGHT_ANSWERS: list[Callable[..., Any]] = [clip_with_minimum, clip_with_where, clip_dividing]
