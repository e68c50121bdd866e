"""The exercise `training_flops`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from autograde.source.mistakes import Mistake
from torchcourse.exercises.efficiency.training_flops import model_case
from torchcourse.model.exercise import Case, Draw

WHY = (
    "The counter knows the cost of each product of matrices from its shapes, in backward as well, so gradients that "
    "nobody needs are not counted: those of frozen weights, and that of x if it requires none. What "
    "was in `.grad` is put aside and put back, so a training that is under way notices nothing."
)
"""Why the reference is written as it is."""
REQUIRED = ("forward-only", "multiply-adds-not-flops", "pollutes-grad")
"""The mistakes that a check must always be able to name."""

READ = "How much arithmetic"


def leaves_of(model: nn.Module, x: Tensor) -> list[Tensor]:
    return [t for t in (*model.parameters(), x) if t.requires_grad]


def counted(run: Callable[[], Any]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return int(counter.get_total_flops())


def right(model: nn.Module, x: Tensor) -> int:
    leaves = leaves_of(model, x)
    before = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    count = counted(lambda: model(x).sum().backward())
    for leaf, grad in zip(leaves, before, strict=True):
        leaf.grad = grad
    return count


def forward_only(model: nn.Module, x: Tensor) -> int:
    return counted(lambda: model(x).sum())


def backward_only(model: nn.Module, x: Tensor) -> int:
    return right(model, x) - forward_only(model, x)


def multiply_adds(model: nn.Module, x: Tensor) -> int:
    return right(model, x) // 2


def three_times(model: nn.Module, x: Tensor) -> int:
    return 3 * forward_only(model, x)


def by_parameters(model: nn.Module, x: Tensor) -> int:
    return 6 * len(x) * sum(p.numel() for p in model.parameters())


def pollutes(model: nn.Module, x: Tensor) -> int:
    return counted(lambda: model(x).sum().backward())


def clears(model: nn.Module, x: Tensor) -> int:
    count = pollutes(model, x)
    for leaf in leaves_of(model, x):
        leaf.grad = None
    return count


def clears_model_only(model: nn.Module, x: Tensor) -> int:
    kept = [p.grad for p in model.parameters()]
    for p in model.parameters():
        p.grad = None
    count = pollutes(model, x)
    for p, grad in zip(model.parameters(), kept, strict=True):
        p.grad = grad
    return count


def clears_frozen(model: nn.Module, x: Tensor) -> int:
    leaves = leaves_of(model, x)
    before = [leaf.grad for leaf in leaves]
    model.zero_grad()
    x.grad = None
    count = pollutes(model, x)
    for leaf, grad in zip(leaves, before, strict=True):
        leaf.grad = grad
    return count


def always_x(model: nn.Module, x: Tensor) -> int:
    x = x.detach().requires_grad_()
    return right(model, x)


def sets_x(model: nn.Module, x: Tensor) -> int:
    x.requires_grad_()
    return right(model, x)


def never_x(model: nn.Module, x: Tensor) -> int:
    return right(model, x.detach())


def twice(model: nn.Module, x: Tensor) -> int:
    return right(model, x) + forward_only(model, x)


COUNT = 'In the case "{case}" the count is {got} where {want} is wanted: '
LEFT_BEHIND = 'In the case "{case}" the gradients after the call are {got}; they should be {want}: '
MISTAKES = [
    Mistake("forward-only", forward_only, COUNT + "only forward was counted. Backward has a product for the gradient "
            "of each weight that is trained, and one for that of each layer's input where it is needed.", READ),
    Mistake("backward-only", backward_only, COUNT + "only backward was counted.", READ),
    Mistake("multiply-adds-not-flops", multiply_adds, COUNT + "this counts a multiplication and an addition as one; "
            "they are two floating-point operations.", READ),
    Mistake("three-times-forward", three_times, COUNT + "three times forward is a rule of thumb. The first layer needs "
            "no gradient of x unless x requires one, and a frozen weight needs none.", READ),
    Mistake("six-per-parameter", by_parameters, COUNT + "6 times parameters times samples is a rule of thumb for "
            "large language models; biases, convolutions and attention break it.", READ),
    Mistake("pollutes-grad", pollutes, LEFT_BEHIND + "`backward` adds to every `.grad`.", READ),
    Mistake("clears-grad", clears, LEFT_BEHIND + "clearing them afterwards also loses those that were there before.",
            READ),
    Mistake("clears-grad-of-frozen", clears_frozen, LEFT_BEHIND + "a frozen parameter may hold a gradient from before. "
            "`zero_grad` takes that away, and only those that require one were put back.", READ),
    Mistake("pollutes-grad-of-x", clears_model_only, LEFT_BEHIND + "the parameters' gradients are as before, but x got "
            "one.", READ),
    Mistake("counts-gradient-of-x", always_x, COUNT + "the gradient of x was computed, though x requires none.", READ),
    Mistake("changes-x", sets_x, COUNT + "x was made to require a gradient, which costs another product and stays "
            "behind.", READ),
    Mistake("no-gradient-of-x", never_x, COUNT + "x requires a gradient here, and its product is missing.", READ),
    Mistake("counts-forward-twice", twice, COUNT + "forward ran twice under the counter.", READ),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, d = draw.size(2, 9), draw.size(3, 9)
    return [
        model_case(draw, "one layer, used twice", n, d, earlier=True),
        model_case(draw, "two layers", n, d, followed=True, earlier=True),
        model_case(draw, "attention", 1, n, d, name="attention, x requires grad", followed=True),
        model_case(draw, "a convolution", 1, 3, n + 5, d + 5, width=3, followed=True),
        model_case(draw, "one layer", 2, n, d, name="two leading dimensions", earlier=True),
    ]


# Right answers unlike the reference


def on_a_copy(model: nn.Module, x: Tensor) -> int:
    """Runs everything on copies, whose gradients nobody sees."""
    twin = copy.deepcopy(model)
    own = x.detach().clone().requires_grad_(x.requires_grad)
    counter = FlopCounterMode(display=False)
    with counter:
        twin(own).sum().backward()
    return counter.get_total_flops()


def of_a_view(model: nn.Module, x: Tensor) -> int:
    """Takes gradients without `.grad`. The counter refuses that for a leaf, so the model gets a view of it."""
    wanted = [p for p in model.parameters() if p.requires_grad] + ([x] if x.requires_grad else [])
    with FlopCounterMode(display=False, depth=1) as counter:
        torch.autograd.grad(model(x.view_as(x)).sum(), wanted)
    return sum(counter.get_flop_counts()["Global"].values())


RIGHT_ANSWERS: list[Callable[..., Any]] = [on_a_copy, of_a_view]
