"""The exercise `fake_quantize`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.modules import gradients
from torchcourse.probes.observe import kept, look


def probe(answer: Watched, x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Observations:
    """Observe the result and the gradient of x, which may not change."""
    before = x.clone()
    leaf = x.requires_grad_()
    given = leaf * 1  # writing into a leaf would raise, and not show as a change
    result = answer(given, scale, zero_point, low, high)
    return {**look(result, x), **gradients(result, x=leaf), **kept(x=(given.detach(), before))}


def grid_case(draw: Draw, name: str, n: int, scale: float, zero_point: int, low: int, high: int) -> Case:
    """Return the case of drawn numbers, half of which lie just between two levels."""
    reach = 1.5 * max(abs(low - zero_point), abs(high - zero_point))
    between = draw.integers(int(-reach), int(reach), n) + 0.5
    anywhere = draw.uniform(-reach, reach, n)
    x = torch.cat([between, anywhere]) * scale
    return case(name, rtol=1e-5, atol=1e-6, x=x, scale=scale, zero_point=zero_point, low=low, high=high)


def cases(draw: Draw) -> list[Case]:
    return [
        grid_case(draw, "four bits, symmetric", 16, 0.25, 0, -7, 7),
        grid_case(draw, "an odd zero point", 16, 0.5, 3, -8, 7),
        grid_case(draw, "unsigned", 16, 0.125, 5, 0, 15),
        grid_case(draw, "eight bits", 24, 0.03125, -10, -128, 127),
        case("edges of the range", rtol=1e-5, atol=1e-6, scale=0.5, zero_point=1, low=-4, high=3,
             x=torch.tensor([-2.75, -2.7, -2.5, -2.25, 0.0, 0.9, 1.0, 1.2, 1.25, 1.3, 40.0])),
        case("numbers far out of range, in float64", rtol=1e-5, atol=1e-6, scale=0.5, zero_point=1, low=-8, high=7,
             x=torch.tensor([-3e9, -4e4, -1.3, 0.2, 1.6, 4e4, 3e9], dtype=torch.float64)),
        case("a table in float64", rtol=1e-9, atol=1e-12, scale=0.1, zero_point=2, low=-8, high=7,
             x=draw.normal(3, 4, dtype=torch.float64)),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    """Return the number whose result or gradient is farthest off, and its position on the grid."""
    for name in ("result", "gradient of x"):
        got, want = seen.get(name), wanted.get(name)
        if isinstance(got, Tensor) and isinstance(want, Tensor) and got.shape == want.shape:
            place = int((got - want).abs().nan_to_num(torch.inf).flatten().argmax())
            if got.flatten()[place] != want.flatten()[place]:
                number = inputs["x"].flatten()[place].item()
                return {"number": number, "steps": number / inputs["scale"]}
    return {}


EXERCISE = Exercise(
    "fake_quantize",
    probe,
    cases,
    hints=(
        "Forward is four steps: divide, round, shift by the zero point and cut to the range; then the same way back. "
        "Which of them comes before the shift, so that an odd zero point changes nothing in how a half is rounded?",
        "The derivative of `round` is zero. In a `torch.autograd.Function` you say yourself what backward gives. What "
        "does it have to know about each number, and which of them passes its gradient on?",
        "Whether a number was in range has to be asked before it is cut, and of its rounded level. A number just "
        "outside may be rounded into the range.",
    ),
    quotes=quotes,
)
