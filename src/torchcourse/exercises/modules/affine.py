"""The exercise `Affine`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.modules import (
    affine_weights,
    attempted,
    build,
    called,
    ends_when_unusable,
    gradients,
    in_any_mode,
    inventory,
    load,
    quotes_registered,
    quoting,
    spread,
    without_none,
)
from torchcourse.probes.observe import float32_digits, kind, look, same

NAMES = ("weight", "bias")


def slot(module: nn.Module, name: str) -> str:
    """Return in words how a module holds `name`."""
    registered: dict[str, Any] = module._parameters
    if name in registered:
        return "registered as None" if registered[name] is None else "a parameter"
    if not hasattr(module, name):
        return "no such attribute"
    held = getattr(module, name)
    return "None, not registered" if held is None else f"not a parameter but {kind(held)}"


@ends_when_unusable
def probe(
    answer: Watched, sizes: tuple[int, int], bias: bool | None, weights: dict[str, Tensor], x: Tensor | None
) -> Observations:
    """Observe parameters, output and gradients of a layer with known weights; without `x`, the fresh numbers
    themselves, and those of a second layer, made with arguments by name."""
    made: list[int] = []
    with mock.patch.object(nn.Linear, "reset_parameters", lambda linear: made.append(1)):
        home, options = torch.device("cpu") if x is None else x.device, without_none(bias=bias)
        module = build(answer, home, *sizes, **options)
        names = dict(zip(("in_features", "out_features"), sizes, strict=True))
        another = build(answer, home, **names, **options) if x is None else None
    if made or any(isinstance(m, nn.Linear) for m in module.modules()):
        answer.found_by_probe.append("nn.Linear")
    if x is None:
        fresh = {name: getattr(module, name, None) for name in NAMES}
        return fresh | {f"{name} of another": getattr(another, name, None) for name in NAMES}
    if x.dtype == torch.float64:
        module.to(x.dtype)
    seen = {**inventory(module), "bias": slot(module, "bias")}
    load(module, weights)
    # an answer's own method could still write into its output
    held = {name: p for name, p in nn.Module.named_parameters(module) if name in weights}
    output = attempted(lambda: called(answer, module, x.requires_grad_()))
    if isinstance(output, Raised):
        return {**seen, "outcome": output}
    seen |= {**look(output, x), **gradients(output, x=x, **held)}
    return {**seen, **in_any_mode(module, lambda: called(answer, module, x), output)}


def derive(case: Case, seen: Observations) -> Observations:
    """Describe how fresh numbers are spread, in units of the bound: single draws are not compared."""
    if "weight" not in seen:
        return float32_digits(case, seen)
    bound = case.inputs["sizes"][0] ** -0.5
    forbidden = {name: value for name, value in seen.items() if name == "forbidden calls"}
    made = {f"{what} of {name}": v for name in NAMES for what, v in spread(seen[name], bound).items()}
    for name, words in zip(NAMES, ("weights", "biases"), strict=True):
        pair = seen[name], seen[f"{name} of another"]
        alike = all(isinstance(each, Tensor) for each in pair) and same(*pair)
        made[f"{words} of a second layer"] = "those of the first" if alike else "others"
    return {**made, **forbidden}


def cases(draw: Draw) -> list[Case]:
    i, o, n = draw.size(3, 4), draw.size(5, 6), draw.size(7, 8)
    both = affine_weights(draw, i, o, "weight", "bias")
    one = affine_weights(draw, i, o, "weight")
    square = affine_weights(draw, i, i, "weight", "bias")
    return [
        case("a batch", sizes=(i, o), bias=None, weights=both, x=draw.normal(n, i)),
        case("as many outputs as inputs", sizes=(i, i), bias=None, weights=square, x=draw.normal(n, i)),
        case("bias=False", sizes=(i, o), bias=False, weights=one, x=draw.normal(n, i)),
        case("bias=True", sizes=(i, o), bias=True, weights=both, x=draw.normal(n, i)),
        case("two batch dimensions", sizes=(i, o), bias=None, weights=both, x=draw.normal(2, n, i)),
        case("one example, no batch", sizes=(i, o), bias=None, weights=both, x=draw.normal(i)),
        case("moved to float64", rtol=1e-10, atol=1e-12, sizes=(i, o), bias=None, weights=both,
             x=draw.normal(n, i, dtype=torch.float64)),
        case("fresh weights", rtol=0.05, atol=0.08, sizes=(draw.pick([20, 50, 80]), 1500), bias=None, weights={},
             x=None),
    ]  # fmt: skip


EXERCISE = Exercise(
    "Affine",
    probe,
    cases,
    hints=(
        "What has to be called first in the `__init__` of every module, so that it can register anything at all?",
        "A module notices a tensor only in a certain wrapping. Which class is it, and what does "
        "`list(module.parameters())` say of a bare tensor?",
        "For `bias=False` there is a way to register a name that holds nothing: look for `register_parameter`. "
        "And which of x and the weight has to be transposed so that (…, in) becomes (…, out)?",
    ),
    forbids=("linear", "nn.Linear"),
    derive=derive,
    quotes=quoting(quotes_registered),
)
