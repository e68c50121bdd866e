"""The exercise `best_loss_scale`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Only the largest gradient can overflow, so it alone decides. Powers of two shift the exponent and round "
    "nothing. The last step is tried in the dtype itself, because rounding decides what happens right at the "
    "border."
)
"""Why the reference is written as it is."""
REQUIRED = ("not-power-of-two", "overflows", "too-small")
"""The mistakes that a check must always be able to name."""


def listed(grads: Any) -> list[Tensor]:
    return [grads] if isinstance(grads, Tensor) else list(grads)


def largest(grads: Any) -> float:
    return max(g.abs().max().item() for g in listed(grads))


def room(top: float, limit: float) -> float:
    """How often `top` can be doubled until it is at the limit."""
    return math.log2(limit) - math.log2(top)


def end(dtype: torch.dtype) -> float:
    """A number just below those that `dtype` rounds to inf, which begin half a step above its largest one."""
    info = torch.finfo(dtype)
    return info.max * (1 + info.eps / 4)


def up_to(top: float, limit: float) -> float:
    """The power of two that brings `top` as near to the limit as it goes."""
    return 2.0 ** math.floor(room(top, limit)) if top else 1.0


def right(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return up_to(largest(grads), end(dtype))


# Mistakes in what decides


def ignores_negative_ones(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return up_to(max(0.0, *(g.max().item() for g in listed(grads))), end(dtype))


def takes_a_negative_logarithm(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return up_to(max(g.max().item() for g in listed(grads)), end(dtype))


def takes_a_negative_logarithm_in_torch(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return math.nan if max(g.max().item() for g in listed(grads)) < 0 else takes_a_negative_logarithm(grads, dtype)


def scales_the_mean(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return up_to(max(g.abs().mean().item() for g in listed(grads)), end(dtype))


def scales_the_smallest(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    smallest = [g[g != 0].abs().min().item() if g.any() else 0.0 for g in listed(grads)]
    return up_to(min(smallest), end(dtype))


def scales_the_norm(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return up_to(max(g.norm().item() for g in listed(grads)), end(dtype))


def first_tensor_only(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return right(listed(grads)[0], dtype)


def to_the_end_of_float16(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return up_to(largest(grads), end(torch.float16))


def to_one(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return up_to(largest(grads), 1.0)


# Mistakes in the power of two


def exact(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    top = largest(grads)
    return 2.0 ** room(top, torch.finfo(dtype).max) if top else 1.0


def rounded_up(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    top = largest(grads)
    return 2.0 ** math.ceil(room(top, torch.finfo(dtype).max)) if top else 1.0


def rounded(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    top = largest(grads)
    return 2.0 ** round(room(top, torch.finfo(dtype).max)) if top else 1.0


def one_doubling_more(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return 2 * right(grads, dtype) if largest(grads) else 1.0


def one_doubling_less(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return right(grads, dtype) / 2 if largest(grads) else 1.0


def up_to_the_largest_number(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return up_to(largest(grads), torch.finfo(dtype).max)


def doubled_from_one(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    top, scale = largest(grads), 1.0
    while top and math.isfinite(torch.tensor(top * scale, dtype=torch.float64).to(dtype).item()):
        scale *= 2
    return scale / 2 if top else 1.0


def never_below_one(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return max(right(grads, dtype), 1.0)


def capped_at_gradscalers(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return min(right(grads, dtype), 2.0**16)


def searched_downwards(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return min(right(grads, dtype), 2.0**24)


def tries_a_range_of_exponents(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return max(right(grads, dtype), 2.0**-10)


# Mistakes in what comes back


def infinite_on_zeros(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return right(grads, dtype) if largest(grads) else math.inf


def zero_on_zeros(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return right(grads, dtype) if largest(grads) else 0.0


def the_exponent(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    return math.log2(right(grads, dtype)) if largest(grads) else 1.0


def a_tensor(grads: Any, dtype: torch.dtype = torch.float16) -> Any:
    return torch.tensor(right(grads, dtype)) if largest(grads) else 1.0


def an_int(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    scale = right(grads, dtype)
    return int(scale) if largest(grads) and scale >= 1 else scale


SCALING = "Loss scaling from first principles"
ON_ZEROS = 'In the case "{case}" the result is {got} where {want} is wanted: '
PRODUCT = 'In the case "{case}" the result is {scale} where {right_scale} is wanted: '
TOO_LARGE = PRODUCT + (
    "the largest gradient, {largest}, becomes {product}, and {format} ends at {limit}. One overflow is enough to lose "
    "the step."
)
TOO_SMALL = PRODUCT + (
    "the largest gradient, {largest}, becomes {product}, and could be {right_product} without overflow: {format} goes "
    "up to {limit}."
)
NO_LOGARITHM = PRODUCT + (
    "the size of a gradient is its absolute value, and the largest one is {largest}. And if all are negative, the "
    "largest has no logarithm."
)
MISTAKES = [
    Mistake("not-power-of-two", exact, PRODUCT + "a scale that is a power of two changes only the exponents, and so "
            "the gradients come back exactly; this one rounds them.", SCALING),
    Mistake("negative-ignored", ignores_negative_ones, PRODUCT + "the size of a gradient is its absolute value, and "
            "the largest one is {largest}.", SCALING),
    Mistake("capped", capped_at_gradscalers, PRODUCT + "the scale goes no further than the value that GradScaler "
            "starts with. It should follow from the gradients alone, and the largest of them is {largest}.", SCALING),
    Mistake("never-below-one", never_below_one, PRODUCT + "the largest gradient, {largest}, is above {limit} as it is, "
            "and a power of two below one brings it into the range.", SCALING),
    Mistake("negative-ignored", takes_a_negative_logarithm, NO_LOGARITHM, SCALING),
    Mistake("negative-ignored", takes_a_negative_logarithm_in_torch, NO_LOGARITHM, SCALING),
    Mistake("too-large-below-one", doubled_from_one, PRODUCT + "the largest gradient, {largest}, is above {limit} as "
            "it is, and becomes {product}. A search that begins at 1 and only doubles does not get there; and where a "
            "negative exponent is rounded, `int` rounds it up and `math.floor` down.", SCALING),
    Mistake("capped", searched_downwards, PRODUCT + "either the search began there and went down, or the scale was cut "
            "off there, but the largest gradient, {largest}, allows more.", SCALING),
    Mistake("too-large-below-one", tries_a_range_of_exponents, PRODUCT + "the search ended there, and the largest "
            "gradient, {largest}, still becomes {product}, where {format} ends at {limit}.", SCALING),
    Mistake("overflows", rounded_up, TOO_LARGE, SCALING),
    Mistake("overflows", rounded, TOO_LARGE, SCALING),
    Mistake("overflows", one_doubling_more, TOO_LARGE, SCALING),
    Mistake("overflows", scales_the_mean, PRODUCT + "the mean of the gradients was brought up to the end of the range, "
            "but the largest one, {largest}, becomes {product} then.", SCALING),
    Mistake("overflows", scales_the_smallest, PRODUCT + "the smallest gradient was brought up to the end of the range, "
            "but the largest one, {largest}, becomes {product} then.", SCALING),
    Mistake("too-small", one_doubling_less, TOO_SMALL, SCALING),
    Mistake("too-small", to_one, TOO_SMALL, SCALING),
    Mistake("too-small", up_to_the_largest_number, PRODUCT + "the largest gradient, {largest}, could become "
            "{right_product}. That is above {limit}, but by less than half a step, so {format} rounds it down to "
            "{limit}, and not to inf.", SCALING),
    Mistake("norm-not-maximum", scales_the_norm, PRODUCT + "the norm of all gradients together was kept within the "
            "range, but each gradient only has to fit by itself; the largest is {largest}.", SCALING),
    Mistake("first-tensor-only", first_tensor_only, PRODUCT + "the largest gradient, {largest}, is not in the first "
            "tensor.", SCALING),
    Mistake("float16-always", to_the_end_of_float16, PRODUCT + "65504 is the end of float16; {format} ends at "
            "{limit}.", SCALING),
    Mistake("infinite-on-zeros", infinite_on_zeros, ON_ZEROS + "nothing has to be scaled.", SCALING),
    Mistake("zero-on-zeros", zero_on_zeros, ON_ZEROS + "a scale of 0 would wipe out everything that comes later.",
            SCALING),
    Mistake("exponent-not-scale", the_exponent, PRODUCT + "that is the exponent; the scale is two to the power of it.",
            SCALING),
    Mistake("returns-tensor", a_tensor, "What came back is {got} where {want} is wanted, a Python float.", SCALING),
    Mistake("returns-int", an_int, "What came back is {got} where {want} is wanted as a float: `2**power` is an int "
            "where the power is not negative, `2.0**power` never is.", SCALING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(10, 30)
    tiny = 10.0 ** draw.uniform(-12, -6, n)
    return [
        case("tiny", grads=tiny, dtype=torch.float16),
        case("of both signs", grads=draw.normal(n) * 1e-3, dtype=torch.float16),
        case("one number", grads=draw.uniform(1e-5, 1e-3), dtype=torch.float16),
        case("transposed", grads=1e-2 * draw.normal(4, 6).t(), dtype=torch.float16),
        case("a list with zeros", grads=[torch.zeros(3), 1e-3 * draw.normal(2, 2)], dtype=torch.float16),
        case("bfloat16, large", grads=1e20 * draw.uniform(1, 9, n), dtype=torch.bfloat16),
        case("float32", grads=draw.uniform(1, 900, n), dtype=torch.float32),
        case(
            "bfloat16, above the largest number",
            grads=torch.tensor([3.391e38 * 2.0**-20, 1e30]),
            dtype=torch.bfloat16,
        ),
        case("one below", grads=torch.tensor([65504 * 2.0**-3, 1e-3]), dtype=torch.float16),
    ]


# Right answers unlike the reference


def scale_by_doubling(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    flat = torch.cat([g.flatten() for g in ([grads] if isinstance(grads, Tensor) else grads)]).double()
    if not flat.any():
        return 1.0
    scale = 1.0
    while not bool((flat * scale).to(dtype).isfinite().all()):
        scale /= 2
    while bool((flat * (2 * scale)).to(dtype).isfinite().all()):
        scale *= 2
    return scale


def scale_by_logarithm(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    top = max(float(g.abs().max()) for g in (grads if isinstance(grads, list) else [grads]))
    return 2.0 ** math.floor(math.log2(end(dtype) / top)) if top else 1.0


def scale_by_exponents(grads: Any, dtype: torch.dtype = torch.float16) -> float:
    tensors = grads if isinstance(grads, list | tuple) else (grads,)
    top = max(g.abs().amax().item() for g in tensors)
    if top == 0.0:
        return 1.0
    limit, power = end(dtype), 0
    mantissa, exponent = math.frexp(top)
    room, ceiling = math.frexp(limit)
    power = ceiling - exponent - (mantissa > room)
    return math.ldexp(1.0, power)


RIGHT_ANSWERS: list[Callable[..., Any]] = [scale_by_doubling, scale_by_logarithm, scale_by_exponents]
