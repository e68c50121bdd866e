"""The exercise `fake_quantize`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import reading, with_floats
from autograde.source.mistakes import Mistake
from torchcourse.exercises.efficiency.fake_quantize import grid_case
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Rounding has no useful derivative, so backward pretends that it was not there: the straight-through estimator. "
    "Where a value was cut, moving it changes nothing, and the honest gradient is zero. Both follow from one mask, "
    "made of the rounded level before it is cut."
)
"""Why the reference is written as it is."""
REQUIRED = ("gradient-is-zero", "no-clip-in-gradient", "zero-point-inside-rounding")
"""The mistakes that a check must always be able to name."""

READ = "Training with rounding"


def level_of(x: Tensor, scale: float, zero_point: int) -> Tensor:
    return (x / scale).round() + zero_point


def back(level: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    return (level.clamp(low, high) - zero_point) * scale


def through(x: Tensor, y: Tensor, passes: Tensor) -> Tensor:
    """Return y, with the gradient of x where it passes."""

    class Pretend(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return y.detach().clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * passes

    result: Tensor = Pretend.apply(x)
    return result


def right(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = level_of(x, scale, zero_point).detach()
    return through(x, back(level, scale, zero_point, low, high), (level >= low) & (level <= high))


def plain(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    return back(level_of(x, scale, zero_point), scale, zero_point, low, high)


def detached(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    return plain(x, scale, zero_point, low, high).detach()


def unclipped(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    y = plain(x, scale, zero_point, low, high)
    return x + (y - x).detach()


def inside(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = (x / scale + zero_point).round().detach()
    return through(x, back(level, scale, zero_point, low, high), (level >= low) & (level <= high))


def half_up(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = ((x / scale + 0.5).floor() + zero_point).detach()
    return through(x, back(level, scale, zero_point, low, high), (level >= low) & (level <= high))


def truncated(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = ((x / scale).trunc() + zero_point).detach()
    return through(x, back(level, scale, zero_point, low, high), (level >= low) & (level <= high))


def mask_before_rounding(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level, place = level_of(x, scale, zero_point).detach(), (x / scale + zero_point).detach()
    return through(x, back(level, scale, zero_point, low, high), (place >= low) & (place <= high))


def open_range(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = level_of(x, scale, zero_point).detach()
    return through(x, back(level, scale, zero_point, low, high), (level > low) & (level < high))


def mask_of_x(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = level_of(x, scale, zero_point).detach()
    return through(x, back(level, scale, zero_point, low, high), (x.detach() >= low) & (x.detach() <= high))


def mask_without_zero_point(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level, inner = level_of(x, scale, zero_point).detach(), x.detach()
    passes = (inner >= low * scale) & (inner <= high * scale)
    return through(x, back(level, scale, zero_point, low, high), passes)


def torchs_own(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    return torch.fake_quantize_per_tensor_affine(x, scale, zero_point, low, high)


def not_cut(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = level_of(x, scale, zero_point).detach()
    return through(x, (level - zero_point) * scale, (level >= low) & (level <= high))


def not_back(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = level_of(x, scale, zero_point).detach()
    return through(x, level.clamp(low, high), (level >= low) & (level <= high))


def zero_point_stays(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = level_of(x, scale, zero_point).detach()
    return through(x, level.clamp(low, high) * scale, (level >= low) & (level <= high))


def zero_point_subtracted(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    return right(x, scale, -zero_point, low, high)


def cut_before_shift(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    return right(x, scale, 0, low, high)


def gradient_scaled(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = level_of(x, scale, zero_point).detach()
    passes = ((level >= low) & (level <= high)) * scale
    return through(x, back(level, scale, zero_point, low, high), passes)


def gradient_clamped(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    y = plain(x, scale, zero_point, low, high).detach()

    class Clamped(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return y.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad.clamp(-1, 1)

    result: Tensor = Clamped.apply(x)
    return result


def gradient_clamped_where_it_passes(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    y = right(x, scale, zero_point, low, high)
    if y.requires_grad:
        x.register_hook(lambda grad: grad.clamp(-1, 1))  # type: ignore[no-untyped-call]
    return y


def gradient_cut_to_levels(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    y = plain(x, scale, zero_point, low, high).detach()

    class Cut(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return y.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad.clamp(low, high)

    result: Tensor = Cut.apply(x)
    return result


def ignores_grad(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = level_of(x, scale, zero_point).detach()
    y, passes = back(level, scale, zero_point, low, high), (level >= low) & (level <= high)

    class Ones(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return y.clone()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return passes.to(grad.dtype)

    result: Tensor = Ones.apply(x)
    return result


NUMBER = (
    'In the case "{case}", for the number {number}, which is {steps} steps, `{what}` is {got} where {want} is wanted: '
)
GRADIENT = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("gradient-is-zero", plain, GRADIENT + "the derivative of `round` is zero, so nothing comes back.",
            READ),
    Mistake("gradient-is-zero", detached, GRADIENT + "the result has no history: it was detached, made under "
            "`no_grad`, or went through ints.", READ),
    Mistake("no-clip-in-gradient", unclipped, NUMBER + "the number lies outside the range and was cut, so its gradient "
            "should be zero.", READ),
    Mistake("zero-point-inside-rounding", inside, NUMBER + "the zero point was added before rounding. An odd one turns "
            "the even neighbour of a half into an odd one.", READ),
    Mistake("half-up", half_up, NUMBER + "a half was rounded up; it goes to the even neighbour.", READ),
    Mistake("truncates", truncated, NUMBER + "the level was truncated, not rounded.", READ),
    Mistake("mask-before-rounding", mask_before_rounding, NUMBER + "the rounded level decides whether the number is in "
            "range.", READ),
    Mistake("range-without-its-ends", open_range, NUMBER + "the lowest and the highest level belong to the range, "
            "where the gradient of `clamp` may be 0.", READ),
    Mistake("mask-of-x", mask_of_x, NUMBER + "`low` and `high` are levels, but x itself was compared with them.", READ),
    Mistake("mask-without-zero-point", mask_without_zero_point, NUMBER + "for the gradient, x was compared with `low` "
            "and `high` times the scale, and the zero point was left out.", READ),
    Mistake("computed-in-float32", torchs_own, GRADIENT + "only the first digits are right, as if computed in float32, "
            "which is what torch's own fake quantization does.", READ),
    Mistake("not-cut", not_cut, NUMBER + "a level outside the range has to be cut to its end.", READ),
    Mistake("not-dequantized", not_back, NUMBER + "this is the level; the way back to a number is missing.", READ),
    Mistake("zero-point-stays", zero_point_stays, NUMBER + "the zero point was added and not subtracted again.", READ),
    Mistake("zero-point-subtracted", zero_point_subtracted, NUMBER + "the zero point has to be added on the way to "
            "levels and subtracted on the way back.", READ),
    Mistake("zero-point-ignored", cut_before_shift, NUMBER + "the level was cut before the zero point was added; add "
            "it first.",
            READ),
    Mistake("gradient-scaled", gradient_scaled, NUMBER + "dividing by the scale and multiplying by it cancel out: the "
            "gradient passes as it is.", READ),
    Mistake("clamps-the-gradient", gradient_clamped, NUMBER + "the gradient itself is never cut; it passes or it does "
            "not.", READ),
    Mistake("clamps-the-gradient", gradient_clamped_where_it_passes, NUMBER + "where the gradient passes, it passes as "
            "it is; only x decides, and large gradients are not cut.", READ),
    Mistake("clamps-the-gradient", gradient_cut_to_levels, NUMBER + "the gradient itself is never cut; it passes or it "
            "does not.", READ),
    Mistake("ignores-grad-output", ignores_grad, NUMBER + "the gradient that arrives has to be passed on.", READ),
    *reading(READ, with_floats(right)),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    low = -draw.size(3, 9)
    return [
        grid_case(
            draw, "a drawn grid", 20, 2.0 ** -draw.size(1, 4), 2 * draw.size(-2, 2) + 1, low, low + draw.size(6, 14)
        ),
        grid_case(draw, "two levels", 8, 1.0, 0, 0, 1),
        case("no numbers", scale=0.5, zero_point=0, low=-8, high=7, x=torch.empty(0)),
        case("a strided table", rtol=1e-5, atol=1e-6, scale=0.25, zero_point=-1, low=-8, high=7, x=draw.normal(4, 3).T),
    ]


# Right answers unlike the reference


def by_torch(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    base = torch.where(_in_range(x, scale, zero_point, low, high), x, x.detach())
    y = torch.clamp(torch.round(x.detach() / scale) + zero_point, low, high)
    return base + ((y - zero_point) * scale - base).detach()


def _in_range(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    level = torch.round(x.detach() / scale) + zero_point
    return level.clamp(low, high) == level


class _Kept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
        level = torch.round(x / scale)
        ctx.save_for_backward(level.ge(low - zero_point).logical_and(level.le(high - zero_point)))
        return level.clamp(low - zero_point, high - zero_point).mul(scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (passes,) = ctx.saved_tensors
        return grad.masked_fill(~passes, 0), None, None, None, None


def by_function(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    result: Tensor = _Kept.apply(x, scale, zero_point, low, high)
    return result


def by_clamping_a_straight_line(x: Tensor, scale: float, zero_point: int, low: int, high: int) -> Tensor:
    steps = x / scale
    rounded = steps + (steps.round() - steps).detach()
    keep = _in_range(x, scale, zero_point, low, high)
    bounds = (steps.detach().round() + zero_point).clamp(low, high) - zero_point
    return torch.where(keep, rounded, bounds) * scale


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_torch, by_function, by_clamping_a_straight_line]
