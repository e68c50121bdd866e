"""The exercise `view_possible`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from autograde.source.mistakes import Mistake
from torchcourse.exercises.quizzes.view_possible import laid_out, strides
from torchcourse.model.exercise import Case, Draw

WHY = (
    "Dimensions that lie evenly in memory merge into pieces; sizes of 1 have no say, for nobody ever takes their "
    "step. Any new shape has to end a dimension wherever a piece ends, and may cut the pieces as it likes. Comparing "
    "the running products says that in one line."
)
"""Why the reference is written as it is."""
REQUIRED = ("contiguous-only", "same-count-suffices", "size-one-stride-matters")
"""The mistakes that a check must always be able to name."""

SECTION = "Views and strides"
Shape = tuple[int, ...]


def pieces(dimensions: list[tuple[int, int]]) -> list[int]:
    """Return the lengths of the pieces that lie evenly in memory, given (size, stride) pairs."""
    lengths: list[int] = []
    before = 0
    for size, step in dimensions:
        if lengths and before == size * step:
            lengths[-1] *= size
        else:
            lengths.append(size)
        before = step
    return lengths


def cut(lengths: list[int], new_shape: Shape) -> bool:
    return set(accumulate(lengths, mul)) <= set(accumulate(new_shape, mul))


def fits(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    """Return the right answer, written so that mistakes can change a part of it."""
    if math.prod(shape) != math.prod(new_shape):
        return False
    dimensions = [pair for pair in zip(shape, stride, strict=True) if pair[0] != 1]
    return 0 in shape or not dimensions or cut(pieces(dimensions), new_shape)


def is_contiguous(shape: Shape, stride: Shape) -> bool:
    pairs = zip(shape, stride, strides(shape), strict=True)
    return 0 in shape or all(size == 1 or step == even for size, step, even in pairs)


def contiguous_only(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    return math.prod(shape) == math.prod(new_shape) and is_contiguous(shape, stride)


def own_shape_or_contiguous(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    return shape == new_shape or contiguous_only(shape, stride, new_shape)


def same_count_suffices(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    return math.prod(shape) == math.prod(new_shape)


def size_one_stride_matters(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    if math.prod(shape) != math.prod(new_shape):
        return False
    return 0 in shape or cut(pieces(list(zip(shape, stride, strict=True))), new_shape)


def forgets_the_count(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    return fits(shape, stride, new_shape) or is_contiguous(shape, stride)


def transposed_never(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    steps = [step for size, step in zip(shape, stride, strict=True) if size > 1]
    return fits(shape, stride, new_shape) and (0 in shape or steps == sorted(steps, reverse=True))


def one_even_step_only(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    dimensions = [pair for pair in zip(shape, stride, strict=True) if pair[0] != 1]
    return fits(shape, stride, new_shape) and (0 in shape or len(pieces(dimensions)) <= 1)


def neighbours_do_not_merge(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    split = math.prod(shape) == math.prod(new_shape) and cut([size for size in shape if size != 1], new_shape)
    return fits(shape, stride, new_shape) and (0 in shape or is_contiguous(shape, stride) or split)


def no_one_in_front(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    return fits(shape, stride, new_shape) and (0 in shape or new_shape[:1] != (1,))


def repeated_numbers_do_not_merge(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    return fits(shape, stride, new_shape) and not (0 in stride and shape != new_shape)


def empty_like_any_other(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    if 0 not in shape:
        return fits(shape, stride, new_shape)
    return (
        math.prod(new_shape) == 0
        and cut(pieces(list(zip(shape, stride, strict=True))), new_shape)
        and shape == new_shape
    )


def empty_from_the_left(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    if math.prod(shape) != math.prod(new_shape):
        return False
    dimensions = [pair for pair in zip(shape, stride, strict=True) if pair[0] != 1]
    return shape == new_shape or not dimensions or cut(pieces(dimensions), new_shape)


def empty_by_its_strides(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    if math.prod(shape) != math.prod(new_shape):
        return False
    dimensions = [pair for pair in zip(shape, stride, strict=True) if pair[0] != 1]
    return not dimensions or cut(pieces(dimensions)[::-1], new_shape[::-1])


RUN = "PyTorch runs `{run}` and {said}; you predict {got}: "
MISTAKES = [
    Mistake("contiguous-only", contiguous_only, RUN + "a view needs strides that can express the new shape, not "
            "contiguous memory.", SECTION),
    Mistake("contiguous-only", own_shape_or_contiguous, RUN + "a view needs strides that can express the new shape, "
            "not contiguous memory.", SECTION),
    Mistake("same-count-suffices", same_count_suffices, RUN + "the numbers have to lie in an order that strides can "
            "express.", SECTION),
    Mistake("size-one-stride-matters", size_one_stride_matters, RUN + "along a dimension of size 1 nobody takes a "
            "step, so its stride has no meaning.", SECTION),
    Mistake("forgets-the-count", forgets_the_count, RUN + "old and new shape have to hold the same number of "
            "elements.", SECTION),
    Mistake("transposed-never", transposed_never, RUN + "even in a transposed tensor a dimension can be split.",
            SECTION),
    Mistake("one-even-step-only", one_even_step_only, RUN + "it need not be possible to flatten the whole tensor; each "
            "group of dimensions that lies evenly may be cut on its own.", SECTION),
    Mistake("neighbours-never-merge", neighbours_do_not_merge, RUN + "neighbouring dimensions whose strides fit can be "
            "merged, whether or not the whole tensor is contiguous.", SECTION),
    Mistake("no-one-in-front", no_one_in_front, RUN + "a size of 1 may be put in anywhere, even in front.", SECTION),
    Mistake("repeated-never", repeated_numbers_do_not_merge, RUN + "a stride of 0 is a stride like any other: the "
            "outer one is the inner size times the inner one, 0, so the two can be merged.", SECTION),
    Mistake("nothing-is-strict", empty_by_its_strides, RUN + "where there are no elements, any shape without elements "
            "will do.", SECTION),
    Mistake("nothing-is-strict", empty_from_the_left, RUN + "where there are no elements, any shape without elements "
            "will do.", SECTION),
    Mistake("nothing-is-strict", empty_like_any_other, RUN + "where there are no elements, any shape without elements "
            "will do.", SECTION),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    drawn = []
    for n in range(24):
        sizes = [draw.pick([1, 2, 2, 3, 4]) for _ in range(draw.size(1, 4))]
        order = sorted(range(len(sizes)), key=lambda _: draw.size(0, 99))
        outer = [sizes[place] * draw.pick([1, 1, 1, 2]) for place in order]  # some rows are cut out of longer ones
        step = dict(zip(order, strides(tuple(outer)), strict=True))
        stride = tuple(draw.pick([step[place]] * 5 + [0]) for place in range(len(sizes)))
        drawn.append(laid_out(f"drawn {n}", tuple(sizes), stride, cut_anew(draw, math.prod(sizes))))
    for n in range(4):
        sizes = [0, *(draw.size(0, 3) for _ in range(draw.size(1, 2)))]
        stride = tuple(draw.size(0, 7) for _ in sizes)
        drawn.append(laid_out(f"nothing {n}", tuple(sizes), stride, draw.pick([(0,), (2, 0), (0, 3), (1,)])))
    return [*drawn, laid_out("windows that overlap", (4, 3), (1, 1), (12,)), laid_out("a number", (), (), (1, 1))]


def cut_anew(draw: Draw, count: int) -> Shape:
    """Return some shape of this many elements."""
    sizes = []
    while count > 1:
        sizes.append(draw.pick([size for size in range(2, count + 1) if count % size == 0]))
        count //= sizes[-1]
    return tuple(sizes) if draw.size(0, 2) else (*sizes, 1)


# Right answers unlike the reference


def by_taking_from_the_right(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    if math.prod(shape) != math.prod(new_shape):
        return False
    if math.prod(shape) <= 1:
        return True
    new, chunk, inner = [size for size in new_shape if size > 1], 1, None
    for size, step in reversed([pair for pair in zip(shape, stride, strict=True) if pair[0] > 1]):
        if inner is not None and step != inner:  # a piece ends here: the new sizes have to end here too
            while chunk > 1 and new and chunk % new[-1] == 0:
                chunk //= new.pop()
            if chunk > 1:
                return False
        chunk, inner = chunk * size, size * step
    return True


def by_numbering_the_places(shape: Shape, stride: Shape, new_shape: Shape) -> bool:
    if math.prod(shape) != math.prod(new_shape):
        return False
    if math.prod(shape) == 0:
        return True
    places = np.zeros(shape, dtype=np.int64)
    for axis, (size, step) in enumerate(zip(shape, stride, strict=True)):
        places += (np.arange(size) * step).reshape([size if a == axis else 1 for a in range(len(shape))])
    new = places.reshape(new_shape)
    # strides can say the new shape if each step along a dimension is the same everywhere
    return all(np.unique(np.diff(new, axis=axis)).size <= 1 for axis in range(new.ndim))


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_taking_from_the_right, by_numbering_the_places]
