"""The exercise `compilations`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "0 and 1 cost a compilation each. Ordinary sizes cost two at most: a fixed one for the first, a variable one for "
    "all others. If 0 or 1 came first, the compiler has seen the size change already, and goes straight to the "
    "variable one."
)
"""Why the reference is written as it is."""
REQUIRED = ("once-per-size", "once-for-ever", "zero-and-one-are-ordinary")
"""The mistakes that a check must always be able to name."""

SECTION = "How often is it compiled?"


def ordinary(sizes: list[int]) -> set[int]:
    return {size for size in sizes if size > 1}


def special(sizes: list[int]) -> set[int]:
    return {size for size in sizes if size <= 1}


def once_per_size(sizes: list[int]) -> int:
    return len(set(sizes))


def once_for_ever(sizes: list[int]) -> int:
    return min(len(sizes), 1)


def zero_and_one_are_ordinary(sizes: list[int]) -> int:
    return min(len(set(sizes)), 2)


def once_per_call(sizes: list[int]) -> int:
    return len(sizes)


def once_per_change(sizes: list[int]) -> int:
    return len(list(groupby(sizes)))


def dynamic_at_once(sizes: list[int]) -> int:
    return len(special(sizes)) + min(len(ordinary(sizes)), 1)


def always_fixed_first(sizes: list[int]) -> int:
    return len(special(sizes)) + min(len(ordinary(sizes)), 2)


def right(sizes: list[int]) -> int:
    return len(special(sizes)) + min(len(ordinary(sizes)), 2 if sizes and sizes[0] > 1 else 1)


def only_one_is_special(sizes: list[int]) -> int:
    return right([size or 2 for size in sizes])


def only_zero_is_special(sizes: list[int]) -> int:
    return right([99 if size == 1 else size for size in sizes])


def recompilations(sizes: list[int]) -> int:
    return max(right(sizes) - 1, 0)


def zero_and_one_together(sizes: list[int]) -> int:
    return right([min(size, 1) if size <= 1 else size for size in sizes]) - (len(special(sizes)) == 2)


def recompilations_together(sizes: list[int]) -> int:
    return max(zero_and_one_together(sizes) - 1, 0)


def special_only_when_first(sizes: list[int]) -> int:
    return right(sizes) if sizes and sizes[0] <= 1 else right([size for size in sizes if size > 1])


def first_size_is_forgotten(sizes: list[int]) -> int:
    fixed, seen = 0, set[int]()
    count = 0
    for size in sizes:
        if size < 2:
            count += size not in seen
            fixed = 0
        elif size != fixed and len(ordinary([*seen])) < 2:
            count += 1
            fixed = size
        seen.add(size)
    return count


def special_at_each_call(sizes: list[int]) -> int:
    return right(sizes) + sum(size <= 1 for size in sizes) - len(special(sizes))


def special_again_and_again(sizes: list[int]) -> int:
    again = sum(size <= 1 for size, _ in groupby(sizes)) - len(special(sizes))
    return right(sizes) + again


RUN = "PyTorch runs `{run}` and {said}; you predict {got}: "
MISTAKES = [
    Mistake("once-per-size", once_per_size, RUN + "the second size makes the dimension variable, and later sizes need "
            "nothing new.", SECTION),
    Mistake("once-for-ever", once_for_ever, RUN + "the first compilation holds for the first size only.", SECTION),
    Mistake("zero-and-one-are-ordinary", zero_and_one_are_ordinary, RUN + "sizes 0 and 1 are never variable, and each "
            "has a compilation of its own.", SECTION),
    Mistake("once-per-call", once_per_call, RUN + "a size that has been compiled for is not compiled for again.",
            SECTION),
    Mistake("once-per-change", once_per_change, RUN + "what was compiled stays; going back to a size costs nothing.",
            SECTION),
    Mistake("special-sizes-displace-the-first", first_size_is_forgotten, RUN + "what was compiled for the first size "
            "stays, whatever comes in between.", SECTION),
    Mistake("special-sizes-are-forgotten", special_again_and_again, RUN + "what was compiled for 0 or for 1 stays, and "
            "is not compiled again when that size comes back.", SECTION),
    Mistake("special-sizes-are-forgotten", special_at_each_call, RUN + "what was compiled for 0 or for 1 stays, and "
            "is not compiled again when that size comes back.", SECTION),
    Mistake("dynamic-at-once", dynamic_at_once, RUN + "by default the first size is taken as fixed.", SECTION),
    Mistake("always-fixed-first", always_fixed_first, RUN + "after a size of 0 or 1 the compiler knows that the "
            "dimension varies.", SECTION),
    Mistake("recompilations-only", recompilations, RUN + "the first compilation counts as well.", SECTION),
    Mistake("recompilations-only", recompilations_together, RUN + "the first compilation counts as well, and 0 and 1 "
            "have one each.", SECTION),
    Mistake("zero-is-ordinary", only_one_is_special, RUN + "0 has a compilation of its own, like 1.", SECTION),
    Mistake("one-is-ordinary", only_zero_is_special, RUN + "1 has a compilation of its own, like 0.", SECTION),
    Mistake("zero-and-one-together", zero_and_one_together, RUN + "0 and 1 have a compilation each.", SECTION),
    Mistake("variable-holds-for-one", special_only_when_first, RUN + "the variable compilation holds from size 2 "
            "on.", SECTION),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    some = [[draw.pick([0, 1, *range(2, 9)]) for _ in range(draw.size(1, 6))] for _ in range(10)]
    first, other = draw.size(2, 8), draw.pick([0, 1])
    returns = case("back to the first size after a zero or one", sizes=[first, other, first, other])
    begins = case("zero or one first", sizes=[other, first, first + 1])
    return [*(case(f"drawn {n}", sizes=sizes) for n, sizes in enumerate(some)), returns, begins,
            case("zero first", sizes=[0, first, first + 1])]  # fmt: skip


# Right answers unlike the reference


def by_acting_it_out(sizes: list[int]) -> int:
    fixed: set[int] = set()
    variable, count = False, 0
    for size in sizes:
        if size in fixed or (variable and size > 1):
            continue
        count += 1
        if fixed and size > 1:
            variable = True
        else:
            fixed.add(size)
    return count


def by_cases(sizes: list[int]) -> int:
    if not sizes:
        return 0
    count = (0 in sizes) + (1 in sizes)
    others = [size for size in sizes if size > 1]
    if not others:
        return count
    return count + (2 if sizes[0] == others[0] and max(others) != min(others) else 1)


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_acting_it_out, by_cases]
