"""The exercise `full_state`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind
from torchcourse.probes.on_ranks import MODULES, on_ranks, rank
from torchcourse.probes.sharded_models import Blocks, drawn_model, gathered


def built(width: int, depth: int, seed: int, own: str) -> Blocks:
    """Return a model with one frozen parameter and gradients; if `own` names one, a norm is added to it and to a block.

    A norm has buffers of its own, one of them an integer.
    """
    model = Blocks(width, depth, seed)
    for owner in [model, model.blocks[0]] if own else []:
        norm = nn.BatchNorm1d(width)
        norm.register_buffer("draft", torch.zeros(2), persistent=False)
        owner.add_module(own, norm)
    model.head.bias.requires_grad_(False)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    return model


def wrapped(model: Blocks, wrapper: str) -> nn.Module:
    """Return a model as DDP, sharded, or as it is."""
    if wrapper == "DDP":
        return DistributedDataParallel(model)
    if wrapper == "FSDP":
        mesh = init_device_mesh("cpu", (2,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def sort_of(value: object) -> str:
    """Describe a value of the dict."""
    if isinstance(value, DTensor):
        return "a DTensor, sharded"
    if isinstance(value, Tensor) and value.requires_grad:
        return "a tensor with a graph" if value.grad_fn is not None else "a tensor that requires gradients"
    if isinstance(value, Tensor):
        return f"a plain tensor on {value.device}"
    return kind(value)


def condition(model: nn.Module) -> dict[str, Any]:
    """Return what a call should leave as it was; all ranks have to call this."""
    named = dict(model.named_parameters())
    return {
        "values": [gathered(t) for t in (*named.values(), *model.buffers())],
        "parameters": {name: (type(p), p.requires_grad, p.grad is None) for name, p in named.items()},
        "mode": [module.training for module in model.modules()],
    }


def program(answer: Callable[..., Any], width: int, depth: int, seed: int, wrapper: str, own: str = "") -> Observations:
    """Observe the dict of rank 0, whether that of another rank is empty, and whether the model is as before."""
    model = wrapped(built(width, depth, seed, own), wrapper)
    before = condition(model)
    found = answer(model)
    if not isinstance(found, dict):
        return {"returned": kind(found)}
    after = condition(model)
    kept = all(map(torch.equal, before.pop("values"), after.pop("values"))) and before == after
    afterwards = {"model afterwards": "as before" if kept else "changed"}
    if rank() != 0:
        return afterwards | {"dict": "with entries" if found else "empty"}
    plain = {str(k): v.detach() for k, v in found.items() if isinstance(v, Tensor) and not isinstance(v, DTensor)}
    return {
        "names": sorted(map(str, found)),
        "kinds": sorted({sort_of(value) for value in found.values()}),
        "values": dict(sorted(plain.items())),
        **afterwards,
    }


def probe(answer: Watched, **inputs: Any) -> Observations:
    """Observe both ranks."""
    return on_ranks(answer, program, inputs)


def cases(draw: Draw) -> list[Case]:
    return [
        case("a DDP model", **drawn_model(draw), wrapper="DDP"),
        case("a sharded model", **drawn_model(draw), wrapper="FSDP"),
        case("a plain model with a layer called module", **drawn_model(draw), wrapper="", own="module"),
        case("a DDP model with a layer called module", **drawn_model(draw), wrapper="DDP", own="module"),
    ]


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    names, right = seen.get("names, rank 0") or ["nothing"], wanted.get("names, rank 0") or []
    odd_kind = next((k for k in seen.get("kinds, rank 0") or [] if k not in wanted["kinds, rank 0"]), "nothing")
    fields: dict[str, object] = {"name": next((n for n in names if n not in right), names[0])}
    fields["kinds"] = odd_kind
    fields |= {"missing": next((n for n in right if n not in names), "none"), "ended0": seen.get("rank 0")}
    values = seen.get("values, rank 0") or {}
    for name, value in values.items():
        right_one = wanted["values, rank 0"].get(name, value)
        if (value.shape, value.dtype) != (right_one.shape, right_one.dtype):
            fields |= {"tensor": name, "shape": tuple(value.shape), "right_shape": tuple(right_one.shape)}
            return fields | {"dtype": value.dtype, "right_dtype": right_one.dtype}
    return fields


EXERCISE = Exercise(
    "full_state",
    probe,
    cases,
    hints=(
        "Print `ddp.state_dict().keys()` and the type of a sharded model's values. What is wrong with each of the two, "
        "if another program is to load the file?",
        "A shard becomes whole only if all ranks take part: every rank has to make the same calls, and only then look "
        "at its number. `torch.distributed.checkpoint.state_dict` has a function that does it for both kinds.",
        "`get_model_state_dict` takes `StateDictOptions`: one option asks for whole tensors, one brings them to the "
        "CPU. What should the ranks other than 0 return, whatever it gives them?",
    ),
    any_device=False,
    quotes=quotes,
    imports=MODULES,
)
