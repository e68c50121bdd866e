"""The exercise `global_mean`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Sums and counts can be added over ranks, means cannot: a mean forgets how many samples it stands for. Both travel "
    "in one float64 tensor, one exchange, and the division comes after it, on all ranks from the same two numbers. So "
    "a rank without samples divides by nothing of its own."
)
"""Why the reference is written as it is."""
REQUIRED = ("averages-rank-means", "rank-zero-only", "divides-by-zero")
"""The mistakes that a check must always be able to name."""

SHARDS = "Shards of 3 and 1"


def summed(total: float, count: float, dtype: torch.dtype = torch.float64) -> list[float]:
    both = torch.tensor([total, count], dtype=dtype)
    dist.all_reduce(both)
    found: list[float] = both.tolist()
    return found


def right(total: float, count: float) -> float:
    total, count = summed(total, count)
    return total / count if count else math.nan


def mean_of_means(total: float, count: int) -> float:
    mean, ranks = summed(total / count if count else 0.0, 1)
    return mean / ranks if summed(0.0, count)[1] else math.nan


def mean_of_means_that_fails(total: float, count: int) -> float:
    mean, ranks = summed(total / count, 1)
    return mean / ranks


def mean_of_means_where_there_are_samples(total: float, count: int) -> float:
    mean, ranks = summed(total / count if count else 0.0, float(count > 0))
    return mean / ranks if ranks else math.nan


def own_mean(total: float, count: int) -> float:
    return total / count if count else math.nan


def reduced_to_rank_zero(total: float, count: int) -> float:
    both = torch.tensor([total, count], dtype=torch.float64)
    dist.reduce(both, 0)
    if dist.get_rank() == 0:
        return both[0].item() / both[1].item() if both[1] else math.nan
    return total / count if count else math.nan


def rank_zero_returns_it(total: float, count: int) -> Any:
    total, count = summed(total, count)  # type: ignore[assignment]
    if dist.get_rank() == 0:
        return total / count if count else math.nan
    return None


def rank_zero_alone_asks(total: float, count: int) -> Any:
    if dist.get_rank() == 0:
        total, count = summed(total, count)  # type: ignore[assignment]
    return total / count if count else math.nan


def divides_first(total: float, count: int) -> float:
    total, count = summed(total, count)  # type: ignore[assignment]
    return total / count


def zero_for_nothing(total: float, count: int) -> float:
    total, count = summed(total, count)  # type: ignore[assignment]
    return total / max(count, 1)


def in_float32(total: float, count: int) -> float:
    total, count = summed(total, count, torch.float32)  # type: ignore[assignment]
    return total / count if count else math.nan


def rounded_to_float32(total: float, count: int) -> float:
    both = torch.tensor([total, float(count)]).double()  # a Python float becomes float32 at first
    dist.all_reduce(both)
    return (both[0] / both[1]).item()


def divided_in_float32(total: float, count: int) -> float:
    both = torch.tensor(summed(total, count, torch.float32), dtype=torch.float32)
    return (both[0] / both[1]).item()


def counted_in_float32(total: float, count: int) -> float:
    counts = torch.tensor(float(count))
    dist.all_reduce(counts)
    return summed(total, 0)[0] / counts.item() if counts else math.nan


def nan_for_zero(total: float, count: int) -> float:
    both = torch.tensor(summed(total, count), dtype=torch.float64)
    return (both[0] / both[1]).item() if both.all() else math.nan


def as_tensor(total: float, count: int) -> Any:
    total, count = summed(total, count)  # type: ignore[assignment]
    return torch.tensor(total / count if count else math.nan)


def as_tensor_where_all_have_samples(total: float, count: int) -> Any:
    """Return a tensor as far as an answer shows it that fails where a rank has no samples."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, count)
    return as_tensor(total, count) if all(everyone) else right(total, count)


def leaves_without_samples(total: float, count: int) -> float:
    return right(total, count) if count else math.nan


