"""The exercise `clip_gradients`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.probes.trainable_models import flat, number_or_kind


def probe(answer: Watched, gradients: list[Tensor | None], max_norm: float, generator: bool) -> dict[str, Any]:
    """Observe norm and gradients; parameters come as a list or, as from `model.parameters()`, as a generator."""
    like = next(g for g in gradients if g is not None)
    parameters = [nn.Parameter(torch.ones_like(like if g is None else g)) for g in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = None if gradient is None else gradient.clone()
    before = [p.grad for p in parameters]
    norm = answer((p for p in parameters) if generator else parameters, max_norm)
    kept = all(p.grad is b for p, b in zip(parameters, before, strict=True))
    return {
        "returned": number_or_kind(norm),
        "gradients": flat(p.grad for p in parameters if p.grad is not None),
        "gradient tensors": "the same objects" if kept else "replaced by others",
    }


def cases(draw: Draw) -> list[Case]:
    def gradients(scale: float = 1.0) -> list[Tensor | None]:
        return [scale * draw.normal(3, 2).t(), scale * 2 * draw.normal(4), scale * draw.normal(2, 2)]

    return [
        case("too large", gradients=gradients(3.0), max_norm=1.0, generator=False),
        case("small enough", gradients=gradients(0.01), max_norm=2.0, generator=False),
        case("many small entries", gradients=[draw.uniform(0.1, 0.9, 5, 4), draw.uniform(-0.9, -0.1, 3)], max_norm=1.0,
             generator=False),
        case("a parameter without gradient", gradients=[*gradients(), None], max_norm=0.5, generator=False),
        case("as model.parameters() gives them", gradients=gradients(), max_norm=1.5, generator=True),
        case("all zero", gradients=[torch.zeros(3), torch.zeros(2, 2)], max_norm=1.0, generator=False),
        case("a single number", gradients=[draw.uniform(3, 4)], max_norm=0.5, generator=False),
        case("float64", gradients=[5 * draw.normal(4, dtype=torch.float64)], max_norm=1.0, generator=True),
    ]  # fmt: skip


EXERCISE = Exercise(
    "clip_gradients",
    probe,
    cases,
    hints=(
        "Think of all gradients as one long vector. How do you get its length from the lengths of its pieces?",
        "`model.parameters()` is a generator: it can be walked once. How often do you need to walk it, and what do you "
        "do about parameters whose `.grad` is None?",
        "By what is every gradient multiplied, and what should that factor never exceed? Which operation multiplies a "
        "tensor in place?",
    ),
    forbids=("torch.nn.utils.clip_grad",),
)
