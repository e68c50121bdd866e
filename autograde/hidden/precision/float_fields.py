"""The exercise `float_fields`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`view` with an integer dtype of the same width reads the bits as they are, where `.to` would convert the "
    "value. Integers have a sign, so the mask brings them back to bits; shifts and masks then cut out the three"
    " fields."
)
"""Why the reference is written as it is."""
REQUIRED = ("truncates-not-rounds", "wrong-width")
"""The mistakes that a check must always be able to name."""


def widths(dtype: torch.dtype) -> tuple[int, int]:
    """The bits of exponent and mantissa."""
    return {torch.float16: (5, 10), torch.bfloat16: (8, 7), torch.float32: (8, 23)}[dtype]


def rounded(x: float, dtype: torch.dtype) -> Tensor:
    return torch.tensor(x, dtype=torch.float64).to(dtype)


def signed_bits(x: float, dtype: torch.dtype) -> int:
    return int(rounded(x, dtype).view(torch.int32 if dtype == torch.float32 else torch.int16).item())


def bits(x: float, dtype: torch.dtype) -> int:
    return signed_bits(x, dtype) & (1 << torch.finfo(dtype).bits) - 1


def divided(stored: int, dtype: torch.dtype) -> tuple[int, int, int]:
    e, m = widths(dtype)
    return stored >> (e + m), (stored >> m) & (2**e - 1), stored & (2**m - 1)


def right(x: float, dtype: torch.dtype) -> tuple[int, int, int]:
    return divided(bits(x, dtype), dtype)


def truncates(x: float, dtype: torch.dtype) -> Any:
    went_up = rounded(x, dtype).double().abs() > abs(x)
    return divided(bits(x, dtype) - int(went_up), dtype)


def cuts_float32_in_two(x: float, dtype: torch.dtype) -> Any:
    """Takes bfloat16 for the upper half of float32's bits."""
    return divided(bits(x, torch.float32) >> 16, torch.bfloat16) if dtype == torch.bfloat16 else right(x, dtype)


def wrong_width(x: float, dtype: torch.dtype) -> Any:
    return divided(bits(x, dtype), {torch.float16: torch.bfloat16, torch.bfloat16: torch.float16}.get(dtype, dtype))


def dtype_ignored(x: float, dtype: torch.dtype) -> Any:
    return right(x, torch.float32)


def exponent_unbiased(x: float, dtype: torch.dtype) -> Any:
    s, e, m = right(x, dtype)
    return s, e - (2 ** (widths(dtype)[0] - 1) - 1), m


def leading_one_included(x: float, dtype: torch.dtype) -> Any:
    s, e, m = right(x, dtype)
    return s, e, m + (2 ** widths(dtype)[1] if e else 0)


def sign_extended(x: float, dtype: torch.dtype) -> Any:
    return divided(signed_bits(x, dtype), dtype)


def sign_left_in_the_exponent(x: float, dtype: torch.dtype) -> Any:
    s, _, m = right(x, dtype)
    return s, bits(x, dtype) >> widths(dtype)[1], m


def sign_of_zero_lost(x: float, dtype: torch.dtype) -> Any:
    return int(x < 0), *right(x, dtype)[1:]


def subnormals_lost(x: float, dtype: torch.dtype) -> Any:
    s, e, m = right(x, dtype)
    return s, e, m if e else 0


def mantissa_as_fraction(x: float, dtype: torch.dtype) -> Any:
    s, e, m = right(x, dtype)
    return s, e, m / 2 ** widths(dtype)[1]


def mantissa_before_exponent(x: float, dtype: torch.dtype) -> Any:
    s, e, m = right(x, dtype)
    return s, m, e


def fails_on_nan(x: float, dtype: torch.dtype) -> Any:
    return right(float(Fraction(x)) if math.isfinite(x) or math.isnan(x) else x, dtype)


def takes_nan_for_infinity(x: float, dtype: torch.dtype) -> Any:
    return right(math.inf if math.isnan(x) else x, dtype)


def returns_tensors(x: float, dtype: torch.dtype) -> Any:
    return tuple(torch.tensor(field) for field in right(x, dtype))


