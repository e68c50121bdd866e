"""The exercise `first_divergence`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from autograde.hidden.common import override
from autograde.hidden.debugging.shared import (
    LEFT_HOOKS,
    LOST_MODE,
    NAMED,
    ONE_MODE,
    TRACES,
    Modes,
    judged,
    no_eval,
    remembers_one,
    restores_nothing,
    restores_one,
    restores_training,
)
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Two records of one kind, each keyed by name and number of the call, and then one comparison. The record is a "
    "copy, since a later in-place operation may write into an output. `allclose` with `rtol=0` and `equal_nan=True` "
    "says what the task says, and a dict keeps the order in which the modules finished."
)
"""Why the reference is written as it is."""
REQUIRED = ("last-difference", "nan-passes", "definition-order")
"""The mistakes that a check must always be able to name."""

AGREE = "Two models that should agree"
Key = tuple[str, int]
Outputs = dict[Key, list[Tensor]]


def tensors(output: Any) -> list[Tensor]:
    return [t for t in tree_leaves(output) if isinstance(t, Tensor)]


class FirstDivergence(Modes):
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, reference: nn.Module, candidate: nn.Module, x: Tensor, atol: float) -> Any:
        ours, theirs = self.record(reference, x), self.record(candidate, x)
        differing = [key for key in self.keys(ours, reference) if self.differ(ours[key], theirs.get(key), atol)]
        return self.chosen([name for name, _ in differing])

    def record(self, model: nn.Module, x: Tensor) -> Outputs:
        outputs: Outputs = {}
        handles = [module.register_forward_hook(self.hook(name, outputs)) for name, module in self.watched(model)]
        modes = self.before(model)
        with torch.no_grad():
            model(x)
        self.after(model, modes)
        self.remove(handles)
        return outputs

    def watched(self, model: nn.Module) -> list[tuple[str, nn.Module]]:
        return [(name, module) for name, module in model.named_modules() if name]

    def hook(self, name: str, outputs: Outputs) -> Callable[..., None]:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            outputs[self.key(name, outputs)] = [self.copied(t) for t in self.found(output)]

        return hook

    def key(self, name: str, outputs: Outputs) -> Key:
        return name, sum(known == name for known, _ in outputs)

    def found(self, output: Any) -> list[Tensor]:
        return tensors(output)

    def copied(self, t: Tensor) -> Tensor:
        return t.clone()

    def remove(self, handles: list[Any]) -> None:
        for handle in handles:
            handle.remove()

    def keys(self, ours: Outputs, _reference: nn.Module) -> list[Key]:
        return list(ours)

    def differ(self, ours: list[Tensor], theirs: list[Tensor] | None, atol: float) -> bool:
        if theirs is None:
            return self.alone()
        return len(ours) != len(theirs) or any(self.apart(a, b, atol) for a, b in zip(ours, theirs, strict=True))

    def alone(self) -> bool:
        return False

    def apart(self, a: Tensor, b: Tensor, atol: float) -> bool:
        return a.shape != b.shape or not torch.allclose(a, b, rtol=0, atol=atol, equal_nan=True)

    def chosen(self, names: list[str]) -> Any:
        return names[0] if names else None


def comparing(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(FirstDivergence, **methods)()
    return program


def in_order_of_definition(_self: Any, ours: Outputs, reference: nn.Module) -> list[Key]:
    places = [name for name, _ in reference.named_modules()]
    return sorted(ours, key=lambda key: places.index(key[0]))


def one_module_after_the_other(_self: Any, ours: Outputs, _reference: nn.Module) -> list[Key]:
    names = [name for name, _ in ours]
    return sorted(ours, key=lambda key: names.index(key[0]))


def nan_is_no_difference(_self: Any, a: Tensor, b: Tensor, atol: float) -> bool:
    return a.shape != b.shape or bool(((a - b).abs() > atol).any())


def largest_difference(_self: Any, a: Tensor, b: Tensor, atol: float) -> bool:
    return a.shape != b.shape or bool((a - b).abs().nan_to_num(0).max() > atol)


def mean_difference(_self: Any, a: Tensor, b: Tensor, atol: float) -> bool:
    if a.shape != b.shape or not torch.equal(a.isfinite(), b.isfinite()):
        return True
    return bool((a - b).nan_to_num(0).abs().mean() > atol)


def not_within(_self: Any, a: Tensor, b: Tensor, atol: float) -> bool:
    return a.shape != b.shape or not bool(((a - b).abs() <= atol).all())


def paired_nan_differ(_self: Any, a: Tensor, b: Tensor, atol: float) -> bool:
    return a.shape != b.shape or not torch.allclose(a, b, rtol=0, atol=atol)


def broadcasts(_self: Any, a: Tensor, b: Tensor, atol: float) -> bool:
    return not torch.allclose(a, b, rtol=0, atol=atol, equal_nan=True)


def exactly(_self: Any, a: Tensor, b: Tensor, _atol: float) -> bool:
    return a.shape != b.shape or not torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def relatively(_self: Any, a: Tensor, b: Tensor, atol: float) -> bool:
    return a.shape != b.shape or not torch.allclose(a, b, atol=atol, equal_nan=True)


def with_the_root(_self: Any, model: nn.Module) -> list[tuple[str, nn.Module]]:
    return list(model.named_modules())


def leaves_only(_self: Any, model: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name, m) for name, m in model.named_modules() if name and not list(m.children())]


class InOrderOfStart(FirstDivergence):
    """Goes through the modules in the order in which they begin."""

    def record(self, model: nn.Module, x: Tensor) -> Outputs:
        begun: list[Key] = []

        def before(name: str) -> Callable[..., None]:
            return lambda *_: begun.append((name, sum(known == name for known, _ in begun)))

        handles = [m.register_forward_pre_hook(before(name)) for name, m in self.watched(model)]
        outputs = super().record(model, x)
        for handle in handles:
            handle.remove()
        return {key: outputs[key] for key in begun}


def final_outputs_first(reference: nn.Module, candidate: nn.Module, x: Tensor, atol: float) -> Any:
    program = comparing()
    with judged(reference), judged(candidate), torch.no_grad():
        a, b = tensors(reference(x))[0], tensors(candidate(x))[0]
    if a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=atol, equal_nan=True):
        return None
    return program(reference, candidate, x, atol)


MISTAKES = [
    Mistake("last-difference", comparing(chosen=lambda self, names: names[-1] if names else None), NAMED + "that is "
            "the last one that differs; a difference spreads to everything that follows, so only the first says "
            "something.",
            AGREE),
    Mistake("nan-passes", comparing(apart=nan_is_no_difference), NAMED + "`> atol` is always False for NaN.", AGREE),
    Mistake("nan-passes", comparing(apart=largest_difference), NAMED + "NaN against a number was taken for no "
            "difference.", AGREE),
    Mistake("definition-order", comparing(keys=in_order_of_definition), NAMED + "the modules were gone through in the "
            "order in which they are defined, not in which they run.", AGREE),
    Mistake("calls-of-a-module-together", comparing(keys=one_module_after_the_other), NAMED + "a module ran twice, and "
            "both calls were compared before the other modules. What ran between them comes first.", AGREE),
    Mistake("containers-before-leaves", InOrderOfStart(), NAMED + "that is the module which began first; what "
            "counts is which one finished first, and a container finishes after its leaves.", AGREE),
    Mistake("paired-nan-differs", comparing(apart=paired_nan_differ), NAMED + "both sides have NaN in the same place, "
            "and that is agreement here: `equal_nan=True`.", AGREE),
    Mistake("infinity-minus-infinity", comparing(apart=not_within), NAMED + "infinity minus infinity is NaN, so "
            "equal infinities or paired NaN were taken for a difference.", AGREE),
    Mistake("ignores-the-shape", comparing(apart=broadcasts), NAMED + "outputs of different shapes were compared by "
            "broadcasting, or not at all.", AGREE),
    Mistake("ignores-atol", comparing(apart=exactly), NAMED + "differences up to `atol` are allowed.", AGREE),
    Mistake("allows-a-share-too", comparing(apart=relatively), NAMED + "the numbers are large and differ by more than "
            "`atol`, which `allclose` lets pass: it also allows a share of the number, unless `rtol=0`.", AGREE),
    Mistake("mean-difference", comparing(apart=mean_difference), NAMED + "the mean difference was compared with "
            "`atol`, but a single entry may be far off.", AGREE),
    Mistake("later-writing-hides-it", comparing(copied=lambda self, t: t.detach()), NAMED + "the outputs were kept "
            "without a copy, and an in-place operation wrote into them later.", AGREE),
    Mistake("last-call-only", comparing(key=lambda self, name, outputs: (name, 0)), NAMED + "a module ran twice, and "
            "the second call took the place of the first.", AGREE),
    Mistake("first-tensor-only", comparing(found=lambda self, output: tensors(output)[:1]), NAMED + "the outputs are "
            "nested, and only the first tensor was compared.", AGREE),
    Mistake("leaves-only", comparing(watched=leaves_only), NAMED + "only leaves were compared, but a container may "
            "do something of its own with what they put out.", AGREE),
    Mistake("names-the-root", comparing(watched=with_the_root, chosen=lambda self, names: names[-1] if names else None),
            NAMED + "the whole model, whose name is empty, always differs and says nothing.", AGREE),
    Mistake("names-the-root", comparing(watched=with_the_root), NAMED + "all submodules agree; the model as a whole, "
            "whose name is empty, is left out.", AGREE),
    Mistake("missing-counts-as-different", comparing(alone=lambda self: True), NAMED + "only the reference has this "
            "submodule, so it has to be skipped.", AGREE),
    Mistake("judges-by-the-end", final_outputs_first, NAMED + "the final outputs agree, but something differs on the "
            "way.",
            AGREE),
    Mistake("train-mode", comparing(before=no_eval), NAMED + "the models ran in the modes that they came in, and so "
            "they computed different things.", TRACES),
    Mistake("leaves-hooks", comparing(remove=lambda self, handles: None), LEFT_HOOKS, AGREE),
    Mistake("leaves-eval-mode", comparing(after=restores_nothing), LOST_MODE, TRACES),
    Mistake("leaves-train-mode", comparing(after=restores_training), LOST_MODE, TRACES),
    Mistake("restores-one-mode", comparing(before=remembers_one, after=restores_one), ONE_MODE, TRACES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(candidate: dict[str, str], **more: Any) -> dict[str, Any]:
        x = draw.normal(draw.size(2, 5), draw.size(3, 7))
        return {"x": x, "seed": draw.size(0, 9999), "both": {}, "candidate": candidate, "extra": False, "again": False,
                "allowed": 1e-4} | more  # fmt: skip

    double = drawn({"decoder.block.second": "shifted"}, allowed=1e-3)
    return [
        case("another shape in an extra tensor", **drawn({"encoder.1.0": "wrapped extra"},
             both={"encoder.1.0": "shifted extra"})),
        case("infinity against minus infinity", **drawn({"encoder.1.1": "-inf"}, both={"encoder.1.1": "inf"})),
        case("infinity against a number", **drawn({"decoder.block.first": "inf"})),
        case("float64", **double | {"x": double["x"].double()}),
        case("a later call", **drawn({"encoder.0": "shifted main 1"}, again=True)),
    ]  # fmt: skip


# Right answers unlike the reference


def diverge_while_running(reference: nn.Module, candidate: nn.Module, x: Tensor, atol: float) -> str | None:
    """Record the reference, and compare while the candidate runs; the order is the reference's."""
    kept: list[tuple[str, int, list[Tensor]]] = []
    wrong: set[Key] = set()
    calls: dict[str, int] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(_m: nn.Module, _i: Any, out: Any) -> None:
            kept.append((name, sum(n == name for n, _, _ in kept), [t.detach().clone() for t in tensors(out)]))

        return hook

    def compare(name: str) -> Callable[..., None]:
        def hook(_m: nn.Module, _i: Any, out: Any) -> None:
            k = calls.get(name, 0)
            calls[name] = k + 1
            for n, number, outputs in kept:
                if (n, number) == (name, k):
                    mine = tensors(out)
                    same = [
                        a.shape == b.shape and bool(_close(a, b, atol)) for a, b in zip(outputs, mine, strict=False)
                    ]
                    if len(mine) != len(outputs) or not all(same):
                        wrong.add((name, k))

        return hook

    with ExitStack() as stack, judged(reference), judged(candidate), torch.no_grad():
        for model, make in ((reference, keep), (candidate, compare)):
            for name, module in list(model.named_modules())[1:]:
                stack.callback(module.register_forward_hook(make(name)).remove)
        reference(x)
        candidate(x)
    return next((name for name, k, _ in kept if (name, k) in wrong), None)


def _close(a: Tensor, b: Tensor, atol: float) -> Tensor:
    return ((a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= atol)).all()


def diverge_by_lists(reference: nn.Module, candidate: nn.Module, x: Tensor, atol: float) -> str | None:
    def run(model: nn.Module) -> list[tuple[str, Any]]:
        calls: list[tuple[str, Any]] = []
        was = {m: m.training for m in model.modules()}
        handles = [
            m.register_forward_hook(lambda _m, _i, out, n=n: calls.append((n, [t.cpu().clone() for t in tensors(out)])))
            for n, m in model.named_modules()
            if n != ""
        ]
        model.eval()
        with torch.inference_mode():
            model(x)
        for handle in handles:
            handle.remove()
        for m, t in was.items():
            m.training = t
        return calls

    rest: dict[str, list[Any]] = {}
    for name, outputs in run(candidate):
        rest.setdefault(name, []).append(outputs)
    for name, outputs in run(reference):
        if rest.get(name):
            theirs = rest[name].pop(0)
            try:
                torch.testing.assert_close(outputs, theirs, rtol=0, atol=atol, equal_nan=True)
            except AssertionError:
                return name
    return None


RIGHT_ANSWERS: list[Callable[..., Any]] = [diverge_while_running, diverge_by_lists]
