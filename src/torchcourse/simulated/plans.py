"""The dispatcher's plan for each operator, derived from its schema at the first call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

import torch

Handler = Callable[..., Any]


class Returns(Enum):
    """How an operator's results relate to its arguments."""

    FRESH = "new memory"
    VIEW = "memory of the first argument, or a copy where the layout asks for one"
    FIRST = "the first argument itself, written to"
    MIXED = "some arguments written to, some new"


@dataclass(frozen=True, slots=True)
class Plan:
    """The facts about one overload. `special` replaces the ordinary treatment; `host` allows CPU tensors."""

    name: str
    special: Handler | None
    returns: Returns
    reshapes: bool
    synchronizes: bool
    host: bool
    host_scalars: bool


PLANS: dict[Any, Plan] = {}
SPECIAL: dict[str, Handler] = {}

# fmt: off
# The shape of their result, or their Python result, depends on values: CUDA waits for those.
SYNCHRONIZES = frozenset({
    "nonzero", "masked_select", "unique_dim", "_unique", "_unique2", "unique_consecutive", "unique_dim_consecutive",
    "bincount", "equal", "_linalg_check_errors",
})
# CUDA takes CPU tensors of any shape here: sequence lengths, and sources of copies.
HOST = frozenset({
    "_pack_padded_sequence", "_pack_padded_sequence_backward", "tensor_split",
})
# CUDA takes 0-dim CPU tensors in pointwise operators, and in these, which do not carry that tag.
HOST_SCALARS = frozenset({
    "where", "masked_fill", "masked_fill_", "fill", "fill_", "index_put", "index_put_", "_index_put_impl_",
    "mse_loss", "smooth_l1_loss", "huber_loss", "clamp", "clamp_", "clamp_min", "clamp_max", "lerp", "lerp_",
    "addcmul", "addcmul_", "addcdiv", "addcdiv_",
})
# fmt: on


@cache
def overload(name: str) -> Any:
    """Return the operator of this name ("add.Tensor"). Looking one up is slow: a kernel does it at its first call."""
    packet, _, kind = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), kind or "default")


def special(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler `(func, args, kwargs)` for all overloads of the named operators."""

    def register(handler: Handler) -> Handler:
        SPECIAL.update(dict.fromkeys(names, handler))
        return handler

    return register


def plan_for(func: Any) -> Plan:
    """Return the plan of an overload, made at its first call."""
    name = func._schema.name.removeprefix("aten::")
    plan = PLANS[func] = Plan(
        name=name,
        special=SPECIAL.get(name),
        returns=_returns(func._schema),
        reshapes=torch.Tag.inplace_view in func.tags or "out" in func._schema.overload_name or name == "resize_",
        synchronizes=name in SYNCHRONIZES or func._schema.overload_name == "self_Tensor",
        host=name in HOST,
        host_scalars=torch.Tag.pointwise in func.tags or name in HOST_SCALARS or name.startswith("_foreach_"),
    )
    return plan


def _returns(schema: Any) -> Returns:
    infos = [each.alias_info for each in schema.returns]
    first = schema.arguments[0].alias_info if schema.arguments else None
    if not schema.is_mutable:
        return Returns.VIEW if any(infos) else Returns.FRESH
    alone = len(infos) == 1 and infos[0] is not None and infos[0].is_write
    written = sum(1 for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write)
    return Returns.FIRST if alone and written == 1 and first is not None and first.is_write else Returns.MIXED
