"""The exercise `average_checkpoints`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.exercises.persistence.average_checkpoints import averaged_states
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The mean is taken in float32 and brought back at the end: summed in float16, large weights overflow and "
    "small ones vanish. What has no mean, such as a counter, comes from the last file. Nothing but weights is "
    "loaded."
)
"""Why the reference is written as it is."""
REQUIRED = ("accumulates-in-half", "averages-integers")
"""The mistakes that a check must always be able to name."""


State = dict[str, Tensor]


def loaded(paths: list[Path]) -> list[State]:
    return [torch.load(path, map_location="cpu", weights_only=True) for path in paths]


def with_mean(paths: list[Path], mean: Callable[[list[Tensor]], Tensor]) -> State:
    """The last file, with this mean of all files in place of each entry of floats."""
    states = loaded(paths)
    floats = [name for name, last in states[-1].items() if last.is_floating_point()]
    return states[-1] | {name: mean([state[name] for state in states]) for name in floats}


def wide_mean(values: list[Tensor]) -> Tensor:
    return torch.stack([value.float() for value in values]).sum(0) / len(values)


def leaves_out_single_numbers(paths: list[Path]) -> State:
    averaged, last = with_mean(paths, lambda values: wide_mean(values).to(values[0].dtype)), loaded(paths)[-1]
    return averaged | {name: value for name, value in last.items() if not value.ndim}


def leaves_out_float64(paths: list[Path]) -> State:
    averaged, last = with_mean(paths, lambda values: wide_mean(values).to(values[0].dtype)), loaded(paths)[-1]
    return averaged | {name: value for name, value in last.items() if value.dtype == torch.float64}


def accumulates_in_half(paths: list[Path]) -> State:
    def mean(values: list[Tensor]) -> Tensor:
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total / len(values)

    return with_mean(paths, mean)


def casts_the_sum(paths: list[Path]) -> State:
    def mean(values: list[Tensor]) -> Tensor:
        total = torch.stack([value.float() for value in values]).sum(0)
        return total.to(values[0].dtype) / len(values)

    return with_mean(paths, mean)


def divides_first(paths: list[Path]) -> State:
    def mean(values: list[Tensor]) -> Tensor:
        total = torch.zeros_like(values[0])
        for value in values:
            total = total + value / len(values)
        return total

    return with_mean(paths, mean)


def runs_a_mean_in_half(paths: list[Path]) -> State:
    def mean(values: list[Tensor]) -> Tensor:
        running = values[0]
        for number, value in enumerate(values[1:], 2):
            running = running + (value - running) / number
        return running

    return with_mean(paths, mean)


def leaves_nan_out(paths: list[Path]) -> State:
    return with_mean(paths, lambda values: torch.stack([v.float() for v in values]).nanmean(0).to(values[0].dtype))


def halves_again_and_again(paths: list[Path]) -> State:
    def mean(values: list[Tensor]) -> Tensor:
        running = values[0].float()
        for value in values[1:]:
            running = (running + value.float()) / 2
        return running.to(values[0].dtype)

    return with_mean(paths, mean)


def divides_by_one_more(paths: list[Path]) -> State:
    def mean(values: list[Tensor]) -> Tensor:
        return (wide_mean(values) * len(values) / (len(values) + 1)).to(values[0].dtype)

    return with_mean(paths, mean)


def adds_in_place(paths: list[Path], divide: Callable[[Tensor, int], Tensor] = torch.div) -> State:
    first, *others = loaded(paths)
    sums = {name: value.float() if value.is_floating_point() else value for name, value in first.items()}
    for state in others:
        for name, value in state.items():
            if value.is_floating_point():
                sums[name] += value
            else:
                sums[name] = value
    floats = [name for name, value in first.items() if value.is_floating_point()]
    return sums | {name: divide(sums[name], len(paths)).to(first[name].dtype) for name in floats}


def never_casts_back(paths: list[Path]) -> State:
    return with_mean(paths, wide_mean)


def averages_integers(paths: list[Path]) -> State:
    states = loaded(paths)
    return {name: wide_mean([state[name] for state in states]).to(last.dtype) for name, last in states[-1].items()}


def averages_all_in_float32(paths: list[Path]) -> State:
    states = loaded(paths)
    return {name: wide_mean([state[name] for state in states]) for name in states[-1]}


def takes_integers_from_the_first(paths: list[Path]) -> State:
    first, means = loaded(paths)[0], averages_integers(paths)
    return {name: means[name] if tensor.is_floating_point() else tensor for name, tensor in first.items()}


AVERAGES = "Averages of weights"
ENTRY = "The entry {entry} came out as {value} where {want_value} is wanted: "
IN_HALF = ENTRY + "the sum was formed in the files' own dtype, which has too small a range or too few digits for it."
MISTAKES = [
    Mistake("accumulates-in-half", accumulates_in_half, IN_HALF, AVERAGES),
    Mistake("adds-tied-twice", adds_in_place, ENTRY + "two names may stand for one tensor, as with tied weights, and "
            "what is added in place to one is added to the other as well.", AVERAGES),
    Mistake("adds-tied-twice", partial(adds_in_place, divide=Tensor.div_), ENTRY + "two names may stand for one "
            "tensor, as with tied weights, and what is added or divided in place is changed once for each.", AVERAGES),
    Mistake("averages-integers", averages_integers, ENTRY + "counters and masks have no mean, and come from the last "
            "file.", AVERAGES),
    Mistake("averages-integers", averages_all_in_float32, ENTRY + "counters and masks have no mean, and come from "
            "the last file. And every mean is cast back to the dtype of its entry.", AVERAGES),
    Mistake("not-cast-back", never_casts_back, "The entry {cast} came out in {dtype} where {want_dtype} is wanted: "
            "every mean is cast back to the dtype of its entry.", AVERAGES),
    Mistake("cast-before-dividing", casts_the_sum, ENTRY + "the sum was brought to the files' own dtype, which has no "
            "room for it, and only then divided.", AVERAGES),
    Mistake("accumulates-in-half", divides_first, IN_HALF + " Dividing first helps with the range, but not with the "
            "digits.", AVERAGES),
    Mistake("accumulates-in-half", runs_a_mean_in_half, IN_HALF + " A running mean helps with the range, but not "
            "with the digits.",
            AVERAGES),
    Mistake("integers-of-the-first-file", takes_integers_from_the_first, ENTRY + "what has no mean comes from the last "
            "file, not from the first.", AVERAGES),
    Mistake("forgets-some-floats", leaves_out_single_numbers, ENTRY + "it was not averaged. A float entry may have "
            "any shape, even no dimensions, and any float dtype.", AVERAGES),
    Mistake("forgets-some-floats", leaves_out_float64, ENTRY + "it was not averaged. A float entry may have any "
            "shape, even no dimensions, and any float dtype.", AVERAGES),
    Mistake("leaves-nan-out", leaves_nan_out, 'In the case "{case}" `{what}` is {got} where {want} is wanted: a NaN '
            "in one file makes the mean NaN. If it is left out, nobody learns that a file is broken.", AVERAGES),
    Mistake("halves-again-and-again", halves_again_and_again, ENTRY + "adding each file by half gives the last one "
            "half of all the weight.", AVERAGES),
    Mistake("not-divided-by-the-number", divides_by_one_more, ENTRY + "the sum was divided by some number other than "
            "that of the files.", AVERAGES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    count = draw.size(4, 9)
    return [
        case("drawn files", states=averaged_states(draw, count, torch.float32, 5.0)),
        case("float16, drawn files", rtol=3e-3, states=averaged_states(draw, count, torch.float16, 2.5e4)),
    ]


# Right answers unlike the reference


def average_step_by_step(paths: list[Path]) -> dict[str, Tensor]:
    total: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    for path in paths:
        last = torch.load(path, weights_only=True)
        for name, tensor in last.items():
            if tensor.dtype.is_floating_point:
                wide = tensor.to(torch.float32)
                total[name] = total[name] + wide if name in total else wide
    return {n: (total[n] / len(paths)).type(t.dtype) if n in total else t for n, t in last.items()}


def average_by_stacking(paths: list[Path]) -> dict[str, Tensor]:
    states = [torch.load(str(p), map_location="cpu") for p in paths]
    result = {}
    for name in states[0]:
        stacked = torch.stack([s[name] for s in states])
        result[name] = stacked.float().mean(0).to(stacked.dtype) if stacked.is_floating_point() else stacked[-1]
    return result


RIGHT_ANSWERS: list[Callable[..., Any]] = [average_step_by_step, average_by_stacking]
