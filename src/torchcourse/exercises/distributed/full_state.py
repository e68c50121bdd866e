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
from torchcourse.probes.on_ranks import MODULES, on_ranks
from torchcourse.probes.sharded_models import Blocks, drawn_model, gathered


def built(width: int, depth: int, seed: int, own: str) -> Blocks:
    """Return a model; its first block has a layer more if `own` names one."""
    model = Blocks(width, depth, seed)
    if own:
        model.blocks[0].add_module(own, nn.Linear(width, 2, dtype=torch.float64))
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
    if isinstance(value, Tensor):
        return f"a plain tensor on {value.device}"
    return kind(value)


def program(answer: Callable[..., Any], width: int, depth: int, seed: int, wrapper: str, own: str = "") -> Observations:
    """Observe the dict of this rank, and whether the model is as before."""
    model = wrapped(built(width, depth, seed, own), wrapper)
    before = {name: gathered(p) for name, p in model.named_parameters()}
    found = answer(model)
    if not isinstance(found, dict):
        return {"returned": kind(found)}
    after = {name: gathered(p) for name, p in model.named_parameters()}
    kept = after.keys() == before.keys() and all(bool((after[n] == before[n]).all()) for n in before)
    plain = {str(k): v.detach() for k, v in found.items() if isinstance(v, Tensor) and not isinstance(v, DTensor)}
    return {
        "names": sorted(map(str, found)),
        "kinds": sorted({sort_of(value) for value in found.values()}),
        "values": dict(sorted(plain.items())),
        "model afterwards": "as before" if kept else "changed",
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
    fields: dict[str, object] = {"name": next((n for n in names if n not in right), names[0])}
    fields |= {"count1": len(seen.get("names, rank 1") or []), "kinds": (seen.get("kinds, rank 0") or ["nothing"])[0]}
    fields |= {"missing": next((n for n in right if n not in names), "none"), "ended0": seen.get("rank 0")}
    values = seen.get("values, rank 0") or {}
    odd = next((n for n, v in values.items() if v.shape != wanted["values, rank 0"].get(n, v).shape), "")
    if odd:
        fields |= {"tensor": odd, "shape": tuple(values[odd].shape),
                   "right_shape": tuple(wanted["values, rank 0"][odd].shape)}  # fmt: skip
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
