"""The exercise `ddp_gradient`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import chain
from typing import Any

from autograde.source.mistakes import Mistake
from torchcourse.exercises.quizzes.ddp_gradient import Shards
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Two means, over different things: DDP takes the mean over ranks of a mean over samples, the whole batch is one "
    "mean over all samples. They agree exactly where the inner ones are over equally many."
)
"""Why the reference is written as it is."""
REQUIRED = ("always-equal", "sums-over-ranks", "weights-by-samples")
"""The mistakes that a check must always be able to name."""

SECTION = "The gradient of many ranks"


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def together(shards: Shards) -> float:
    return mean([sample for shard in shards for sample in shard])


def averaged(shards: Shards) -> float:
    return mean([mean(shard) for shard in shards])


def always_equal(shards: Shards) -> tuple[float, float]:
    return averaged(shards), averaged(shards)


def weights_by_samples(shards: Shards) -> tuple[float, float]:
    return together(shards), together(shards)


def sums_over_ranks(shards: Shards) -> tuple[float, float]:
    return sum(mean(shard) for shard in shards), together(shards)


def sums_within_ranks(shards: Shards) -> tuple[float, float]:
    return mean([sum(shard) for shard in shards]), together(shards)


def always_two_ranks(shards: Shards) -> tuple[float, float]:
    return sum(mean(shard) for shard in shards) / 2, together(shards)


def whole_is_a_sum(shards: Shards) -> tuple[float, float]:
    return averaged(shards), sum(map(sum, shards))


def whole_by_ranks(shards: Shards) -> tuple[float, float]:
    return averaged(shards), sum(map(sum, shards)) / len(shards)


def swapped(shards: Shards) -> tuple[float, float]:
    return together(shards), averaged(shards)


def first_rank_only(shards: Shards) -> tuple[float, float]:
    return mean(shards[0]), together(shards)


RUN = "PyTorch runs `{run}` and {said}; for `{what}` you predict {got}: "
MISTAKES = [
    Mistake("always-equal", always_equal, RUN + "in one batch each sample counts the same, whichever rank held it.",
            SECTION),
    Mistake("weights-by-samples", weights_by_samples, RUN + "DDP does not know how many samples a rank has; each rank "
            "counts the same.", SECTION),
    Mistake("sums-over-ranks", sums_over_ranks, RUN + "DDP divides by the number of ranks.", SECTION),
    Mistake("always-two-ranks", always_two_ranks, RUN + "DDP divides by the number of ranks, and not always by two.",
            SECTION),
    Mistake("sums-within-ranks", sums_within_ranks, RUN + "each rank's loss is a mean over its samples.", SECTION),
    Mistake("whole-is-a-sum", whole_is_a_sum, RUN + "the loss of the whole batch is a mean too.", SECTION),
    Mistake("whole-divided-by-ranks", whole_by_ranks, RUN + "the whole batch has as many samples as all ranks "
            "together, and its loss is a mean over them.", SECTION),
    Mistake("swapped", swapped, RUN + "the mean of the ranks' means is DDP's, and comes first.", SECTION),
    Mistake("one-rank-decides", first_rank_only, RUN + "all ranks contribute.", SECTION),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        case(
            f"drawn {n}",
            shards=[[float(draw.size(-9, 9)) for _ in range(draw.size(1, 6))] for _ in range(draw.size(1, 5))],
        )
        for n in range(10)
    ]


# Right answers unlike the reference


def by_statistics(shards: Shards) -> tuple[float, float]:
    return statistics.fmean(map(statistics.fmean, shards)), statistics.fmean(chain(*shards))


def by_adding_up(shards: Shards) -> list[float]:
    ddp = total = count = 0.0
    for shard in shards:
        for sample in shard:
            ddp += sample / len(shard) / len(shards)
            total += sample
            count += 1
    return [ddp, total / count]


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_statistics, by_adding_up]
