"""Deepcopy and pickle simulated tensors."""

from __future__ import annotations

from collections import OrderedDict
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torchcourse.simulated.tensor import Simulated

OWN = ("held", "block")


def extras(t: Simulated) -> dict[str, Any]:
    """Return the attributes that users (and `nn.Parameter`) have set on the tensor."""
    return {name: value for name, value in vars(t).items() if name not in OWN}


def deepcopied(t: Simulated, memo: dict[int, Any]) -> Simulated:
    """Copy values, attributes and gradient; views of one storage stay views of one storage."""
    from torchcourse.simulated.counting import Block
    from torchcourse.simulated.tensor import wrap

    if id(t) in memo:
        return memo[id(t)]  # type: ignore[no-any-return]
    if not t.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol")
    with torch.no_grad():
        block = memo.setdefault(id(t.block), None) or Block(t.block.nbytes)
        memo[id(t.block)] = block
        copy = wrap(deepcopy(t.held, memo), block)
    copy.requires_grad_(t.requires_grad)
    vars(copy).update(deepcopy(extras(t), memo))
    memo[id(t)] = copy
    if t.grad is not None:
        copy.grad = deepcopy(t.grad, memo)
    return copy


def reduced(t: Simulated, _protocol: Any) -> tuple[Any, ...]:
    """Pickle as PyTorch's own tensors are pickled, so that weights-only loading takes the file."""
    if extras(t).get("_is_param"):
        return torch._utils._rebuild_parameter, (t.detach(), t.requires_grad, OrderedDict())
    if t.dtype in torch.storage._new_dtypes():  # typed storages know only the older dtypes
        return torch._utils._rebuild_device_tensor_from_cpu_tensor, (t.cpu(), t.dtype, str(t.device), t.requires_grad)
    t = t.resolve_conj().resolve_neg()  # type: ignore[assignment]  # loading sets such bits where held values do not see
    typed: Any = torch.storage.TypedStorage
    storage = typed(wrap_storage=t.untyped_storage(), dtype=t.dtype, _internal=True)
    layout = (t.storage_offset(), tuple(t.size()), t.stride())
    return torch._utils._rebuild_tensor_v2, (storage, *layout, t.requires_grad, OrderedDict())
