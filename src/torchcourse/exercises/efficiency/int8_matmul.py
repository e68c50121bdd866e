"""The exercise `int8_matmul`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, look

ROUNDED = "off by less than a thousandth of what the products add up to without signs"
MAX_ROUNDING = 1e-3


def probe(
    answer: Watched, a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, repeats: int = 0, sign: int = -1
) -> Observations:
    """Observe the product of two quantized matrices; with `repeats`, long ones, whose sums cancel or grow."""
    a, b = factors(a, b, repeats, sign)
    given = {"a": a, "b": b, "a_scale": a_scale, "b_scale": b_scale}
    before = {name: t.clone() for name, t in given.items()}
    seen = look(answer(*given.values()), a)
    return {**seen, **kept(**{name: (t, before[name]) for name, t in given.items()})}


def derive(case: Case, seen: Observations) -> Observations:
    """Part the numbers from their dtype, so that a wrong one of these does not hide what is wrong with the other.

    Which numbers a long sum in float32 ends with depends on the CPU, so only how far they are off is kept.
    """
    result = seen.get("result")
    if not isinstance(result, Tensor) or result.is_complex():
        return seen
    parted = {**seen, "result": result.float(), "dtype": result.dtype}
    return {**parted, "result": ROUNDED} if case.inputs["repeats"] and is_rounded(case, parted["result"]) else parted


def is_rounded(case: Case, result: Tensor) -> bool:
    """Return whether a result is wrong by less than `MAX_ROUNDING` of what the products add up to without signs."""
    a, b, repeats, sign = (case.inputs[name] for name in ("a", "b", "repeats", "sign"))
    a, b = (factor.double() for factor in factors(a, b, repeats, sign))
    scale = case.inputs["a_scale"].double() * case.inputs["b_scale"].double().T
    exact, size = (a @ b.T) * scale, (a.abs() @ b.abs().T) * scale
    if result.shape != exact.shape:
        return False
    error = (result.double().cpu() - exact).abs()
    tolerance = case.tolerance.atol + case.tolerance.rtol * exact.abs()
    return bool((error > tolerance).any() and (error < MAX_ROUNDING * size).all())


def factors(a: Tensor, b: Tensor, repeats: int, sign: int) -> tuple[Tensor, Tensor]:
    """Return the matrices that the answer gets: with `repeats`, long ones, whose sums cancel or grow."""
    return (there_and_back(a, sign, repeats), there_and_back(b, 1, repeats)) if repeats else (a, b)


def there_and_back(t: Tensor, sign: int, repeats: int) -> Tensor:
    """Return `t` many times over, its first three columns, and the many times backwards with this sign.

    Backwards, because threads that take half of the sum each could make equal errors, which cancel.
    """
    many = t.repeat(1, repeats)
    return torch.cat([many, t[:, :3], sign * many.flip(1)], dim=1)


def product_case(
    draw: Draw,
    name: str,
    n: int,
    k: int,
    m: int,
    *,
    low: int = -127,
    high: int = 128,
    repeats: int = 0,
    sign: int = -1,
    rtol: float = 1e-5,
) -> Case:
    """Return the case of matrices with entries in [low, high) and drawn scales."""
    a, b = (draw.integers(low, high, rows, k, dtype=torch.int8) for rows in (n, m))
    scales = draw.uniform(0.5, 2, n, 1), draw.uniform(0.5, 2, m, 1)
    return case(name, rtol=rtol, atol=1e-4, a=a, b=b, a_scale=scales[0], b_scale=scales[1], repeats=repeats,
                sign=sign)  # fmt: skip


def cases(draw: Draw) -> list[Case]:
    n, m = draw.size(2, 3), draw.size(4, 5)
    return [
        product_case(draw, "small numbers", n, 3, m, low=-3, high=4),
        product_case(draw, "large numbers", n, draw.size(6, 9), m),
        product_case(draw, "square", 4, 4, 4),
        product_case(draw, "-128 among them", n, 8, m, low=-128, high=-120),
        # of a prime number of columns, so that blocks of the sum are unlike each other, and their errors do not cancel
        product_case(draw, "sums beyond 2**24 that nearly cancel", 2, 53, 3, low=124, high=128, repeats=3000),
        # whether a float32 sum of it is right to five digits depends on the CPU
        product_case(draw, "a sum near 2**31", 1, 48, 2, low=105, high=128, repeats=1350, sign=1, rtol=1e-3),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"k": inputs["a"].shape[1] * 2 * inputs["repeats"] or inputs["a"].shape[1]}
    return fields | ({"device": seen["device"]} if "device" in seen else {})


EXERCISE = Exercise(
    "int8_matmul",
    probe,
    cases,
    hints=(
        "The product of two int8 numbers can be 16129, and you add many of them. In which dtype do they have to be "
        "before the product is taken, so that nothing wraps and nothing is rounded?",
        "`q * scale` gives a row back. If row i of a stands for `a[i] * a_scale[i]`, what stands before the sum over k "
        "in entry (i, j), and what may therefore be multiplied after it?",
        "`a_scale` is (n, 1) and the result (n, m): that broadcasts. `b_scale` is (m, 1), and it belongs to the "
        "columns of the result. What turns it round?",
    ),
    derive=derive,
    quotes=quotes,
)
