"""The exercise `swiglu`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The fake version says shape and dtype without computing, which is what the compiler asks. Autograd cannot look "
    "into an operator of your own, so the backward is registered too. The slope of silu at the gate g is s (1 + g (1 "
    "- s)), with s = sigmoid(g); with respect to x it is silu(g) itself."
)
"""Why the reference is written as it is."""
REQUIRED = ("missing-fake", "missing-autograd")
"""The mistakes that a check must always be able to name."""


def gated(x: Tensor, gate: Tensor) -> Tensor:
    return x * F.silu(gate)


def gates_x(x: Tensor, gate: Tensor) -> Tensor:
    return gate * F.silu(x)


def sigmoid_gated(x: Tensor, gate: Tensor) -> Tensor:
    return x * torch.sigmoid(gate)


def quotient(gate: Tensor) -> Tensor:
    return gate.exp() / (1 + gate.exp())


def with_a_quotient(x: Tensor, gate: Tensor) -> Tensor:
    return x * gate * quotient(gate)


def writes_into_the_gate(x: Tensor, gate: Tensor) -> Tensor:
    return gate.mul_(torch.sigmoid(gate)) * x


def in_float32(x: Tensor, gate: Tensor) -> Tensor:
    return gated(x.float(), gate.float())


def like_x(x: Tensor, gate: Tensor) -> Tensor:
    return torch.empty_like(x)


def flat_fake(x: Tensor, gate: Tensor) -> Tensor:
    return x.new_empty(x.numel() + 1)


def half_fake(x: Tensor, gate: Tensor) -> Tensor:
    return torch.empty_like(x, dtype=torch.float16)


def fake_on_the_cpu(x: Tensor, gate: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype)


def keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


def back(ctx: Any, grad: Tensor) -> Any:
    x, gate = ctx.saved_tensors
    s = gate.sigmoid()
    return grad * gate * s, grad * x * s * (1 + gate * (1 - s))


def back_short(ctx: Any, grad: Tensor) -> Any:
    x, gate = ctx.saved_tensors
    s = gate.sigmoid()
    return grad * gate * s, grad * x * s


def back_of_the_second_factor(ctx: Any, grad: Tensor) -> Any:
    x, gate = ctx.saved_tensors
    s = gate.sigmoid()
    return grad * gate * s, grad * x * gate * s * (1 - s)


def back_of_sigmoid_alone(ctx: Any, grad: Tensor) -> Any:
    x, gate = ctx.saved_tensors
    s = gate.sigmoid()
    return grad * gate * s, grad * x * s * (1 - s)


def back_swapped(ctx: Any, grad: Tensor) -> Any:
    return back(ctx, grad)[::-1]


def back_without_grad(ctx: Any, grad: Tensor) -> Any:
    return back(ctx, torch.ones_like(grad))


def back_for_x_only(ctx: Any, grad: Tensor) -> Any:
    return back(ctx, grad)[0], None


def back_with_a_quotient(ctx: Any, grad: Tensor) -> Any:
    x, gate = ctx.saved_tensors
    s = quotient(gate)
    return grad * gate * s, grad * x * s * (1 + gate * (1 - s))


def back_of_gates_x(ctx: Any, grad: Tensor) -> Any:
    x, gate = ctx.saved_tensors
    s = x.sigmoid()
    return grad * gate * s * (1 + x * (1 - s)), grad * x * s


def back_of_sigmoid(ctx: Any, grad: Tensor) -> Any:
    x, gate = ctx.saved_tensors
    s = gate.sigmoid()
    return grad * s, grad * x * s * (1 - s)


def as_operator(number: int, forward: Any = gated, fake: Any = like_x, backward: Any = back) -> Any:
    """An operator made of these parts. Each needs a name of its own; the probe takes them for one."""
    made = torch.library.custom_op(f"torchcourse_{number}::swiglu", forward, mutates_args=())
    if fake is not None:
        made.register_fake(fake)
    if backward is not None:
        made.register_autograd(backward, setup_context=keep)
    return made


def with_leak(x: Tensor, gate: Tensor) -> Any:
    return FULL(x, gate) + torch.zeros(x.shape, dtype=x.dtype)


FULL = as_operator(0)
OWN = "Operators of your own"
VALUE = 'In the case "{case}", {what} came out as {got} where {want} is wanted: '
OPCHECK = "The operator runs as {name}, but in opcheck {test} fails: {said} "
MISTAKES = [
    Mistake("missing-fake", as_operator(1, fake=None), OPCHECK + "For tracing, an operator needs a function that makes "
            "the result's shape and dtype without its numbers.", OWN),
    Mistake("missing-fake", as_operator(2, fake=None, backward=None), OPCHECK + "Neither a fake nor a backward is "
            "registered.", OWN),
    Mistake("missing-autograd", as_operator(3, backward=None), "A gradient cannot be taken: {gradients}. Autograd "
            "cannot look into an operator of your own.", OWN),
    Mistake("never-registered", gated, "What runs is {name}: the function is a plain one, and the compiler looks into "
            "it as into any other.", OWN),
    Mistake("fake-of-wrong-shape", as_operator(4, fake=flat_fake), OPCHECK + "The fake result differs in shape from "
            "the real one.", OWN),
    Mistake("fake-of-wrong-dtype", as_operator(5, fake=half_fake), OPCHECK + "The fake result differs in dtype from "
            "the real one.", OWN),
    Mistake("fake-on-the-cpu", as_operator(12, fake=fake_on_the_cpu), "The fake result is {got}, and should be {want}: "
            "`torch.empty` needs the device of x, or take `torch.empty_like(x)`. With inputs on a GPU the compiler "
            "would plan for the CPU.", OWN),
    *(Mistake("derivative-cut-short", as_operator(number, backward=backward), VALUE + "g·sigmoid(g) is a product, so "
              "its derivative has two terms.", OWN)
      for number, backward in ((6, back_short), (19, back_of_the_second_factor), (20, back_of_sigmoid_alone))),
    Mistake("gradients-swapped", as_operator(7, backward=back_swapped), VALUE + "gradients are returned in the order "
            "of the inputs.", OWN),
    Mistake("ignores-grad-output", as_operator(8, backward=back_without_grad), VALUE + "the gradient that arrives has "
            "to be multiplied in.", OWN),
    Mistake("gradient-of-x-only", as_operator(9, backward=back_for_x_only), VALUE + "the gate is an input as well.",
            OWN),
    *(Mistake("gate-is-x", as_operator(number, gates_x, backward=backward), VALUE + "the gate goes through silu, and x "
              "does not.", OWN) for number, backward in ((10, back), (13, back_of_gates_x))),
    *(Mistake("sigmoid-not-silu", as_operator(number, sigmoid_gated, backward=backward), VALUE + "silu(g) is "
              "g·sigmoid(g), and the factor g is missing.", OWN)
      for number, backward in ((11, back), (14, back_of_sigmoid))),
    *(Mistake("exponential-overflows", operator, VALUE + "the exponential of a large gate is infinite, and infinity "
              "divided by infinity is not a number. `torch.sigmoid` avoids that.", OWN) for operator in (
        as_operator(17, backward=back_with_a_quotient), as_operator(18, with_a_quotient, backward=back_with_a_quotient),
    )),
    Mistake("changes-its-input", as_operator(15, writes_into_the_gate), "The caller's own gate was {got} by the call, "
            "and should be {want}: with `mutates_args=()` the operator promises to write into no input.", OWN),
    Mistake("stays-in-float32", as_operator(16, in_float32), 'In the case "{case}" the result is {got}, where {want} '
            "is wanted: it was computed in float32. The result has to have the dtype of the inputs, as its fake "
            "promises.", OWN),
    Mistake("made-on-cpu", with_leak, "Everything works on the CPU; on the second device the call raised {error}: a "
            "tensor was made without saying where.", OWN),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    shape = draw.size(1, 3), draw.size(1, 3), draw.size(2, 5)
    return [
        case("three dimensions", x=draw.normal(*shape), gate=3 * draw.normal(*shape)),
        case("zeros", x=torch.zeros(3), gate=torch.zeros(3)),
        case("one number", x=draw.normal(), gate=draw.normal()),
    ]


# Right answers unlike the reference


def _gated(x: Tensor, gate: Tensor) -> Tensor:
    return gate * torch.sigmoid(gate) * x


right_gated = torch.library.custom_op("torchcourse_right::swiglu", _gated, mutates_args=())
right_gated.register_fake(lambda x, gate: x.new_empty(x.shape))


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, gate = inputs
    ctx.save_for_backward(x, gate, output)


def _back(ctx: Any, grad: Tensor) -> Any:
    x, gate, _output = ctx.saved_tensors
    with torch.enable_grad():
        g = gate.detach().requires_grad_()
        y = F.silu(g)
    (slope,) = torch.autograd.grad(y, g, grad * x)
    return grad * F.silu(gate), slope


right_gated.register_autograd(_back, setup_context=_setup)


def gated_wrapped(x: Tensor, gate: Tensor) -> Tensor:
    result: Tensor = torch.ops.torchcourse_wrapped.swiglu(x, gate)
    return result


@torch.library.custom_op("torchcourse_wrapped::swiglu", mutates_args=())
def _inner(x: Tensor, gate: Tensor) -> Tensor:
    return torch.mul(x, F.silu(gate))


@torch.library.register_fake("torchcourse_wrapped::swiglu")  # type: ignore[untyped-decorator]
def _inner_fake(x: Tensor, gate: Tensor) -> Tensor:
    return x * gate


def _inner_back(ctx: Any, grad: Tensor) -> Any:
    s = torch.sigmoid(ctx.gate)
    return grad * ctx.gate * s, grad * ctx.x * (s + ctx.gate * s * (1 - s))


def _inner_setup(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.x, ctx.gate = inputs


torch.library.register_autograd("torchcourse_wrapped::swiglu", _inner_back, setup_context=_inner_setup)


RIGHT_ANSWERS: list[Callable[..., Any]] = [right_gated, gated_wrapped]
