"""The exercise `numerical_gradient`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.functions import FUNCTIONS, Function, coefficients, expected_error, function
from torchcourse.probes.observe import kept, look

RIGHT_STEPS = "x with one entry moved, by eps to each side"


def probe(answer: Watched, form: str, c: list[float], x: Tensor, eps: float | None) -> dict[str, Any]:
    """Observe the gradient, or the error of an answer that asks autograd, and that `x` stays as it was."""
    before, points = x.clone(), list[Tensor]()
    f = recording(function(form, c), points)
    try:
        result = answer(f, x) if eps is None else answer(f, x, eps=eps)
    except RuntimeError as error:
        return {"the call": expected_error(error, {"does not require grad": "f knows nothing of autograd"})}
    asked = steps(points, before, 1e-6 if eps is None else eps)
    return {**look(result, x), **kept(x=(x, before)), "points at which f is called": asked}


def recording(f: Function, points: list[Tensor]) -> Function:
    """Return `f`, noting the points at which it is called."""

    def recorded(point: Tensor) -> Tensor:
        if isinstance(point, Tensor) and not torch._C._functorch.is_functorch_wrapped_tensor(point):
            points.append(point.detach().double().clone())
        return f(point)

    return recorded


def steps(points: list[Tensor], x: Tensor, eps: float) -> str:
    """Describe how the points differ from x: by how many entries at once, to which sides, and how far."""
    moves = [p.sub(x) for p in points if p.shape == x.shape]
    moves = [move[move.abs() > 1e-3 * eps] for move in moves]
    if any(move.numel() > 1 for move in moves):
        return "x with several entries moved at once"
    far = [move.item() / eps for move in moves if move.numel()]
    if not far:
        return RIGHT_STEPS
    if min(far) > 0 or max(far) < 0:
        return "x with an entry moved to one side only"
    sizes = [abs(step) for step in far]
    if min(sizes) < 0.4 or max(sizes) > 2.2:  # half of eps, and twice eps in a longer formula, are right as well
        return f"x with an entry moved by {float(f'{max(sizes):.1g}'):g} times eps"
    return RIGHT_STEPS


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 4)

    def drawn(name: str, form: str, x: Tensor, eps: float | None = None) -> Case:
        c = coefficients(draw)
        atol = 1e-7 * max(1.0, abs(FUNCTIONS[form](x.double(), c).item()))
        return case(name, rtol=0.0, atol=atol, form=form, c=c, x=x, eps=eps)

    return [
        drawn("a vector", "polynomial", draw.uniform(0.5, 1.0, n, dtype=torch.float64)),
        drawn("a matrix", "product of rows", draw.uniform(0.5, 1.5, 2, n, dtype=torch.float64)),
        drawn("a float32 input", "polynomial", draw.uniform(0.5, 1.0, n)),
        drawn("a bfloat16 input", "polynomial", draw.uniform(0.5, 1.0, n, dtype=torch.bfloat16)),
        drawn("a function that returns an entry of its input", "first entry", draw.normal(n, dtype=torch.float64)),
        drawn("a transposed matrix", "product of rows", draw.uniform(0.5, 1.5, n, 2, dtype=torch.float64).t()),
        drawn("a single number", "polynomial", draw.uniform(0.5, 1.0, dtype=torch.float64)),
        drawn("a larger step", "polynomial", draw.uniform(0.5, 1.0, n, dtype=torch.float64), 1e-5),
        drawn("a function without autograd", "opaque", draw.uniform(0.5, 1.0, n, dtype=torch.float64)),
        drawn("a function that detaches a factor", "partly fixed", draw.uniform(0.5, 1.0, n, dtype=torch.float64)),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    result = seen.get("result")
    fields: dict[str, object] = {"error": seen["the call"]} if "the call" in seen else {}
    if isinstance(result, Tensor) and result.shape == wanted["result"].shape:
        fields["off"] = (result.double() - wanted["result"]).abs().max().item()
    return fields | {"x_now": seen.get("x afterwards"), "asked": seen.get("points at which f is called")}


EXERCISE = Exercise(
    "numerical_gradient",
    probe,
    cases,
    hints=(
        "A step to one side only is wrong by about eps times the curvature. What happens to that error when you step "
        "to both sides and divide by the distance between the two points?",
        "A float32 near 1 cannot tell 1 from 1 + 1e-6 well. Which dtype should the points have before eps is added?",
        "One entry moves at a time. On which tensor do you move it, so that the caller's x stays as it was? Beware: "
        "`.double()` on a float64 tensor is the tensor itself.",
    ),
    any_device=False,
    quotes=quotes,
)
