"""The exercise `broadcast_shape`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from typing import Any

import numpy as np

from autograde.source.mistakes import Mistake
from torchcourse.exercises.quizzes.broadcast_shape import shaped
from torchcourse.model.exercise import Case, Draw

WHY = (
    "Reversed, the shapes are aligned as PyTorch aligns them, and `zip_longest` fills up the shorter ones with 1. "
    "What remains of a column without its ones may be one size at most. `min` and `max` never enter: they would let 0 "
    "be stretched."
)
"""Why the reference is written as it is."""
REQUIRED = ("aligns-left", "takes-maximum", "zero-treated-as-one")
"""The mistakes that a check must always be able to name."""

SECTION = "Broadcasting"


def columns(shapes: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Return the sizes of each dimension of the result, from the first dimension on."""
    return list(zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1))[::-1]


def merged(column: tuple[int, ...]) -> int:
    sizes = set(column) - {1}
    if len(sizes) > 1:
        raise ValueError(f"sizes {sizes} do not fit")
    return sizes.pop() if sizes else 1


def aligns_left(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(merged(column) for column in zip_longest(*shapes, fillvalue=1))


def drops_the_front(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    common = min(len(shape) for shape in shapes)
    return tuple(merged(column) for column in columns(tuple(shape[len(shape) - common :] for shape in shapes)))


def drops_the_front_and_takes_maximum(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(column) for column in zip(*(shape[::-1] for shape in shapes), strict=False))[::-1]


def takes_maximum(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(column) for column in columns(shapes))


def zero_treated_as_one(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(merged(tuple(size for size in column if size > 1)) for column in columns(shapes))


def zero_beats_all(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(0 if 0 in column else merged(column) for column in columns(shapes))


def maximum_of_fitting_sizes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    for column in columns(shapes):
        merged(column)
    return takes_maximum(*shapes)


def one_does_not_stretch(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    result: list[int] = []
    for shape in shapes:
        common = min(len(shape), len(result))
        if shape[len(shape) - common :] != tuple(result[len(result) - common :]):
            raise ValueError(f"{shape} does not fit")
        result = max(result, list(shape), key=len)
    return tuple(result)


def same_rank_only(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    if len({len(shape) for shape in shapes}) > 1:
        raise ValueError("the numbers of dimensions differ")
    return tuple(merged(column) for column in columns(shapes))


def divisor_stretches(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    def largest(column: tuple[int, ...]) -> int:
        if any(size and max(column) % size for size in column):
            raise ValueError(f"sizes {column} do not fit")
        return 0 if 0 in column else max(column)

    return tuple(merged(column) if 0 in column else largest(column) for column in columns(shapes))


def only_the_first_two(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(merged(column) for column in columns(shapes[:2]))


def only_against_the_first(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    result = []
    for first, *others in columns(shapes):
        for size in others:
            merged((first, size))
        result.append(next((size for size in reversed(others) if size != 1), first))
    return tuple(result)


def zero_never_fits(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    if any(0 in shape for shape in shapes):
        raise ValueError("there is nothing to add")
    return tuple(merged(column) for column in columns(shapes))


def none_for_an_error(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return tuple(merged(column) for column in columns(shapes))
    except ValueError:
        return None


def as_a_list(*shapes: tuple[int, ...]) -> list[int]:
    return [merged(column) for column in columns(shapes)]


RUN = "PyTorch runs `{run}` and {said}; you predict {got}: "
MISTAKES = [
    Mistake("aligns-left", aligns_left, RUN + "shapes are aligned at their last dimension, not at their first.",
            SECTION),
    Mistake("drops-the-front", drops_the_front, RUN + "the dimensions that the shorter shape lacks stay in the result; "
            "`zip` stops at the end of the shortest.", SECTION),
    Mistake("drops-the-front", drops_the_front_and_takes_maximum, RUN + "the dimensions that the shorter shape lacks "
            "stay in the result; `zip` stops at the end of the shortest. And `max` hides sizes that do not fit.",
            SECTION),
    Mistake("takes-maximum", takes_maximum, RUN + "the larger size wins only over a 1; two other sizes have to be "
            "equal.", SECTION),
    Mistake("zero-treated-as-one", zero_treated_as_one, RUN + "only a 1 is stretched, and a 0 is a size like any "
            "other.", SECTION),
    Mistake("zero-beats-all", zero_beats_all, RUN + "a 0 is a size like any other: it fits a 0 or a 1, and nothing "
            "else.", SECTION),
    Mistake("one-is-larger-than-zero", maximum_of_fitting_sizes, RUN + "a 1 is stretched to the other size, also to a "
            "0, which is smaller.", SECTION),
    Mistake("one-does-not-stretch", one_does_not_stretch, RUN + "a size of 1 is stretched to any other size.",
            SECTION),
    Mistake("same-rank-only", same_rank_only, RUN + "a shape with fewer dimensions gets ones at its front.", SECTION),
    Mistake("divisor-stretches", divisor_stretches, RUN + "a size that divides the other is not repeated; only a 1 "
            "is.", SECTION),
    Mistake("only-two-shapes", only_the_first_two, RUN + "all shapes count, including the third.", SECTION),
    Mistake("only-against-the-first", only_against_the_first, RUN + "every shape has to fit all the others, not only "
            "the first.", SECTION),
    Mistake("zero-never-fits", zero_never_fits, RUN + "a size of 0 fits a 0 or a 1, and the result has no elements "
            "either.", SECTION),
    Mistake("returns-a-list", as_a_list, RUN + "the numbers are right; a shape is written as a tuple.", SECTION),
    Mistake("none-for-an-error", none_for_an_error, RUN + "where PyTorch raises, the predictor has to raise "
            "`ValueError`.",
            SECTION),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def some(base: list[int], most: int) -> tuple[int, ...]:
        kept = base[len(base) - draw.size(0, len(base)) :]
        return tuple(draw.pick([size, size, 1, draw.size(0, most)]) for size in kept)

    bases = [[draw.size(0, 4) for _ in range(draw.size(1, 4))] for _ in range(14)]
    drawn = [shaped(f"drawn {n}", *(some(base, 4) for _ in range(draw.size(2, 4)))) for n, base in enumerate(bases)]
    return [*drawn, shaped("numbers only", (), ()), shaped("zeros in both", (0, 3), (0, 1))]


# Right answers unlike the reference


def one_shape_after_the_other(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    result: list[int] = []
    for shape in shapes:
        result = [1] * (len(shape) - len(result)) + result
        for place in range(1, len(shape) + 1):
            if result[-place] == 1:
                result[-place] = shape[-place]
            elif shape[-place] not in (1, result[-place]):
                raise ValueError(f"{shape} does not fit {result}")
    return tuple(result)


def by_numpy(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(*shapes))


RIGHT_ANSWERS: list[Callable[..., Any]] = [one_shape_after_the_other, by_numpy]
