"""The exercise `tensor_parallel_mlp`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "A rank has complete hidden units, so gelu needs no exchange; the outputs come in parts and are added up once. "
    "Backward mirrors it: the output's gradient is the same everywhere and needs nothing, that of x comes in parts and "
    "is added up once. Two small functions say so, each the other's mirror image."
)
"""Why the reference is written as it is."""
REQUIRED = ("reduces-before-activation", "no-gradient-reduce", "reduces-gradient-twice")
"""The mistakes that a check must always be able to name."""

SPLIT = "Splitting a layer"


def summed(part: Tensor) -> Tensor:
    whole = part.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(whole)
    return whole


class SumBackward(torch.autograd.Function):
    """The identity, whose gradient is added up over ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return summed(grads[0])


class MeanBackward(SumBackward):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return summed(grads[0]) / dist.get_world_size()


class SumForward(torch.autograd.Function):
    """The sum over ranks, whose gradient goes through."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        return summed(part)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


class SumBoth(SumForward):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return summed(grads[0])


class SumAndDivide(SumForward):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return summed(grads[0]) / dist.get_world_size()


class SumOfTwo(SumForward):
    """The sum over two ranks, from a list with one place for each."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for _ in range(2)]
        dist.all_gather(parts, part.contiguous())
        return parts[0] + parts[1]


def enter(x: Tensor) -> Any:
    return SumBackward.apply(x)


def leave(part: Tensor) -> Any:
    return SumForward.apply(part)


