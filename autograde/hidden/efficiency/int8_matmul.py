"""The exercise `int8_matmul`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import anywhere, reading
from autograde.hidden.common import writing_into as written_into
from autograde.source.mistakes import Mistake
from torchcourse.exercises.efficiency.int8_matmul import product_case
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "float64 holds every integer up to 2**53, so the sum is exact, and it has a matrix product on every device; int32 "
    "has one on the CPU only. The scales do not depend on k, so they may come after the sum: rows times `a_scale`, "
    "columns times `b_scale` transposed."
)
"""Why the reference is written as it is."""
REQUIRED = ("accumulates-in-int8", "adds-scales", "scale-on-wrong-side")
"""The mistakes that a check must always be able to name."""

READ = "Integer arithmetic"


def product(a: Tensor, b: Tensor) -> Tensor:
    return a.double() @ b.double().T


def right(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (product(a, b) * a_scale * b_scale.T).float()


def in_int8(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (a @ b.T).float() * a_scale * b_scale.T


def in_int16(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (a.short() @ b.short().T).float() * a_scale * b_scale.T


def scales_first(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (a * a_scale) @ (b * b_scale).T


def in_float32(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    total = torch.zeros(len(a), len(b), device=a.device)
    for columns in zip(a.float().split(96, 1), b.float().split(96, 1), strict=True):  # type: ignore[no-untyped-call]
        total = total + columns[0] @ columns[1].T
    return total * a_scale * b_scale.T


def in_float32_at_once(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (a.float() @ b.float().T) * a_scale * b_scale.T


def in_long_blocks(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    total = torch.zeros(len(a), len(b), dtype=torch.int64, device=a.device)
    for i in range(0, a.shape[1], 1200):
        total += (a[:, i : i + 1200].float() @ b[:, i : i + 1200].float().T).long()
    return total * a_scale * b_scale.T


def in_bfloat16(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (a.bfloat16() @ b.bfloat16().T).float() * a_scale * b_scale.T


def adds_scales(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (product(a, b) * (a_scale + b_scale.T)).float()


def divides(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (product(a, b) / (a_scale * b_scale.T)).float()


def one_scale(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (product(a, b) * a_scale).float()


def no_scale(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return product(a, b).float()


def wrong_side(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (product(a, b) * a_scale * b_scale).float()


def both_on_rows(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    rows = b_scale.flatten().repeat(len(a))[: len(a), None]
    return (product(a, b) * a_scale * rows).float()


def not_transposed(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (a.double() @ b.double() * a_scale * b_scale.T).float()


def reshaped(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return (a.double() @ b.double().reshape(b.shape[::-1]) * a_scale * b_scale.T).float()


def other_way_round(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return right(b, a, b_scale, a_scale)


def in_float64(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return product(a, b) * a_scale.double() * b_scale.T.double()


def back_to_int8(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    return product(a, b).clamp(-127, 127) * a_scale * b_scale.T.float()


AT = 'In the case "{case}" the value at {at} is {got_at} and should be {want_at}: '
OFF = 'In the case "{case}" `{what}` is {got}: '
FLOAT = (
    "with k = {k}, sums were taken in float32, which holds every integer only up to 2**24 (1,041 products of 127 by "
    "127 can exceed that); levels that were scaled first are not even integers."
)
VALUE = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("accumulates-in-int8", in_int8, AT + "a product of int8 matrices is int8 as well, and what does not fit "
            "wraps around.", READ),
    Mistake("accumulates-in-int16", in_int16, AT + "int16 holds no more than 32767, which is two products of 127 by "
            "127.", READ),
    Mistake("accumulates-in-float32", in_float32, OFF + FLOAT, READ),
    Mistake("accumulates-in-float32", in_float32_at_once, OFF + FLOAT, READ),
    Mistake("accumulates-in-float32", scales_first, OFF + FLOAT, READ),
    Mistake("accumulates-in-float32", in_long_blocks, OFF + FLOAT, READ),
    Mistake("accumulates-in-bfloat16", in_bfloat16, AT + "bfloat16 has eight significant bits: enough for an entry, "
            "not for a product or a sum.", READ),
    Mistake("adds-scales", adds_scales, AT + "the scales were added; each of the two is a factor.", READ),
    Mistake("divides-by-scales", divides, AT + "to give back the numbers that the levels stand for, multiply by the "
            "scales.", READ),
    Mistake("one-scale-missing", one_scale, AT + "`b_scale` is missing.", READ),
    Mistake("scales-missing", no_scale, AT + "the scales are missing: this is the product of the levels.", READ),
    Mistake("scale-on-wrong-side", wrong_side, VALUE + "`b_scale` of shape (m, 1) was applied to the rows of the "
            "result; it belongs to the columns.", READ),
    Mistake("scale-on-wrong-side", both_on_rows, AT + "`b_scale` was applied to the rows of the result; it belongs to "
            "the columns.", READ),
    Mistake("b-not-transposed", not_transposed, VALUE + "both matrices have k columns, so b has to be transposed.",
            READ),
    Mistake("b-reshaped", reshaped, VALUE + "b was given the shape (k, m) by `reshape` or `view`, which cuts its rows "
            "elsewhere; `b.T` transposes it.", READ),
    Mistake("result-transposed", other_way_round, "The result has shape {got_shape} where {want_shape} is wanted: rows "
            "are those of a, columns those of b.", READ),
    Mistake("wrong-dtype", in_float64, "The result is {got} where {want} is wanted.", READ),
    Mistake("clamps-the-product", back_to_int8, 'In the case "{case}" `{what}` is {got} where {want} is wanted, and '
            'the product was cut to ±127: the levels lie in that range, but sums of their products do not.', READ),
    *reading(READ, anywhere(right)),
    *reading(READ, [Mistake("changes-its-input", written_into(i, right), 'In the case "{case}" the caller\'s own '
                            "tensor was {got} by the call, and should be {want}.", READ) for i in (0, 1)]),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, k, m = draw.size(2, 6), draw.size(3, 30), draw.size(2, 6)
    strided = draw.integers(-127, 128, k, n, dtype=torch.int8).T
    others = draw.integers(-127, 128, m, 2 * k, dtype=torch.int8)[:, ::2]
    scales = draw.uniform(1e-3, 2e-3, n, 1), draw.uniform(1e-3, 2e-3, m, 1)
    return [
        product_case(draw, "drawn sizes", n, k, m),
        product_case(draw, "one row each", 1, k, 1),
        product_case(draw, "as many rows as columns", k, k, k),
        product_case(draw, "long sums that nearly cancel", n, 59, m, low=124, high=128, repeats=draw.size(2500, 3000)),
        case("strided", rtol=1e-5, a=strided, b=others, a_scale=scales[0], b_scale=scales[1]),
        case("nothing to add", a=torch.empty(n, 0, dtype=torch.int8), b=torch.empty(m, 0, dtype=torch.int8),
             a_scale=scales[0], b_scale=scales[1]),
    ]  # fmt: skip


# Right answers unlike the reference


def by_einsum(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    exact = torch.einsum("nk,mk->nm", a.to(torch.float64), b.to(torch.float64))
    return torch.mul(exact.to(torch.float32), a_scale @ b_scale.T)


def by_long_sums(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    rows = [(row.long() * b.long()).sum(1) for row in a]
    return torch.stack(rows).float() * a_scale * b_scale.squeeze(1)


def in_blocks(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    total = torch.zeros(len(a), len(b), dtype=torch.int64, device=a.device)
    for i in range(0, a.shape[1], 512):
        total += (a[:, i : i + 512].float() @ b[:, i : i + 512].float().T).long()  # below 2**24: exact
    return total * (a_scale * b_scale.reshape(1, -1))


def in_int32(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor) -> Tensor:
    exact = torch.empty(len(a), len(b), dtype=torch.int32, device=a.device)
    for i, row in enumerate(a.int()):
        exact[i] = (row * b.int()).sum(1, dtype=torch.int32)
    return exact * a_scale * b_scale.T


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_einsum, by_long_sums, in_blocks, in_int32]
