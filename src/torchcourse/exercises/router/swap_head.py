"""The exercise `swap_head`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.models import model
from torchcourse.probes.modules import unset_memory_is_nan
from torchcourse.probes.observe import kind

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


def probe(answer: Watched, kind_of: str, width: int, classes: int, dtype: str, x: Tensor) -> Observations:
    """Swap the head of a model, and observe the new one and the rest."""
    torch.manual_seed(width)
    net: Any = model(kind_of.partition(", ")[0], width)
    if kind_of.endswith(", headroom"):
        net.headroom = nn.Linear(width, 1)
    net.to(x.device, DTYPES[dtype])
    if kind_of.endswith(", head too"):
        net.head.requires_grad_(False)
    old, before = net.head, _rest(net)
    with unset_memory_is_nan():
        named = answer(net, classes)
    head = net.head
    seen: Observations = {
        "returned": sorted(named) if isinstance(named, list) and named == sorted(named) else kind(named),
        "head": "the old one" if head is old else "a new one",
        "kind of head": "nn.Linear" if isinstance(head, nn.Linear) else kind(head),
    }
    if not isinstance(head, nn.Linear):
        return seen
    rows = min(len(head.weight), len(old.weight))
    fits = head.weight.shape[1] == old.weight.shape[1]
    taken = fits and bool((head.weight[:rows].cpu().float() == old.weight[:rows].cpu().float()).all())
    params = list(head.parameters())
    return {
        **seen,
        "weight of the head": [list(head.weight.shape), "with a bias" if head.bias is not None else "without a bias"],
        "out_features": head.out_features,
        "its values": "the old ones" if taken or head is old else "new ones",
        "numbers in the head": "finite" if all(bool(p.isfinite().all()) for p in params) else "not finite",
        "dtype of the head": sorted({str(p.dtype).removeprefix("torch.") for p in params}),
        "device of the head": sorted({_where(p, x) for p in params}),
        "requires_grad of the head": all(p.requires_grad for p in params),
        "the rest": _compared(before, _rest(net)),
        "result of the head": _result(head, old, x),
    }  # fmt: skip


def _where(tensor: Tensor, like: Tensor) -> str:
    return "the model's" if tensor.device == like.device else str(tensor.device)


def _rest(net: nn.Module) -> dict[str, tuple[Tensor, bool, int]]:
    """Return values, flag and identity of all that is not the head's."""
    named = [*net.named_parameters(), *net.named_buffers()]
    return {n: (t.detach().clone(), t.requires_grad, id(t)) for n, t in named if not n.startswith("head.")}


def _compared(before: dict[str, Any], now: dict[str, Any]) -> str:
    if before.keys() != now.keys():
        return "has other names"
    if not all(torch.equal(before[n][0], now[n][0]) for n in before if before[n][0].shape == now[n][0].shape):
        return "has other values"
    if any(before[n][1] != now[n][1] for n in before):
        return "has other flags of requires_grad"
    return "as before" if all(before[n][2] == now[n][2] for n in before) else "has other tensors"


def _result(head: nn.Linear, old: nn.Linear, x: Tensor) -> Any:
    try:
        return list(head(x.new_ones(2, old.weight.shape[1], dtype=old.weight.dtype)).shape)
    except RuntimeError as error:
        return f"RuntimeError: {str(error)[:80]}"


def cases(draw: Draw) -> list[Case]:
    x, width = torch.ones(1), draw.size(4, 6)
    return [
        case("more classes", kind_of="tower", width=width, classes=draw.size(5, 8), dtype="float32", x=x),
        case("as many classes as before", kind_of="tower", width=width, classes=3, dtype="float32", x=x),
        case("fewer classes, in float64", kind_of="tower", width=width, classes=2, dtype="float64", x=x),
        case("a frozen backbone", kind_of="frozen", width=width, classes=4, dtype="float32", x=x),
        case("a frozen backbone in bfloat16", kind_of="frozen", width=width, classes=5, dtype="bfloat16", x=x),
        case(
            "another layer with head in its name",
            kind_of="tower, headroom",
            width=width,
            classes=4,
            dtype="float32",
            x=x,
        ),
        case("a frozen head", kind_of="frozen, head too", width=width, classes=4, dtype="float32", x=x),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"named": seen.get("returned"), "want_named": wanted["returned"]}
    fields |= {"rest": seen["the rest"]} if "the rest" in seen else {}
    for field, name in (("dtype_of", "dtype of the head"), ("where", "device of the head")):
        if name in seen:
            fields |= {field: " and ".join(seen[name]), f"want_{field}": " and ".join(wanted[name])}
    return fields


EXERCISE = Exercise(
    "swap_head",
    probe,
    cases,
    hints=(
        "An `nn.Linear` cannot be made wider; a new one is assigned to `model.head`. Where do you read how many inputs "
        "it needs?",
        "Where does a new layer live, and in which dtype, if you say nothing? Which tensor of the old head knows both, "
        "and which arguments of `nn.Linear` take them?",
        "The names of parameters are paths from the model: the name of the attribute, a dot, the name inside. In which "
        "order are they to be returned?",
    ),
    quotes=quotes,
)
