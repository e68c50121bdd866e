"""The exercise `MultiHeadAttention`: its probe, visible cases and hints."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.attending import mask_respected
from torchcourse.probes.modules import (
    build,
    ends_when_unusable,
    gradients,
    in_any_mode,
    inventory_of,
    load,
    own_parameters,
    quotes_registered,
    quoting,
)
from torchcourse.probes.observe import kept, look

NAMES = ("qkv.weight", "qkv.bias", "proj.weight", "proj.bias")


@ends_when_unusable
def probe(
    answer: Watched, sizes: tuple[int, int], weights: dict[str, Tensor], x: Tensor, mask: Tensor | None
) -> Observations:
    """Observe parameters, output and gradients; of rows that may look nowhere only whether all is finite."""
    module = build(answer, x.device, dim=sizes[0], heads=sizes[1]).to(x.dtype)
    seen = inventory_of(module, NAMES)
    load(module, weights)
    before = x.clone()
    x.requires_grad_()
    output = answer.run(module, x, *(() if mask is None else (mask,)))
    held = own_parameters(answer, module, NAMES)
    if mask is None or not isinstance(output, Tensor) or output.shape != x.shape:
        seen |= {**look(output, x), **gradients(output, x=x, **held)}
        empty = torch.zeros_like(x, dtype=torch.bool)
    else:
        empty = ~mask.expand(len(x), sizes[1], x.shape[1], x.shape[1]).any(-1).any(1)[..., None].expand(x.shape)
        seen["finite on empty rows"] = bool(output[empty].isfinite().all())
        seen |= {**look(output.masked_fill(empty, 0), x), **gradients(output.masked_fill(empty, 0), x=x, **held)}
        if bool(empty.any()):
            seen["gradients are finite"] = finite_gradients(answer.run(module, x, mask), x)
        seen |= mask_respected(partial(answer.run, module), x, mask, sizes[1])
    if isinstance(output, Tensor) and output.shape == x.shape:
        arguments = (x,) if mask is None else (x, mask)
        rest = output.masked_fill(empty, 0)
        seen |= in_any_mode(module, lambda: answer.run(module, *arguments).masked_fill(empty, 0), rest)
    return {**seen, **kept(x=(x.detach(), before))}


def finite_gradients(output: Tensor, x: Tensor) -> bool:
    """Return whether a gradient sent into all rows, the empty ones too, arrives at x without NaN or infinity."""
    if not output.requires_grad:
        return True
    (gradient,) = torch.autograd.grad(output.square().sum(), x, allow_unused=True)
    return gradient is None or bool(gradient.isfinite().all())


def attention_case(
    draw: Draw,
    name: str,
    dim: int,
    heads: int,
    b: int,
    t: int,
    mask: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Case:
    """Return the case of drawn weights and positions."""
    shapes = {"qkv.weight": (3 * dim, dim), "qkv.bias": (3 * dim,), "proj.weight": (dim, dim), "proj.bias": (dim,)}
    weights = {name: draw.normal(*shape, dtype=dtype) / dim**0.25 for name, shape in shapes.items()}
    x = draw.normal(b, t, dim, dtype=dtype)
    return case(name, rtol=1e-3, atol=2e-4, sizes=(dim, heads), weights=weights, x=x, mask=mask)


def very_negative(draw: Draw, name: str, t: int) -> Case:
    """Return the case of positions that may attend to themselves alone, with very negative scores there."""
    drawn = attention_case(draw, name, 8, 2, 2, t, torch.eye(t, dtype=torch.bool)).inputs
    weight = drawn["weights"]["qkv.weight"]
    weight[8:16] = -weight[:8]
    drawn["x"] *= 70
    return case(name, rtol=1e-3, atol=20.0, **drawn)  # outputs are in the hundreds; gradients get rounding errors


def cases(draw: Draw) -> list[Case]:
    b, t = 2, draw.size(4, 5)
    real = torch.arange(t) < torch.tensor([[t - 2], [t]])
    causal = torch.ones(t, t, dtype=torch.bool).tril()
    none = real.clone()
    none[0] = False
    return [
        attention_case(draw, "two heads", 8, 2, b, t),
        attention_case(draw, "one head", 6, 1, b, t),
        attention_case(draw, "as many heads as steps", 12, t, b, t) if 12 % t == 0 else
        attention_case(draw, "as many heads as steps", 2 * t, t, b, t),
        attention_case(draw, "one step", 8, 4, b, 1),
        attention_case(draw, "padding (b, 1, 1, t)", 8, 2, b, t, real[:, None, None, :]),
        attention_case(draw, "a causal mask (t, t)", 8, 2, b, t, causal),
        attention_case(draw, "a mask for each head", 8, 2, b, t, draw.flags(b, 2, t, t) | torch.eye(t).bool()),
        attention_case(draw, "a mask (heads, t, t)", 8, 2, b, t, draw.flags(2, t, t) | torch.eye(t).bool()),
        very_negative(draw, "scores far below zero", t),
        attention_case(draw, "a sequence that is all padding", 8, 2, b, t, none[:, None, None, :].expand(b, 1, t, t)),
        attention_case(draw, "some empty rows", 8, 2, b, t, causal.tril(-1)[None, None]),
        attention_case(draw, "float64", 8, 2, 1, t, causal.tril(-1), dtype=torch.float64),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    dim, heads = inputs["sizes"]
    finite = {name: seen[key] for name, key in FINITE.items() if key in seen}
    finite |= {"gave": seen["returned"]} if "returned" in seen else {}
    return {"dim": dim, "heads": heads, "size": dim // heads, **quotes_registered(inputs, seen, wanted), **finite}


FINITE = {"finite": "finite on empty rows", "finite_gradients": "gradients are finite"}

EXERCISE = Exercise(
    "MultiHeadAttention",
    probe,
    cases,
    hints=(
        "`qkv(x)` has shape (b, t, 3·dim). Which third of its features are the queries, and into which shape do they "
        "have to be viewed before a dimension for the heads can move forward?",
        "Each head compares vectors of dim / heads numbers. By which root are its scores divided, and over which "
        "dimension do the shares of one query add up to 1?",
        "A softmax over nothing but minus infinity is NaN. What does `F.scaled_dot_product_attention` do with such a "
        "row, and how do the heads come side by side again afterwards?",
    ),
    forbids=(
        "multi_head_attention_forward",
        "native_multi_head_attention",
        "transformer_encoder_layer_fwd",
        "torch.ao.nn.quantizable.modules.activation",
        "torch.nn.functional.multi_head_attention_forward",
    ),
    quotes=quoting(quotes),
)
