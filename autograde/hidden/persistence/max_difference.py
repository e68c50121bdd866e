"""The exercise `max_difference`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Equal infinities have the difference NaN, so what is equal is taken out before subtracting; a NaN on one "
    "side only is the largest difference of all. Shapes are compared first, because broadcasting would hide "
    "that they differ."
)
"""Why the reference is written as it is."""
REQUIRED = ("mean-hides-outlier", "nan-ignored", "broadcasts-silently")
"""The mistakes that a check must always be able to name."""


Function = Callable[[Tensor], Tensor]


class Difference:
    """A right answer, as an object that is called. Each mistake below is this one with one method written otherwise."""

    def __call__(self, reference: Function, candidate: Function, inputs: list[Tensor]) -> Any:
        gaps = [self.worst(self.gap(*self.checked(reference(x), candidate(x)))) for x in inputs]
        return self.over_all(torch.stack(gaps)).item()

    def checked(self, wanted: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
        if wanted.shape != found.shape:
            raise ValueError(f"{wanted.shape} and {found.shape}")
        return wanted.double(), found.double()

    def gap(self, wanted: Tensor, found: Tensor) -> Tensor:
        both = wanted.isnan() & found.isnan()
        gap = (wanted - found).abs()
        return gap.masked_fill(gap.isnan(), math.inf).masked_fill(both, 0)

    def worst(self, gap: Tensor) -> Tensor:
        return gap.max()

    def over_all(self, gaps: Tensor) -> Tensor:
        return gaps.max()


class MeanOfEntries(Difference):
    def worst(self, gap: Tensor) -> Tensor:
        return gap.mean()


class MeanOfInputs(Difference):
    def over_all(self, gaps: Tensor) -> Tensor:
        return gaps.mean()


class MeanOfEverything(MeanOfEntries, MeanOfInputs): ...


class Norm(Difference):
    def worst(self, gap: Tensor) -> Tensor:
        return gap.square().sum().sqrt()


class IgnoresNan(Difference):
    def gap(self, wanted: Tensor, found: Tensor) -> Tensor:
        return (wanted - found).abs().nan_to_num(nan=0.0)


class ReplacesNan(Difference):
    def gap(self, wanted: Tensor, found: Tensor) -> Tensor:
        return (wanted.nan_to_num() - found.nan_to_num()).abs()


class PassesNanOn(Difference):
    def gap(self, wanted: Tensor, found: Tensor) -> Tensor:
        return (wanted - found).abs()


class NanNeverEqual(Difference):
    def gap(self, wanted: Tensor, found: Tensor) -> Tensor:
        gap = (wanted - found).abs()
        return gap.masked_fill(gap.isnan(), math.inf)


class Signed(Difference):
    def gap(self, wanted: Tensor, found: Tensor) -> Tensor:
        both = wanted.isnan() & found.isnan()
        gap = wanted - found
        return gap.masked_fill(gap.isnan(), math.inf).masked_fill(both, 0)


class Broadcasts(Difference):
    def checked(self, wanted: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
        return wanted.double(), found.double()


class FillsIntegers(Difference):
    def checked(self, wanted: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
        super().checked(wanted, found)
        return wanted, found


class SubtractsIntegers(FillsIntegers):
    def gap(self, wanted: Tensor, found: Tensor) -> Tensor:
        if bool((wanted.isnan() != found.isnan()).any()):
            return torch.tensor(math.inf)
        return (wanted - found).abs().nan_to_num(nan=0.0)

    def over_all(self, gaps: Tensor) -> Tensor:
        return super().over_all(gaps).double()


class TakesFloat32(Difference):
    def checked(self, wanted: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
        wanted, found = super().checked(wanted, found)
        return wanted.float(), found.float()


class LeavesFloats(Difference):
    def checked(self, wanted: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
        floats = wanted.is_floating_point()
        wide = super().checked(wanted, found)
        return (wanted, found) if floats else wide

    def over_all(self, gaps: Tensor) -> Tensor:
        return super().over_all(gaps).double()


class ThroughNumpy(Difference):
    def checked(self, wanted: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
        super().checked(wanted, found)
        return torch.from_numpy(wanted.numpy()).double(), torch.from_numpy(found.numpy()).double()


class LastInputOnly(Difference):
    def over_all(self, gaps: Tensor) -> Tensor:
        return gaps[-1]


class FirstInputOnly(Difference):
    def over_all(self, gaps: Tensor) -> Tensor:
        return gaps[0]


class ReturnsTensor(Difference):
    def __call__(self, reference: Function, candidate: Function, inputs: list[Tensor]) -> Any:
        return torch.tensor(super().__call__(reference, candidate, inputs), dtype=torch.float64)


def compares_in_python(reference: Function, candidate: Function, inputs: list[Tensor]) -> float:
    """A comparison with NaN is false, so `max` passes over it."""
    largest = 0.0
    for x in inputs:
        wanted, found = reference(x), candidate(x)
        if wanted.shape != found.shape:
            raise ValueError(f"{wanted.shape} and {found.shape}")
        for gap in (wanted.double() - found.double()).abs().flatten().tolist():
            largest = max(largest, gap)
    return largest


PARITY = "Parity before export"
FOUND = "The difference came out as {found} where {meant} is wanted: "
MEAN = FOUND + "a mean hides the one entry that is far off."
IGNORED = FOUND + "a NaN on one side alone is as wrong as can be, and it was passed over."
ONE_INPUT = FOUND + "either it is that of one input alone, or not the largest. All entries of all inputs count."
MISTAKES = [
    Mistake("mean-hides-outlier", MeanOfEntries(), MEAN, PARITY),
    Mistake("takes-a-norm", Norm(), FOUND + "a norm adds up all entries, but the largest single difference is meant.",
            PARITY),
    Mistake("nan-ignored", IgnoresNan(), IGNORED, PARITY),
    Mistake("nan-ignored", ReplacesNan(), FOUND + "a number, such as 0, was put in place of NaN and compared with the "
            "other side. NaN on one side alone is as wrong as can be.", PARITY),
    Mistake("broadcasts-silently", Broadcasts(), "Outputs of two different shapes gave {refused}: subtraction "
            "broadcasts them to a common shape, which nobody meant.", PARITY),
    Mistake("signed", Signed(), FOUND + "without abs, what is too low counts as no difference.", PARITY),
    Mistake("nan-ignored", compares_in_python, IGNORED, PARITY),
    Mistake("mean-hides-outlier", MeanOfInputs(), MEAN, PARITY),
    Mistake("mean-hides-outlier", MeanOfEverything(), MEAN, PARITY),
    Mistake("nan-propagates", PassesNanOn(), FOUND + "NaN against NaN counts as 0, and NaN against a number as inf.",
            PARITY),
    Mistake("nan-never-equal", NanNeverEqual(), FOUND + "both sides have NaN in the same place, so they agree there.",
            PARITY),
    Mistake("wraps-around", SubtractsIntegers(), FOUND + "the outputs of the case \"{case}\" are integers without a "
            "sign, and what is below zero wraps around; subtract them as floats.", PARITY),
    Mistake("wraps-around", FillsIntegers(), "In the case \"{case}\" the call raised {error}: integers have no inf, "
            "and what is below zero wraps around; subtract them as floats.", PARITY),
    Mistake("subtracts-in-float32", TakesFloat32(), FOUND + "in the case \"{case}\" there are integers above "
            "2**24, and float32 does not hold all of these. float64 does.", PARITY),
    Mistake("overflows-in-half", LeavesFloats(), FOUND + "the outputs are float16, and so was their difference, which "
            "has no room for it. Subtract in float64.", PARITY),
    Mistake("through-numpy", ThroughNumpy(), "In the case \"{case}\" the call raised {error}: NumPy takes no tensors "
            "that are part of a graph; detach them, or subtract them in torch.", PARITY),
    Mistake("one-input-only", LastInputOnly(), ONE_INPUT, PARITY),
    Mistake("one-input-only", FirstInputOnly(), ONE_INPUT, PARITY),
    Mistake("returns-tensor", ReturnsTensor(), "The call returned {returned}, and a Python float is wanted.", PARITY),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 6)
    high = [draw.normal(n, 2) for _ in range(4)]
    low = [out - (k == 2) * draw.uniform(2.0, 3.0, n, 2) for k, out in enumerate(high)]
    return [
        case("four inputs, the third is off", reference=high, candidate=low, refused=False),
        case("one number each", reference=[draw.normal(1)], candidate=[draw.normal(1)], refused=False),
        case("in double precision", rtol=1e-9, atol=0.0, reference=[draw.normal(n, dtype=torch.float64)],
             candidate=[draw.normal(n, dtype=torch.float64)], refused=False),
        case("a number and a table", reference=[draw.normal(n, n)], candidate=[draw.normal(1)], refused=True),
    ]  # fmt: skip


# Right answers unlike the reference


def difference_by_numpy(reference: Any, candidate: Any, inputs: list[Tensor]) -> float:
    worst = 0.0
    for x in inputs:
        a, b = (f(x).detach().numpy().astype(np.float64) for f in (reference, candidate))
        assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
        gap = np.abs(a - b)
        gap[np.isnan(a) & np.isnan(b)] = 0
        gap[np.isnan(gap)] = np.inf
        worst = max(worst, float(gap.max()))
    return worst


def difference_by_masks(reference: Any, candidate: Any, inputs: list[Tensor]) -> float:
    def one(x: Tensor) -> float:
        a, b = reference(x), candidate(x)
        if list(a.shape) != list(b.shape):
            raise RuntimeError("two shapes")
        if bool((a.isnan() != b.isnan()).any()):
            return float("inf")
        return torch.sub(a.double(), b.double()).abs()[~a.isnan()].max().item()

    return max(one(x) for x in inputs)


RIGHT_ANSWERS: list[Callable[..., Any]] = [difference_by_numpy, difference_by_masks]
