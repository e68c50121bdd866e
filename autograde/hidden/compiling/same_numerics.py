"""The exercise `same_numerics`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Outputs alone are not enough: a compiled backward is a program of its own. `torch.autograd.grad` leaves "
    "nothing in `.grad`. With `materialize_grads` a missing gradient counts as zero, so a compiled function "
    "that cuts the graph shows as a difference; skipping None would let it pass."
)
"""Why the reference is written as it is."""
REQUIRED = ("forgets-gradients", "pollutes-grad")
"""The mistakes that a check must always be able to name."""


class Comparison:
    """A right answer, as an object that is called. Each mistake below is this one with one method written otherwise."""

    def __call__(self, model: Any, compiled: Any, x: Tensor, atol: float) -> Any:
        (y, some), (z, others) = self.run(model, model, x), self.run(compiled, model, x)
        output, grad = self.output_gap(y, z), self.largest(self.gaps(some, others))
        return {"output": output, "grad": grad, "ok": self.ok(output, grad, atol)}

    def gaps(self, some: Any, others: Any) -> list[float]:
        pairs = [(g, o) for g, o in zip(some, others, strict=True) if g is not None or o is not None]
        return [self.gap(*(torch.zeros(()) if t is None else t.cpu() for t in pair)) for pair in pairs]

    def largest(self, gaps: list[float]) -> float:
        return float(torch.tensor([0.0, *gaps], dtype=torch.float64).max())  # Python's max may lose a NaN

    def run(self, f: Any, model: Any, x: Tensor) -> Any:
        leaf = self.leaf(x)
        y = f(leaf)
        return y.detach(), self.gradients(y, leaf, model)

    def leaf(self, x: Tensor) -> Tensor:
        return x.detach().clone().requires_grad_()

    def gradients(self, y: Tensor, leaf: Tensor, model: Any) -> Any:
        return torch.autograd.grad(y.sum(), [leaf, *trained(model)], allow_unused=True)

    def gap(self, a: Tensor, b: Tensor) -> float:
        return float((b - a).abs().max())

    def output_gap(self, y: Tensor, z: Tensor) -> float:
        return self.gap(y, z)

    def ok(self, output: float, grad: float, atol: float) -> bool:
        return output <= atol and grad <= atol


def trained(model: Any) -> list[Tensor]:
    return [p for p in model.parameters() if p.requires_grad]


class ForgetsGradients(Comparison):
    def gradients(self, y: Tensor, leaf: Tensor, model: Any) -> Any:
        return []


class ForgetsParameters(Comparison):
    def gradients(self, y: Tensor, leaf: Tensor, model: Any) -> Any:
        return torch.autograd.grad(y.sum(), [leaf], allow_unused=True)


class ForgetsX(Comparison):
    def gradients(self, y: Tensor, leaf: Tensor, model: Any) -> Any:
        parameters = trained(model)
        return torch.autograd.grad(y.sum(), parameters, allow_unused=True) if parameters else []


class SkipsMissingGradients(Comparison):
    def gaps(self, some: Any, others: Any) -> list[float]:
        return [self.gap(g, o) for g, o in zip(some, others, strict=True) if g is not None and o is not None]


class FailsOnUnused(Comparison):
    def gradients(self, y: Tensor, leaf: Tensor, model: Any) -> Any:
        return torch.autograd.grad(y.sum(), [leaf, *trained(model)])


class CallsBackward(Comparison):
    def gradients(self, y: Tensor, leaf: Tensor, model: Any) -> Any:
        y.sum().backward()  # type: ignore[no-untyped-call]
        return [None if t.grad is None else t.grad.clone() for t in [leaf, *trained(model)]]


class CallsBackwardOnX(CallsBackward):
    def leaf(self, x: Tensor) -> Tensor:
        return x.requires_grad_()


class ClearsGradients(CallsBackward):
    def gradients(self, y: Tensor, leaf: Tensor, model: Any) -> Any:
        model.zero_grad()
        found = super().gradients(y, leaf, model)
        model.zero_grad()
        return found


class AsksEachForParameters(Comparison):
    def run(self, f: Any, model: Any, x: Tensor) -> Any:
        return super().run(f, f, x)


class MarksX(Comparison):
    def leaf(self, x: Tensor) -> Tensor:
        return x.requires_grad_()


class MeanOfTheOutput(Comparison):
    def output_gap(self, y: Tensor, z: Tensor) -> float:
        return float((z - y).abs().mean())


class Signed(Comparison):
    def gap(self, a: Tensor, b: Tensor) -> float:
        return float((b - a).max())


class JudgesTheOutputOnly(Comparison):
    def ok(self, output: float, grad: float, atol: float) -> bool:
        return output <= atol


class LosesNan(Comparison):
    def largest(self, gaps: list[float]) -> float:
        return max(0.0, *gaps)  # it keeps its first argument where the second is not a number


class NanAgrees(Comparison):
    def gap(self, a: Tensor, b: Tensor) -> float:
        return float((b - a).abs().masked_fill(a.isnan() & b.isnan(), 0).max())


class AsksForLess(Comparison):
    def ok(self, output: float, grad: float, atol: float) -> bool:
        return output < atol and grad < atol


class MeanOfTheGradients(Comparison):
    def gaps(self, some: Any, others: Any) -> list[float]:
        self.gap, gap = lambda a, b: float((b - a).abs().mean()), self.gap  # type: ignore[method-assign]
        try:
            return super().gaps(some, others)
        finally:
            self.gap = gap  # type: ignore[method-assign]


class ByAllclose(Comparison):
    def __call__(self, model: Any, compiled: Any, x: Tensor, atol: float) -> Any:
        found = super().__call__(model, compiled, x, atol)
        (y, some), (z, others) = self.run(model, model, x), self.run(compiled, model, x)
        zeros = [torch.zeros(()) if t is None else t.cpu() for pair in zip(some, others, strict=True) for t in pair]
        close = [torch.allclose(a, b, atol=atol) for a, b in zip(zeros[::2], zeros[1::2], strict=True)
                 if a.shape == b.shape]  # fmt: skip
        return found | {"ok": torch.allclose(y, z, atol=atol) and all(close) and found["grad"] <= 1.01 * atol}


class AsksWhetherAbove(Comparison):
    def ok(self, output: float, grad: float, atol: float) -> bool:
        return not (output > atol or grad > atol)


NUMBERS = "The same numbers"
BOTH = 'In the case "{case}" the answer has `output` {output}, `grad` {grad} and `ok` {ok}, with atol = {margin}: '
LEFT = (
    'In the case "{case}", the `.grad` of {changed} has changed: `backward()` writes there, on top of what training '
    "had left."
)
MISTAKES = [
    Mistake("nan-counts-as-equal", LosesNan(), BOTH + "a NaN was lost on the way to the largest difference, as in "
            "Python's `max` or in a comparison by `>`; what is not a number is not ok.", NUMBERS),
    Mistake("nan-agrees-with-nan", NanAgrees(), BOTH + "NaN on both sides was taken for agreement; what is not a "
            "number is not ok.", NUMBERS),
    Mistake("less-than-atol", AsksForLess(), BOTH + "a difference of exactly atol is still within atol.", NUMBERS),
    Mistake("mean-not-largest", MeanOfTheGradients(), BOTH + "a mean over the gradient hides the one entry that is far "
            "off; the largest difference counts.", NUMBERS),
    Mistake("allclose-for-ok", ByAllclose(), BOTH + "`allclose` and `isclose` add a share of the numbers themselves, "
            "their rtol, to what is allowed.", NUMBERS),
    Mistake("forgets-gradients", ForgetsGradients(), BOTH + "the gradients of the two models were not compared, and "
            "training follows gradients.", NUMBERS),
    Mistake("mean-not-largest", MeanOfTheOutput(), BOTH + "a mean hides the one place that is wrong.", NUMBERS),
    Mistake("signed-difference", Signed(), BOTH + "without an absolute value, a number that is too low does not count.",
            NUMBERS),
    Mistake("forgets-parameters", ForgetsParameters(), BOTH + "the gradient of x was compared, and not those of the "
            "parameters.", NUMBERS),
    Mistake("forgets-x", ForgetsX(), BOTH + "the gradients of the parameters were compared, and not that of x.",
            NUMBERS),
    Mistake("pollutes-grad", CallsBackwardOnX(), LEFT, NUMBERS),
    Mistake("pollutes-grad", CallsBackward(), LEFT, NUMBERS),
    Mistake("pollutes-grad", ClearsGradients(), 'In the case "{case}", the `.grad` of {changed} has changed: '
            "`zero_grad()` throws away what training had left there.", NUMBERS),
    Mistake("changes-requires-grad", MarksX(), 'In the case "{case}", `x.requires_grad` is {got} after the call, and '
            "should be {want}: `requires_grad_()` marks the caller's own tensor. Take gradients for a detached copy.",
            NUMBERS),
    Mistake("asks-compiled-for-parameters", AsksEachForParameters(), "In the case \"{case}\" the call raised {error}: "
            "`compiled` is anything that can be called; the parameters are those of `model`.", NUMBERS),
    Mistake("ok-ignores-gradients", JudgesTheOutputOnly(), BOTH + "`ok` has to look at both differences.", NUMBERS),
    Mistake("nan-counts-as-equal", AsksWhetherAbove(), BOTH + "`>` is False for NaN, so ask whether the difference is "
            "within atol, not whether it is above.", NUMBERS),
    Mistake("missing-gradient-skipped", SkipsMissingGradients(), BOTH + "a parameter has a gradient on one side and "
            "None on the other, and was skipped. A missing gradient counts as zero.", NUMBERS),
    Mistake("fails-on-unused", FailsOnUnused(), "In the case \"{case}\" the call raised {error}: `autograd.grad` has "
            "to be told that a parameter may take no part.", NUMBERS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    i, h, n = draw.size(2, 4), draw.size(2, 5), draw.size(2, 5)
    weights = {"w1": 0.5 * draw.normal(i, h), "b1": 0.5 * draw.normal(h), "w2": 1 + 0.1 * draw.normal(h, 3)}
    usual: dict[str, Any] = {"weights": weights, "shift": 0.0, "off": "", "frozen": [], "spare": False, "grads": {}}

    def one_more(name: str, **more: Any) -> Case:
        made = case(name, rtol=0.02, atol=1e-5, x=draw.normal(n, i), **{**usual, **more})
        return Case(made.name, {**made.inputs, "atol": 1e-3}, made.tolerance)

    return [
        one_more("the gradient of the bias is off", off="b1"),
        one_more("all frozen but one", frozen=["b1", "w2"], off="w1"),
        one_more(
            "both are off, with gradients from before", shift=0.25, off="w2", grads={"w1": 1.0, "b1": 2.0, "w2": 3.0}
        ),
        one_more("one output is infinite", shift=math.inf),
    ]


# Right answers unlike the reference


def numerics_by_backward(model: nn.Module, compiled: Any, x: Tensor, atol: float) -> dict[str, Any]:
    kept = [(p, p.grad) for p in model.parameters()]

    def run(f: Any) -> tuple[Tensor, list[Tensor]]:
        for p, _ in kept:
            p.grad = None
        mine = x.detach().clone().requires_grad_(True)
        out = f(mine)
        out.sum().backward()
        grads = [t.grad for t in (mine, *(p for p, _ in kept))]
        return out.detach(), [torch.zeros(()) if g is None else g.detach().cpu() for g in grads]

    try:
        first, second = run(model), run(compiled)
    finally:
        for p, old in kept:
            p.grad = old
    output = (first[0] - second[0]).abs().max()
    gaps = torch.stack([(a - b).abs().max().cpu() for a, b in zip(first[1], second[1], strict=True)])
    grad = float(gaps.max())  # Python's max would lose a NaN
    return {"output": output, "grad": grad, "ok": bool(output <= atol) and grad <= atol}


def numerics_by_copies(model: nn.Module, compiled: Any, x: Tensor, atol: float) -> dict[str, Any]:
    def grads(f: Any) -> tuple[Tensor, list[Tensor]]:
        leaf = x.detach().clone().requires_grad_()
        inputs = [p for p in model.parameters() if p.requires_grad] + [leaf]
        out = f(leaf)
        found = torch.autograd.grad(out.sum(), inputs, allow_unused=True, materialize_grads=True)
        return out, list(found)

    (a, ga), (b, gb) = grads(model), grads(compiled)
    difference = float(torch.max(torch.abs(a.detach() - b.detach())))
    flat = [torch.cat([g.reshape(-1) for g in some]) for some in (ga, gb)]
    worst = float(torch.linalg.vector_norm(flat[0] - flat[1], ord=float("inf")))
    fine = all(torch.allclose(p, q, rtol=0.0, atol=atol) for p, q in [(a, b), *zip(ga, gb, strict=True)])
    return {"ok": fine, "output": difference, "grad": worst}


RIGHT_ANSWERS: list[Callable[..., Any]] = [numerics_by_backward, numerics_by_copies]
