"""The exercise `result_dtype`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.exercises.quizzes.result_dtype import DTYPES, FLOATS, NUMBERS, WHOLE, Operand
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The category is decided before the width, and rank before both: the operand of lower rank matters only if its "
    "category is higher, and then it brings a dtype of its own, which for a Python float is the default. Two operands "
    "of one rank meet in the narrowest dtype that holds both."
)
"""Why the reference is written as it is."""
REQUIRED = ("wider-wins", "zero-dim-as-tensor", "number-forces-default")
"""The mistakes that a check must always be able to name."""

SECTION = "Promotion"
RANKS = {"tensor": 2, "scalar": 1, "number": 0}


def category(dtype: torch.dtype) -> int:
    return 2 if dtype.is_floating_point else int(dtype != torch.bool)


def common(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    if category(a) != category(b):
        return max(a, b, key=category)
    if {a, b} == {torch.uint8, torch.int8}:
        return torch.int16
    if {a, b} == {torch.float16, torch.bfloat16}:
        return torch.float32
    return max(a, b, key=lambda dtype: dtype.itemsize)


def result(
    a: Operand,
    b: Operand,
    *,
    ranks: dict[str, int] = RANKS,
    meet: Callable[[torch.dtype, torch.dtype], torch.dtype] = common,
    python_float: torch.dtype = torch.float32,
) -> torch.dtype:
    """Return the right answer, of which mistakes change one part."""
    (low, lower), (high, higher) = sorted((a, b), key=lambda operand: ranks[operand[0]])
    lower, higher = (
        python_float if (kind, dtype) == ("number", torch.float64) else dtype
        for kind, dtype in ((low, lower), (high, higher))
    )
    if ranks[low] == ranks[high]:
        return meet(lower, higher)
    return lower if category(lower) > category(higher) else higher


def wider_wins(a: Operand, b: Operand) -> torch.dtype:
    return max(a[1], b[1], key=lambda dtype: dtype.itemsize)


def wider_wins_of_two_widths(a: Operand, b: Operand) -> torch.dtype:
    return common(a[1], b[1]) if a[1].itemsize == b[1].itemsize else wider_wins(a, b)


def wider_of_one_rank(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    return max(a, b, key=lambda dtype: dtype.itemsize)


def wider_of_one_category(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    return common(a, b) if category(a) != category(b) else wider_of_one_rank(a, b)


def wider_across_categories(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    wide = max(a.itemsize, b.itemsize) == 8 and {category(a), category(b)} == {1, 2}
    return torch.float64 if wide else common(a, b)


def number_forces_default(a: Operand, b: Operand) -> torch.dtype:
    for (kind, dtype), (_, other) in ((a, b), (b, a)):
        if kind == "number" and dtype != torch.bool:
            return torch.float32 if dtype.is_floating_point else common(torch.int64, other)
    return result(a, b)


def number_as_scalar(a: Operand, b: Operand) -> torch.dtype:
    return result(a, b, ranks={"tensor": 2, "scalar": 1, "number": 1})


def scalar_as_number(a: Operand, b: Operand) -> torch.dtype:
    def own(operand: Operand) -> Operand:
        kind, dtype = operand
        return operand if kind == "tensor" else ("number", torch.float64 if dtype.is_floating_point else dtype)

    return result(own(a), own(b))


def halves_meet_in(which: Callable[[torch.dtype, torch.dtype], torch.dtype]) -> Callable[..., torch.dtype]:
    """Return a rule by which `which` chooses one of two half floats."""
    return lambda a, b: which(a, b) if {a, b} == {torch.float16, torch.bfloat16} else common(a, b)


def uint8_widens_all(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    if a == b or torch.uint8 not in (a, b) or category(a) != category(b):
        return common(a, b)
    place = WHOLE.index(b if a == torch.uint8 else a)
    return WHOLE[min(place + 1, len(WHOLE) - 1)]


def flags_are_integers(a: Operand, b: Operand) -> torch.dtype:
    (low, lower), (high, higher) = sorted((a, b), key=lambda operand: RANKS[operand[0]])
    same = RANKS[low] < RANKS[high] and lower.is_floating_point == higher.is_floating_point
    return higher if same else result(a, b)


def signs_meet_in_uint8(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    return torch.uint8 if {a, b} == {torch.uint8, torch.int8} else common(a, b)


def signs_meet_in_int8(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    return torch.int8 if {a, b} == {torch.uint8, torch.int8} else common(a, b)


def signs_always_meet_in_int16(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    return torch.int16 if category(a) == category(b) == 1 and a != b and torch.uint8 in (a, b) else common(a, b)


def first_wins(a: Operand, b: Operand) -> torch.dtype:
    if RANKS[a[0]] == RANKS[b[0]]:
        return result(a, b)
    return min((a, b), key=lambda operand: -RANKS[operand[0]])[1]


RUN = "PyTorch runs `{run}` and {said}; you predict {got}: "
MISTAKES = [
    Mistake("wider-wins", wider_wins, RUN + "category goes before width, so a narrow float wins over a wide "
            "integer.", SECTION),
    Mistake("wider-wins", partial(result, meet=wider_of_one_rank), RUN + "category goes before width, so a narrow "
            "float wins over a wide integer.", SECTION),
    Mistake("wider-wins", wider_wins_of_two_widths, RUN + "category goes before width, so a narrow float wins over a "
            "wide integer.", SECTION),
    Mistake("wider-wins", partial(result, meet=wider_across_categories), RUN + "category goes before width, so a "
            "narrow float stays narrow beside a wide integer.", SECTION),
    Mistake("one-of-the-two", partial(result, meet=wider_of_one_category), RUN + "neither of the two holds all "
            "numbers of the other, so the result is a third dtype.", SECTION),
    Mistake("zero-dim-as-tensor", partial(result, ranks={"tensor": 1, "scalar": 1, "number": 0}), RUN + "a 0-D tensor "
            "has a lower rank than one with dimensions and cannot widen it.", SECTION),
    Mistake("number-forces-default", number_forces_default, RUN + "a Python number does not widen a tensor of the "
            "same category.", SECTION),
    Mistake("number-is-a-0-d-tensor", number_as_scalar, RUN + "a Python number ranks below a 0-D tensor.", SECTION),
    Mistake("0-d-tensor-is-a-number", scalar_as_number, RUN + "a 0-D tensor has a dtype of its own; only a Python "
            "float takes the default.", SECTION),
    Mistake("python-float-is-double", partial(result, python_float=torch.float64), RUN + "a Python float becomes the "
            "default dtype, float32, and not float64.", SECTION),
    *(Mistake("halves-stay-half", partial(result, meet=halves_meet_in(which)), RUN + "neither half float holds all the "
            "other's numbers, so the result is float32.", SECTION) for which in (
        lambda a, b: torch.bfloat16, lambda a, b: torch.float16, lambda a, b: a, lambda a, b: b,
    )),
    Mistake("signs-are-ignored", partial(result, meet=signs_meet_in_uint8), RUN + "no integer of 8 bits holds both "
            "-128 and 255, so the result is int16.", SECTION),
    Mistake("signs-are-ignored", partial(result, meet=signs_meet_in_int8), RUN + "no integer of 8 bits holds both -128 "
            "and 255, so the result is int16.", SECTION),
    Mistake("int16-for-uint8", partial(result, meet=signs_always_meet_in_int16), RUN + "int16 is the third dtype only "
            "for uint8 and int8; a wider signed integer holds all numbers of uint8 itself.", SECTION),
    Mistake("uint8-widens-all", partial(result, meet=uint8_widens_all), RUN + "int16 and wider integers hold all "
            "numbers of uint8 as they are.", SECTION),
    Mistake("flag-is-an-integer", flags_are_integers, RUN + "bool is a category of its own, below the integers, so "
            "an integer of lower rank still changes it.", SECTION),
    Mistake("lower-rank-never-counts", first_wins, RUN + "a lower rank still counts if its category is higher.",
            SECTION),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def operand(kinds: list[str]) -> Operand:
        kind = draw.pick(kinds)
        return kind, draw.pick(list(NUMBERS) if kind == "number" else list(DTYPES))

    drawn = []
    for n in range(40):
        pair = [operand(["tensor", "scalar"]), operand(["tensor", "scalar", "number"])]
        pair = pair[::-1] if draw.size(0, 1) else pair
        drawn.append(case(f"drawn {n}", a=pair[0], b=pair[1]))
    floats = [case(f"floats {n}", a=("tensor", draw.pick(FLOATS)), b=("tensor", draw.pick(FLOATS))) for n in range(6)]
    whole = [case(f"uint8 and another {n}", a=("tensor", torch.uint8), b=("tensor", d)) for n, d in enumerate(WHOLE)]
    kinds = draw.pick(["tensor", "scalar"])
    turned = [case(f"another and uint8 {n}", a=(kinds, d), b=(kinds, torch.uint8)) for n, d in enumerate(WHOLE)]
    number = ("number", torch.float64)
    numbers = [case(f"with a Python float {n}", a=(kinds, d), b=number) for n, d in enumerate(DTYPES)]
    return [*drawn, *floats, *whole, *turned, *numbers]


# Right answers unlike the reference

ORDER = [str(dtype).removeprefix("torch.") for dtype in DTYPES]
MEETING = {("uint8", "int8"): "int16", ("float16", "bfloat16"): "float32"}


def by_names(a: Operand, b: Operand) -> torch.dtype:
    kinds = ("number", "scalar", "tensor")
    low, high = sorted((a, b), key=lambda operand: kinds.index(operand[0]))
    names = [str(dtype).removeprefix("torch.") for _, dtype in (low, high)]
    if low[0] == "number" and names[0] == "float64":
        names[0] = "float32"
    below, above = (0 if name == "bool" else 2 if "float" in name else 1 for name in names)
    if low[0] != high[0]:
        return getattr(torch, names[0] if below > above else names[1])  # type: ignore[no-any-return]
    first, second = sorted(names, key=ORDER.index)
    return getattr(torch, MEETING.get((first, second), second))  # type: ignore[no-any-return]


def by_priority(a: Operand, b: Operand) -> torch.dtype:
    best: dict[str, torch.dtype] = {}
    for kind, dtype in (a, b):
        own = torch.float32 if kind == "number" and dtype.is_floating_point else dtype
        best[kind] = common(best[kind], own) if kind in best else own
    chosen = None
    for kind in ("tensor", "scalar", "number"):
        if kind in best and (chosen is None or category(best[kind]) > category(chosen)):
            chosen = best[kind]
    assert chosen is not None
    return chosen


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_names, by_priority]
