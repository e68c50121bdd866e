"""The exercise `hessian_vector_product`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.functions import Function, coefficients, function
from torchcourse.probes.memory import peak_bytes
from torchcourse.probes.observe import kept, look

FEW = 24
MANY = 96


def probe(answer: Watched, form: str, c: list[float], x: Tensor, v: Tensor, measured: bool) -> dict[str, Any]:
    """Observe the product, and on the CPU the peak memory for a short and a four times as long `x`."""
    f, before = function(form, c), (x.clone(), v.clone())
    seen = {**look(answer(f, x, v), x), **kept(x=(x.detach(), before[0]), v=(v, before[1]))}
    if measured and x.device.type == "cpu":
        seen["peak"] = [_peak(answer, f, *before, count) for count in (FEW, MANY)]
    return seen


def _peak(answer: Watched, f: Function, x: Tensor, v: Tensor, count: int) -> int:
    """Return the most bytes that the answer holds at once for an `x` of `count` entries."""
    long = [t.flatten().repeat(count)[:count] for t in (x, v)]
    return peak_bytes(lambda: answer(f, *long))


def derive(_case: Case, seen: Observations) -> Observations:
    """Say whether four times the entries take about four times the memory, or about sixteen times."""
    if "peak" not in seen:
        return seen
    few, many = seen["peak"]
    rest = {name: value for name, value in seen.items() if name != "peak"}
    rest["memory"] = "grows like x" if many <= 8 * few else "grows like x squared"
    return rest


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    wide = torch.float64

    def drawn(name: str, form: str, *shape: int, dtype: torch.dtype = torch.float32) -> Case:
        tight = {"rtol": 1e-7, "atol": 1e-9} if dtype == wide else {}
        x, v = draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype)
        measured = dtype != wide
        return case(name, **tight, form=form, c=coefficients(draw), x=x, v=v, measured=measured)

    return [
        drawn("each entry by itself", "polynomial", n),
        drawn("neighbours depend on each other", "neighbours", n),
        drawn("a matrix, float64", "neighbours", 2, n, dtype=wide),
        drawn("a wave, float64", "wave", n, dtype=wide),
    ]


EXERCISE = Exercise(
    "hessian_vector_product",
    probe,
    cases,
    hints=(
        "The gradient is itself a function of x. What must `autograd.grad` be told so that you may differentiate its "
        "result once more?",
        "H is symmetric, so Hv is the gradient of a single number made of the gradient and v. Which number?",
        "The gradient of g·v, v held fixed, is Hv. `grad_outputs=v` in a second call says the same. In `torch.func`: "
        "what is the directional derivative of `grad(f)` at x along v?",
    ),
    measures=True,
    derive=derive,
)
