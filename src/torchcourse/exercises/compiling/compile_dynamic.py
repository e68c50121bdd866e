"""The exercise `compile_dynamic`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.compilers import FUNCTIONS, INDUCTOR, Counted, fresh_dynamo
from torchcourse.probes.modules import ramp
from torchcourse.probes.observe import kind


class Noting:
    """A function of `FUNCTIONS` that notes when it runs as plain Python."""

    def __init__(self, function: str) -> None:
        self.function, self.ran = FUNCTIONS[function], list[int]()

    def made(self) -> Callable[..., Any]:
        function, ran = self.function, self.ran

        def noting(*args: Tensor) -> Any:
            if not torch.compiler.is_compiling():
                ran.append(1)
            return function(*args)

        return noting


def probe(answer: Watched, function: str, width: int, sizes: list[int], tensors: int) -> Observations:
    """Call the compiled function with each size, and count compilations and plain runs."""
    noting, backend = Noting(function), Counted()
    with fresh_dynamo():
        compiled = answer.answer(noting.made(), backend)
        if not callable(compiled):
            return {"returned": kind(compiled)}
        results = [compiled(*(ramp(size, width, high=k + 1.0) for k in range(tensors))) for size in sizes]
    return {
        "compilations": len(backend.graphs),
        "calls that ran as plain Python": len(noting.ran),
        "calls that ran compiled": backend.runs,
        "sums of the results": [r.sum().item() if isinstance(r, Tensor) else kind(r) for r in results],
    }


def derive(_case: Case, seen: Observations) -> Observations:
    """Take one compilation and two for the same: the first size may be compiled as it is."""
    few = seen.get("compilations") in (1, 2)
    return {**seen, "compilations": "one or two"} if few else seen


def cases(draw: Draw) -> list[Case]:
    w = draw.size(5, 7)
    common: dict[str, Any] = {"width": w, "tensors": 1}
    return [
        case("three sizes", function="pointwise", sizes=[3, 8, 4], **common),
        case("twelve sizes", function="row sums", sizes=list(range(2, 14)), **common),
        case("two tensors", function="two tensors", sizes=[4, 2, 9, 6], width=w, tensors=2),
        case("a size as large as a row is long", function="centred", sizes=[4, w, 9, 12], **common),
        case("one size over and over", function="pointwise", sizes=[4, 4, 4], **common),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"calls": len(inputs["sizes"]), "distinct": len(set(inputs["sizes"]))}
    names = {"count": "compilations", "plain": "calls that ran as plain Python", "ran": "calls that ran compiled"}
    return {**fields, **{field: seen[name] for field, name in names.items() if name in seen}}


EXERCISE = Exercise(
    "compile_dynamic",
    probe,
    cases,
    hints=(
        "Dynamo records what it assumed. If a size is part of that, the next size does not fit. Which argument of "
        "`torch.compile` says that sizes change?",
        "After eight versions of one function Dynamo gives up and runs plain Python. Did your function still reach the "
        "backend at the twelfth size?",
        "What does `dynamic` mean if it is None, True and False? Two of the three keep within two compilations.",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
    seconds=20.0,
    imports=INDUCTOR,
)