def before_the_activation(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return leave(F.gelu(leave(enter(x) @ w1.T)) @ w2.T)


def no_gradient_reduce(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return leave(F.gelu(x @ w1.T) @ w2.T)


def twice(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return SumBoth.apply(F.gelu(enter(x) @ w1.T) @ w2.T)


def there_and_back(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return SumAndDivide.apply(F.gelu(enter(x) @ w1.T) @ w2.T)


def twice_for_a_table(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    """Add up twice as far as an answer shows it that fails where x has other dimensions than two."""
    whole = SumBoth.apply if x.dim() == 2 else leave
    return whole(F.gelu(enter(x) @ w1.T) @ w2.T)


def twice_without_x(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return SumBoth.apply(F.gelu(x @ w1.T) @ w2.T)


def averages_the_gradient(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return leave(F.gelu(MeanBackward.apply(x) @ w1.T) @ w2.T)


def no_forward_reduce(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return F.gelu(enter(x) @ w1.T) @ w2.T


def in_place(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    """Reduce under no_grad: the graph ends there."""
    part = F.gelu(x @ w1.T) @ w2.T
    with torch.no_grad():
        return summed(part)


def averaged(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return leave(F.gelu(enter(x) @ w1.T) @ w2.T) / dist.get_world_size()


def gathers_weights(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    """Make the whole layer on every rank, with four exchanges and more."""
    rank, sizes = dist.get_rank(), torch.zeros(dist.get_world_size(), dtype=torch.int64)
    sizes[rank] = len(w1)
    dist.all_reduce(sizes)
    start, total = int(sizes[:rank].sum()), int(sizes.sum())
    ahead, behind = start, total - start - len(w1)
    rows = leave(F.pad(w1, (0, 0, ahead, behind)))
    columns = leave(F.pad(w2, (ahead, behind)))
    return F.gelu(x @ rows.T) @ columns.T


def knows_two_ranks(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return SumOfTwo.apply(F.gelu(enter(x) @ w1.T) @ w2.T)


def relu_instead(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return leave(F.relu(enter(x) @ w1.T) @ w2.T)


def tanh_formula(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return leave(F.gelu(enter(x) @ w1.T, approximate="tanh") @ w2.T)


def flat_batch(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return leave(F.gelu(enter(x.reshape(-1, x.shape[-1])) @ w1.T) @ w2.T)


def hook_on_x(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    x.register_hook(summed)  # type: ignore[no-untyped-call]
    return leave(F.gelu(x @ w1.T) @ w2.T)


def hook_where_x_needs_it(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return hook_on_x(x, w1, w2) if x.requires_grad else leave(F.gelu(x @ w1.T) @ w2.T)


def hook_for_good(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return hook_on_x(x.requires_grad_(), w1, w2)


def makes_x_need_it(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    x.requires_grad_()
    return leave(F.gelu(enter(x) @ w1.T) @ w2.T)


def by_views(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    flat = x.view(-1, x.shape[-1])
    return leave(F.gelu(enter(flat) @ w1.T) @ w2.T).view(*x.shape[:-1], -1)


def in_float32(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return leave(F.gelu(enter(x).float() @ w1.T.float()) @ w2.T.float()).to(x.dtype)


class SumForwardInFloat32(SumForward):
    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        return summed(part.float()).to(part.dtype)


class SumBackwardInFloat32(SumBackward):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return summed(grads[0].float()).to(grads[0].dtype)


def sum_in_float32(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return SumForwardInFloat32.apply(F.gelu(enter(x) @ w1.T) @ w2.T)


def gradient_in_float32(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return leave(F.gelu(SumBackwardInFloat32.apply(x) @ w1.T) @ w2.T)


class EmptiesTheGradient(SumForward):
    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        kept = grads[0].clone()
        if grads[0].is_contiguous():
            grads[0].zero_()
        return kept


def empties_the_gradient(x: Tensor, w1: Tensor, w2: Tensor) -> Any:
    return EmptiesTheGradient.apply(F.gelu(enter(x) @ w1.T) @ w2.T)


VALUE = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
GRADIENT = 'In the case "{case}" the gradient of x begins with {grad} where {right} is wanted: '
COUNT = 'In the case "{case}" there were {forward} exchanges forward and {backward} backward: '
MISTAKES = [
    Mistake("reduces-before-activation", before_the_activation, COUNT + "the hidden units were added up over the "
            "ranks, though each rank has different ones. They stay where they are; only the outputs have to be added "
            "up.", SPLIT),
    Mistake("no-gradient-reduce", no_gradient_reduce, GRADIENT + "each rank has the part that goes through its own "
            "hidden units, and backward has to add them up.", SPLIT),
    Mistake("one-exchange-too-many", there_and_back, COUNT + "the gradient of the output is the same on all ranks; "
            "adding it up and dividing it again changes nothing and costs an exchange.", SPLIT),
    *(Mistake("reduces-gradient-twice", program, GRADIENT + "the gradient of the output is the same on all ranks, and "
              "it was added up over them on its way back.", SPLIT) for program in (twice, twice_for_a_table)),
    Mistake("reduces-gradient-twice", twice_without_x, VALUE + "the gradient of the output was added up over the "
            "ranks, where it is the same already, and that of x was not. That is what "
            "`torch.distributed.nn.functional.all_reduce` does.", SPLIT),
    Mistake("averages-the-gradient", averages_the_gradient, GRADIENT + "each rank has a part of it, and the parts were "
            "averaged; they have to be added up.", SPLIT),
    Mistake("no-forward-reduce", no_forward_reduce, VALUE + "each rank returned its own part of the output.", SPLIT),
    Mistake("knows-two-ranks", knows_two_ranks, 'In the case "{case}" the call raised {error}: parts were gathered '
            "from two ranks, but there are `dist.get_world_size()` of them.", SPLIT),
    Mistake("cuts-the-graph", in_place, 'In the case "{case}" `{what}` '
            "is {got} where {want} is wanted: `all_reduce` alone is not differentiable, so the output has no graph.",
            SPLIT),
    Mistake("averages-instead", averaged, VALUE + "the parts were averaged; they have to be added up.", SPLIT),
    Mistake("gathers-the-weights", gathers_weights, COUNT + "the weights were put together on every rank, but "
            "splitting them was the point. Exchange activations instead, once in each direction.", SPLIT),
    Mistake("tanh-formula", tanh_formula, VALUE + "the values are those of the tanh approximation of gelu. The exact "
            "gelu is PyTorch's default.", SPLIT),
    Mistake("flattens-the-batch", flat_batch, 'In the case "{case}" the call returned {returned}: x '
            "was flattened to a matrix for the products, and the output needs the leading dimensions of x again. `@` "
            "copes with them as they are.", SPLIT),
    *(Mistake("hook-on-x", program, GRADIENT + "the hook of an earlier call is still on x and adds its gradient up "
            "once more; x itself is the caller's.", SPLIT) for program in (hook_on_x, hook_where_x_needs_it,
            hook_for_good)),
    Mistake("makes-x-need-a-gradient", makes_x_need_it, 'In the case "{case}" x needed no gradient before the call, '
            "and needs one afterwards: x is the caller's.", SPLIT),
    Mistake("fails-on-strided-x", by_views, 'In the case "{case}" the call raised {error}: x is not contiguous there, '
            "and `view` cannot flatten it; `@` needs no flattening.", SPLIT),
    *(Mistake("computes-in-float32", program, VALUE + "only the digits of a float32 are right, and the inputs are "
              "float64.", SPLIT) for program in (in_float32, sum_in_float32, gradient_in_float32)),
    Mistake("changes-the-gradient", empties_the_gradient, 'In the case "{case}" the gradient that came in is {got} '
            "after backward: it belongs to the caller.", SPLIT),
    Mistake("another-activation", relu_instead, VALUE + "the activation is gelu.", SPLIT),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def layer(*lead: int, cuts: list[int], hidden: int, dtype: torch.dtype) -> dict[str, Any]:
        inputs, outputs = draw.size(2, 7), draw.size(2, 7)
        return {
            "x": draw.normal(*lead, inputs, dtype=dtype), "w1": draw.normal(hidden, inputs, dtype=dtype),
            "w2": draw.normal(outputs, hidden, dtype=dtype), "g": draw.normal(*lead, outputs, dtype=dtype),
            "cuts": cuts,
        }  # fmt: skip

    digits = {"rtol": 1e-9, "atol": 1e-10}
    return [
        case("one row", **layer(cuts=[2], hidden=4, dtype=torch.float32)),
        case(
            "one hidden unit on rank 0",
            **layer(2, 2, 3, cuts=[1], hidden=draw.size(5, 9), dtype=torch.float64),
            **digits,
        ),
        case(
            "three ranks, drawn",
            **digits,
            **layer(draw.size(2, 8), cuts=[draw.size(3, 6), draw.size(7, 10)], hidden=12, dtype=torch.float64),
        ),
    ]


# Right answers unlike the reference


def mlp_by_hooks(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    def add_up(grad: Tensor) -> Tensor:
        grad = grad.clone().contiguous()
        dist.all_reduce(grad)
        return grad

    copy = x.view_as(x)
    if copy.requires_grad:
        copy.register_hook(add_up)  # type: ignore[no-untyped-call]
    part = F.linear(F.gelu(F.linear(copy, w1)), w2)
    others = part.detach().clone()
    dist.all_reduce(others)
    return part + (others - part.detach())


def mlp_as_one_function(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """Differentiate the whole part by itself, in one function."""

    class Front(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
            with torch.enable_grad():
                leaves = [t.detach().requires_grad_() for t in (x, w1, w2)]
                part = torch.nn.functional.gelu(leaves[0] @ leaves[1].mT) @ leaves[2].mT
            ctx.leaves, ctx.part = leaves, part
            whole = part.detach().clone()
            dist.all_reduce(whole)
            return whole

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            dx, dw1, dw2 = torch.autograd.grad(ctx.part, ctx.leaves, grads[0])
            dist.all_reduce(dx)
            return dx, dw1, dw2

    found: Tensor = Front.apply(x, w1, w2)
    return found


RIGHT_ANSWERS: list[Callable[..., Any]] = [mlp_by_hooks, mlp_as_one_function]
