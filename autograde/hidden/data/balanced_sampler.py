"""The exercise `balanced_sampler`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import WeightedRandomSampler

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Each item's weight is one over the size of its class, so every class gets the same sum. Drawing with "
    "replacement is what lets a rare class come up more often than it has items."
)
"""Why the reference is written as it is."""
REQUIRED = ("one-weight-per-class", "weights-not-inverted")
"""The mistakes that a check must always be able to name."""


def counted(labels: list[int]) -> Tensor:
    return torch.bincount(torch.tensor(labels)).double()


def sampler(weights: Tensor, draws: int, seed: int, replacement: bool = True) -> WeightedRandomSampler:
    generator = torch.Generator().manual_seed(seed)
    return WeightedRandomSampler(weights.tolist(), draws, replacement=replacement, generator=generator)


def right(labels: list[int], seed: int) -> WeightedRandomSampler:
    return sampler(1 / counted(labels)[labels], len(labels), seed)


# Mistakes in the weights


def one_weight_per_class(labels: list[int], seed: int) -> WeightedRandomSampler:
    counts = counted(labels)
    return sampler(torch.where(counts > 0, 1 / counts.clamp(min=1), 0.0), len(labels), seed)


def one_weight_per_class_absent_ones_too(labels: list[int], seed: int) -> WeightedRandomSampler:
    return sampler(1 / counted(labels), len(labels), seed)


def weights_not_inverted(labels: list[int], seed: int) -> WeightedRandomSampler:
    return sampler(counted(labels)[labels], len(labels), seed)


def all_weights_equal(labels: list[int], seed: int) -> WeightedRandomSampler:
    return sampler(torch.ones(len(labels)), len(labels), seed)


def root_of_the_counts(labels: list[int], seed: int) -> WeightedRandomSampler:
    return sampler(counted(labels)[labels] ** -0.5, len(labels), seed)


def one_minus_the_share(labels: list[int], seed: int) -> WeightedRandomSampler:
    return sampler(1 - counted(labels)[labels] / len(labels), len(labels), seed)


# Mistakes in the draws


def as_many_as_the_largest_class(labels: list[int], seed: int) -> WeightedRandomSampler:
    counts = counted(labels)
    return sampler(1 / counts[labels], int(counts.max()) * len(set(labels)), seed)


def as_many_as_the_smallest_class(labels: list[int], seed: int) -> WeightedRandomSampler:
    counts = counted(labels)
    return sampler(1 / counts[labels], int(counts[counts > 0].min()) * len(set(labels)), seed)


def one_for_each_class(labels: list[int], seed: int) -> WeightedRandomSampler:
    return sampler(1 / counted(labels)[labels], len(set(labels)), seed)


def without_replacement(labels: list[int], seed: int) -> WeightedRandomSampler:
    return sampler(1 / counted(labels)[labels], len(labels), seed, replacement=False)


def reseeds_the_global_generator(labels: list[int], seed: int) -> WeightedRandomSampler:
    torch.manual_seed(seed)
    return not_seeded(labels, seed)


def not_seeded(labels: list[int], seed: int) -> WeightedRandomSampler:
    return WeightedRandomSampler((1 / counted(labels)[labels]).tolist(), len(labels))


def always_seed_0(labels: list[int], seed: int) -> WeightedRandomSampler:
    return right(labels, seed=0)


def returns_indices(labels: list[int], seed: int) -> list[int]:
    return list(right(labels, seed))


RARE = "When classes are rare"
UNEVEN = "With {counts} samples in the classes, their shares of the draws are {shares} and should be {wanted_shares}: "
DRAWS = (
    'In the case "{case}" an epoch has {draws} draws where there are {count} samples: there should be as many draws as '
    "labels."
)
MISTAKES = [
    Mistake("one-weight-per-class", one_weight_per_class, "In the case \"{case}\" the sampler does not have a weight "
            "for each of the {count} samples: it draws indices of weights, so with one weight per class only the first "
            "few samples are ever drawn.", RARE),
    Mistake("one-weight-per-class", one_weight_per_class_absent_ones_too, "In the case \"{case}\" the sampler does not "
            "have a weight for each of the {count} samples: it draws indices of weights, so with fewer weights only "
            "the first few samples are ever drawn.", RARE),
    Mistake("weights-not-inverted", weights_not_inverted, UNEVEN + "frequent classes got the larger weight, so they "
            "come even more often.", RARE),
    Mistake("wrong-number-of-draws", as_many_as_the_largest_class, DRAWS, RARE),
    Mistake("without-replacement", without_replacement, "In the case \"{case}\" `replacement` is {replacement}: then "
            "every sample is drawn once, whatever its weight.", RARE),
    Mistake("reseeds-global-rng", reseeds_the_global_generator, "In the case \"{case}\" the call changed the state of "
            "a global generator: {generators}. Give the sampler a generator of its own.", RARE),
    Mistake("all-weights-equal", all_weights_equal, UNEVEN + "all samples got the same weight.", RARE),
    Mistake("root-of-the-counts", root_of_the_counts, UNEVEN + "the root of the counts makes up for only half of the "
            "imbalance.", RARE),
    Mistake("one-minus-the-share", one_minus_the_share, UNEVEN + "1 - share is smaller for frequent classes, but it is "
            "the reciprocal that makes them equal.", RARE),
    Mistake("not-seeded", not_seeded, "In the case \"{case}\", a second call with the same seed gave {rerun}: the "
            "sampler needs a generator made from `seed`.", RARE),
    Mistake("seed-ignored", always_seed_0, "In the case \"{case}\" another seed gave {got} where {want} are wanted: "
            "make the generator from `seed`.", RARE),
    Mistake("wrong-number-of-draws", one_for_each_class, DRAWS, RARE),
    Mistake("wrong-number-of-draws", as_many_as_the_smallest_class, DRAWS, RARE),
    Mistake("returns-indices", returns_indices, "The call returned {returned}: a loader goes through its sampler anew "
            "in each epoch, so return the sampler itself.", RARE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def labels(count: int, *among: int) -> list[int]:
        return [*among, *(draw.pick(among) for _ in range(count))]

    return [
        case("one class", labels=[2] * 30, seed=draw.size(0, 99)),
        case("six classes", labels=labels(draw.size(80, 200), 0, 1, 1, 1, 2, 3, 4, 5, 5, 5), seed=draw.size(0, 99)),
        case("one sample of a class", labels=[*[0] * 50, 1], seed=draw.size(0, 99)),
    ]


# Right answers unlike the reference


def balanced_by_counter(labels: list[int], seed: int) -> Any:
    counts = Counter(labels)
    weights = [len(labels) / counts[label] for label in labels]
    return WeightedRandomSampler(weights, num_samples=len(weights), replacement=True,
                                 generator=torch.Generator().manual_seed(seed))  # fmt: skip


def balanced_by_numpy(labels: list[int], seed: int) -> Any:
    _, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    generator = torch.Generator()
    generator.manual_seed(seed)
    return WeightedRandomSampler((1.0 / counts)[place] / len(counts), len(place), generator=generator)  # type: ignore[arg-type]


RIGHT_ANSWERS: list[Callable[..., Any]] = [balanced_by_counter, balanced_by_numpy]
