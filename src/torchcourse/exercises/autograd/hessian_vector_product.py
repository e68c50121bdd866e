"""The exercise `hessian_vector_product`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.functions import Function, coefficients, function
from torchcourse.probes.memory import largest_result, outside_bytes, result_and_peak
from torchcourse.probes.observe import kept, look

FEWER = 12, 20
"""Entries of x that take no more memory than the next larger number of them, and no more than FEW."""
FEW = 24
MANY = 96
MUCH_MORE = 8
"""Four times the entries may take this many times the memory; with H it would be sixteen times."""
LITTLE_MORE = 2
"""Four times the entries take at least this many times the memory, unless a table is made for few of them."""
LARGE = 300
"""Entries of x for which only the largest tensor is looked at."""
SHORT, LONG = 32, 128
"""Entries of x for which what is held outside of tensors is measured."""
MORE = (LONG**2 - SHORT**2) * 4 // 2
"""The bytes by which what is held grows between them where half of the Hessian is kept, in whatever form."""


def probe(answer: Watched, form: str, c: list[float], x: Tensor, v: Tensor, measured: bool) -> dict[str, Any]:
    """Observe the product, and on the CPU the largest tensor made and the memory for a short and for a long `x`."""
    f, before = function(form, c), (x.clone(), v.clone())
    seen = {**look(answer(f, x, v), x), **kept(x=(x.detach(), before[0]), v=(v, before[1]))}
    if x.device.type != "cpu":
        return seen
    seen["largest tensors"] = [(x.numel(), answer.run(largest_result, lambda: answer.answer(f, *before)))]
    if measured:
        few, many = (result_and_peak(_call(answer, f, *before, count)) for count in (FEW, MANY))
        seen |= {"result for few entries": few[0], "result for many entries": many[0], "peak": [few[1], many[1]]}
        fewer = [result_and_peak(_call(answer, f, *before, count)) for count in FEWER]
        seen |= {"results for fewer entries": [one[0] for one in fewer], "peaks": [one[1] for one in fewer]}
        sizes = [*(x.numel() + more for more in range(4)), LARGE]  # next to the scored call, and far from it
        seen["largest tensors"] += [(n, answer.run(largest_result, _call(answer.answer, f, *before, n))) for n in sizes]
        if seen["peak"][1] <= MUCH_MORE * seen["peak"][0]:  # else there is nothing more to find out
            seen["outside of tensors"] = [
                answer.run(outside_bytes, _call(answer.answer, f, *before, n), MORE) for n in (SHORT, LONG)
            ]
    return seen


def _call(answer: Callable[..., Any], f: Function, x: Tensor, v: Tensor, count: int) -> Callable[[], object]:
    """Return a call of the answer with an `x` of `count` entries."""
    long = [t.flatten().repeat(count)[:count] for t in (x, v)]
    return lambda: answer(f, *long)


def derive(_case: Case, seen: Observations) -> Observations:
    """Say whether four times the entries take about four times the memory, about sixteen times, or hardly more."""
    if "largest tensors" not in seen:
        return seen
    squares = [n for n, largest in seen["largest tensors"] if n > 3 and largest >= n * n]
    built = [f"that of the Hessian for {n} entries" for n in squares]
    if "peak" not in seen:
        rest = {name: value for name, value in seen.items() if name != "largest tensors"}
        return {**rest, "memory": built[0] if built else "growing like x"}
    few, many = seen["peak"]
    raw = ("peak", "peaks", "outside of tensors", "largest tensors")
    rest = {name: value for name, value in seen.items() if name not in raw}
    short, long = seen.get("outside of tensors", (0, 0))
    grows = many > MUCH_MORE * few or long - short > MORE
    rest["memory"] = "growing like x squared" if grows else "growing like x"
    if many < LITTLE_MORE * few:
        rest["memory"] = f"nearly as large for {FEW} entries as for {MANY}"
    elif sorted(peaks := [*seen["peaks"], few]) != peaks and not grows:
        rest["memory"] = f"larger for fewer entries than for {FEW}"
    elif built and not grows:
        rest["memory"] = built[0]
    return rest


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    wide = torch.float64

    def drawn(name: str, form: str, *shape: int, dtype: torch.dtype = torch.float32) -> Case:
        tight = {"rtol": 1e-7, "atol": 1e-9} if dtype == wide else {}
        x, v = draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype)
        measured = form == "neighbours" and dtype != wide  # once: for many entries, all of H takes long
        return case(name, **tight, form=form, c=coefficients(draw), x=x, v=v, measured=measured)

    return [
        drawn("each entry by itself", "polynomial", n),
        drawn("neighbours depend on each other", "neighbours", n),
        drawn("a matrix, float64", "neighbours", 2, n, dtype=wide),
        drawn("a wave, float64", "wave", n, dtype=wide),
        drawn("a linear function", "linear", n, dtype=wide),
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
