"""The exercise `TransformerBlock`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.attending import mask_respected
from torchcourse.probes.modules import (
    attempted,
    build,
    called,
    ends_when_unusable,
    gradients,
    in_any_mode,
    load,
    quoting,
)
from torchcourse.probes.observe import kept, kind, look

PARTS = ("ln1", "attn", "ln2", "mlp")
SIZES = ("dim", "heads", "mlp_ratio")
NORMS = ("ln1.weight", "ln1.bias", "ln2.weight", "ln2.bias")


class Mixing(nn.Module):
    """A stand-in for a block's attention, so that a block is judged whatever its attention does."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def forward(self, x: Tensor, mask: Tensor | None = None, *more: Any, **named: Any) -> Tensor:
        """Return the sum of the positions that each may attend to, over the number of positions."""
        t = x.shape[1]
        usual = mask is None or (mask.dtype == torch.bool and mask.shape[-1] == t)
        if more or named or not usual:
            self.calls.append("more than x and the mask")
            return x
        self.calls.append("x" if mask is None else "x and the mask")
        shares = torch.ones(t, t, device=x.device, dtype=x.dtype) if mask is None else mask.squeeze(1).to(x.dtype)
        return shares @ x / t


def parameters_of(part: object) -> list[nn.Parameter]:
    """Return the parameters of a part, sorted by shape, so that they come alike from every answer."""
    return sorted(part.parameters(), key=lambda p: tuple(p.shape)) if isinstance(part, nn.Module) else []


def fill_by_shape(mlp: object, weights: list[Tensor]) -> None:
    """Give each parameter of the two linear layers the weights of its shape."""
    with torch.no_grad():
        for parameter in parameters_of(mlp):
            for values in weights:
                if values.shape == parameter.shape:
                    parameter.copy_(values)


def shapes(part: object) -> Any:
    """Return the shapes of a part's parameters, sorted; what it is if it is not a module."""
    return sorted(tuple(p.shape) for p in part.parameters()) if isinstance(part, nn.Module) else kind(part)


def returned_by(attention: object, x: Tensor) -> str:
    """Describe whether attention, called with x and no mask, gives one tensor; how it computes is not judged."""
    try:
        result = attention(x, None)  # type: ignore[operator]
    except TypeError as error:
        return "takes other arguments" if "argument" in str(error) else "one tensor"
    except Exception:  # an attention that is wrong inside belongs to the exercise before
        return "one tensor"
    return "several values" if isinstance(result, tuple) else "one tensor"


def switched_off(module: nn.Module) -> str:
    """Return whether dropouts drop something, and have them drop nothing, so that the rest can be compared."""
    dropping = [part for part in module.modules() if isinstance(part, _DropoutNd) and part.p > 0]
    for part in dropping:
        part.p = 0.0
    return "some" if dropping else "none"


@ends_when_unusable
def probe(
    answer: Watched,
    sizes: tuple[int, ...],
    norms: dict[str, Tensor],
    mlp: list[Tensor],
    x: Tensor,
    mask: Tensor | None,
) -> Observations:
    """Observe the parts of a block, and its output and gradients with known weights and another attention."""
    module = build(answer, x.device, *sizes).to(x.dtype)
    seen: Observations = {"attributes that are missing": [name for name in PARTS if not hasattr(module, name)]}
    seen |= {f"parameters of {name}": shapes(getattr(module, name, None)) for name in ("ln1", "ln2", "mlp")}
    ours = {id(p) for p in module.parameters()}
    seen["parameters shared with another block"] = sum(
        id(p) in ours for p in build(answer, x.device, **dict(zip(SIZES, sizes, strict=False))).parameters()
    )
    seen["attn gives"] = returned_by(getattr(module, "attn", None), x)
    load(module, norms)
    fill_by_shape(getattr(module, "mlp", None), mlp)
    module.attn = attention = Mixing()
    seen["dropouts that drop"] = switched_off(module)
    before = x.clone()
    x.requires_grad_()

    def run() -> Any:
        return called(answer, module, x) if mask is None else module(x, mask)

    output = attempted(run)
    seen["attn was called with"] = list(attention.calls)
    if isinstance(output, Raised):
        return {**seen, "outcome": output}
    held = {name: p for name, p in module.named_parameters() if name in NORMS}
    held |= {f"a parameter {tuple(p.shape)} of mlp": p for p in parameters_of(getattr(module, "mlp", None))}
    arrived = attempted(lambda: gradients(output, x=x, **held))
    if isinstance(arrived, Raised):
        return {**seen, "outcome of the backward pass": arrived}
    seen |= {**look(output, x), **arrived, **in_any_mode(module, run, output), **kept(x=(x.detach(), before))}
    return seen if mask is None else {**seen, **mask_respected(module, x, mask)}


def block_case(
    draw: Draw, name: str, sizes: tuple[int, ...], b: int, t: int, mask: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
) -> Case:  # fmt: skip
    """Return the case of a block with drawn weights for its norms and its two linear layers."""
    dim, wide = sizes[0], sizes[0] * (sizes[2] if len(sizes) > 2 else 4)
    norms = {n: (n.endswith("weight") + 0.4 * draw.normal(dim)) for n in NORMS}
    drawn = [draw.normal(wide, dim), draw.normal(wide), draw.normal(dim, wide) / wide**0.5, draw.normal(dim)]
    x = 1 + 2 * draw.normal(b, t, dim, dtype=dtype)
    near = {"rtol": 1e-3, "atol": 2e-4} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-10}
    return case(name, **near, sizes=sizes, norms=norms, mlp=drawn, x=x, mask=mask)


def cases(draw: Draw) -> list[Case]:
    t, dim = draw.size(3, 4), 2 * draw.size(3, 4)
    causal = torch.ones(1, 1, t, t, dtype=torch.bool).tril()
    return [
        block_case(draw, "without a mask", (dim, 2), 2, t),
        block_case(draw, "with a mask", (dim, 2), 2, t, causal),
        block_case(draw, "another mlp_ratio", (dim, 2, 2), 2, t),
        block_case(draw, "one head, one step", (dim, 1), 3, 1),
        block_case(draw, "float64", (dim, 2), 2, t, dtype=torch.float64),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"sizes": inputs["sizes"]}
    for field, name in (("mlp_has", "parameters of mlp"), ("attn", "attn gives"), ("missing", PARTS_MISSING),
                        ("outcome", "outcome"), ("backward", "outcome of the backward pass")):  # fmt: skip
        fields |= {field: seen[name]} if name in seen else {}
    return {**fields, "mlp_wants": wanted.get("parameters of mlp")}


PARTS_MISSING = "attributes that are missing"
EXERCISE = Exercise(
    "TransformerBlock",
    probe,
    cases,
    hints=(
        "There are two branches, each with a norm, a part and a sum. What goes into the part, and what is added to its "
        "result: the normalised x, or x itself?",
        "The second branch starts from what the first has made. Which of the two norms does it use, and is that one "
        "called at any other place?",
        "How wide is the layer in the middle of `mlp`, which function stands there, and who gets the mask?",
    ),
    quotes=quoting(quotes),
)
