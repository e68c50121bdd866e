"""The exercise `untrained`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`p in list` compares values with `==`, which is no question about identity and raises on tensors of several "
    "entries. `id` asks for the object, and so finds a head that was replaced by an equal one. A tied parameter is one "
    "object, so any of its names will do."
)
"""Why the reference is written as it is."""
REQUIRED = ("compares-values", "compares-counts", "misses-replaced-head")
"""The mistakes that a check must always be able to name."""

UNTRAINED = "What is not trained"
Parameters = list[Tensor]


def in_optimizer(optimizer: Any) -> Parameters:
    return [p for group in optimizer.param_groups for p in group["params"]]


class Untrained:
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, model: nn.Module, optimizer: Any) -> Any:
        listed = self.listed(model)
        holds = self.holds(in_optimizer(optimizer), [p for _, p in listed])
        report: dict[str, list[str]] = {"frozen": [], "not_in_optimizer": [], "no_gradient": []}
        for name, p in listed:
            for key in self.reasons(p, holds):
                report[key].append(name)
        return self.returned(report)

    def listed(self, model: nn.Module) -> list[tuple[str, Tensor]]:
        return sorted(model.named_parameters())

    def holds(self, held: Parameters, _own: Parameters) -> Callable[[Tensor], bool]:
        return lambda p: any(p is one for one in held)

    def reasons(self, p: Tensor, holds: Callable[[Tensor], bool]) -> list[str]:
        return list(self.applying(p, holds))[:1]

    def applying(self, p: Tensor, holds: Callable[[Tensor], bool]) -> Iterable[str]:
        if not p.requires_grad:
            yield "frozen"
        if not holds(p):
            yield "not_in_optimizer"
        if self.missing(p.grad):
            yield "no_gradient"

    def missing(self, grad: Tensor | None) -> bool:
        return grad is None

    def returned(self, report: dict[str, list[str]]) -> Any:
        return report


def searching(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Untrained, **methods)()
    return program


def with_equal_values(_self: Any, held: Parameters, _own: Parameters) -> Callable[[Tensor], bool]:
    return lambda p: any(p.shape == one.shape and torch.equal(p, one) for one in held)


def of_the_same_shape(_self: Any, held: Parameters, _own: Parameters) -> Callable[[Tensor], bool]:
    return lambda p: any(p.shape == one.shape for one in held)


def if_as_many(_self: Any, held: Parameters, own: Parameters) -> Callable[[Tensor], bool]:
    return lambda p: len(held) == len(own) or any(p is one for one in held)


def if_as_many_entries(_self: Any, held: Parameters, own: Parameters) -> Callable[[Tensor], bool]:
    enough = sum(p.numel() for p in held) == sum(p.numel() for p in own)
    return lambda p: enough or any(p is one for one in held)


def every_reason(self: Any, p: Tensor, holds: Callable[[Tensor], bool]) -> list[str]:
    return list(self.applying(p, holds))


def also_if_frozen(self: Any, p: Tensor, holds: Callable[[Tensor], bool]) -> list[str]:
    keys = list(self.applying(p, holds))
    return keys if keys == ["no_gradient"] else [key for key in keys if key != "no_gradient"]


class FirstGroupOnly(Untrained):
    def __call__(self, model: nn.Module, optimizer: Any) -> Any:
        class First:
            param_groups = optimizer.param_groups[:1]

        return super().__call__(model, First())


class LastGroupOnly(Untrained):
    def __call__(self, model: nn.Module, optimizer: Any) -> Any:
        class Last:
            param_groups = optimizer.param_groups[-1:]

        return super().__call__(model, Last())


def own_and_zero(grad: Tensor | None) -> bool:
    return grad is None or not bool(grad.any())


MISSED = 'In the case "{case}" `not_in_optimizer` lacks {missed_not_in_optimizer}: '
SEVERAL = (
    'In the case "{case}" the names under `{what}` are {got}, and {want} is wanted: each name stands under the first '
    "key that applies, and nowhere else"
)
MISTAKES = [
    Mistake("compares-values", searching(holds=with_equal_values), MISSED + "the optimizer holds another tensor with "
            "the same numbers, and will change that one.", UNTRAINED),
    Mistake("compares-counts", searching(holds=if_as_many), MISSED + "the optimizer holds as many parameters as the "
            "model has, but not the same ones.", UNTRAINED),
    Mistake("compares-counts", searching(holds=if_as_many_entries), MISSED + "the optimizer holds as many entries as "
            "the model has, but not of the same parameters.", UNTRAINED),
    Mistake("misses-replaced-head", searching(holds=of_the_same_shape), MISSED + "the optimizer holds a parameter of "
            "the same shape, but it is not the same parameter.", UNTRAINED),
    Mistake("several-keys-for-one-name", searching(reasons=every_reason), SEVERAL + ".", UNTRAINED),
    Mistake("several-keys-for-one-name", searching(reasons=also_if_frozen), SEVERAL + ".", UNTRAINED),
    Mistake("several-keys-for-one-name", override(FirstGroupOnly, reasons=every_reason)(), SEVERAL + ". And an "
            "optimizer may have several groups.", UNTRAINED),
    Mistake("last-key-that-applies", searching(reasons=lambda self, p, holds: list(self.applying(p, holds))[-1:]),
            "In the case \"{case}\" the names under `{what}` are {got}, and {want} is wanted: the first key that "
            "applies counts, not the last.", UNTRAINED),
    Mistake("zero-taken-for-none", searching(missing=lambda self, grad: own_and_zero(grad)), "In the case \"{case}\" "
            "`no_gradient` also names {added_no_gradient}: a gradient of zero is a gradient.", UNTRAINED),
    Mistake("first-group-only", FirstGroupOnly(), "In the case \"{case}\" `not_in_optimizer` also names "
            "{added_not_in_optimizer}: an optimizer may have several groups.", UNTRAINED),
    Mistake("last-group-only", LastGroupOnly(), "In the case \"{case}\" `not_in_optimizer` also names "
            "{added_not_in_optimizer}: what the earlier groups hold was lost on the way to the last one.", UNTRAINED),
    Mistake("in-order-of-definition", searching(listed=lambda self, model: list(model.named_parameters())), "In the "
            'case "{case}" the names are not sorted, and should be.', UNTRAINED),
    Mistake("lists-tied-twice", searching(listed=lambda self, model: sorted(model.named_parameters(
            remove_duplicate=False))), 'In the case "{case}" the names under `{what}` are {got}, and {want} is '
            "wanted: a tied parameter is a single one, listed under its first name.", UNTRAINED),
    Mistake("leaves-out-empty-keys", searching(returned=lambda self, report: {k: v for k, v in report.items() if v}),
            'In the case "{case}" the key `{what}` is missing: all three keys belong in the dict, even with an empty '
            "list under them.", UNTRAINED),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(holds: str = "all", how: str = "", tied: bool = False, backward: bool = True) -> dict[str, Any]:
        return {"width": draw.size(3, 8), "seed": draw.size(0, 9999), "tied": tied, "holds": holds, "how": how,
                "backward": backward}  # fmt: skip

    return [
        case("tied, and the head replaced", **drawn(tied=True, how="a new head")),
        case("the head alone, some of the rest frozen", **drawn("the head alone", "frozen and unused")),
        case("two groups, before any backward", **drawn("all but the backbone", backward=False)),
        case("four groups", **drawn("all, a group for each layer")),
        case("tied, the head alone", **drawn("the head alone", tied=True)),
    ]


# Right answers unlike the reference


def untrained_by_sets(model: nn.Module, optimizer: Any) -> dict[str, list[str]]:
    held = set(in_optimizer(optimizer))  # tensors are hashed by identity
    named = dict(model.named_parameters())
    frozen = {n for n, p in named.items() if not p.requires_grad}
    loose = {n for n, p in named.items() if p not in held} - frozen
    silent = {n for n, p in named.items() if p.grad is None} - frozen - loose
    return {"frozen": sorted(frozen), "not_in_optimizer": sorted(loose), "no_gradient": sorted(silent)}


def untrained_by_first_reason(model: nn.Module, optimizer: Any) -> dict[str, list[str]]:
    ids = [id(p) for p in in_optimizer(optimizer)]

    def reason(p: Tensor) -> str:
        if p.requires_grad is False:
            return "frozen"
        return "not_in_optimizer" if id(p) not in ids else "no_gradient" if p.grad is None else "trained"

    found: dict[str, list[str]] = {"no_gradient": [], "not_in_optimizer": [], "frozen": [], "trained": []}
    for name, p in model.named_parameters():
        found[reason(p)].append(name)
    del found["trained"]
    for names in found.values():
        names.sort()
    return found


RIGHT_ANSWERS: list[Callable[..., Any]] = [untrained_by_sets, untrained_by_first_reason]
