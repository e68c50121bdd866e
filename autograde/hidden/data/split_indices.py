"""The exercise `split_indices`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch.utils.data import random_split

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "One shuffle, then cuts: no index can be in two parts. The ends are rounded sums and not sums of rounded "
    "parts, so nothing is lost at the end. A generator of its own leaves everybody else's random numbers alone."
)
"""Why the reference is written as it is."""
REQUIRED = ("unshuffled", "reseeds-global-rng", "loses-samples")
"""The mistakes that a check must always be able to name."""


Split = list[list[int]]


def refuse_bad(fractions: list[float]) -> None:
    if abs(sum(fractions) - 1) > 1e-6:
        raise ValueError(f"fractions sum to {sum(fractions):.6g}, not to 1")


def shuffled(n: int, seed: int) -> list[int]:
    order = list(range(n))
    random.Random(seed).shuffle(order)
    return order


def borders(n: int, fractions: list[float]) -> list[int]:
    return [round(n * sum(fractions[:i])) for i in range(len(fractions) + 1)]


def cut(order: list[int], fractions: list[float]) -> Split:
    at = borders(len(order), fractions)
    return [order[start:end] for start, end in itertools.pairwise(at)]


def right(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    return cut(shuffled(n, seed), fractions)


# Mistakes in the order


def unshuffled(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    return cut(list(range(n)), fractions)


def shuffled_after_the_cut(n: int, fractions: list[float], seed: int) -> Split:
    parts, rng = unshuffled(n, fractions, seed), random.Random(seed)
    for part in parts:
        rng.shuffle(part)
    return parts


def reseeds_torch(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    torch.manual_seed(seed)
    return cut(torch.randperm(n).tolist(), fractions)


def reseeds_torch_and_puts_the_state_back(n: int, fractions: list[float], seed: int) -> Split:
    state = torch.get_rng_state()
    parts = reseeds_torch(n, fractions, seed)
    torch.set_rng_state(state)
    return parts


def reseeds_random(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    random.seed(seed)
    order = list(range(n))
    random.shuffle(order)
    return cut(order, fractions)


def reseeds_numpy(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    np.random.seed(seed)
    return cut(np.random.permutation(n).tolist(), fractions)


def seed_ignored(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    order = list(range(n))
    random.shuffle(order)
    return cut(order, fractions)


def always_seed_42(n: int, fractions: list[float], seed: int) -> Split:
    return right(n, fractions, seed=42)


# Mistakes in cutting


def rounds_every_size_down(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    order, start, parts = shuffled(n, seed), 0, []
    for fraction in fractions:
        size = int(n * fraction)
        parts.append(order[start : start + size])
        start += size
    return parts


def rounds_the_borders_down(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    order, at = shuffled(n, seed), [int(n * sum(fractions[:i])) for i in range(len(fractions) + 1)]
    return [order[start:end] for start, end in itertools.pairwise(at)]


def cuts_one_too_early(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    order, (_, *inner, _) = shuffled(n, seed), borders(n, fractions)
    return [order[start:end] for start, end in itertools.pairwise([0, *(max(0, at - 1) for at in inner), n])]


def leaves_gaps(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    order, at = shuffled(n, seed), borders(n, fractions)
    return [order[start + (start > 0) : end] for start, end in itertools.pairwise(at)]


def overlaps(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    order, at = shuffled(n, seed), borders(n, fractions)
    return [order[max(start - 1, 0) : end] for start, end in itertools.pairwise(at)]


def draws_each_part_anew(n: int, fractions: list[float], seed: int) -> Split:
    refuse_bad(fractions)
    at = borders(n, fractions)
    return [shuffled(n, seed + i)[: end - start] for i, (start, end) in enumerate(itertools.pairwise(at))]


# Mistakes in what is refused, and in what comes back


def refuses_nothing(n: int, fractions: list[float], seed: int) -> Split:
    return cut(shuffled(n, seed), fractions)


def compares_floats_exactly(n: int, fractions: list[float], seed: int) -> Split:
    if sum(fractions) != 1:
        raise ValueError(f"fractions sum to {sum(fractions):.6g}, not to 1")
    return cut(shuffled(n, seed), fractions)


def rounds_the_sum(n: int, fractions: list[float], seed: int) -> Split:
    if round(sum(fractions), 1) != 1:
        raise ValueError(f"fractions sum to {sum(fractions):.6g}, not to 1")
    return cut(shuffled(n, seed), fractions)


def says_bad_input(n: int, fractions: list[float], seed: int) -> Split:
    if abs(sum(fractions) - 1) > 1e-6:
        raise ValueError("bad input")
    return cut(shuffled(n, seed), fractions)


def returns_tensors(n: int, fractions: list[float], seed: int) -> Any:
    return [torch.tensor(part) for part in right(n, fractions, seed)]


SPLITS = "Splits without leakage"
RESEEDED = (
    'In the case "{case}" the call changed the state of a global generator: {generators}. Whoever draws from it '
    "afterwards gets other numbers than without the call; use a generator of your own."
)
LOST = 'In the case "{case}" {missing} of the {n} indices are in no part: '
MISTAKES = [
    Mistake("unshuffled", unshuffled, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the parts keep "
            "the order of the file, which is often sorted by date or by class.", SPLITS),
    Mistake("shuffled-after-the-cut", shuffled_after_the_cut, "In the case \"{case}\" `{what}` is {got} where {want} "
            "is wanted: the parts were cut first and shuffled only then, so each of them still holds neighbours of the "
            "file.", SPLITS),
    Mistake("reseeds-global-rng", reseeds_torch, RESEEDED, SPLITS),
    Mistake("reseeds-global-rng", reseeds_torch_and_puts_the_state_back, RESEEDED, SPLITS),
    Mistake("loses-samples", rounds_every_size_down, LOST + "each size was rounded by itself, and together "
            "they are fewer than n.", SPLITS),
    Mistake("accepts-any-fractions", refuses_nothing, "In the case \"{case}\" the outcome was {got}: fractions that do "
            "not sum to 1 have to be refused.", SPLITS),
    Mistake("accepts-nearly-1", rounds_the_sum, "In the case \"{case}\" the outcome was {got}: a tolerance is for "
            "rounding errors, but what is missing here is much more.", SPLITS),
    Mistake("cuts-one-too-early", cuts_one_too_early, "In the case \"{case}\" the sizes are {sizes}: each part ends "
            "one index too early, and the last has too many. The fractions of n are whole numbers here.", SPLITS),
    Mistake("compares-floats-exactly", compares_floats_exactly, "In the case \"{case}\" the call raised {error}: 0.7 + "
            "0.2 + 0.1 is not exactly 1 in floating point, so compare with a tolerance.", SPLITS),
    Mistake("reseeds-global-rng", reseeds_random, RESEEDED, SPLITS),
    Mistake("reseeds-global-rng", reseeds_numpy, RESEEDED, SPLITS),
    Mistake("loses-samples", leaves_gaps, LOST + "each part has to begin where the one before ended.", SPLITS),
    Mistake("loses-samples", rounds_the_borders_down, LOST + "the fractions add up to a little less than 1 in floating "
            "point, and the last cut was rounded down.", SPLITS),
    Mistake("parts-overlap", overlaps, "In the case \"{case}\" {twice} of the indices are in two parts: a test on "
            "samples that were trained on says nothing.", SPLITS),
    Mistake("seed-ignored", seed_ignored, "In the case \"{case}\" a second call with the same seed gave {got}: the "
            "split has to depend on `seed` and on nothing else.", SPLITS),
    Mistake("same-split-for-every-seed", always_seed_42, "In the case \"{case}\" another seed gave {got}: the "
            "shuffling has to use `seed`.", SPLITS),
    Mistake("returns-tensors", returns_tensors, "The call returned {returned}.", SPLITS),
    Mistake("says-not-what-is-wrong", says_bad_input, "In the case \"{case}\" the outcome was {error}. The message "
            "should name `fractions` and say what they are or what they sum to.", SPLITS),
    Mistake("parts-overlap", draws_each_part_anew, "In the case \"{case}\" {twice} indices are in several parts and "
            "{missing} in none: each part was drawn for itself.", SPLITS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(200, 400)
    return [
        case("seven parts", n=n, fractions=[0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1], seed=draw.size(100, 10_000)),
        case("thirds", n=n, fractions=[1 / 3] * 3, seed=1),
        case("nothing to split", n=0, fractions=[0.5, 0.5], seed=2),
        case("a large seed", n=50, fractions=[0.9, 0.1], seed=2**31 - 5),
        case("fractions that sum to 0.5", n=n, fractions=[0.25, 0.25], seed=3),
    ]


# Right answers unlike the reference


def split_with_random(n: int, fractions: list[float], seed: int) -> list[list[int]]:
    if not math.isclose(math.fsum(fractions), 1.0, abs_tol=1e-9):
        raise ValueError(f"fractions must sum to 1, not {math.fsum(fractions)}")
    left = random.Random(seed).sample(range(n), n)
    parts = []
    for fraction in fractions[:-1]:
        take = int(fraction * n)
        parts.append(left[:take])
        left = left[take:]
    return [*parts, left]


def split_with_torch(n: int, fractions: list[float], seed: int) -> list[list[int]]:
    total = sum(Fraction(f).limit_denominator(10_000) for f in fractions)
    if total != 1:
        raise RuntimeError(f"the given fractions {fractions} sum to {float(total)}")
    if n == 0:
        return [[] for _ in fractions]
    generator = torch.Generator()
    generator.manual_seed(seed)
    parts: Any = random_split(range(n), fractions, generator)  # type: ignore[arg-type]
    return [list(part.indices) for part in parts]


def split_with_numpy(n: int, fractions: list[float], seed: int) -> list[list[int]]:
    assert abs(1 - sum(fractions)) < 1e-8, f"fractions sum to {sum(fractions)}"
    order = np.random.default_rng(seed).permutation(n)
    cuts = np.round(np.cumsum(fractions)[:-1] * n).astype(int)
    return [sorted(part.tolist()) for part in np.split(order, cuts)]


RIGHT_ANSWERS: list[Callable[..., Any]] = [split_with_random, split_with_torch, split_with_numpy]
