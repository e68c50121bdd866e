"""An exercise: a probe, cases to run it on, and hints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor

from torchcourse.model.observations import Observations, Tolerance, Value

__all__ = ["Case", "Draw", "Exercise", "InterviewQuestion", "Unattempted", "case"]

DEFAULT_TOLERANCE = Tolerance()

Answer: TypeAlias = Callable[..., Any]
Probe: TypeAlias = Callable[..., dict[str, Any]]
Item = TypeVar("Item")


class Unattempted(Exception):  # noqa: N818 - learners read the name in their notebook, and it is not an error
    """Raised by the stub of an exercise that the learner has not written yet.

    Attributes:
        lacks_tools: whether the exercise cannot be attempted on this machine, whatever is written.
    """

    lacks_tools = False

    def __init__(self, name: str = "") -> None:
        super().__init__(f"`{name}` is not written yet: replace its `raise Unattempted` line with your own code.")
        self.name = name


@dataclass(frozen=True)
class Case:
    """One situation to run an answer in.

    Attributes:
        name: what learners read, such as "a matrix".
        inputs: plain values, passed to the probe by name, copied for each run. Tensors keep their layout.
        tolerance: by how much floats may differ.
    """

    name: str
    inputs: dict[str, Value]
    tolerance: Tolerance = DEFAULT_TOLERANCE


def case(name: str, *, rtol: float = 1e-4, atol: float = 1e-5, **inputs: Value) -> Case:
    """Return the case `name`, with `inputs`; floats agree within `atol + rtol * |wanted|`."""
    return Case(name, inputs, Tolerance(rtol, atol))


class Draw:
    """A source of random inputs for visible and hidden cases; the same seed gives the same inputs."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return standard normal numbers of this shape."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(dtype)

    def uniform(self, low: float, high: float, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return numbers in [low, high) of this shape."""
        unit = torch.rand(shape, generator=self.generator, dtype=torch.float64)
        return (low + (high - low) * unit).to(dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        """Return integers in [low, high) of this shape."""
        return torch.randint(low, high, shape, generator=self.generator).to(dtype)

    def flags(self, *shape: int, share: float = 0.5) -> Tensor:
        """Return booleans of this shape, True with probability `share`."""
        return torch.rand(shape, generator=self.generator) < share

    def size(self, low: int, high: int) -> int:
        """Return one integer in [low, high]."""
        return int(torch.randint(low, high + 1, (), generator=self.generator))

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of `items`."""
        return items[self.size(0, len(items) - 1)]


def _no_quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    return {}


def _as_seen(case: Case, seen: Observations) -> Observations:
    return seen


@dataclass(frozen=True)
class InterviewQuestion:
    """A question as an interviewer asks it, an answer in three sentences, and the lesson where it was taught."""

    question: str
    answer: str
    taught: str


@dataclass(frozen=True)
class Exercise:
    """The public half of an exercise. The reference and the known mistakes live elsewhere.

    Attributes:
        name: the name that the learner binds.
        probe: `probe(answer, **inputs)` runs an answer and returns what was observed; it knows no right answer.
        cases: returns the cases, drawn with a fixed seed for the notebook and with other seeds in grading.
        hints: three, each a question or a pointer, never the answer.
        any_device: whether answers are checked on an accelerator as well.
        forbids: torch calls that the answer may not make; see `CallWatch`.
        derive: turns raw observations into the properties that are compared; runs outside the learner's process.
        quotes: further fields for the sentences that explain mistakes.
        seconds: the time limit of one check.
        measures: whether the probe looks at what a call costs, in operators or in memory. In such an exercise, and in
            one that forbids calls, an answer may start no threads, processes or profilers.
        ground_truth: what PyTorch itself does with the inputs of an answer. If given, an answer has to agree with it
            and not with the reference, which is then examined like any other answer.
        interview: the question behind the exercise; cards show it with its answer after passing.
        imports: modules that answers or the probe import and that take long to load. They are loaded before the time
            limit begins, which could otherwise interrupt an import and leave half a module behind.
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
    measures: bool = False
    ground_truth: Answer | None = None
    interview: InterviewQuestion | None = None
    imports: tuple[str, ...] = ()

    @property
    def derives(self) -> bool:
        """Whether properties are compared in place of what was observed."""
        return self.derive is not _as_seen

    @property
    def has_rules(self) -> bool:
        """Whether the calls of answers are watched."""
        return bool(self.forbids) or self.measures
