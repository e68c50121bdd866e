"""The exercise `same_numerics`: its probe, visible cases and hints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, kind
from torchcourse.probes.trainable_models import number


class Small(nn.Module):
    """Two layers made of the tensors of a case. A name in `frozen` requires no grad; `spare` takes no part."""

    def __init__(self, weights: dict[str, Tensor], frozen: Sequence[str], spare: bool) -> None:
        super().__init__()
        for name, value in weights.items():
            setattr(self, name, nn.Parameter(value.clone(), requires_grad=name not in frozen))
        if spare:
            self.spare = nn.Parameter(torch.ones(3, device=weights["w1"].device))

    def compute(self, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor) -> Tensor:
        return torch.tanh(x @ w1 + b1) @ w2

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(x, self.w1, self.b1, self.w2)  # type: ignore[arg-type]


class _Skewed(torch.autograd.Function):
    """The identity, with a gradient that comes out too large."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return t.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0] * ctx.factor, None


class Miscompiled(nn.Module):
    """A stand-in for the compiled model, which shares its parameters: it is off by `shift` at one place of its output,
    and by a factor in the gradient of what `off` names; "cut w1" stands for no gradient of w1 at all,
    "nan w1" for one that is not a number."""

    def __init__(self, model: Small, shift: float, off: str) -> None:
        super().__init__()
        self._orig_mod, self.shift, self.off = model, shift, off

    def forward(self, x: Tensor) -> Tensor:
        model = self._orig_mod
        parts: dict[str, Any] = {"x": x, "w1": model.w1, "b1": model.b1, "w2": model.w2}
        how, _, name = self.off.rpartition(" ")
        if name:
            factor = math.nan if how == "nan" else 3
            parts[name] = parts[name].detach() if how == "cut" else _Skewed.apply(parts[name], factor)
        out = model.compute(*parts.values())
        if not self.shift:
            return out
        change = torch.zeros_like(out)
        change[-1, 0] = self.shift
        return out + change


def probe(
    answer: Watched, weights: dict[str, Tensor], x: Tensor, atol: float, shift: float, off: str, frozen: list[str],
    spare: bool, grads: dict[str, float],
) -> Observations:  # fmt: skip
    """Compare a model with one that is off by `shift` in the place `off`, and see what became of `.grad`. Where x has a
    gradient from before, what is compiled comes as a plain function, as `torch.compile(model.forward)` would be."""
    model = Small(weights, frozen, spare)
    compiled, raw = Miscompiled(model, shift, off), x.clone()
    held: dict[str, Tensor] = {"x": x, **dict(model.named_parameters())}
    if "x" in grads:
        x.requires_grad_()
    for name, value in grads.items():
        held[name].grad = torch.full_like(held[name], value)
    before = {name: None if t.grad is None else t.grad.clone() for name, t in held.items()}
    found = answer.answer(model, (lambda t: compiled(t)) if "x" in grads else compiled, x, atol)
    if not (isinstance(found, dict) and {"output", "grad", "ok"} <= found.keys()):
        return {"returned": f"{kind(found)} without the keys output, grad and ok"}
    changed = [name for name, t in held.items() if not _same_grad(t.grad, before[name])]
    return {
        "output": number(found["output"]),
        "grad": number(found["grad"]),
        "ok": bool(found["ok"]) if isinstance(found["ok"], bool | Tensor) else kind(found["ok"]),
        "changed .grad of": changed or "nothing",
        "x.requires_grad": "as before" if x.requires_grad == ("x" in grads) else f"now {x.requires_grad}",
        **kept(x=(x.detach(), raw)),
    }


def _same_grad(now: Tensor | None, before: Tensor | None) -> bool:
    return now is before if now is None or before is None else torch.equal(now, before)


def derive(case: Case, seen: Observations) -> Observations:
    """Reduce the gradient's difference to its size: the value depends on which loss was made of the output."""
    grad, output, atol = seen.get("grad"), seen.get("output"), case.inputs["atol"]
    if isinstance(grad, float):
        size = "no number" if math.isnan(grad) else "0" if abs(grad) <= 1e-6 else "more than atol"
        seen = {**seen, "grad": size if abs(grad) <= 1e-6 or not abs(grad) <= atol else "less than atol"}
    if isinstance(output, float) and not math.isfinite(output):
        seen = {**seen, "output": "no finite number"}
    return seen


def cases(draw: Draw) -> list[Case]:
    i, h, o, n = draw.size(2, 3), draw.size(3, 4), 2, draw.size(3, 4)
    weights = {"w1": 0.5 * draw.normal(i, h), "b1": 0.5 * draw.normal(h), "w2": 1 + 0.1 * draw.normal(h, o)}
    large = weights | {"b1": torch.full((h,), 3.0), "w2": torch.full((h, o), 1000.0)}
    steep = torch.tensor([3.0, *[0.01] * (h - 1)])
    uneven = {"w1": torch.zeros(i, h), "b1": steep, "w2": torch.ones(h, o)}
    common: dict[str, Any] = {"rtol": 0.02, "atol": 1e-5}

    def one(name: str, **more: Any) -> Case:
        usual = {"shift": 0.0, "off": "", "frozen": [], "spare": False, "grads": {}}
        chosen = {"weights": weights, **usual, **more}
        margin = chosen.pop("margin", 1e-3)
        made = case(name, **common, x=draw.normal(n, i), **chosen)
        return Case(made.name, {**made.inputs, "atol": margin}, made.tolerance)

    return [
        one("the same in all"),
        one("one output is too high", shift=0.5),
        one("one output is too low", shift=-0.5),
        one("a difference below atol", shift=0.01, margin=0.1),
        one("the gradient of x is off", off="x"),
        one("the gradient of a weight is off", off="w2"),
        one("a weight gets no gradient", off="cut w1"),
        one("with gradients from before", grads={"w1": 5.0, "x": -2.0}),
        one("a frozen bias, and a parameter that takes no part", frozen=["b1"], spare=True, grads={"w2": 1.0}),
        one("one output is not a number", shift=math.nan),
        one("a gradient is not a number", off="nan w2"),
        one("nothing is a number, on both sides", weights=weights | {"w2": torch.full((h, o), math.nan)}),
        one("a difference of just atol", weights=weights | {"w2": torch.zeros(h, o)}, shift=0.5, margin=0.5),
        one("large outputs, a small difference", weights=large, shift=0.02, margin=0.005),
        one("the gradient of one entry is off", weights=uneven, off="w2", margin=1.2 * n),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    names = {"output": "output", "grad": "grad", "ok": "ok", "changed": "changed .grad of"}
    return {"margin": inputs["atol"], **{field: seen[name] for field, name in names.items() if name in seen}}


EXERCISE = Exercise(
    "same_numerics",
    probe,
    cases,
    hints=(
        "Two runs of the same kind, one with each model: what has to come out of each so that you can compare outputs "
        "and gradients?",
        "`backward()` leaves its results in `.grad`, on top of what is there. Which function of `torch.autograd` "
        "returns them instead, and what does it need to be told about parameters that take no part?",
        "The largest absolute difference over several tensors: what does a gradient count that is None on one side "
        "only, and what does a comparison with NaN say?",
    ),
    derive=derive,
    quotes=quotes,
)