BITS = "The bits of a number"
ENTRY = "In {dtype}, {number} is {right}, and the answer was {fields}: "
CUT = ENTRY + (
    "the bits that do not fit were cut off. A conversion rounds to the nearest number and, if two are equally near, to "
    "the even one."
)
MISTAKES = [
    Mistake("truncates-not-rounds", truncates, CUT, BITS),
    Mistake("truncates-not-rounds", cuts_float32_in_two, CUT, BITS),
    Mistake("wrong-width", wrong_width, ENTRY + "that divides the bits in the wrong places. float16 has 5 bits of "
            "exponent and 10 of mantissa, bfloat16 has 8 and 7.", BITS),
    Mistake("dtype-ignored", dtype_ignored, ENTRY + "these are the bits of the same number in float32.", BITS),
    Mistake("exponent-unbiased", exponent_unbiased, ENTRY + "the bias was taken off the exponent; the stored number is "
            "wanted.", BITS),
    Mistake("leading-one-included", leading_one_included, ENTRY + "the leading 1 of the mantissa is not stored, so it "
            "is not part of the field.", BITS),
    Mistake("sign-extended", sign_extended, ENTRY + "the sign is one bit, and 1 for a negative number. Either -1 was "
            "returned for it, or a negative integer was shifted right, which fills up with ones.", BITS),
    Mistake("sign-left-in-the-exponent", sign_left_in_the_exponent, ENTRY + "shifting leaves the sign bit in front of "
            "the exponent; `&` with as many ones as the field has bits takes it away.", BITS),
    Mistake("sign-of-zero-lost", sign_of_zero_lost, ENTRY + "minus zero has its sign bit set, though it is not smaller "
            "than zero.", BITS),
    Mistake("subnormals-lost", subnormals_lost, ENTRY + "where the stored exponent is 0, the mantissa still counts: "
            "these are the subnormal numbers, which fill the gap below the smallest normal one.", BITS),
    Mistake("mantissa-as-fraction", mantissa_as_fraction, ENTRY + "the mantissa is wanted as the integer that its bits "
            "make.", BITS),
    Mistake("fails-on-nan", fails_on_nan, "For {number} the call raised {error}: NaN is a float as well, with an "
            "exponent of all ones and a mantissa that is not 0.", BITS),
    Mistake("takes-nan-for-infinity", takes_nan_for_infinity, ENTRY + "a mantissa of 0 makes it infinity; NaN has the "
            "same exponent, and a mantissa that is not 0.", BITS),
    Mistake("fields-in-another-order", mantissa_before_exponent, ENTRY + "the order is sign, exponent, mantissa.",
            BITS),
    Mistake("returns-tensors", returns_tensors, "`{what}` came out as {got} where {want} is wanted: return Python "
            "ints, which `.item()` gives.", BITS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(low: int, high: int) -> float:
        return float(draw.uniform(1, 2, 1).item() * 2.0 ** draw.size(low, high) * draw.pick([1, -1]))

    return [
        case("drawn, float16", x=drawn(-14, 15), dtype=torch.float16),
        case("drawn and small, float16", x=drawn(-23, -15), dtype=torch.float16),
        case("drawn, bfloat16", x=drawn(-100, 100), dtype=torch.bfloat16),
        case("drawn, float32", x=drawn(-100, 100) / 3, dtype=torch.float32),
        case("infinity, float32", x=math.inf, dtype=torch.float32),
        case("minus infinity, float16", x=-math.inf, dtype=torch.float16),
        case("the largest float16", x=65504.0, dtype=torch.float16),
        case("just below half way to too large", x=65519.0, dtype=torch.float16),
        case("half of the smallest float16", x=2.0**-25, dtype=torch.float16),
        case("zero", x=0.0, dtype=torch.float32),
        case("half way, to the even neighbour above", x=1 + 3 * 2.0**-8, dtype=torch.bfloat16),
        case("too large for bfloat16", x=3.4e38, dtype=torch.bfloat16),
    ]


# Right answers unlike the reference


def fields_by_struct(x: float, dtype: torch.dtype) -> tuple[int, int, int]:
    rounded = torch.tensor([x], dtype=torch.float64).to(dtype).item()
    if dtype == torch.float16:
        (bits,) = struct.unpack(">H", struct.pack(">e", rounded))
        return bits >> 15, bits >> 10 & 31, bits & 1023
    (bits,) = struct.unpack(">I", struct.pack(">f", rounded))
    sign, exponent, mantissa = bits >> 31, bits >> 23 & 255, bits & 0x7FFFFF
    return sign, exponent, mantissa >> 16 if dtype == torch.bfloat16 else mantissa


def fields_by_hand(x: float, dtype: torch.dtype) -> list[int]:
    """With fractions: no tensor, no bits; rounding half to even is Python's own."""
    width, bias = {torch.float16: (10, 15), torch.bfloat16: (7, 127), torch.float32: (23, 127)}[dtype]
    sign = int(math.copysign(1, x) < 0)
    if math.isnan(x):
        return [sign, 2 * bias + 1, 1]
    if math.isinf(x):
        return [sign, 2 * bias + 1, 0]
    if x == 0:
        return [sign, 0, 0]
    size = Fraction(abs(x))
    power = max(math.frexp(abs(x))[1] - 1, 1 - bias)
    units = round(size / Fraction(2) ** (power - width))
    if units < 2**width:
        return [sign, 0, units]
    if units == 2 ** (width + 1):
        power, units = power + 1, 2**width
    if power > bias:
        return [sign, 2 * bias + 1, 0]
    return [sign, power + bias, units - 2**width]


def fields_in_text(x: float, dtype: torch.dtype) -> tuple[Any, ...]:
    t = torch.tensor(x, dtype=torch.float64).to(dtype)
    raw = np.frombuffer(bytes(t.reshape(1).view(torch.uint8).tolist()), "<u4" if t.itemsize == 4 else "<u2")[0]
    text = format(int(raw), f"0{8 * t.itemsize}b")
    exponent = 5 if dtype == torch.float16 else 8
    return int(text[0]), int(text[1 : 1 + exponent], 2), int(text[1 + exponent :], 2)


RIGHT_ANSWERS: list[Callable[..., Any]] = [fields_by_struct, fields_by_hand, fields_in_text]
