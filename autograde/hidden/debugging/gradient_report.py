"""The exercise `gradient_report`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "One comprehension over `named_parameters()`: it keeps the order, and counts a tied parameter once. `None` and "
    "`0.0` stay apart because they are two findings: cut off from the loss, or part of it and without effect."
)
"""Why the reference is written as it is."""
REQUIRED = ("none-reported-as-zero", "includes-frozen", "mean-not-norm")
"""The mistakes that a check must always be able to name."""

GRADIENTS = "Gradients, layer by layer"


class Report:
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, model: nn.Module) -> dict[str, Any]:
        return {name: self.entry(p) for name, p in self.listed(model) if self.counts(p)}

    def listed(self, model: nn.Module) -> Any:
        return list(model.named_parameters())

    def counts(self, p: Tensor) -> bool:
        return p.requires_grad

    def entry(self, p: Tensor) -> Any:
        return self.without(p) if p.grad is None else self.size(p)

    def without(self, _p: Tensor) -> Any:
        return None

    def size(self, p: Tensor) -> Any:
        assert p.grad is not None
        return self.norm(p.grad)

    def norm(self, grad: Tensor) -> Any:
        return grad.norm().item()


def reporting(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Report, **methods)()
    return program


def divides_afterwards(model: nn.Module) -> dict[str, Any]:
    report = reporting()(model)
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    return report  # type: ignore[no-any-return]


ENTRY = 'In the case "{case}" the {what} came out as {got} where {want} is wanted: '
MISTAKES = [
    Mistake("none-reported-as-zero", reporting(without=lambda self, p: 0.0), ENTRY + "a parameter without gradient "
            "is cut off from the loss, which is not the same as a gradient of zero.", GRADIENTS),
    Mistake("includes-frozen", reporting(counts=lambda self, p: True), "In the case \"{case}\" there is an entry for "
            "{extra}, which is frozen: only trainable parameters are asked for.", GRADIENTS),
    Mistake("includes-frozen", reporting(counts=lambda self, p: p.requires_grad or p.grad is not None), "In the case "
            '"{case}" there is an entry for {extra}: it is frozen, and its gradient is left over from earlier.',
            GRADIENTS),
    Mistake("mean-not-norm", reporting(norm=lambda self, g: g.abs().mean().item()), ENTRY + "that is the mean of the "
            "entries' sizes, not the root of the sum of their squares.", GRADIENTS),
    Mistake("mean-not-norm", reporting(norm=lambda self, g: g.mean().item()), ENTRY + "that is the mean of the "
            "entries, in which large ones of both signs cancel.", GRADIENTS),
    Mistake("mean-not-norm", reporting(norm=lambda self, g: g.square().mean().sqrt().item()), ENTRY + "the sum of "
            "the squares belongs under the root, not their mean.", GRADIENTS),
    Mistake("skips-missing-gradients", reporting(counts=lambda self, p: p.requires_grad and p.grad is not None), "In "
            'the case "{case}" there is no entry for {missing}: a parameter without gradient is just what the report '
            "has to show.",
            GRADIENTS),
    Mistake("zero-reported-as-none", reporting(size=lambda self, p: p.grad.norm().item() or None), ENTRY + "a gradient "
            "of zero is there, and says that the loss does not change with this parameter.", GRADIENTS),
    Mistake("squared-norm", reporting(norm=lambda self, g: g.square().sum().item()), ENTRY + "the root is missing.",
            GRADIENTS),
    Mistake("sum-of-sizes", reporting(norm=lambda self, g: g.abs().sum().item()), ENTRY + "that is the sum of the "
            "sizes, but the root of the sum of their squares is wanted.", GRADIENTS),
    Mistake("largest-entry", reporting(norm=lambda self, g: g.abs().max().item()), ENTRY + "that is the largest entry "
            "alone.", GRADIENTS),
    Mistake("norm-of-the-weight", reporting(size=lambda self, p: p.norm().item()), ENTRY + "that is the norm of the "
            "parameter, not of its gradient.", GRADIENTS),
    Mistake("returns-tensors", reporting(norm=lambda self, g: g.norm()), ENTRY + "`item()` makes a number of it.",
            GRADIENTS),
    Mistake("sorted-by-name", reporting(listed=lambda self, model: sorted(model.named_parameters())), "In the case "
            '"{case}" the names are not in the order of named_parameters(): the layers should read from first to '
            "last.", GRADIENTS),
    Mistake("counts-tied-twice", reporting(listed=lambda self, model: list(model.named_parameters(
            remove_duplicate=False))), "In the case \"{case}\" there is an entry for {extra} as well: this is the same "
            "parameter under a second name.", GRADIENTS),
    Mistake("changes-gradients", divides_afterwards, "In the case \"{case}\" the {what} are {got}, and should be "
            "{want}: a report only looks.", GRADIENTS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(kind_of_model: str = "", dtype: torch.dtype = torch.float32, **more: Any) -> dict[str, Any]:
        x = draw.normal(draw.size(1, 7), draw.size(2, 8), dtype=dtype)
        return {"x": x, "seed": draw.size(0, 9999), "kind_of_model": kind_of_model, "stale": False,
                "backward": True} | more  # fmt: skip

    return [
        case("tied, with an old gradient", **drawn("tied", stale=True)),
        case("an infinite loss", **drawn("infinite")),
        case("nothing yet but an old gradient", **drawn(stale=True, backward=False)),
        case("float64, tied", **drawn("tied", torch.float64)),
    ]


# Right answers unlike the reference


def report_with_a_loop(model: nn.Module) -> dict[str, float | None]:
    report: dict[str, float | None] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.grad is None:
            report[name] = None
            continue
        report[name] = float(torch.linalg.vector_norm(parameter.grad.detach()))
    return report


def report_by_squares(model: nn.Module) -> dict[str, Any]:
    named = ((n, p.grad) for n, p in model.named_parameters() if p.requires_grad)
    return {n: g if g is None else math.sqrt(g.flatten().double().pow(2).sum()) for n, g in named}


RIGHT_ANSWERS: list[Callable[..., Any]] = [report_with_a_loop, report_by_squares]
