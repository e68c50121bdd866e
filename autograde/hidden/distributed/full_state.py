"""The exercise `full_state`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.sharded_models import drawn_model

WHY = (
    "`get_model_state_dict` knows DDP's prefix and gathers shards, one tensor at a time, so that no rank has to hold a "
    "second model. All ranks call it, because gathering is a collective; only after that do they look at their rank. "
    "With plain names and plain tensors, a program that knows nothing of ranks can load the file."
)
"""Why the reference is written as it is."""
REQUIRED = ("keeps-module-prefix", "local-shard-only", "every-rank-returns-it", "called-by-rank-zero-only")
"""The mistakes that a check must always be able to name."""

CHECKPOINTS = "Checkpoints"
FULL: dict[str, Any] = {"full_state_dict": True, "cpu_offload": True}


def right(model: nn.Module) -> Any:
    state = get_model_state_dict(model, options=StateDictOptions(**FULL))
    return state if dist.get_rank() == 0 else {}


def gathered(model: nn.Module) -> dict[str, Any]:
    """Return the state of `state_dict`, whole, on every rank."""
    return {name: t.full_tensor() if isinstance(t, DTensor) else t for name, t in model.state_dict().items()}


def with_prefix(model: nn.Module) -> Any:
    state = gathered(model)
    return state if dist.get_rank() == 0 else {}


def with_prefix_where_there_is_one(model: nn.Module) -> Any:
    state = right(model)
    return {f"module.{name}": t for name, t in state.items()}


def local_shards(model: nn.Module) -> Any:
    state = get_model_state_dict(model)
    local = {name: t.to_local() if isinstance(t, DTensor) else t for name, t in state.items()}
    return local if dist.get_rank() == 0 else {}


def sharded_tensors(model: nn.Module) -> Any:
    state = get_model_state_dict(model, options=StateDictOptions(cpu_offload=True))
    return state if dist.get_rank() == 0 else {}


def everywhere(model: nn.Module) -> Any:
    return {name.removeprefix("module."): t for name, t in gathered(model).items()}


def local_shards_everywhere(model: nn.Module) -> Any:
    state = get_model_state_dict(model)
    return {name: t.to_local() if isinstance(t, DTensor) else t for name, t in state.items()}


def rank_zero_calls(model: nn.Module) -> Any:
    if dist.get_rank() != 0:
        return {}
    return get_model_state_dict(model, options=StateDictOptions(**FULL))


def parameters_only(model: nn.Module) -> Any:
    names = {name.removeprefix("module.") for name, _ in model.named_parameters()}
    return {name: t for name, t in right(model).items() if name in names}


def with_scratch(model: nn.Module) -> Any:
    state = right(model)
    if state:
        state |= dict(unwrapped(model).named_buffers())
    return state


def none_elsewhere(model: nn.Module) -> Any:
    state = right(model)
    return state if dist.get_rank() == 0 else None


def nested(model: nn.Module) -> Any:
    state = right(model)
    return {"model": state} if state else {}


def strips_all(model: nn.Module) -> Any:
    return {name.rpartition("module.")[2].rpartition("blocks.")[2]: t for name, t in right(model).items()}


def without_the_word(model: nn.Module) -> Any:
    state = gathered(model)
    return {name.replace("module.", ""): t for name, t in state.items()} if dist.get_rank() == 0 else {}


def without_the_first_word(model: nn.Module) -> Any:
    state = gathered(model)
    return {name.replace("module.", "", 1): t for name, t in state.items()} if dist.get_rank() == 0 else {}


def without_any_prefix(model: nn.Module) -> Any:
    state = gathered(model)
    return {name.removeprefix("module."): t for name, t in state.items()} if dist.get_rank() == 0 else {}


def of_its_attribute(model: nn.Module) -> Any:
    state = gathered(getattr(model, "module", model))
    return state if dist.get_rank() == 0 else {}


def unwrapped(model: nn.Module) -> nn.Module:
    return model.module if isinstance(model, DistributedDataParallel) else model


def trainable_only(model: nn.Module) -> Any:
    state = get_model_state_dict(model, options=StateDictOptions(**FULL, ignore_frozen_params=True))
    return state if dist.get_rank() == 0 else {}


def buffers_of_the_model_alone(model: nn.Module) -> Any:
    inner = unwrapped(model)
    names = {name for name, _ in inner.named_parameters()} | {name for name, _ in inner.named_buffers(recurse=False)}
    return {name: t for name, t in right(model).items() if name in names}


def in_float64(model: nn.Module) -> Any:
    return {name: t.double() for name, t in right(model).items()}


def with_graphs(model: nn.Module) -> Any:
    state = unwrapped(model).state_dict(keep_vars=True)
    whole = {name: t.full_tensor() if isinstance(t, DTensor) else t for name, t in state.items()}
    return whole if dist.get_rank() == 0 else {}


def in_eval_mode(model: nn.Module) -> Any:
    return right(model.eval())


def frozen(model: nn.Module) -> Any:
    return right(model.requires_grad_(False))


def without_gradients(model: nn.Module) -> Any:
    model.zero_grad()
    return right(model)


def leaves_it_gathered(model: nn.Module) -> Any:
    whole = right(model)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.unshard()
    return whole


A_LAYER = (
    'In the case "{case}" the dict has the name {name}, and {missing} is missing: `module` is the name of a layer '
    "there. "
    "DDP puts its prefix at the start of a name, once, and nothing else may be removed."
)
MISTAKES = [
    Mistake("keeps-module-prefix", with_prefix, 'In the case "{case}" the dict has the name {name}: DDP keeps the '
            'model in '
            "`module`, but the plain model has no such prefix in its names.", CHECKPOINTS),
    Mistake("adds-a-prefix", with_prefix_where_there_is_one, 'In the case "{case}" the dict has the name {name}, which '
            'no '
            "parameter of the plain model has.", CHECKPOINTS),
    Mistake("loses-a-prefix", strips_all, 'In the case "{case}" the dict has the name {name}, which no parameter of '
            'the '
            "plain model has.", CHECKPOINTS),
    Mistake("strips-a-layers-name", without_the_word, A_LAYER, CHECKPOINTS),
    Mistake("strips-a-layers-name", without_the_first_word, A_LAYER, CHECKPOINTS),
    Mistake("strips-a-layers-name", without_any_prefix, A_LAYER, CHECKPOINTS),
    Mistake("takes-a-layer-for-the-model", of_its_attribute, 'In the case "{case}" the dict has the name {name}, and '
            "{missing} is missing: this model's own layer `module` was taken for a model in DDP, but only a "
            "`DistributedDataParallel` is one.", CHECKPOINTS),
    Mistake("leaves-out-frozen-ones", trainable_only, 'In the case "{case}" {missing} is missing: a frozen parameter '
            "is not trained, but it belongs to the weights.", CHECKPOINTS),
    Mistake("leaves-out-inner-buffers", buffers_of_the_model_alone, 'In the case "{case}" {missing} is missing: a '
            "layer inside the model has buffers too.", CHECKPOINTS),
    Mistake("changes-the-dtype", in_float64, 'In the case "{case}" {tensor} has dtype {dtype} where {right_dtype} is '
            "wanted: the dict holds the weights as they are.", CHECKPOINTS),
    Mistake("keeps-the-graph", with_graphs, 'In the case "{case}" the dict holds {kinds}: detach the weights, so that '
            "plain tensors are left.", CHECKPOINTS),
    *(Mistake("changes-the-model", program, 'In the case "{case}" the model is {got} after the call: its mode, which '
              "of its parameters require gradients, and the gradients that it has have to stay as they were.",
              CHECKPOINTS) for program in (in_eval_mode, frozen, without_gradients)),
    Mistake("leaves-it-gathered", leaves_it_gathered, 'In the case "{case}" the model is {got} after the call: '
            "`unshard` gathered its parameters, and nobody sharded them again, so each rank goes on holding the whole.",
            CHECKPOINTS),
    Mistake("local-shard-only", local_shards, 'In the case "{case}" {tensor} has shape {shape} where {right_shape} is '
            "wanted: that is rank 0's share, and the rest is on the other rank.", CHECKPOINTS),
    Mistake("local-shard-only", local_shards_everywhere, 'In the case "{case}" {tensor} has shape {shape} where '
            "{right_shape} is wanted: that is rank 0's share. Every rank returned its own, and only rank 0 needs the "
            "whole.", CHECKPOINTS),
    Mistake("keeps-dtensors", sharded_tensors, 'In the case "{case}" the dict holds {kinds}: gather '
            "it, or only the same number of ranks can read the file.", CHECKPOINTS),
    Mistake("every-rank-returns-it", everywhere, 'In the case "{case}" rank 1 returned the tensors as well: it '
            "needs none of them, and a large model should be held whole only once.", CHECKPOINTS),
    Mistake("called-by-rank-zero-only", rank_zero_calls, 'In the case "{case}" rank 0 is {ended0}. Gathering the '
            "shards takes all ranks, so each has to make the call.", CHECKPOINTS),
    Mistake("forgets-buffers", parameters_only, 'In the case "{case}" {missing} is missing: persistent buffers belong '
            "to the weights.", CHECKPOINTS),
    Mistake("saves-scratch-buffers", with_scratch, 'In the case "{case}" the dict has the name {name}: a buffer that '
            'is '
            "not persistent is not saved.", CHECKPOINTS),
    Mistake("nothing-on-the-others", none_elsewhere, 'In the case "{case}" '
            "rank 1 returned no dict: an empty dict is wanted there.", CHECKPOINTS),
    Mistake("nests-it", nested, 'In the case "{case}" the dict has the name {name}: only the weights are wanted, '
            'without another dict around them.',
            CHECKPOINTS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        case("a sharded model, drawn again", **drawn_model(draw), wrapper="FSDP"),
        case("a DDP model, drawn again", **drawn_model(draw), wrapper="DDP"),
    ]


# Right answers unlike the reference


def state_by_full_tensor(model: nn.Module) -> Any:
    inner = model.module if isinstance(model, DistributedDataParallel) else model
    found = {}
    for name, tensor in inner.state_dict().items():
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if dist.get_rank() == 0:
            found[name] = whole.detach().cpu().clone()
    return found


def state_by_two_calls(model: nn.Module) -> Any:
    options = StateDictOptions(**FULL)
    state, _ = get_state_dict(model, [], options=options)
    keep = not torch.distributed.get_rank()
    return {k: v for k, v in state.items() if keep}


RIGHT_ANSWERS: list[Callable[..., Any]] = [state_by_full_tensor, state_by_two_calls]
