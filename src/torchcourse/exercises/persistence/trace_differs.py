"""The exercise `trace_differs`: its probe, visible cases and hints."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.functions import expected_error
from torchcourse.probes.observe import kind


def sign_decides(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x * 2
    return x - 1


def length_decides(x: Tensor) -> Tensor:
    if x.shape[0] > 3:
        return x.mean(0)
    return x.sum(0)


def adds_rows(x: Tensor) -> Tensor:
    total = torch.zeros(x.shape[1])
    for i in range(x.shape[0]):
        total = total * 0.5 + x[i]
    return total


def no_branch(x: Tensor) -> Tensor:
    return torch.where(x > 0, x * 2, x - 1) / x.shape[1]


def branch_alike(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x.abs()
    return torch.maximum(x, -x)


def picks_larger(x: Tensor) -> Tensor:
    return sorted([x - 1, x * 2], key=lambda t: float(t.sum()))[-1]


def scales_by_width(x: Tensor) -> Tensor:
    scaled: Tensor = x * (x.shape[1] ** -0.5)
    return scaled


def swaps_columns(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return torch.cat([x[:, 1:2], x[:, :1], x[:, 2:]], 1)
    return x + 0


def doubles_a_column(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return torch.cat([x[:, :1] * 2, x[:, 1:]], 1)
    return x + 0


def counts_rows_in_python(x: Tensor) -> Tensor:
    return x.view(len(x.detach().tolist()), x.shape[1]) * 2


def keeps_a_row(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x.abs().sum(0)
    return x.abs().sum(0, keepdim=True)


def adds_a_little(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x * 1.00005
    return x + 0


def takes_logarithms(x: Tensor) -> Tensor:
    return x.log() + x.shape[1]


def logarithm_if_positive(x: Tensor) -> Tensor:
    if x.min() > 0:
        return x.log()
    return x - 1


FAILS = "rows that Python counts"
FUNCTIONS = {
    "a branch on the sum": sign_decides, "a branch on the length": length_decides, "a loop over the rows": adds_rows,
    "no branch": no_branch, "branches that agree": branch_alike,
    "a choice in plain Python": picks_larger, "a factor made of the width": scales_by_width,
    "a branch that swaps two columns": swaps_columns, "a branch that doubles a column": doubles_a_column,
    "logarithms, some of them NaN": takes_logarithms, FAILS: counts_rows_in_python,
    "a branch that keeps a row": keeps_a_row, "a logarithm of what is positive": logarithm_if_positive,
    "a branch that adds a twenty-thousandth": adds_a_little,
}  # fmt: skip


def noting(fn: Callable[[Tensor], Tensor], inputs: list[Any]) -> Callable[[Tensor], Tensor]:
    """Wrap `fn` to append each input that its Python code runs on; by `wraps`, scripting sees `fn` itself."""

    @functools.wraps(fn)
    def noted(x: Tensor) -> Tensor:
        inputs.append(x)  # compared later: during tracing, comparisons would be recorded
        return fn(x)

    return noted


def among(inputs: list[Any], named: dict[str, Tensor]) -> list[str]:
    """Return the names of the tensors whose values are among the inputs, not counting tracing's stand-ins."""
    plain = [x for x in inputs if type(x) is Tensor]
    return [
        name for name, tensor in named.items()
        if any(x.shape == tensor.shape and torch.equal(x.detach().to(tensor.dtype), tensor) for x in plain)
    ]  # fmt: skip


def probe(answer: Watched, function: str, example: Tensor, other: Tensor) -> Observations:
    """Ask whether a trace differs, with a function that notes what it was run on."""
    before, inputs = {"example": example.clone(), "other": other.clone()}, list[Any]()
    try:
        found = answer(noting(FUNCTIONS[function], inputs), example, other)
    except RuntimeError as error:
        return {"the call": expected_error(error, {"TorchScript interpreter": "the trace failed"})}
    seen: Observations = {"other afterwards": "as before" if torch.equal(other, before["other"]) else "changed"}
    if function != FAILS:  # a trace that fails leaves nothing to compare, so fn need not be run
        seen["fn was run on"] = " and ".join(among(inputs, before)) or "neither input"
    if isinstance(found, bool):
        return {**seen, "differs": found}
    return {**seen, "returned": "a bool of NumPy" if type(found).__module__ == "numpy" else kind(found)}


def cases(draw: Draw) -> list[Case]:
    n, d = draw.size(2, 3), draw.size(3, 4)
    high, low, more = draw.uniform(0.1, 2.0, n, d), -draw.uniform(0.1, 2.0, n, d), draw.uniform(0.1, 2.0, n + 2, d)
    return [
        case("the other side of a branch", function="a branch on the sum", example=high, other=low),
        case("the same side of a branch", function="a branch on the sum", example=high, other=high + 1),
        case("a longer input, a branch on its length", function="a branch on the length", example=high, other=more),
        case("a longer input, a loop over it", function="a loop over the rows", example=high, other=more),
        case("no branch at all", function="no branch", example=high, other=low),
        case("two branches that give the same", function="branches that agree", example=high, other=low),
        case("a choice by sorting", function="a choice in plain Python", example=high + 2, other=low - 2),
        case("nothing but rounding", function="a factor made of the width", example=draw.uniform(0.1, 2.0, 2, 6),
             other=draw.uniform(0.1, 2.0, 4, 6)),
        case("NaN on both sides", function="logarithms, some of them NaN", example=high, other=high - high.mean()),
        case("NaN in the trace alone", function="a logarithm of what is positive", example=high, other=low),
        case("two columns swapped", function="a branch that swaps two columns", example=high, other=low),
        case("one column doubled", function="a branch that doubles a column", example=high, other=low),
        case("a trace that fails on a longer input", function=FAILS, example=high, other=more),
        case("the same numbers in another shape", function="a branch that keeps a row", example=high, other=low),
        case("a small difference", function="a branch that adds a twenty-thousandth", example=high, other=low),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields = {"function": inputs["function"], "found": seen.get("differs"), "meant": wanted.get("differs")}
    fields |= {"returned": seen.get("returned"), "ran_on": seen.get("fn was run on")}
    fields |= {"ended": seen.get("the call")}
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "trace_differs",
    probe,
    cases,
    hints=(
        "`torch.jit.trace` runs the function once on the example and writes down the operations. Which input do you "
        "have to try then, to see what it did not write down?",
        "Two results are to be compared, and both come from `other`: one from the trace and one from whom?",
        "`torch.allclose` compares with a tolerance. The answer is a Python bool, and True means that they disagree.",
    ),
    any_device=False,
    quotes=quotes,
)
