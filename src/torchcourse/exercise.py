"""What an exercise is: a probe, cases to run it on, hints; and where exercises are found."""

from __future__ import annotations

import contextlib
import difflib
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from torchcourse.observations import Observations, Tolerance, Value

__all__ = [
    "LESSONS", "Case", "Draw", "Exercise", "Unattempted", "UnknownExerciseError", "case", "exercises", "find",
    "imports", "preload",
]  # fmt: skip

LESSONS = {
    "01_tensors": "tensors",
    "02_autograd": "autograd",
    "03_modules": "modules",
    "04_data": "data",
    "05_training": "training",
    "06_gpu": "gpu",
    "07_mixed_precision": "precision",
    "08_compile": "compiling",
    "09_persistence": "persistence",
}
"""Lesson names in order, and the module under `torchcourse.exercises` (and under the hidden cases) of each."""

DEFAULT = Tolerance()

Answer: TypeAlias = Callable[..., Any]
Probe: TypeAlias = Callable[..., dict[str, Any]]
Item = TypeVar("Item")


class Unattempted(Exception):  # noqa: N818 - what learners read in their notebook; it is no error of theirs
    """Raised by the stub of an exercise that has not been written yet."""

    def __init__(self, name: str = "") -> None:
        super().__init__(f"`{name}` is not written yet: replace this line by your own code.")
        self.name = name


class UnknownExerciseError(LookupError):
    """No exercise has this name; the message suggests the nearest."""


@dataclass(frozen=True)
class Case:
    """One situation to run an answer in.

    `inputs` are plain values, handed to the probe by name, made afresh for each run. Tensors keep their layout.
    """

    name: str
    inputs: dict[str, Value]
    tolerance: Tolerance = DEFAULT


def case(name: str, *, rtol: float = 1e-4, atol: float = 1e-5, **inputs: Value) -> Case:
    """A case called `name`; floats agree within `atol + rtol * |wanted|`."""
    return Case(name, inputs, Tolerance(rtol, atol))


class Draw:
    """Random inputs from a seed, the same on every run: what visible cases and hidden ones are drawn with."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal numbers of this shape."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(dtype)

    def uniform(self, low: float, high: float, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Numbers in [low, high) of this shape."""
        unit = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        return (low + (high - low) * unit).to(dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        """Integers in [low, high) of this shape."""
        return torch.randint(low, high, shape, generator=self.generator).to(dtype)

    def flags(self, *shape: int, share: float = 0.5) -> Tensor:
        """Booleans of this shape, True with probability `share`."""
        return torch.rand(shape, generator=self.generator) < share

    def size(self, low: int, high: int) -> int:
        """One integer in [low, high]."""
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def pick(self, items: Sequence[Item]) -> Item:
        """One of `items`."""
        return items[self.size(0, len(items) - 1)]


def _no_quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    return {}


def _as_seen(case: Case, seen: Observations) -> Observations:
    return seen


@dataclass(frozen=True)
class Exercise:
    """All that may be public about an exercise. References and mistakes live elsewhere.

    Attributes:
        name: the name that the learner binds.
        probe: `probe(answer, **inputs)` runs an answer and returns what was observed; it knows no right answer.
        cases: draws the cases; once with a fixed seed for the notebook, with other seeds for grading.
        hints: three, each a question or a pointer, never the answer.
        any_device: whether it is checked on an accelerator too.
        forbids: torch calls that the answer may not make; a name with a dot is a module of torch it may not use.
        derive: turns raw observations into the properties that are compared; runs outside the learner's process.
        quotes: further fields for the sentences that explain mistakes.
        seconds: the longest that one check may take.
        watched: whether to watch what an answer calls; only an exercise that forbids nothing and counts nothing may do
            without, and one that trains runs twice as fast then.
        imports: modules that take long to load and that answers or the probe import: they are loaded before the time
            limit begins, which would otherwise cut an import in the middle and leave half a module behind.
    """

    name: str
    probe: Probe
    cases: Callable[[Draw], list[Case]]
    hints: tuple[str, str, str]
    any_device: bool = True
    forbids: tuple[str, ...] = ()
    derive: Callable[[Case, Observations], Observations] = _as_seen
    quotes: Callable[[Observations, Observations, Observations], dict[str, object]] = _no_quotes
    seconds: float = 10.0
    watched: bool = True
    imports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.forbids and not self.watched:
            raise ValueError(f"{self.name} forbids calls, so they have to be watched.")


@cache
def exercises(lesson: str) -> dict[str, Exercise]:
    """The exercises of a lesson by name, in order.

    Raises:
        UnknownExerciseError: when there is no such lesson.
    """
    if lesson not in LESSONS:
        raise UnknownExerciseError(f"There is no lesson {lesson!r}.{_nearest(lesson, list(LESSONS))}")
    module = importlib.import_module(f"torchcourse.exercises.{LESSONS[lesson]}")
    return {exercise.name: exercise for exercise in module.EXERCISES}


def imports(*lessons: str) -> list[str]:
    """The modules that take long to load and that lessons need: what their exercises name, and, from the second lesson
    on, torch's compiler, which optimizers, `torch.func` and checkpointing load at their first use."""
    late = () if set(lessons) <= {next(iter(LESSONS))} else ("torch._dynamo.eval_frame",)
    named = (e.imports for lesson in lessons for e in exercises(lesson).values())
    return sorted({*late, *(module for modules in named for module in modules)})


def preload(modules: Iterable[str]) -> None:
    """Import modules before anything is timed; one that is missing will be missed where it is used."""
    for module in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def find(name: str) -> tuple[str, Exercise]:
    """The lesson that has the exercise `name`, and the exercise.

    Raises:
        UnknownExerciseError: when no lesson has it.
    """
    for lesson in LESSONS:
        if name in exercises(lesson):
            return lesson, exercises(lesson)[name]
    known = [known for lesson in LESSONS for known in exercises(lesson)]
    raise UnknownExerciseError(f"There is no exercise {name!r}.{_nearest(name, known)}")


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""
