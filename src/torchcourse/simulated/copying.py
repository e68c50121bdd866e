"""Pickle simulated tensors, and find what users have set on them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch

OWN = ("held", "block")


def extras(t: torch.Tensor) -> dict[str, Any]:
    """Return the attributes that users (and `nn.Parameter`) have set on the tensor."""
    return {name: value for name, value in vars(t).items() if name not in OWN}


def reduced(t: torch.Tensor, _protocol: Any) -> tuple[Any, ...]:
    """Pickle as PyTorch's own tensors are pickled, so that weights-only loading takes the file."""
    if extras(t).get("_is_param"):
        return torch._utils._rebuild_parameter, (t.detach(), t.requires_grad, OrderedDict())
    if t.dtype in torch.storage._new_dtypes():  # typed storages know only the older dtypes
        return torch._utils._rebuild_device_tensor_from_cpu_tensor, (t.cpu(), t.dtype, str(t.device), t.requires_grad)
    t = t.resolve_conj().resolve_neg()  # loading sets such bits where held values do not see
    typed: Any = torch.storage.TypedStorage
    storage = typed(wrap_storage=t.untyped_storage(), dtype=t.dtype, _internal=True)
    layout = (t.storage_offset(), tuple(t.size()), t.stride())
    return torch._utils._rebuild_tensor_v2, (storage, *layout, t.requires_grad, OrderedDict())
