"""The exercise `clip_gradients`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.training.shared import NO_NUMBER, VALUE
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "One norm over all gradients and one factor for all: the direction of the step stays. Clipping each by "
    "itself would turn it. The norm of the norms is the norm of everything, and only that one number is read "
    "back, so a GPU is waited for once."
)
"""Why the reference is written as it is."""
REQUIRED = ("per-tensor-clipping", "returns-clipped-norm", "scales-up-small-gradients")
"""The mistakes that a check must always be able to name."""

CLIPPING = "Gradients that are too large"
Parameters = Iterable[Tensor]


def grads_of(parameters: Parameters) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


def norm_of(grads: list[Tensor]) -> float:
    return math.sqrt(sum(g.norm().item() ** 2 for g in grads))


def clip(parameters: Parameters, max_norm: float) -> float:
    return with_norm(norm_of)(parameters, max_norm)


def with_norm(norm: Callable[[list[Tensor]], float]) -> Callable[[Parameters, float], float]:
    """Return a program that clips by another norm, and returns that."""

    def clip(parameters: Parameters, max_norm: float) -> float:
        grads = grads_of(parameters)
        total = norm(grads)
        for g in grads:
            g.mul_(min(max_norm / (total + 1e-6), 1.0))
        return total

    return clip


def each_by_its_own(parameters: Parameters, max_norm: float) -> float:
    grads = grads_of(parameters)
    total = norm_of(grads)
    for g in grads:
        g.mul_(min(max_norm / (g.norm().item() + 1e-6), 1.0))
    return total


def returns_clipped_norm(parameters: Parameters, max_norm: float) -> float:
    kept = list(parameters)
    clip(kept, max_norm)
    return norm_of(grads_of(kept))


def always_scaled(parameters: Parameters, max_norm: float) -> float:
    grads = grads_of(parameters)
    total = norm_of(grads)
    for g in grads:
        g.mul_(max_norm / (total + 1e-6))
    return total


def rebinds(parameters: Parameters, max_norm: float) -> float:
    kept = [p for p in parameters if p.grad is not None]
    total = norm_of(grads_of(kept))
    for p, g in zip(kept, grads_of(kept), strict=True):
        p.grad = g * min(max_norm / (total + 1e-6), 1.0)
    return total


def clips_values(parameters: Parameters, max_norm: float) -> float:
    grads = grads_of(parameters)
    total = norm_of(grads)
    for g in grads:
        g.clamp_(-max_norm, max_norm)
    return total


def walks_twice(parameters: Parameters, max_norm: float) -> float:
    total = norm_of(grads_of(parameters))
    for g in grads_of(parameters):
        if total > max_norm:
            g.mul_(max_norm / total)
    return total


def throws_the_product_away(parameters: Parameters, max_norm: float) -> float:
    grads = grads_of(parameters)
    total = norm_of(grads)
    for g in grads:
        g * min(max_norm / (total + 1e-6), 1.0)
    return total


def views_as_vectors(parameters: Parameters, max_norm: float) -> float:
    return with_norm(lambda grads: torch.cat([g.view(-1) for g in grads]).norm().item())(parameters, max_norm)


def returns_nothing(parameters: Parameters, max_norm: float) -> None:
    clip(parameters, max_norm)


def fails_on_none(parameters: Parameters, max_norm: float) -> float:
    kept = list(parameters)
    total = norm_of([p.grad for p in kept])  # type: ignore[misc]
    clip(kept, max_norm)
    return total


MISTAKES = [
    Mistake("per-tensor-clipping", each_by_its_own, VALUE + "each gradient was clipped by a norm of its own, which "
            "changes the direction of the step; take one norm over all of them.", CLIPPING),
    Mistake("returns-clipped-norm", returns_clipped_norm, VALUE + "that is the norm after clipping. The one before is "
            "what a log needs: it says how often, and how hard, the clipping bites.", CLIPPING),
    Mistake("scales-up-small-gradients", always_scaled, VALUE + "gradients smaller than max_norm = {max_norm} were "
            "scaled up to it, but should be left alone.", CLIPPING),
    Mistake("never-scaled", throws_the_product_away, VALUE + "the gradients are as they were. "
            "Either nothing was multiplied here, or the product was a new tensor; `g.mul_(factor)` changes `g` itself.",
            CLIPPING),
    Mistake("rebinds-gradients", rebinds, "The gradient tensors were {got} and should be {want}: an optimizer or a "
            "view may hold on to them, so scale them in place.", CLIPPING),
    Mistake("adds-norms", with_norm(lambda grads: sum(g.norm().item() for g in grads)), VALUE + "the norms of the "
            "tensors were added up; their squares add up, and the root of that is the norm of all.", CLIPPING),
    Mistake("largest-entry-for-norm", with_norm(lambda grads: max(g.abs().max().item() for g in grads)), VALUE + "that "
            "is the size of the largest entry; the norm is the root of all squares, added up.", CLIPPING),
    Mistake("squared-not-rooted", with_norm(lambda grads: sum(g.norm().item() ** 2 for g in grads)), VALUE + "that is "
            "the square of the norm.", CLIPPING),
    Mistake("largest-norm-only", with_norm(lambda grads: max(g.norm().item() for g in grads)), VALUE + "only the "
            "largest tensor was measured.", CLIPPING),
    Mistake("clips-values", clips_values, VALUE + "every entry was cut to the range of ±{max_norm}, which changes the "
            "direction of the step; clipping by norm changes only its length.", CLIPPING),
    Mistake("walks-a-generator-twice", walks_twice, VALUE + "`model.parameters()` is a generator and was at its end "
            "when the gradients should have been scaled.", CLIPPING),
    Mistake("fails-on-none", fails_on_none, "In the case \"{case}\" the call raised {error}: a parameter that took no "
            "part in the loss has no gradient; skip it.", CLIPPING),
    Mistake("views-gradients", views_as_vectors, "In the case \"{case}\" the call raised {error}: a gradient need not "
            "be contiguous, and `view` cannot flatten all of them. `reshape` and `flatten` can.", CLIPPING),
    Mistake("returns-tensor", lambda parameters, max_norm: torch.tensor(clip(parameters, max_norm)), NO_NUMBER,
            CLIPPING),
    Mistake("returns-nothing", returns_nothing, "The norm before scaling, {want}, should come back, but what came back "
            "is {got}.",
            CLIPPING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    sizes = [draw.size(1, 6) for _ in range(4)]
    return [
        case("drawn sizes", gradients=[draw.normal(s) for s in sizes], max_norm=draw.uniform(0.2, 3).item(),
             generator=False),
        case("some without gradient", gradients=[None, draw.normal(3, 3), None, draw.normal(2)], max_norm=0.1,
             generator=True),
        case("tiny gradients", gradients=[1e-6 * draw.normal(5)], max_norm=1.0, generator=False),
        case("huge gradients", rtol=1e-3, gradients=[1e6 * draw.normal(5), draw.normal(2)], max_norm=1.0,
             generator=False),
    ]  # fmt: skip


# Right answers unlike the reference


def clip_by_factor(parameters: Any, max_norm: float) -> Any:
    grads = [p.grad for p in list(parameters) if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    for g in grads:
        g *= factor.to(g.dtype)
    return norm.item()


def clip_one_vector(parameters: Any, max_norm: float) -> float:
    kept = [p for p in parameters if p.grad is not None]
    norm = float(torch.cat([p.grad.reshape(-1) for p in kept]).pow(2).sum().sqrt())
    scale = 1.0 if norm <= max_norm else max_norm / norm
    for p in kept:
        p.grad.copy_(p.grad * scale)
    return norm


def clip_with_foreach(parameters: Any, max_norm: float) -> float:
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = math.hypot(*(g.norm(2).item() for g in grads))
    if norm > max_norm:
        for g in grads:
            g.div_(norm / max_norm)
    return float(norm)


RIGHT_ANSWERS: list[Callable[..., Any]] = [clip_by_factor, clip_one_vector, clip_with_foreach]
