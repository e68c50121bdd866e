"""The exercise `graph_ops`: its probe, visible cases and hints."""

from __future__ import annotations

import re

from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.compilers import COMPILER, fresh_dynamo, function_of
from torchcourse.probes.observe import kind

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Where an object lies, which its text may say: somewhere else in each process."""


def probe(answer: Watched, function: str | list[str], args: list[Tensor]) -> Observations:
    """Ask for the operators that a function runs."""
    with fresh_dynamo():
        found = answer.answer(function_of(function), *args)
    if not isinstance(found, list):
        return {"returned": kind(found)}
    return {"operators": [ADDRESS.sub("", name) if isinstance(name, str) else kind(name) for name in found]}


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    return [
        case("operations on one tensor", function="pointwise", args=[draw.normal(n)]),
        case("two tensors", function="two tensors", args=[draw.normal(n), draw.normal(n)]),
        case("one operation twice", function="twice the same", args=[draw.normal(2, n)]),
        case("with reductions", function="centred", args=[draw.normal(2, n)]),
        case("an operation with two results", function="two results", args=[draw.normal(2, n)]),
        case("a tensor from outside", function="a stored tensor", args=[draw.normal(n)]),
        case("a loop in Python", function="python loop", args=[draw.normal(n)]),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    found, meant = seen.get("operators", []), wanted["operators"]
    extra = [name for name in found if name not in meant]
    fields: dict[str, object] = {"listed": ", ".join(found), "meant": ", ".join(meant)}
    return {**fields, "extra": extra[0]} if extra else fields


EXERCISE = Exercise(
    "graph_ops",
    probe,
    cases,
    hints=(
        "`make_fx(fn)(*args)` runs a function and returns a graph of the operators that ran. What does it hold besides "
        "operators?",
        "A node has an `op`, a `name` and a `target`. Which kind of `op` computes, and which of the other two reads "
        '"aten.mul.Tensor" as a string?',
        "An operator with two results is followed by nodes that take one of them. These call a function of Python. How "
        "do you tell them from ATen's operators?",
    ),
    any_device=False,
    quotes=quotes,
    seconds=20.0,
    imports=COMPILER,
)
