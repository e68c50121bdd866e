"""The exercise `GatedLinear`: its probe, visible cases and hints."""

from __future__ import annotations

import torch
from torch import Tensor

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
)
from torchcourse.probes.observe import float32_digits, look
from torchcourse.probes.trainable_models import with_detail

OTHER_NAMES = "none of the names that are asked for"


@ends_when_unusable
def probe(answer: Watched, sizes: tuple[int, int], weights: dict[str, Tensor], x: Tensor) -> Observations:
    """Observe parameters, output and gradients of a layer with known weights."""
    by_name = dict(zip(("in_features", "out_features"), sizes, strict=True))
    module = build(answer, x.device, **by_name) if x.dim() > 2 else build(answer, x.device, *sizes)
    if x.dtype == torch.float64:
        module.to(x.dtype)
    seen = inventory(module)
    load(module, weights)
    output = attempted(lambda: called(answer, module, x.requires_grad_()))
    if isinstance(output, Raised):
        return {**seen, "outcome": output}
    held = {name: p for name, p in module.named_parameters() if name in weights}
    seen |= {**look(output, x), **gradients(output, x=x, **held)}
    return {**seen, **in_any_mode(module, lambda: called(answer, module, x), output)}


def derive(case: Case, seen: Observations) -> Observations:
    """Of parameters none of which has a name that is asked for, compare only that: other names are free to choose."""
    seen = float32_digits(case, seen)
    listed = seen.get("parameters", [])
    if listed and not {entry.split()[0] for entry in listed} & {*case.inputs["weights"]}:
        seen = {**seen, "parameters": with_detail(OTHER_NAMES, ", ".join(listed)), "state_dict": OTHER_NAMES}
    return seen


def cases(draw: Draw) -> list[Case]:
    i, o, n = draw.size(3, 4), draw.size(5, 6), draw.size(7, 8)
    names = ("weight", "gate_weight", "bias")
    weights = affine_weights(draw, i, o, *names)
    return [
        case("a batch", sizes=(i, o), weights=weights, x=draw.normal(n, i)),
        case("as many outputs as inputs", sizes=(i, i), weights=affine_weights(draw, i, i, *names),
             x=draw.normal(n, i)),
        case("two batch dimensions, sizes by name", sizes=(i, o), weights=weights, x=draw.normal(2, 3, i)),
        case("one example, no batch", sizes=(i, o), weights=weights, x=draw.normal(i)),
        case("large inputs", rtol=1e-3, atol=1e-3, sizes=(i, o), weights=weights, x=30 * draw.normal(n, i)),
        case("moved to float64", rtol=1e-10, atol=1e-12, sizes=(i, o), weights=weights,
             x=draw.normal(n, i, dtype=torch.float64)),
    ]  # fmt: skip


EXERCISE = Exercise(
    "GatedLinear",
    probe,
    cases,
    hints=(
        "There are three parameters, registered on the module itself under the three names that the exercise gives. "
        "Which shape has each?",
        "The gate is a number between 0 and 1 for each output. Which function maps any number there, and does the "
        "bias belong inside or outside the gate?",
        "`F.linear(x, weight, bias)` is allowed here. Which of its arguments can be left out?",
    ),
    derive=derive,
    quotes=quoting(quotes_registered),
)
