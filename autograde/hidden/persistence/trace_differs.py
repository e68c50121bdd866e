"""The exercise `trace_differs`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograde.hidden.common import one
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A trace records the operations of one run: a branch taken for that example is there, the other is not. So "
    "it shows only with an input that takes the other branch, as a wrong value or, where shapes change, as an "
    "error."
)
"""Why the reference is written as it is."""
REQUIRED = ("compares-on-example", "scripts-not-traces")
"""The mistakes that a check must always be able to name."""


SCRIPT = "TorchScript, as history"
AnyFunction = Callable[[Tensor], Tensor]
AnyProgram = Callable[[AnyFunction, Tensor, Tensor], Any]
TRACE: Any = torch.jit.trace


def traced(fn: AnyFunction, example: Tensor) -> AnyFunction:
    recorded: AnyFunction = TRACE(fn, example)
    return recorded


def differs_on_example(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.allclose(traced(fn, example)(example), fn(example), equal_nan=True)


def differs_by_script(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.allclose(torch.jit.script(fn)(other), fn(other), equal_nan=True)


def differs_between_inputs(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not alike(traced(fn, example)(example), fn(other))


def alike(one: Tensor, two: Tensor) -> bool:
    return one.shape == two.shape and torch.allclose(one, two, equal_nan=True)


def differs_between_traced_inputs(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    recorded = traced(fn, example)
    return not alike(recorded(example), recorded(other))


def differs_in_graphs(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    one, two = (TRACE(fn, x).graph for x in (example, other))
    return str(one) != str(two)


def differs_in_retracing(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    try:
        TRACE(fn, example, check_inputs=[(other,)])
    except torch.jit.TracingCheckError:  # type: ignore[attr-defined]
        return True
    return False


def differs_by_warning(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        traced(fn, example)
    kind: type[Warning] = torch.jit.TracerWarning  # type: ignore[attr-defined]
    return any(issubclass(w.category, kind) for w in caught)


def where_it_runs(program: AnyProgram) -> AnyProgram:
    """Return `program`, except that an error in the trace is a difference, as it should be."""

    def tolerant(fn: AnyFunction, example: Tensor, other: Tensor) -> Any:
        try:
            return program(fn, example, other)
        except RuntimeError:
            return True

    return tolerant


@where_it_runs
def differs_in_shape(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return traced(fn, example)(other).shape != fn(other).shape


@where_it_runs
def differs_in_sum(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.allclose(traced(fn, example)(other).sum(), fn(other).sum(), equal_nan=True)


def differs_one_way(fn: AnyFunction, example: Tensor, other: Tensor, *, sign: int) -> bool:
    try:
        found, wanted = traced(fn, example)(other), fn(other)
    except RuntimeError:
        return True
    return found.shape != wanted.shape or bool((sign * (found - wanted)).max() > 1e-5)


@where_it_runs
def differs_exactly(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.equal(traced(fn, example)(other), fn(other))


@where_it_runs
def differs_everywhere(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.isclose(traced(fn, example)(other), fn(other), equal_nan=True).any()


@where_it_runs
def differs_entry_by_entry(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return bool((traced(fn, example)(other) != fn(other)).all())


def differs_traced_on_other(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.allclose(traced(fn, other)(other), fn(other), equal_nan=True)


@where_it_runs
def agrees(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return torch.allclose(traced(fn, example)(other), fn(other), equal_nan=True)


@where_it_runs
def differs_in_tensors(fn: AnyFunction, example: Tensor, other: Tensor) -> Any:
    return (traced(fn, example)(other) != fn(other)).any()


@where_it_runs
def differs_in_numpy(fn: AnyFunction, example: Tensor, other: Tensor) -> Any:
    found, wanted = traced(fn, example)(other).numpy(), fn(other).numpy()
    return np.any(~np.isclose(found, wanted, equal_nan=True))


def fails_with_the_trace(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not alike(traced(fn, example)(other), fn(other))


def takes_a_failing_trace_for_right(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    try:
        return not alike(traced(fn, example)(other), fn(other))
    except RuntimeError:
        return False


@where_it_runs
def broadcasts(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    return not torch.allclose(traced(fn, example)(other), fn(other), equal_nan=True)


@where_it_runs
def takes_nan_for_different(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    found, wanted = traced(fn, example)(other), fn(other)
    return found.shape != wanted.shape or not torch.allclose(found, wanted)


@where_it_runs
def passes_nan(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    found, wanted = traced(fn, example)(other), fn(other)
    return found.shape != wanted.shape or bool((found - wanted).abs().max() > 1e-5)


@where_it_runs
def is_generous(fn: AnyFunction, example: Tensor, other: Tensor) -> bool:
    found, wanted = traced(fn, example)(other), fn(other)
    return found.shape != wanted.shape or bool(((found - wanted).abs() > 1e-2).any())


WRONG = "For a function with {function} the answer was {found} where {meant} is wanted: "
RECORDED = WRONG + "two recordings may differ in their operations and still give the same results."
MISTAKES = [
    Mistake("compares-on-example", differs_on_example, WRONG + "on the example itself a trace is right.", SCRIPT),
    Mistake("scripts-not-traces", differs_by_script, WRONG + "a script is compiled from the source and keeps its "
            "branches; a trace has one path.", SCRIPT),
    Mistake("compares-two-inputs", differs_between_inputs, WRONG + "results for one input were compared with results "
            "for another, and they may well differ.", SCRIPT),
    Mistake("compares-two-inputs", differs_between_traced_inputs, "`fn` was run on {ran_on} alone, so what the trace "
            "gives for one input was compared with what it gives for another. Compare the two on `other`.", SCRIPT),
    Mistake("compares-on-example", differs_traced_on_other, WRONG + "`fn` was run on {ran_on} alone. A trace that was "
            "made on `other` is right there.", SCRIPT),
    Mistake("compares-recordings", differs_in_graphs, RECORDED, SCRIPT),
    Mistake("compares-recordings", differs_in_retracing, RECORDED, SCRIPT),
    Mistake("believes-warnings", differs_by_warning, "`fn` was run on {ran_on} alone, so what it gives on `other` was "
            "not looked at. A warning says that a trace may go wrong on some input, not on which.", SCRIPT),
    Mistake("compares-shapes", differs_in_shape, WRONG + "two results of the same shape may hold different numbers.",
            SCRIPT),
    Mistake("compares-sums", differs_in_sum, WRONG + "different entries may have the same sum.", SCRIPT),
    *(one("difference-signed", differs_one_way, WRONG + "a difference may be negative, and only its absolute value "
          "shows how large it is.", SCRIPT, sign=sign) for sign in (1, -1)),
    Mistake("compares-exactly", differs_exactly, WRONG + "the last digits differ by rounding, which does not count "
            "as a difference.",
            SCRIPT),
    Mistake("wants-all-to-differ", differs_everywhere, WRONG + "one entry that differs is enough.", SCRIPT),
    Mistake("wants-all-to-differ", differs_entry_by_entry, WRONG + "one entry that differs is enough.", SCRIPT),
    Mistake("fails-with-the-trace", fails_with_the_trace, "For a function with {function} the call ended with {ended}. "
            "A trace may fail on `other` where `fn` does not, and that is a difference, too.", SCRIPT),
    Mistake("failing-trace-agrees", takes_a_failing_trace_for_right, WRONG + "the trace raises an error there, and "
            "that is a difference, too.", SCRIPT),
    Mistake("broadcasts-shapes", broadcasts, WRONG + "`allclose` broadcasts, so results of shapes (d,) and (1, d) "
            "count as equal. Compare the shapes first.", SCRIPT),
    Mistake("nan-never-equal", takes_nan_for_different, WRONG + "both give NaN in the same places, and that is the "
            "same result. `allclose` says so only with `equal_nan=True`.", SCRIPT),
    Mistake("nan-passes", passes_nan, WRONG + "the trace gives NaN where `fn` gives numbers, and a comparison with NaN "
            "by `>` is False.", SCRIPT),
    Mistake("too-generous", is_generous, WRONG + "that is more than rounding.", SCRIPT),
    Mistake("answer-turned-round", agrees, WRONG + "True means that they disagree.", SCRIPT),
    Mistake("returns-numpy-bool", differs_in_numpy, "The call returned {returned}, and a Python bool is wanted: "
            "`bool(...)` makes a Python bool of it.", SCRIPT),
    Mistake("returns-tensor", differs_in_tensors, "The call returned {returned}, and a Python bool is wanted.", SCRIPT),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    d = draw.size(2, 5)
    high, low = draw.uniform(0.1, 2.0, 3, d), -draw.uniform(0.1, 2.0, 3, d)
    return [
        case("traced below, asked above", function="a branch on the sum", example=low, other=high),
        case("a shorter input, no branch", function="no branch", example=high, other=low[:1]),
        case("both below", function="a branch on the sum", example=low, other=low - 1),
    ]


# Right answers unlike the reference


def differs_by_the_largest_gap(fn: Callable[[Tensor], Tensor], example: Tensor, other: Tensor) -> bool:
    recorded, wanted = TRACE(fn, (example,), check_trace=False), fn(other)
    try:
        found = recorded(other)
    except RuntimeError:
        return True
    if found.shape != wanted.shape or bool((found.isnan() != wanted.isnan()).any()):
        return True
    return bool((found - wanted).nan_to_num().abs().max() > 1e-5)


def differs_by_assertion(fn: Callable[[Tensor], Tensor], example: Tensor, other: Tensor) -> bool:
    recorded = TRACE(fn, example_inputs=example)
    try:
        torch.testing.assert_close(recorded(other), fn(other), equal_nan=True)
    except (AssertionError, RuntimeError):
        return True
    return False


def differs_from_a_trace_of_other(fn: Callable[[Tensor], Tensor], example: Tensor, other: Tensor) -> bool:
    two = TRACE(fn, other.clone(), strict=False)(other.clone())
    with contextlib.suppress(RuntimeError):
        one = TRACE(fn, example.clone(), strict=False)(other.clone())
        return not (one.shape == two.shape and np.allclose(one.numpy(), two.numpy(), equal_nan=True))
    return True


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    differs_by_the_largest_gap,
    differs_by_assertion,
    differs_from_a_trace_of_other,
]
