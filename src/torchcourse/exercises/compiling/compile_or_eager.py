"""The exercise `compile_or_eager`: its probe, visible cases and hints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from torchcourse.checking.differences import brief
from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.compilers import INDUCTOR, Counted, fresh_dynamo
from torchcourse.probes.observe import kind

BROKEN = "no working C++ compiler was found"
TELLING = (
    BROKEN, "RuntimeError", "BackendCompilerFailed", "this model wants none", "cannot be multiplied", "ValueError",
    "graph_break", "Unsupported",
)  # fmt: skip
"""Parts of what an error is called or says, one of which a reason should have that is not the compiler's."""


class Sturdy(nn.Module):
    """A model of one layer, made of the tensors of a case. With `refuses`, it breaks the graph or raises an error."""

    def __init__(self, weight: Tensor, refuses: str = "") -> None:
        super().__init__()
        self.weight, self.refuses = nn.Parameter(weight), refuses

    def forward(self, x: Tensor) -> Tensor:
        if self.refuses == "breaks":
            torch._dynamo.graph_break()
        if self.refuses == "raises":
            raise ValueError(f"x has {x.shape[0]} rows, and this model wants none")
        return torch.tanh(x @ self.weight)


@contextlib.contextmanager
def compiling_with(backend: Callable[..., Any]) -> Iterator[None]:
    """Make `backend` the default compiler of torch.compile in this block: no probe needs generated code."""

    def instead(_self: object, graph: Any, inputs: Any, **_options: Any) -> Any:
        return backend(graph, inputs)

    with fresh_dynamo(), mock.patch.object(torch._TorchCompileInductorWrapper, "__call__", instead):
        yield


def probe(answer: Watched, weight: Tensor, x: Tensor, refuses: str, compiler: str, code: int) -> Observations:
    """Hand out a model with a compiler that works, or breaks with a code, and run what comes back."""
    model, counted = Sturdy(weight, refuses), Counted()

    def breaking(_graph: Any, _inputs: Any) -> Any:
        raise RuntimeError(f"error {code}: {BROKEN}")

    with compiling_with(counted if compiler == "works" else breaking):
        try:
            found = answer.answer(model, x)
        except Unattempted:
            raise
        except Exception as error:
            return {"the call": _came_through(error)}
        if not (isinstance(found, tuple) and len(found) == 2 and callable(found[0])):
            return {"returned": kind(found)}
        before = counted.runs
        with torch.no_grad():
            model.weight.mul_(-0.5)  # as a training step would: what came back has to follow
        try:
            outcome: Any = found[0](2 * x)
            ran = "compiled" if counted.runs > before else "as plain Python"
        except Exception as error:
            outcome = Raised(type(error).__name__, " ".join(str(error).strip().split("\n")[:2])[:200])
            ran = "into an error"
    good = refuses != "raises" and len(weight) == x.shape[1]
    telling = (f"error {code}",) if good and compiler == "fails" else TELLING
    return {"its first result runs": ran, "and returns": outcome, "reason": _reason(found[1], telling)}


def _came_through(error: Exception) -> Raised:
    first = str(error).strip().split("\n")[0][:200]
    if BROKEN in str(error):
        return Raised("RuntimeError", BROKEN, "the compiler's error")
    if isinstance(error, ValueError) or type(error).__name__ == "ValueError":
        return Raised("ValueError", first, "the model's error")
    sizes = isinstance(error, RuntimeError) and any(w in str(error) for w in ("shape", "size", "dim"))
    return Raised("RuntimeError", first, "the model's error") if sizes else Raised(type(error).__name__, first)


def _reason(reason: object, telling: tuple[str, ...]) -> str:
    """Describe whether a reason is given, and whether it mentions the error by one of these words."""
    if reason is None:
        return "is None"
    if not isinstance(reason, str):
        return f"is {kind(reason)}"
    said = reason
    tells = any(words in said for words in telling)
    return "says what went wrong" if tells else "does not say what went wrong"


def cases(draw: Draw) -> list[Case]:
    n = draw.size(3, 5)
    code = draw.size(100, 999)
    fits: dict[str, Any] = {"weight": draw.normal(n, 2), "x": draw.normal(4, n), "code": code}
    misfit: dict[str, Any] = {"weight": draw.normal(n, 2), "x": draw.normal(4, n + 1), "code": code}
    return [
        case("the compiler works", **fits, refuses="", compiler="works"),
        case("the compiler fails", **fits, refuses="", compiler="fails"),
        case("the model raises an error", **fits, refuses="raises", compiler="works"),
        case("the example does not fit the model", **misfit, refuses="", compiler="works"),
        case("the example does not fit, and the compiler fails", **misfit, refuses="", compiler="fails"),
        case("a model with a graph break", **fits, refuses="breaks", compiler="works"),
    ]


def quotes(_inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"reason": seen["reason"]} if "reason" in seen else {}
    if "the call" in seen:
        fields["raised"] = seen["the call"]
    if "and returns" in seen:
        ran, outcome = seen["its first result runs"], seen["and returns"]
        fields["came"] = (
            f"raises {outcome}" if isinstance(outcome, Raised) else f"runs {ran} and gives {brief(outcome)}"
        )
    return fields


EXERCISE = Exercise(
    "compile_or_eager",
    probe,
    cases,
    hints=(
        "When does a compiled model meet the compiler: when `torch.compile` returns, or when it is called? What is the "
        "example for?",
        "Two things can go wrong in one call: the model and the compiler. Which call can you make first so that only "
        "the compiler is left to fail?",
        "What you catch has a type and a message. What would help somebody who reads the reason in a log a week later?",
    ),
    any_device=False,
    quotes=quotes,
    seconds=20.0,
    imports=INDUCTOR,
)
