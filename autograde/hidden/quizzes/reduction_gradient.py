"""The exercise `reduction_gradient`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from autograde.hidden.common import one
from torchcourse.exercises.quizzes.reduction_gradient import drawn
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Each kind is one line, because the gradient of a reduction is known entry by entry. Ties are counted before they "
    "are shared out, and the norm is looked at before anything is divided by it: at zero there is no gradient, and "
    "PyTorch gives 0 so that a training does not end in NaN."
)
"""Why the reference is written as it is."""
REQUIRED = ("max-is-dense", "tie-takes-first", "mean-forgets-n")
"""The mistakes that a check must always be able to name."""

SECTION = "Gradients of reductions"
Values = list[float]


def of_sum(values: Values) -> Values:
    return [1.0] * len(values)


def of_squares(values: Values) -> Values:
    return [2 * value for value in values]


def of_mean(values: Values) -> Values:
    return [1 / len(values)] * len(values)


def of_max(values: Values) -> Values:
    return [(value == max(values)) / values.count(max(values)) for value in values]


def of_norm(values: Values) -> Values:
    length = math.hypot(*values)
    return [value / length if length else 0.0 for value in values]


RIGHT = {"sum": of_sum, "square_sum": of_squares, "mean": of_mean, "max": of_max, "norm": of_norm}


def by_kind(kind: str, values: Values, **parts: Callable[[Values], Values]) -> Values:
    """Predict rightly, but with other parts in place of some of the right ones."""
    return (RIGHT | parts)[kind](values)


def takes_the_first(values: Values) -> Values:
    place = values.index(max(values))
    return [float(n == place) for n in range(len(values))]


def takes_the_last(values: Values) -> Values:
    return takes_the_first(values[::-1])[::-1]


def one_for_each(values: Values) -> Values:
    return [float(value == max(values)) for value in values]


def half_for_each(values: Values) -> Values:
    ties = values.count(max(values)) > 1
    return [(0.5 if ties else 1.0) * (value == max(values)) for value in values]


def without_signs(values: Values) -> Values:
    return [abs(value) for value in of_norm(values)]


def nan_at_zero(values: Values) -> Values:
    length = math.hypot(*values)
    return [value / length if length else math.nan for value in values]


def plain_division(values: Values) -> Values:
    return [value / math.hypot(*values) for value in values]


def signs(values: Values) -> Values:
    return [math.copysign(1.0, value) if value else 0.0 for value in values]


def signs_of_zeros_too(values: Values) -> Values:
    return [math.copysign(1.0, value) for value in values]


def by_the_squared_norm(values: Values) -> Values:
    square = sum(value * value for value in values)
    return [value / square if square else 0.0 for value in values]


def with_eps(eps: float) -> Callable[[Values], Values]:
    """Return a gradient of the norm with a small number in the denominator."""
    return lambda values: [value / (math.hypot(*values) + eps) for value in values]


def twice_the_norms(values: Values) -> Values:
    return [2 * value for value in of_norm(values)]


def largest_in_size(values: Values) -> Values:
    sizes = [abs(value) for value in values]
    return of_max(sizes)


RUN = "PyTorch runs `{run}` and {said}; you predict {got}: "
MISTAKES = [
    one("max-is-dense", by_kind, RUN + "only the largest entry changes the maximum, so the others get 0.", SECTION,
        max=of_sum),
    one("max-is-dense", by_kind, RUN + "only the largest entry changes the maximum, so the others get 0.", SECTION,
        max=of_mean),
    one("tie-takes-first", by_kind, RUN + "`max()` over all entries shares the gradient evenly among the largest.",
        SECTION, max=takes_the_first),
    one("tie-takes-last", by_kind, RUN + "`max()` over all entries shares the gradient evenly among the largest.",
        SECTION, max=takes_the_last),
    one("tie-gives-each-one", by_kind, RUN + "the largest entries share one gradient; each gets a part of it.", SECTION,
        max=one_for_each),
    one("tie-gives-a-half", by_kind, RUN + "the largest entries share one gradient evenly, however many they are.",
        SECTION, max=half_for_each),
    one("mean-forgets-n", by_kind, RUN + "the mean divides by the number of entries, and so does its gradient.",
        SECTION, mean=of_sum),
    one("mean-keeps-the-values", by_kind, RUN + "each entry has a share of 1 / n in the mean, whatever its value, so "
            "the value itself is not in the gradient.", SECTION,
            mean=lambda values: [value / len(values) for value in values]),
    one("norm-is-nan-at-zero", by_kind, RUN + "at zero the norm has no gradient, and PyTorch gives 0.", SECTION,
        norm=nan_at_zero),
    one("norm-is-nan-at-zero", by_kind, RUN + "at zero the norm has no gradient, and PyTorch gives 0.", SECTION,
        norm=plain_division),
    *(one("eps-beside-the-norm", by_kind, RUN + "only a norm of 0 is taken care of; a small number added to it spoils "
          "the gradient where the norm is small.", SECTION, norm=with_eps(eps)) for eps in (1e-12, 1e-8, 1e-6)),
    one("norm-is-a-sum", by_kind, RUN + "the norm is the root of the sum of squares, not the sum of absolute values.",
        SECTION, norm=signs),
    one("norm-is-a-sum", by_kind, RUN + "the norm is the root of the sum of squares, not the sum of absolute values.",
        SECTION, norm=signs_of_zeros_too),
    one("norm-loses-the-sign", by_kind, RUN + "a negative entry has a negative gradient: the norm falls as it grows "
        "towards zero.", SECTION, norm=without_signs),
    one("norm-divides-twice", by_kind, RUN + "an entry is divided by the norm, not by its square.", SECTION,
        norm=by_the_squared_norm),
    one("norm-forgets-the-root", by_kind, RUN + "the derivative of the root halves what that of the square doubles, so "
            "no factor of 2 is left.", SECTION,
        norm=twice_the_norms),
    one("square-of-the-sum", by_kind, RUN + "each number is squared before they are added up, so its own value counts, "
        "not the sum.", SECTION, square_sum=lambda values: [2 * sum(values)] * len(values)),
    one("square-forgets-two", by_kind, RUN + "the derivative of a square is twice the number.", SECTION,
        square_sum=list),
    one("max-by-size", by_kind, RUN + "the maximum goes by the number, not by its absolute value.", SECTION,
        max=largest_in_size),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    values = [drawn(draw, draw.size(1, 6)) for _ in range(10)]
    some = [case(f"drawn {n}", kind=draw.pick(list(RIGHT)), values=row) for n, row in enumerate(values)]
    ties = [[float(draw.size(-1, 1)) for _ in range(draw.size(3, 7))] for _ in range(6)]
    return [
        *some,
        *(case(f"with ties {n}", kind="max", values=row) for n, row in enumerate(ties)),
        case("norm of one zero", kind="norm", values=[0.0]),
        case("norm with a zero in it", kind="norm", values=[0.0, 3.0, -4.0]),
        case("the largest of zeros", kind="max", values=[0.0, 0.0, 0.0]),
    ]


# Right answers unlike the reference


def by_differences(kind: str, values: Values) -> Values:
    if kind == "norm" and not any(values):
        return [0.0] * len(values)
    if kind == "max":
        place = sorted(range(len(values)), key=values.__getitem__)
        tied = [n for n in place if values[n] == values[place[-1]]]
        return [1 / len(tied) if n in tied else 0.0 for n in range(len(values))]
    reduce = {"sum": sum, "mean": lambda v: sum(v) / len(v), "square_sum": lambda v: sum(x * x for x in v),
              "norm": lambda v: sum(x * x for x in v) ** 0.5}[kind]  # fmt: skip
    step, result = 1e-6 * (max(map(abs, values)) or 1), list[float]()
    for n, value in enumerate(values):
        up, down = ([*values[:n], value + sign * step, *values[n + 1 :]] for sign in (1, -1))
        result.append((reduce(up) - reduce(down)) / (2 * step))
    return result


def by_matching(kind: str, values: Values) -> Values:
    n, top = len(values), max(values)
    match kind:
        case "sum":
            return [1 for _ in values]
        case "mean":
            return [1 / n for _ in values]
        case "square_sum":
            return [value + value for value in values]
        case "max":
            winners = sum(value == top for value in values)
            return [1 / winners if value == top else 0 for value in values]
    norm = math.sqrt(math.fsum(value**2 for value in values)) or 1.0
    return [value / norm for value in values]


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_differences, by_matching]
