"""The exercise `compile_or_eager`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.compiling.shared import COMPILE
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`torch.compile` returns at once, and fails only when it is first called: so it is called inside the `try`."
    " The model runs eagerly before that, so that a mistake of its own is raised as what it is and not taken "
    "for the compiler's."
)
"""Why the reference is written as it is."""
REQUIRED = ("hides-real-errors", "never-tries")
"""The mistakes that a check must always be able to name."""


def tried(model: Any, compiled: Any, example: Any) -> str | None:
    """Why the compiled model cannot run, if it cannot; the model's own errors come out."""
    model(example)
    try:
        compiled(example)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def hides_real_errors(model: Any, example: Any) -> Any:
    compiled = COMPILE(model)
    try:
        compiled(example)
    except Exception as error:
        return model, f"{type(error).__name__}: {error}"
    return compiled, None


def never_tries(model: Any, example: Any) -> Any:
    return COMPILE(model), None


def tries_the_eager_model(model: Any, example: Any) -> Any:
    model(example)
    return COMPILE(model), None


def tries_to_wrap(model: Any, example: Any) -> Any:
    try:
        compiled = COMPILE(model)
    except Exception as error:
        return model, f"{type(error).__name__}: {error}"
    return compiled, None


def returns_what_failed(model: Any, example: Any) -> Any:
    compiled = COMPILE(model)
    return compiled, tried(model, compiled, example)


def lets_errors_out(model: Any, example: Any) -> Any:
    model(example)
    compiled = COMPILE(model)
    compiled(example)
    return compiled, None


def gives_no_reason(model: Any, example: Any) -> Any:
    compiled = COMPILE(model)
    return (model if tried(model, compiled, example) else compiled), None


def gives_the_exception(model: Any, example: Any) -> Any:
    model(example)
    compiled = COMPILE(model)
    try:
        compiled(example)
    except Exception as error:
        return model, error
    return compiled, None


def gives_little_reason(model: Any, example: Any) -> Any:
    compiled = COMPILE(model)
    return (model, "failed") if tried(model, compiled, example) else (compiled, None)


def names_the_type_alone(model: Any, example: Any) -> Any:
    compiled = COMPILE(model)
    reason = tried(model, compiled, example)
    return (model, reason.partition(":")[0]) if reason else (compiled, None)


def demands_one_graph(model: Any, example: Any) -> Any:
    compiled = COMPILE(model, fullgraph=True)
    reason = tried(model, compiled, example)
    return (model if reason else compiled), reason


def another_backend(model: Any, example: Any) -> Any:
    compiled = COMPILE(model, backend="eager")
    reason = tried(model, compiled, example)
    return (model if reason else compiled), reason


def compiles_a_copy(model: Any, example: Any) -> Any:
    own = copy.deepcopy(model)
    compiled = COMPILE(own)
    reason = tried(own, compiled, example)
    return (model if reason else compiled), reason


def always_eager(model: Any, example: Any) -> Any:
    return model, tried(model, COMPILE(model), example)


FAILS = "When the compiler fails"
OUTCOME = 'In the case "{case}" what comes back {came}, and the reason {reason}: '
MISTAKES = [
    Mistake("hides-real-errors", hides_real_errors, OUTCOME + "the model itself raises an error with this example, and "
            "the caller should hear of it.", FAILS),
    Mistake("never-tries", never_tries, OUTCOME + "`torch.compile` returns before anything is compiled, so nothing had "
            "a chance to fail.", FAILS),
    Mistake("never-tries", tries_the_eager_model, OUTCOME + "only the eager model was called with the example, so the "
            "compiler had no chance to fail.", FAILS),
    Mistake("never-tries", tries_to_wrap, OUTCOME + "`torch.compile` returns before anything is compiled, so a `try` "
            "around it catches nothing.", FAILS),
    Mistake("returns-what-failed", returns_what_failed, OUTCOME + "when the compiler has failed, return the eager "
            "model, which still works.", FAILS),
    Mistake("lets-compiler-errors-out", lets_errors_out, "In the case \"{case}\" the call raised {raised}: where the "
            "compiler fails, the eager model is still there to run.", FAILS),
    Mistake("reason-is-the-exception", gives_the_exception, OUTCOME + "the reason is a string, which can be kept in a "
            "log; an exception keeps the whole traceback alive.", FAILS),
    Mistake("gives-no-reason", gives_no_reason, OUTCOME + "somebody will want to know why the model is slow.", FAILS),
    *(Mistake("gives-no-reason", gives, OUTCOME + "somebody will want to know. The type of the error does not tell, "
              "and neither does the first line of a compiler's message.", FAILS)
      for gives in (gives_little_reason, names_the_type_alone)),
    Mistake("demands-one-graph", demands_one_graph, OUTCOME + "a graph break is not a failure; only `fullgraph=True` "
            "turns it into one.", FAILS),
    Mistake("another-backend", another_backend, OUTCOME + "either it is the eager model, or it was compiled with a "
            "backend that makes no code, instead of the default one.", FAILS),
    Mistake("compiles-a-copy", compiles_a_copy, OUTCOME + "the tensor was computed with the weights of a copy, which "
            "does not learn what the model learns. Compile the model itself.", FAILS),
    Mistake("always-eager", always_eager, OUTCOME + "where the compiler works, the compiled model is wanted.", FAILS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    fits: dict[str, Any] = {"weight": draw.normal(n, 3), "x": draw.normal(draw.size(2, 5), n)}
    fits |= {"code": draw.size(100, 999)}
    return [
        case("the model raises, and the compiler fails", **fits, refuses="raises", compiler="fails"),
        case("a graph break, and the compiler fails", **fits, refuses="breaks", compiler="fails"),
    ]


# Right answers unlike the reference


def or_eager_by_type(model: nn.Module, example: Tensor) -> tuple[Any, Any]:
    compiled = torch.compile(model)
    try:
        with torch.no_grad():
            compiled(example)
    except torch._dynamo.exc.BackendCompilerFailed as error:
        with torch.no_grad():
            model(example)
        return model, str(error)
    return compiled, None


def or_eager_asking_twice(model: nn.Module, example: Tensor) -> tuple[Any, Any]:
    try:
        compiled = torch.compile(model, dynamic=False)
        compiled(example)
        return compiled, None
    except Exception as error:
        model(example)  # where it is the model's fault, this raises too
        return model, repr(error)


def or_eager_in_place(model: nn.Module, example: Tensor) -> tuple[Any, Any]:
    model(example)
    trial = copy.deepcopy(model)
    trial.compile()
    try:
        trial(example)
    except RuntimeError as error:
        return model.forward, str(error)
    model.compile()
    return model, None


RIGHT_ANSWERS: list[Callable[..., Any]] = [or_eager_by_type, or_eager_asking_twice, or_eager_in_place]
