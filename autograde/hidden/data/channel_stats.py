"""The exercise `channel_stats`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograde.hidden.common import one
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Sums and counts over all pixels, not means of batch means, which weigh a short last batch too much. The "
    "second pass sums squares of differences: the mean of the squares minus the square of the mean cancels "
    "where the mean is large."
)
"""Why the reference is written as it is."""
REQUIRED = ("averages-batch-statistics", "catastrophic-cancellation")
"""The mistakes that a check must always be able to name."""


PIXELS = (0, 2, 3)


def images(batches: Any) -> list[Tensor]:
    return [x.double() for x, _ in batches]


def in_their_dtype(program: Callable[..., Any]) -> Callable[..., Any]:
    """Return a program that casts what this one returns to the dtype of the images."""

    @functools.wraps(program)
    def answer(batches: Any, **options: Any) -> tuple[Tensor, ...]:
        images = [x for x, _ in batches]
        return tuple(statistic.to(images[0].dtype) for statistic in program(batches, **options))

    return answer


@in_their_dtype
def right(batches: Any) -> tuple[Tensor, Tensor]:
    joined = torch.cat(images(batches))
    return joined.mean(PIXELS), joined.std(PIXELS, correction=0)


# Mistakes in putting batches together


@in_their_dtype
def averages_the_stds(batches: Any) -> Any:
    xs = images(batches)
    mean = torch.stack([x.mean(PIXELS) for x in xs]).mean(0)
    std = torch.stack([x.std(PIXELS, correction=0) for x in xs]).mean(0)
    return mean, std


@in_their_dtype
def averages_the_variances(batches: Any, correction: int = 0) -> Any:
    xs = images(batches)
    mean = torch.stack([x.mean(PIXELS) for x in xs]).mean(0)
    variance = torch.stack([x.var(PIXELS, correction=correction) for x in xs]).mean(0)
    return mean, variance.sqrt()


@in_their_dtype
def averages_by_size(batches: Any, correction: int = 0) -> Any:
    xs = images(batches)
    count = sum(len(x) for x in xs)
    mean = torch.stack([len(x) / count * x.mean(PIXELS) for x in xs]).sum(0)
    variance = torch.stack([len(x) / count * x.var(PIXELS, correction=correction) for x in xs]).sum(0)
    return mean, variance.sqrt()


@in_their_dtype
def averages_the_moments(batches: Any, dtype: torch.dtype = torch.float64) -> Any:
    xs = [x.to(dtype) for x, _ in batches]
    mean = sum(x.mean(PIXELS) for x in xs) / len(xs)
    squares = sum((x * x).mean(PIXELS) for x in xs) / len(xs)
    return mean, (squares - mean**2).clamp(min=0).sqrt()


@in_their_dtype
def sums_squares_in_float32(batches: Any) -> Any:
    xs = [x.float() for x, _ in batches]
    count = sum(x[:, 0].numel() for x in xs)
    mean = sum(x.sum(PIXELS) for x in xs) / count
    return mean, (sum((x * x).sum(PIXELS) for x in xs) / count - mean**2).sqrt()


def first_batch_only(batches: Any) -> Any:
    return right(list(batches)[:1])


# Mistakes in one batch


def with_std(std: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
    """Return an answer that takes this std of all images, shape (n, c, h, w)."""

    @in_their_dtype
    def answer(batches: Any) -> Any:
        joined = torch.cat(images(batches))
        return joined.mean(PIXELS), std(joined)

    return answer


def over_dimensions(*dims: int) -> Callable[[Any], Any]:
    """An answer that reduces these dimensions."""

    @in_their_dtype
    def answer(batches: Any) -> Any:
        joined = torch.cat(images(batches))
        return joined.mean(dims), joined.std(dims, correction=0)

    return answer


def returns_float64(batches: Any) -> Any:
    joined = torch.cat(images(batches))
    return joined.mean(PIXELS), joined.std(PIXELS, correction=0)


def returns_float32(batches: Any) -> Any:
    return tuple(statistic.float() for statistic in returns_float64(batches))


def returns_lists(batches: Any) -> Any:
    mean, std = returns_float64(batches)
    return mean.tolist(), std.tolist()


NORMAL = "Normalisation"
AVERAGED = 'In the case "{case}" with batches of {sizes}{and_mean}{and_std}: '
MOMENTS = AVERAGED + "the batches' own means were averaged, so a small batch counts as much as a large one."
NO_AVERAGE = AVERAGED + (
    "a std of everything is not an average of the batches' stds or variances, for the batches differ in mean."
)
SHAPE = 'In the case "{case}" `{what}` has shape {got_shape} where {want_shape} is wanted: '
STD = 'In the case "{case}" the std is {std} and should be {wanted_std}: '
MISTAKES = [
    Mistake("averages-batch-statistics", averages_the_stds, AVERAGED + "the batches' own statistics were averaged, so "
            "a small batch counts as much as a large one, and their difference in mean is lost.", NORMAL),
    Mistake("sample-variance", with_std(lambda x: x.std(PIXELS)), STD + "the variance was divided by n - 1, but the "
            "population's is divided by n.", NORMAL),
    Mistake("catastrophic-cancellation", sums_squares_in_float32, STD + "E[x²] - E[x]² in float32 subtracts two "
            "numbers near 10⁸, of which only 7 digits are known.", NORMAL),
    one("averages-batch-statistics", averages_by_size, NO_AVERAGE, NORMAL),
    one("averages-batch-statistics", averages_the_variances, NO_AVERAGE, NORMAL),
    one("averages-batch-statistics", averages_by_size, NO_AVERAGE, NORMAL, correction=1),
    one("averages-batch-statistics", averages_the_variances, NO_AVERAGE, NORMAL, correction=1),
    one("averages-batch-statistics", averages_the_moments, MOMENTS, NORMAL),
    one("averages-batch-statistics", averages_the_moments, MOMENTS, NORMAL, dtype=torch.float32),
    Mistake("first-batch-only", first_batch_only, AVERAGED + "only the first batch was looked at.", NORMAL),
    Mistake("not-per-channel", over_dimensions(0, 1, 2, 3), "In the case \"{case}\" `{what}` is {got} where {want} is "
            "wanted: each channel has its own.", NORMAL),
    Mistake("reduces-the-batch-only", over_dimensions(0), SHAPE + "height and width have to be averaged over, too.",
            NORMAL),
    Mistake("keeps-the-batch", over_dimensions(2, 3), SHAPE + "the images of all batches make one number for each "
            "channel.", NORMAL),
    Mistake("variance-not-rooted", with_std(lambda x: x.var(PIXELS, correction=0)), STD + "the root of the variance is "
            "missing.", NORMAL),
    Mistake("averages-image-statistics", with_std(lambda x: x.std((2, 3), correction=0).mean(0)), STD + "each image's "
            "own std was taken, and these were averaged; how the images differ in brightness is lost.", NORMAL),
    Mistake("averages-image-statistics", with_std(lambda x: x.mean((2, 3)).std(0, correction=0)), STD + "each image "
            "was averaged first; how the pixels of an image differ is lost.", NORMAL),
    Mistake("returns-float64", returns_float64, "`{what}` is {got_dtype} where {want_dtype} is wanted: compute in "
            "float64, but return the dtype of the images.", NORMAL),
    Mistake("returns-float32", returns_float32, "`{what}` is {got_dtype} where {want_dtype} is wanted: the images may "
            "be of another dtype, and the result should have theirs.", NORMAL),
    Mistake("returns-lists", returns_lists, "`{what}` is {got}: the answer should be a pair of tensors.", NORMAL),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    sizes = [draw.size(1, 9) for _ in range(6)]
    many = [draw.normal(size, 4, 5, 5) * (i + 1) for i, size in enumerate(sizes)]
    grey = [torch.full((size, 1, 4, 4), 0.5) for size in sizes]
    far = [-1e4 + 3 * draw.normal(size, 2, 6, 6) for size in sizes]
    return [
        case("six batches", images=many),
        case("a constant channel", images=grey),
        case("one batch", images=many[:1]),
        case("float64", images=[x.double() for x in many]),
        case("a mean of -10000", rtol=1e-6, atol=1e-2, images=far),
    ]


# Right answers unlike the reference


def stats_merged(loader: Any) -> tuple[Tensor, Tensor]:
    """One pass, in the input's dtype: Chan's formula merges what is known with each batch."""
    count, mean, squares = 0, torch.zeros(1), torch.zeros(1)
    for x, _ in loader:
        pixels = x.transpose(0, 1).flatten(1).double()
        n, own = pixels.shape[1], pixels.mean(1)
        delta = own - mean
        squares = squares + ((pixels - own[:, None]) ** 2).sum(1) + delta**2 * count * n / (count + n)
        mean = mean + delta * n / (count + n)
        count += n
    return mean.to(x.dtype), (squares / count).sqrt().to(x.dtype)


def stats_of_everything(loader: Any) -> tuple[Tensor, Tensor]:
    x = torch.cat([x for x, _ in loader])
    std, mean = torch.std_mean(x.double(), dim=(0, 2, 3), correction=0)
    return mean.to(x), std.to(x)


def stats_in_float64(loader: Any) -> list[Tensor]:
    first, second, count = 0.0, 0.0, 0
    for x, _ in loader:
        values = x.numpy().astype(np.float64)
        first = first + values.sum(axis=(0, 2, 3))
        second = second + (values * values).sum(axis=(0, 2, 3))
        count += values[:, 0].size
    mean = first / count
    std = np.sqrt(np.clip(second / count - mean**2, 0, None))
    return [torch.as_tensor(mean, dtype=x.dtype), torch.as_tensor(std, dtype=x.dtype)]


RIGHT_ANSWERS: list[Callable[..., Any]] = [stats_merged, stats_of_everything, stats_in_float64]
