"""The exercise `LogSigmoid`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.autograd.shared import DTYPE, REMEMBERS, Backward, Rule, function, remembering
from autograde.hidden.common import ERRORS, MIXED
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`min(x, 0) - log1p(exp(-|x|))` only ever raises e to negative numbers, so neither end overflows. Its slope"
    " is `sigmoid(-x)`; the same thing as `1 - sigmoid(x)` is exactly 0 from about 17 on, in float32."
)
"""Why the reference is written as it is."""
REQUIRED = ("overflow", "nan-gradient", "ignores-grad-output")
"""The mistakes that a check must always be able to name."""


OWN = "Functions of your own"


def stable(x: Tensor) -> Tensor:
    return x.clamp(max=0) - torch.log1p(torch.exp(-x.abs()))


def naive(x: Tensor) -> Tensor:
    return -torch.log(1 + torch.exp(-x))


def mirrored(x: Tensor, g: Tensor) -> Tensor:
    return g * torch.sigmoid(-x)


def quotient(x: Tensor, g: Tensor) -> Tensor:
    return g * torch.exp(-x) / (1 + torch.exp(-x))


def logged(name: str, sentence: str, *, forward: Rule = stable, backward: Backward = mirrored) -> Mistake:
    return Mistake(name, function(forward, backward), sentence, OWN)


AT_Y = "At x = {x_y} the value is {got_y}, but {want_y} is wanted: "
OVERFLOW = (
    AT_Y + "there `exp(-x)` is larger than the largest float, or `sigmoid(x)` is 0, and so the logarithm is infinite."
)
NAN = (
    "At x = {x_grad} the gradient is {got_grad}, but {want_grad} is wanted: `exp(-x)` is inf there, and inf / inf is "
    "NaN; `sigmoid(-x)` is the same number without the overflow."
)
MISTAKES = [
    logged("overflow", OVERFLOW, forward=naive),
    logged("overflow", OVERFLOW, forward=naive, backward=quotient),
    logged("overflow", OVERFLOW, forward=naive, backward=lambda x, g: g * (1 - torch.sigmoid(x))),
    logged("overflow", OVERFLOW, forward=lambda x: torch.log(torch.sigmoid(x))),
    logged("overflow", OVERFLOW, forward=naive, backward=lambda x, g: torch.sigmoid(-x)),
    logged("overflow", OVERFLOW, forward=naive, backward=lambda x, g: 1 - torch.sigmoid(x)),
    logged("overflow", OVERFLOW, forward=lambda x: torch.log(torch.sigmoid(x)),
           backward=lambda x, g: g * (1 - torch.sigmoid(x))),
    logged("overflow", AT_Y + "`exp(x)` is larger than the largest float there.",
           forward=lambda x: x - torch.log1p(torch.exp(x))),
    logged("nan-gradient", NAN, backward=quotient),
    logged("nan-gradient", NAN.replace("exp(-x)", "exp(x)"),
           backward=lambda x, g: g * (1 - torch.exp(x) / (1 + torch.exp(x)))),
    logged("ignores-grad-output", "At x = {x_grad} the gradient is {got_grad}, but {want_grad} is wanted, for an "
           "incoming {g_grad}: by the chain rule the incoming gradient has to be multiplied in.",
           backward=lambda x, g: torch.sigmoid(-x)),
    logged("loses-small-gradients", "In the case \"{case}\" the gradient at x = {x0}, times exp(x), is {far_got} where "
           "about 1 is wanted: in float32 `1 - sigmoid(x)` has no digits left there, and `sigmoid(-x)`, the same "
           "number, has all of them.", backward=lambda x, g: g * (1 - torch.sigmoid(x))),
    logged("loses-small-values", "In the case \"{case}\" the value at x = {x0}, times exp(x), is {far_y} where about "
           "-1 is wanted: `1 + exp(-x)`, or the sigmoid, is rounded to 1 there, and the logarithm of 1 is 0. "
           "`torch.log1p(exp(-x))` keeps the digits.",
           forward=lambda x: x.clamp(max=0) - torch.log(1 + torch.exp(-x.abs()))),
    logged("gradient-not-mirrored", "At x = {x_grad} the gradient is {got_grad}, but {want_grad} is wanted: the slope "
           "is sigmoid(-x), which is large on the left, where the curve is steep.",
           backward=lambda x, g: g * torch.sigmoid(x)),
    logged("gradient-of-the-sigmoid", "At x = {x_grad} the gradient is {got_grad}, but {want_grad} is wanted: that is "
           "the derivative of the sigmoid, before its logarithm was taken.",
           backward=lambda x, g: g * torch.sigmoid(x) * torch.sigmoid(-x)),
    logged("clamped", AT_Y + "x was clamped to keep `exp` finite, but the curve goes on beyond that bound.",
           forward=lambda x: naive(x.clamp(min=-80))),
    logged("clamped", 'In the case "{case}" the gradient at x = {x0}, times exp(x), is {far_got} where about 1 is '
           "wanted: x was clamped to keep `exp` finite, but the gradient goes on falling.",
           forward=lambda x: x.clamp(max=0) - torch.log1p(torch.exp(-x.abs().clamp(max=88))),
           backward=lambda x, g: g * torch.sigmoid(-x.clamp(max=88))),
    logged("sign-turned", AT_Y + "the logarithm of a number below 1 is negative.", forward=lambda x: -stable(x)),
    Mistake("remembers-one-call", remembering(stable, mirrored), REMEMBERS, OWN),
    Mistake("made-on-cpu", function(lambda x: torch.minimum(x, torch.zeros(x.shape, dtype=x.dtype))
                                    - torch.log1p(torch.exp(-x.abs())), mirrored), MIXED, ERRORS),
    logged("dtype-not-kept", DTYPE, forward=lambda x: stable(x.float())),
    logged("backward-in-float32", "In the case \"{case}\" the gradient agrees with the wanted one in the first digits "
           "only: a float64 input was rounded to float32 on the way, and `gradcheck` would "
           "not pass.", backward=lambda x, g: (g.float() * torch.sigmoid(-x.float())).to(x.dtype)),
    logged("backward-in-float32", "In the case \"{case}\" the value agrees with the wanted one in the first digits "
           "only: a float64 input was rounded to float32 on the way, and `gradcheck` would "
           "not pass.", forward=lambda x: stable(x.float()).to(x.dtype)),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 9)
    wide, near = torch.float64, {"far": False}
    return [
        case("three dimensions", **near, x=3 * draw.normal(2, n, 3), g=draw.normal(2, n, 3)),
        case("one number", **near, x=draw.normal(dtype=wide), g=draw.normal(dtype=wide)),
        case("an incoming gradient of zero", **near, x=draw.normal(n), g=torch.zeros(n)),
        case("drawn up to 1000", **near, x=draw.uniform(-1000, 1000, n), g=draw.normal(n)),
        case("every second entry", **near, x=draw.normal(2 * n)[::2], g=draw.normal(2 * n)[1::2]),
        case("drawn from 18 to 80", rtol=1e-3, far=True, x=draw.uniform(18, 80, n), g=torch.ones(n)),
    ]


# Right answers unlike the reference


class LogSigmoidByLogaddexp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return -torch.logaddexp(torch.zeros_like(x), -x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g / (1 + ctx.saved_tensors[0].exp())


class LogSigmoidByWhere(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        small = torch.exp(-torch.abs(x))
        ctx.save_for_backward(x, small)
        return torch.where(x < 0, x, torch.zeros_like(x)) - small.log1p()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, small = ctx.saved_tensors
        return g * torch.where(x < 0, torch.ones_like(x), small) / (1 + small)


class LogSigmoidByItsOutput(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return torch.where(x < 0, x - x.exp().log1p(), -torch.log1p(torch.exp(-x)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return g * torch.exp(y - x)  # 1 - sigmoid(x) = sigmoid(x) * exp(-x)


RIGHT_ANSWERS: list[Callable[..., Any]] = [LogSigmoidByLogaddexp, LogSigmoidByWhere, LogSigmoidByItsOutput]
