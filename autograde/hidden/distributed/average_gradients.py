"""The exercise `average_gradients`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "First the ranks agree on who takes part, with one small exchange of flags; after that all of them make the same "
    "calls in the same order. A missing gradient goes in as zeros and the sum is divided by all ranks, which is the "
    "gradient of the mean loss. The copy is contiguous: gloo adds memory, not entries."
)
"""Why the reference is written as it is."""
REQUIRED = ("sums-gradients", "skips-none", "zeros-for-all-none", "divides-by-ranks-that-have-one")
"""The mistakes that a check must always be able to name."""

AVERAGE = "Averaging gradients by hand"


class Averaging:
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, model: nn.Module) -> Any:
        parameters = list(model.parameters())
        present = torch.tensor([float(p.grad is not None) for p in parameters])
        dist.all_reduce(present)
        for p, ranks in zip(parameters, present.tolist(), strict=True):
            if self.takes_part(p, ranks):
                p.grad = self.divided(self.summed(p), ranks)

    def takes_part(self, p: Tensor, ranks: float) -> bool:
        return ranks > 0

    def summed(self, p: Tensor) -> Tensor:
        total = torch.zeros_like(p) if p.grad is None else p.grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    def divided(self, total: Tensor, ranks: float) -> Tensor:
        return total / dist.get_world_size()


def averaging(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Averaging, **methods)()
    return program


def in_place(_self: Averaging, p: Tensor) -> Tensor:
    total = torch.zeros_like(p) if p.grad is None else p.grad
    dist.all_reduce(total)
    return total


def into_a_copy(_self: Averaging, p: Tensor) -> Tensor:
    total = torch.zeros_like(p) if p.grad is None else p.grad
    dist.all_reduce(total.contiguous())
    return total


def rank_zero_has_one(_self: Averaging, p: Tensor, ranks: float) -> bool:
    flag = torch.tensor(float(p.grad is not None))
    dist.broadcast(flag, 0)
    return bool(flag)


def skipping(model: nn.Module) -> None:
    for p in model.parameters():
        if p.grad is not None:
            mean = p.grad.clone(memory_format=torch.contiguous_format)
            dist.all_reduce(mean)
            p.grad = mean / dist.get_world_size()


def only_where_this_rank_has_one(_self: Averaging, p: Tensor) -> Tensor:
    had = p.grad is not None
    total = Averaging().summed(p)
    return total if had else torch.zeros_like(p)


def only_into_what_is_there(model: nn.Module) -> None:
    for p in model.parameters():
        total = Averaging().summed(p)
        if p.grad is not None:
            p.grad = total / dist.get_world_size()


def none_for_zero(model: nn.Module) -> None:
    for p in model.parameters():
        total = Averaging().summed(p)
        p.grad = total / dist.get_world_size() if total.any() else None


def steps_too(model: nn.Module) -> None:
    averaging()(model)
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is not None:
                p.sub_(0.1 * p.grad)


VALUE = 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
MISTAKES = [
    Mistake("sums-gradients", averaging(divided=lambda self, total, ranks: total), VALUE + "the gradients were added "
            "up and not divided by the number of ranks, as if the learning rate had grown with it.", AVERAGE),
    Mistake("knows-two-ranks", averaging(divided=lambda self, total, ranks: total / 2), VALUE + "the sum was divided "
            "by 2, but there are `dist.get_world_size()` ranks, and not always two.", AVERAGE),
    Mistake("skips-none", skipping, 'In the case "{case}" '
            "rank {who} is {ended}. A rank that skips a parameter makes one call fewer, and each of its later calls "
            "meets the others' call for another parameter.", AVERAGE),
    Mistake("zeros-for-all-none", averaging(takes_part=lambda self, p, ranks: True), VALUE + "no rank used this layer. "
            "With zeros for a gradient, momentum and weight decay would still move it.", AVERAGE),
    Mistake("none-for-zero", none_for_zero, VALUE + "the sum over the ranks is zero there, and that was taken for no "
            "gradient. Whether a rank has one is for a flag to say.", AVERAGE),
    Mistake("divides-by-ranks-that-have-one", averaging(divided=lambda self, total, ranks: total / ranks), VALUE +
            "a rank without a gradient counts as zero, since its share of the mean loss does not depend on the layer.",
            AVERAGE),
    Mistake("drops-what-one-rank-has", averaging(takes_part=lambda self, p, ranks: ranks == dist.get_world_size()),
            VALUE + "some rank has a gradient there, and it counts in the mean, with zeros for the ranks that have "
            "none.", AVERAGE),
    Mistake("asks-rank-zero", averaging(takes_part=rank_zero_has_one), VALUE + "rank 0 has no gradient there, and "
            "another rank has one: which parameters take part is for all ranks to say.", AVERAGE),
    Mistake("zeros-where-none-was", averaging(summed=only_where_this_rank_has_one), VALUE + "a rank that did not use "
            "the layer gets the mean as well, or its weights would drift away from the others'.", AVERAGE),
    Mistake("leaves-none-where-none-was", only_into_what_is_there, VALUE + "this rank sent zeros for the layer but did "
            "not take the mean, so the ranks drift apart: one optimizer moves the layer, the other does not.", AVERAGE),
    Mistake("reduces-a-view", averaging(summed=in_place), VALUE + "`all_reduce` of a view with gaps, or of two layouts "
            "of one shape, adds up the wrong entries without an error. Give it a contiguous copy.", AVERAGE),
    Mistake("copy-not-written-back", averaging(summed=into_a_copy), VALUE + "the gradient has gaps in memory, so "
            "`contiguous` made a copy, which received the sum and was never written back.", AVERAGE),
    Mistake("through-float32", averaging(divided=lambda self, total, ranks: total.float().to(total.dtype)
                                         / dist.get_world_size()), VALUE +
            "the gradient was rounded to float32 on the way.", AVERAGE),
    Mistake("takes-a-step", steps_too, 'In the case "{case}" the '
            "parameters are {got} afterwards, and should be {want}: taking the step is up to the optimizer.", AVERAGE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(pattern: list[str], dtype: torch.dtype = torch.float32) -> list[list[Tensor | None]]:
        shape = draw.size(2, 5), draw.size(2, 5)
        return [[draw.normal(*shape, dtype=dtype) if str(r) in has else None for has in pattern] for r in range(2)]

    pattern = [draw.pick(["01", "0.", ".1", ".."]) for _ in range(6)]
    return [
        case("drawn", gradients=drawn([*pattern, "01"])),
        case("rank 0 used nothing", gradients=drawn([".1", ".1"])),
        case("no rank used anything", gradients=drawn(["..", ".."])),
        case("0-D gradients", gradients=[[draw.normal(), draw.normal(3)] for _ in range(2)]),
    ]


# Right answers unlike the reference


def average_in_one_exchange(model: nn.Module) -> None:
    """Send everything at once, each gradient behind a flag."""
    pieces = []
    for p in model.parameters():
        flag = torch.tensor([0.0 if p.grad is None else 1.0], dtype=p.dtype)
        pieces += [flag, (torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1)]
    flat = torch.cat(pieces)
    dist.all_reduce(flat)
    at = 0
    for p in model.parameters():
        used, mean = flat[at], flat[at + 1 : at + 1 + p.numel()] / dist.get_world_size()
        at += 1 + p.numel()
        if used:
            p.grad = mean.view_as(p).clone()


def average_of_objects(model: nn.Module) -> None:
    mine = [p.grad for p in model.parameters()]
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    for p, *theirs in zip(model.parameters(), *everyone, strict=True):
        there = [g for g in theirs if g is not None]
        p.grad = torch.stack(there).sum(0) / len(theirs) if there else None


def average_with_max(model: nn.Module) -> None:
    ps = list(model.parameters())
    used = torch.tensor([p.grad is not None for p in ps]).int()
    dist.all_reduce(used, op=dist.ReduceOp.MAX)
    for p, flag in zip(ps, used, strict=True):
        if not flag:
            continue
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        buffer = p.grad.flatten().clone()
        dist.reduce(buffer, 0)
        dist.broadcast(buffer, 0)
        p.grad.copy_(buffer.reshape(p.shape) / dist.get_world_size())


RIGHT_ANSWERS: list[Callable[..., Any]] = [average_in_one_exchange, average_of_objects, average_with_max]
