"""The exercise `ResidualBlock`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.modules import (
    attempted,
    build,
    called,
    ends_when_unusable,
    fill_in_order,
    gradients,
    load,
    named_shapes,
    quoting,
    without_graph,
)
from torchcourse.probes.observe import kept, kind, look

PARTS = ("conv1", "bn1", "relu", "conv2", "bn2", "skip")


def fill_by_shape(module: nn.Module, weights: dict[str, Tensor]) -> None:
    """Fill the layers of a block with known values; those inside `skip`, whose names are free, by number of
    dimensions."""
    load(module, weights)
    skip = getattr(module, "skip", None)
    if isinstance(skip, nn.Module):
        fill_in_order(list(skip.parameters()))


@contextmanager
def watching_shapes(module: nn.Module) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield the shapes of what the two convolutions and `skip` return, as they are called."""
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str) -> Callable[..., None]:
        return lambda _module, _inputs, output: shapes.update({name: tuple(getattr(output, "shape", ()))})

    parts = {name: getattr(module, name, None) for name in ("conv1", "conv2", "skip")}
    handles = [part.register_forward_hook(note(name)) for name, part in parts.items() if isinstance(part, nn.Module)]
    try:
        yield shapes
    finally:
        for handle in handles:
            handle.remove()


def activation(answer: Watched, module: nn.Module) -> Any:
    """Return what the block's own `relu` makes of a negative and a positive number."""
    relu = getattr(module, "relu", None)
    if relu is None:
        return "no such attribute"
    result = attempted(lambda: called(answer, relu, torch.tensor([-1.0, 2.0])))
    return result.tolist() if isinstance(result, Tensor) else kind(result)


@ends_when_unusable
def probe(answer: Watched, sizes: tuple[int, ...], weights: dict[str, Tensor], x: Tensor) -> Observations:
    """Observe parameters, output and gradients of a block with known weights, in training and evaluation."""
    module = build(answer, x.device, *sizes[:2], **dict(zip(["stride"], sizes[2:])))  # noqa: B905 - may have none
    seen: Observations = {
        "attributes that are missing": [name for name in PARTS if not hasattr(module, name)],
        "parameters": [text for text in named_shapes(module) if not text.startswith("skip.")],
        "relu of -1 and 2": activation(answer, module),
        "parameters of skip": sorted(tuple(p.shape) for n, p in module.named_parameters() if n.startswith("skip.")),
    }
    fill_by_shape(module, weights)
    x.requires_grad_()
    before = x.detach().clone()
    with watching_shapes(module) as shapes:
        output = attempted(lambda: called(answer, module, x))
    if isinstance(output, Raised):
        shapes.setdefault("skip", tuple(x.shape))  # x itself goes around, unless `skip` was called
        made = ", ".join(f"{name} {shape}" for name, shape in sorted(shapes.items()))
        return {**seen, "outcome": replace(output, reason=made)}
    held = {name: p for name, p in module.named_parameters() if name in weights}
    seen |= {**look(output, x), **gradients(output, x=x, **held), **kept(x=(x.detach(), before))}
    seen["result in eval mode"] = called(answer, module.eval(), x.detach())
    return {**seen, **without_graph(lambda: called(answer, module, x), seen["result in eval mode"])}


def block_weights(draw: Draw, inside: int, outside: int) -> dict[str, Tensor]:
    """Draw weights for all named layers of a block."""
    made = {
        "conv1.weight": draw.normal(outside, inside, 3, 3),
        "conv2.weight": draw.normal(outside, outside, 3, 3),
    }
    for norm in ("bn1", "bn2"):
        made |= {f"{norm}.weight": 1 + 0.3 * draw.normal(outside), f"{norm}.bias": draw.normal(outside)}
    return made


def cases(draw: Draw) -> list[Case]:
    i, o, side = draw.size(2, 3), draw.size(4, 5), draw.size(5, 7)

    def one(name: str, inside: int, outside: int, *stride: int) -> Case:
        x, weights = draw.normal(2, inside, side, side), block_weights(draw, inside, outside)
        return case(name, rtol=1e-3, atol=2e-3, sizes=(inside, outside, *stride), weights=weights, x=x)

    return [
        one("the same shape", i, i),
        one("more channels", i, o),
        one("fewer channels", o, i, 1),
        one("stride 2, the same channels", i, i, 2),
        one("stride 2, more channels", i, o, 2),
    ]


def quotes_block(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"sizes": inputs["sizes"]}
    for field, name in (("skip", "parameters of skip"), ("want_skip", "parameters of skip")):
        held = (wanted if field.startswith("want") else seen).get(name)
        if held is not None:
            fields[field] = ", ".join(map(str, held)) or "none"
    if "outcome" in seen:
        fields["outcome"] = seen["outcome"]
    if isinstance(seen.get("result"), Tensor):
        fields |= {"smallest": seen["result"].min().item(), "x_shape": tuple(inputs["x"].shape)}
    if "parameters" in seen:
        fields["biases"] = ", ".join(n for n in seen["parameters"] if n.startswith("conv") and "bias" in n)
    return fields


EXERCISE = Exercise(
    "ResidualBlock",
    probe,
    cases,
    hints=(
        "The sum of two tensors needs two equal shapes. For which arguments do both paths agree without help, and for "
        "which do they not?",
        "A convolution of size 3 keeps height and width at stride 1 with which padding? A convolution of size 1 needs "
        "none. Which of the two paths has to carry the stride? Both?",
        "The block ends: second norm, plus skip, then relu. Why is a bias of a convolution lost if a batch norm "
        "follows at once?",
    ),
    quotes=quoting(quotes_block),
)
