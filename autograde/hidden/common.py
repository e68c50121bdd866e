"""Mistakes that can be made in many exercises, made from the exercise's own right program, and helpers to name one."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from autograde.source.mistakes import Mistake

__all__ = [
    "CHANGED", "COPIES", "ERRORS", "LEFT", "MIXED", "NUMPY_ONLY", "ROUNDED", "anywhere", "on_the_cpu", "one",
    "override", "reading", "rounding", "with_floats", "with_numpy", "writing_into",
]  # fmt: skip

Program = Callable[..., Any]
ERRORS, COPIES = "Errors read aloud", "What copies and what does not"
DTYPES = "Dtypes: what fits in an entry"

MIXED = (
    "On the second device the call raised {error}: one tensor was on the CPU, because it was made without "
    "saying where, moved there, or left there."
)
NUMPY_ONLY = (
    "On the second device the call raised {error}: NumPy only reads the CPU's memory, and torch can do this without "
    "NumPy."
)
LEFT = (
    "With an input on the second device the result is on {device}: what is made or brought there stays there unless it "
    "is moved to the input's device."
)
DTYPE = (
    "The result is {got_dtype} where {want_dtype} is wanted: a result keeps the dtype of the floats it is made from."
)
ROUNDED = (
    'In the case "{case}" `{what}` is {got}: the numbers went through float32 on the way, and a cast back to float64 '
    "does not restore the digits that were lost."
)
CHANGED = (
    'In the case "{case}" the caller\'s own tensor was {got} by the call, and should be {want}: an operation that '
    "works in place wrote into it."
)


def one(name: str, program: Program, sentence: str, section: str, /, **options: Any) -> Mistake:
    """Return one mistake; `options` are keyword arguments with which `program` makes it."""
    return Mistake(name, functools.partial(program, **options) if options else program, sentence, section)


def override(base: type, **methods: Any) -> type:
    """Return a subclass of `base` with these methods, or attributes, in place of its own."""
    return type(f"Changed{base.__name__}", (base,), {"__module__": base.__module__, **methods})


def combined(*faults: type) -> type:
    """Return a class with the faults of several, each a subclass of one right answer that changes another method."""
    return type("".join(fault.__name__ for fault in faults), faults, {"__module__": faults[0].__module__})


def reading(heading: str, mistakes: Iterable[Mistake]) -> list[Mistake]:
    """Return mistakes that many exercises share, with the heading of their own lesson to read again."""
    return [dataclasses.replace(mistake, section=heading) for mistake in mistakes]


def tensors_through(change: Callable[[Tensor], Tensor], program: Program) -> Program:
    """Return `program` on tensors that were changed first."""

    def changed(*args: Any, **kwargs: Any) -> Any:
        return program(*(change(a) if isinstance(a, Tensor) else a for a in args), **kwargs)

    return changed


def on_the_cpu(program: Program) -> Program:
    """Return `program` with all tensors brought to the CPU first."""
    return tensors_through(Tensor.cpu, program)


def in_float32(program: Program) -> Program:
    return tensors_through(lambda t: t.float() if t.is_floating_point() else t, program)


def in_float64(program: Program) -> Program:
    return tensors_through(lambda t: t.double() if t.is_floating_point() else t, program)


def through_float32(program: Program) -> Program:
    """Return `program`, computing in float32, with the result in the dtype of its first argument."""

    def rounded(first: Tensor, *args: Any, **kwargs: Any) -> Any:
        return in_float32(program)(first, *args, **kwargs).to(first.dtype)

    return rounded


def with_a_cpu_tensor(program: Program) -> Program:
    """Return `program` with a tensor made on the CPU added to its result."""

    def mixing(*args: Any, **kwargs: Any) -> Any:
        result = program(*args, **kwargs)
        return result + torch.zeros(result.shape, dtype=result.dtype)

    return mixing


def with_numpy(program: Program) -> Program:
    """Return `program` with its first argument passed through NumPy."""

    def converting(first: Tensor, *args: Any, **kwargs: Any) -> Any:
        return program(torch.from_numpy(first.numpy()), *args, **kwargs)

    return converting


def writing_into(place: int, program: Program) -> Program:
    """Return `program`, but writing into the argument at `place`."""

    def writing(*args: Any, **kwargs: Any) -> Any:
        result = program(*args, **kwargs)
        args[place].sub_(1)
        return result

    return writing


def anywhere(program: Program) -> list[Mistake]:
    """Return the mistakes of `program`, a right one, with a tensor or the result on the wrong device."""
    return [
        Mistake("made-on-cpu", with_a_cpu_tensor(program), MIXED, ERRORS),
        Mistake("made-on-cpu", with_numpy(program), NUMPY_ONLY, ERRORS),
        Mistake("made-on-cpu", on_the_cpu(program), LEFT, ERRORS),
    ]


def rounding(program: Program) -> Mistake:
    """Return the mistake of `program`, a right one, computing in float32 and casting its result back."""
    return Mistake("computes-in-float32", through_float32(program), ROUNDED, DTYPES)


def with_floats(program: Program, inputs: int = 1) -> list[Mistake]:
    """Return the mistakes of `anywhere`, and `program` in one dtype whatever it gets, or writing into an argument.

    Args:
        program: a right one.
        inputs: how many of its first arguments it may write into.
    """
    return [
        *anywhere(program),
        Mistake("dtype-not-kept", in_float32(program), DTYPE, DTYPES),
        Mistake("dtype-not-kept", in_float64(program), DTYPE, DTYPES),
        *(Mistake("changes-its-input", writing_into(i, program), CHANGED, COPIES) for i in range(inputs)),
    ]
