"""The exercise `first_nonfinite`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from autograde.hidden.common import override
from autograde.hidden.debugging.shared import LEFT_HOOKS, NAMED
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Forward hooks run when a module is done, so the first entry of the list is the first in order of execution, "
    "whatever the order of definition. `isfinite` asks for NaN and for infinity. `finally` removes the hooks even if "
    "the model raises, and lets its exception pass."
)
"""Why the reference is written as it is."""
REQUIRED = ("definition-order", "misses-inf", "leaves-hooks", "names-the-container")
"""The mistakes that a check must always be able to name."""

FIRST = "The first bad value"
Modules = list[tuple[str, nn.Module]]


def tensors(output: Any) -> list[Tensor]:
    return [t for t in tree_leaves(output) if isinstance(t, Tensor)]


def bad(output: Any) -> bool:
    return any(not bool(t.isfinite().all()) for t in tensors(output))


class FirstNonfinite:
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, model: nn.Module, x: Tensor) -> Any:
        found: list[str] = []
        watched = self.watched(model)
        handles = [module.register_forward_hook(self.hook(name, found)) for name, module in watched]
        self.run(model, x, handles)
        return self.chosen(found, [name for name, _ in watched])

    def watched(self, model: nn.Module) -> Modules:
        return [(name, m) for name, m in model.named_modules() if not list(m.children())]

    def hook(self, name: str, found: list[str]) -> Callable[..., None]:
        def hook(_module: nn.Module, inputs: Any, output: Any) -> None:
            if self.bad(self.looked_at(inputs, output)):
                found.append(name)

        return hook

    def looked_at(self, _inputs: Any, output: Any) -> Any:
        return output

    def bad(self, output: Any) -> bool:
        return bad(output)

    def run(self, model: nn.Module, x: Tensor, handles: list[Any]) -> None:
        try:
            model(x)
        finally:
            for handle in handles:
                handle.remove()

    def chosen(self, found: list[str], _watched: list[str]) -> Any:
        return found[0] if found else None


def finding(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(FirstNonfinite, **methods)()
    return program


def runs(_self: Any, model: nn.Module, x: Tensor, _handles: list[Any]) -> None:
    model(x)


def runs_once_more(self: Any, model: nn.Module, x: Tensor, handles: list[Any]) -> None:
    FirstNonfinite.run(self, model, x, handles)
    model(x)


def removes_if_all_is_well(_self: Any, model: nn.Module, x: Tensor, handles: list[Any]) -> None:
    model(x)
    for handle in handles:
        handle.remove()


def swallows(_self: Any, model: nn.Module, x: Tensor, handles: list[Any]) -> None:
    with contextlib.suppress(Exception):
        model(x)
    for handle in handles:
        handle.remove()


def in_eval_mode(_self: Any, model: nn.Module, x: Tensor, handles: list[Any]) -> None:
    model.eval()
    FirstNonfinite().run(model, x, handles)


def in_order_of_definition(_self: Any, found: list[str], watched: list[str]) -> Any:
    return next((name for name in watched if name in found), None)


def containers_first(_self: Any, model: nn.Module) -> Modules:
    return [(name, module) for name, module in model.named_children()]


def all_outermost(_self: Any, found: list[str], _watched: list[str]) -> Any:
    return found[0].split(".")[0] if found else None


MISTAKES = [
    Mistake("definition-order", finding(chosen=in_order_of_definition), NAMED + "the layers were gone through in the "
            "order in which they are defined, which is not the order in which they run.", FIRST),
    Mistake("misses-inf", finding(bad=lambda self, output: any(bool(t.isnan().any()) for t in tensors(output))), NAMED
            + "`isnan` is False for infinity, which may turn into NaN later, or never.", FIRST),
    Mistake("adds-up-first", finding(bad=lambda self, output: any(not t.sum().isfinite() for t in tensors(output))),
            NAMED + "its numbers are finite, and only their sum is not. Look at each number.", FIRST),
    Mistake("leaves-hooks", finding(run=runs), LEFT_HOOKS, FIRST),
    Mistake("leaves-hooks", finding(run=removes_if_all_is_well), LEFT_HOOKS, FIRST),
    Mistake("names-the-container", finding(watched=containers_first), NAMED + "that is the outermost module around it; "
            "ask the leaves, which have no children.", FIRST),
    Mistake("names-the-container", finding(chosen=all_outermost), NAMED + "that is the first part of the name, the "
            "outermost module around it.", FIRST),
    Mistake("names-the-container", finding(watched=lambda self, model: list(model.named_modules())), NAMED + "that "
            "is not a leaf: a container may spoil what its leaves put out, but only leaves are asked here.", FIRST),
    Mistake("names-the-last", finding(chosen=lambda self, found, watched: found[-1] if found else None), NAMED
            + "that is the last one; a NaN spreads to everything that follows, so only the first says something.",
            FIRST),
    Mistake("takes-no-name-for-none", finding(chosen=lambda self, found, watched: next(iter(found), "") or None), "In "
            "the case \"{case}\" the result is {found}, and an empty name is wanted: a model that is a leaf itself has "
            "the name `\"\"`, which counts as False. Ask whether it `is None`.", FIRST),
    Mistake("misses-nested-outputs", finding(bad=lambda self, output: isinstance(output, Tensor) and bad(output)), NAMED
            + "an output may be a dict or a list of tensors, with a bad one among them.", FIRST),
    Mistake("misses-nested-outputs", finding(bad=lambda self, output: not bool(torch.isfinite(output).all())), "In "
            'the case "{case}" the outcome is {found}, and {right} is wanted: an output may be a dict or a list of '
            "tensors.", FIRST),
    Mistake("misses-minus-infinity", finding(bad=lambda self, output: any(bool((t.isnan() | t.isposinf()).any()) for t
            in tensors(output))), NAMED + "minus infinity is not finite either.", FIRST),
    Mistake("looks-at-inputs", finding(looked_at=lambda self, inputs, output: inputs), NAMED + "that is the first "
            "module that gets a bad value, not the one that puts it out.", FIRST),
    Mistake("swallows-the-exception", finding(run=swallows), "In the case \"{case}\" the outcome is {found}, and "
            "should be {right}: the model raises, and its exception belongs to the caller.", FIRST),
    Mistake("changes-the-mode", finding(run=in_eval_mode), 'In the case "{case}" the {what} are {got}, and should be '
            "{want}: in another mode the model may not compute what went wrong.", FIRST),
    Mistake("runs-more-than-once", finding(run=runs_once_more), "In the case \"{case}\" {what} {got}, and {want} is "
            "wanted: in training mode each run moves batch statistics and draws other numbers.", FIRST),
    Mistake("empty-name-for-none", finding(chosen=lambda self, found, watched: found[0] if found else ""), "In the "
            'case "{case}" the result is {found}: where everything is finite, return {right}.', FIRST),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(again: bool = False, breaks: bool = False, **flaws: str) -> dict[str, Any]:
        x = draw.normal(draw.size(1, 5), draw.size(2, 6))
        named = {name.replace("_", "."): flaw for name, flaw in flaws.items()}
        return {"x": x, "seed": draw.size(0, 9999), "flaws": named, "again": again, "breaks": breaks}

    strided = drawn(encoder_1_1="inf extra")
    strided["x"] = draw.normal(strided["x"].shape[1], 4).T
    return [
        case("everywhere", **drawn(head="nan", decoder_block_first="inf", encoder_1_0="-inf")),
        case("raises, and nothing was wrong", **drawn(breaks=True)),
        case("strided, inside a dict", **strided),
        case("a later call, and the head", **drawn(True, encoder_0="-inf main 1", head="inf")),
    ]


# Right answers unlike the reference


def first_with_a_stack(model: nn.Module, x: Tensor) -> str | None:
    first: list[str] = []

    def inside(output: Any) -> Any:
        if isinstance(output, dict):
            output = list(output.values())
        if isinstance(output, list | tuple):
            return any(inside(part) for part in output)
        return torch.is_tensor(output) and not torch.isfinite(output).all()

    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules():
            if len(list(module.named_children())) == 0:
                handle = module.register_forward_hook(
                    lambda _m, _i, out, name=name: first.append(name) if not first and inside(out) else None
                )
                stack.callback(handle.remove)
        model(x)
    return next(iter(first), None)


def first_with_global_hooks(model: nn.Module, x: Tensor) -> str | None:
    names = {id(m): n for n, m in model.named_modules() if not m._modules}
    order: list[tuple[str, bool]] = []

    def note(module: nn.Module, _inputs: Any, output: Any) -> None:
        if id(module) in names:
            order.append((names[id(module)], bad(output)))

    handle = nn.modules.module.register_module_forward_hook(note)
    try:
        model(x)
    finally:
        handle.remove()
    return next((name for name, is_bad in order if is_bad), None)


RIGHT_ANSWERS: list[Callable[..., Any]] = [first_with_a_stack, first_with_global_hooks]