MEANS = (
    'In the case "{case}" the ranks have {n0} and {n1} samples that add up to {t0} and {t1}; the mean came out as '
    "{mean0} where {right} is wanted: "
)
OTHERS = 'In the case "{case}" rank 0 says {mean0} and rank 1 says {mean1}, and {right} is wanted on both: '
NOTHING = (
    'In the case "{case}" the call raised {error}: the ranks have {n0} and {n1} samples, and a mean of nothing is '
)
MISTAKES = [
    Mistake("averages-rank-means", mean_of_means, MEANS + "the ranks' means were averaged, so each sample of the "
            "smaller share counts more.", SHARDS),
    Mistake("averages-rank-means", mean_of_means_where_there_are_samples, MEANS + "the ranks' means were averaged, so "
            "each sample of the smaller share counts more.", SHARDS),
    Mistake("averages-rank-means", mean_of_means_that_fails, MEANS + "the ranks' means were averaged, and a rank "
            "without samples has none.", SHARDS),
    Mistake("no-exchange", own_mean, OTHERS + "each rank gave the mean of its own samples.", SHARDS),
    Mistake("rank-zero-only", reduced_to_rank_zero, OTHERS + "only rank 0 has it, as after `reduce`; `all_reduce` "
            "gives it to all ranks.", SHARDS),
    Mistake("rank-zero-only", rank_zero_returns_it, 'In the case "{case}" rank 0 says {mean0}, but rank 1 returned '
            'nothing where {right} is wanted: every rank has to return the mean, since each of them may have to stop '
            'on it.', SHARDS),
    Mistake("called-by-rank-zero-only", rank_zero_alone_asks, 'In the case "{case}" rank 0 is {ended0}. It waits '
            "for rank 1, which never makes the call: a collective is for all ranks.", SHARDS),
    Mistake("leaves-before-the-exchange", leaves_without_samples, 'In the case "{case}" the ranks have {n0} and {n1} '
            "samples, and rank {who} is {ended}. A rank without samples returned early, and the other waits for it. "
            "All ranks have to make the same calls.", SHARDS),
    Mistake("divides-by-zero", divides_first, NOTHING + "nan here.", SHARDS),
    Mistake("zero-for-nothing", zero_for_nothing, MEANS + "0 looks like a measurement, and nan says that there is "
            "none.", SHARDS),
    Mistake("adds-in-float32", in_float32, MEANS + "float32 has no 2**24 + 1, so add counts and sums in float64.",
            SHARDS),
    Mistake("adds-in-float32", divided_in_float32, MEANS + "float32 has no 2**24 + 1, so add counts and sums in "
            "float64.", SHARDS),
    Mistake("adds-in-float32", rounded_to_float32, MEANS + "`torch.tensor` makes float32 of a Python float, and "
            "float32 has no 2**24 + 1: ask for float64 there.", SHARDS),
    Mistake("adds-in-float32", counted_in_float32, MEANS + "float32 cannot hold 2**24 + 1, so the count lost one: send "
            "counts in float64, too.", SHARDS),
    Mistake("nan-for-zero", nan_for_zero, MEANS + "a sum of 0 was taken for a lack of samples, but only the count "
            "tells that.", SHARDS),
    Mistake("returns-tensor", as_tensor, 'In the case "{case}" `{what}` is {got}: a Python float is wanted.', SHARDS),
    Mistake("returns-tensor", as_tensor_where_all_have_samples, 'In the case "{case}" `{what}` is {got}: a Python '
            "float is wanted.", SHARDS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    exactly = {"rtol": 1e-9, "atol": 1e-12}
    counts = [draw.size(1, 100), draw.size(101, 900)]
    return [
        case("drawn", totals=[float(x) for x in draw.normal(2)], counts=counts, **exactly),
        case("rank 1 without samples", totals=[-7.25, 0.0], counts=[draw.size(2, 9), 0], **exactly),
        case("an infinite total", totals=[float("inf"), 1.0], counts=counts, **exactly),
        case("totals that are ints", totals=[draw.size(1, 9), draw.size(10, 99)], counts=counts, **exactly),
    ]


# Right answers unlike the reference


def mean_of_objects(total: float, count: int) -> float:
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (total, count))
    totals, counts = zip(*everyone, strict=True)
    return math.fsum(totals) / sum(counts) if any(counts) else float("nan")


def mean_by_gathering(total: float, count: int) -> float:
    mine = torch.tensor([float(total), float(count)], dtype=torch.float64)
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine)
    sums = torch.stack(parts).sum(dim=0)
    return float(sums[0] / sums[1])


RIGHT_ANSWERS: list[Callable[..., Any]] = [mean_of_objects, mean_by_gathering]
