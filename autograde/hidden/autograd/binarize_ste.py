"""The exercise `BinarizeSTE`: hidden cases, known mistakes, other right answers."""

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
    "The true slope of a step is 0 nearly everywhere, so backward makes one up: the gradient as it comes "
    "where `x` is near the step, none where it is far away. `where` chooses; multiplying by a mask would turn "
    "an infinite gradient into NaN. Clamping the gradient would be something else."
)
"""Why the reference is written as it is."""
REQUIRED = ("gradient-is-zero", "clamps-gradient-not-input", "no-clip")
"""The mistakes that a check must always be able to name."""


OWN = "Functions of your own"


def step(x: Tensor) -> Tensor:
    return (x > 0).to(x.dtype)


def passed(x: Tensor, g: Tensor) -> Tensor:
    return torch.where(x.abs() <= 1, g, 0)


def binarized(name: str, sentence: str, *, forward: Rule = step, backward: Backward = passed) -> Mistake:
    return Mistake(name, function(forward, backward), sentence, OWN)


def overwritten(x: Tensor, g: Tensor) -> Tensor:
    g[x.abs() > 1] = 0
    return g


PASSES = "At x = {x_grad} the incoming gradient {g_grad} came back as {got_grad}, but {want_grad} is wanted: "
ZERO = (
    PASSES + "the true slope of a step is zero, and nothing behind it would ever learn. Pass the gradient straight "
    "through."
)
CLAMPS = PASSES + "it is x that decides where the gradient passes, not the size of the gradient."
MISTAKES = [
    binarized("gradient-is-zero", ZERO, backward=lambda x, g: torch.zeros_like(g)),
    binarized("gradient-is-zero", "The gradient of x is {no_grad}, and nothing behind the step would ever learn: pass "
              "the gradient straight through where abs(x) is at most 1.", backward=lambda x, g: None),
    binarized("clamps-gradient-not-input", CLAMPS, backward=lambda x, g: g.clamp(-1, 1)),
    binarized("clamps-gradient-not-input", CLAMPS, backward=lambda x, g: torch.where(g.abs() <= 1, g, 0)),
    binarized("no-clip", PASSES + "where abs(x) is above 1, the gradient has to stop.",
              backward=lambda x, g: g),
    binarized("ignores-grad-output", PASSES + "by the chain rule the incoming gradient has to be multiplied in.",
              backward=lambda x, g: (x.abs() <= 1).to(g.dtype)),
    binarized("writes-into-grad-output", "In the case \"{case}\" the incoming gradient itself was {got} by `backward`, "
              "and should be {want}: other branches of the graph may still need it.", backward=overwritten),
    binarized("multiplies-by-clipped-input", PASSES + "x only decides whether the gradient passes; it is not a factor.",
              backward=lambda x, g: g * x.clamp(-1, 1)),
    binarized("clamps-gradient-not-input", CLAMPS, forward=lambda x: (x > 0).float(),
              backward=lambda x, g: g.clamp(-1, 1)),
    binarized("no-clip", PASSES + "where abs(x) is above 1, the gradient has to stop.",
              forward=lambda x: (x > 0).float(), backward=lambda x, g: g),
    binarized("multiplies-by-the-mask", PASSES + "inf * 0 is NaN, so multiplying by a mask does not stop the gradient; "
              "`torch.where` does.", backward=lambda x, g: g * (x.abs() <= 1)),
    binarized("excludes-the-edge", PASSES + "where abs(x) is exactly 1, the gradient still passes.",
              backward=lambda x, g: torch.where(x.abs() < 1, g, 0)),
    binarized("cuts-off-one-side", PASSES + "the gradient has to stop below -1 as well as above 1.",
              backward=lambda x, g: torch.where(x <= 1, g, 0)),
    binarized("keeps-the-wrong-side", PASSES + "the condition is reversed; the gradient passes where abs(x) is at most "
              "1.",
              backward=lambda x, g: torch.where(x.abs() > 1, g, 0)),
    binarized("clips-at-zero-and-one", PASSES + "the gradient passes for x from -1 to 1, not from 0 to 1.",
              backward=lambda x, g: torch.where((x >= 0) & (x <= 1), g, 0)),
    binarized("passes-by-the-output", PASSES + "the gradient passes where abs(x) is at most 1, not where the output is "
              "1.",
              backward=lambda x, g: torch.where(x > 0, g, 0)),
    binarized("zero-becomes-one", "At x = {x_y} the value is {got_y}, but {want_y} is wanted: only what is greater "
              "than zero becomes 1.", forward=lambda x: (x >= 0).to(x.dtype)),
    binarized("gives-plus-and-minus-one", "At x = {x_y} the value is {got_y}, but {want_y} is wanted: the two values "
              "are 0 and 1.", forward=lambda x: (x > 0).to(x.dtype) * 2 - 1),
    binarized("gives-plus-and-minus-one", "At x = {x_y} the value is {got_y}, but {want_y} is wanted: the two values "
              "are 0 and 1.", forward=torch.sign),
    binarized("dtype-not-kept", DTYPE, forward=lambda x: (x > 0).float()),
    binarized("returns-bool", DTYPE, forward=lambda x: x > 0),
    Mistake("remembers-one-call", remembering(step, passed), REMEMBERS, OWN),
    Mistake("made-on-cpu", function(lambda x: step(x) * torch.ones(x.shape, dtype=x.dtype), passed), MIXED, ERRORS),
    Mistake("made-on-cpu", function(step, lambda x, g: torch.where(x.abs() <= torch.ones(x.shape, dtype=x.dtype), g,
                                                                   0)), MIXED, ERRORS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n = draw.size(2, 9)
    edges = torch.tensor([1.0, -1.0, 0.0, -0.0, 1.0001, -1.0001])
    return [
        case("edges in float64", x=edges.double(), g=draw.normal(6, dtype=torch.float64)),
        case("three dimensions", x=draw.uniform(-2, 2, 2, n, 3), g=3 * draw.normal(2, n, 3)),
        case("one number", x=draw.uniform(-1, 1), g=draw.normal()),
        case("every second entry", x=draw.uniform(-2, 2, 2 * n)[::2], g=draw.normal(2 * n)[1::2]),
        case("float16", x=draw.uniform(-2, 2, n, dtype=torch.float16), g=draw.normal(n, dtype=torch.float16)),
    ]


# Right answers unlike the reference


class BinarizeWithAMask(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mask = (x >= -1) & (x <= 1)
        return torch.where(x > 0, torch.ones_like(x), torch.zeros_like(x))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g.masked_fill(~ctx.mask, 0)


class BinarizeWithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.gt(0).type_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() > 1, 0.0, g)


class BinarizeInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.clamp(-1, 1) == x)
        y = torch.zeros_like(x)
        y[x > 0] = 1
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        g = g.clone()
        g[~ctx.saved_tensors[0]] = 0
        return g


RIGHT_ANSWERS: list[Callable[..., Any]] = [BinarizeWithAMask, BinarizeWithSetup, BinarizeInPlace]
