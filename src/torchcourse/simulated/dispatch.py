"""Every operator on a simulated tensor comes through here."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

from torchcourse.simulated.counting import RECORDERS, copied, record, synchronized
from torchcourse.simulated.tensor import CPU, NAME, Simulated, unwrap, wrap

aten = torch.ops.aten


def run(func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Run `func` on the held values and hand the result back on the device."""
    kwargs = kwargs or {}
    leaves, _ = tree_flatten((args, kwargs))
    ours = [x for x in leaves if isinstance(x, Simulated)]
    others = [x for x in leaves if isinstance(x, torch.Tensor) and not isinstance(x, Simulated)]
    plain_args, plain_kwargs = tree_map(unwrap, (args, kwargs))
    wanted = kwargs.get("device")
    if "device" in plain_kwargs:
        plain_kwargs = {**plain_kwargs, "device": CPU}
    if func is aten._to_copy.default:
        result = func(*plain_args, **plain_kwargs)
        if wanted is not None and torch.device(wanted).type == "cpu":
            copied("to_host", bool(kwargs.get("non_blocking")))
            return result
        return wrap(result)
    if func is aten.copy_.default:
        func(*plain_args, **plain_kwargs)
        if not isinstance(args[1], Simulated):
            copied("to_device", bool((*args, False)[2] if len(args) > 2 else kwargs.get("non_blocking")))
        return args[0]
    if func is aten._local_scalar_dense.default:
        copied("to_host", False)
        return func(*plain_args, **plain_kwargs)
    if func is aten.nonzero.default:
        synchronized()
    # CUDA lets a zero-dimensional CPU tensor, and CPU indices, take part; so do we
    if any(x.dim() for x in others) and func not in (aten.index.Tensor, aten.index_put_.default):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and cpu! ({func})"
        )
    if RECORDERS:
        record(f"kernel:{func._schema.name.partition('::')[2]}")
    result = func(*plain_args, **plain_kwargs)
    if func._schema.is_mutable:  # in place: hand back the wrapper that was passed in
        back = {id(x.held): x for x in ours}
        return tree_map(lambda x: back.get(id(x), rewrap(x, ours)), result)
    return tree_map(lambda x: rewrap(x, ours), result)


def rewrap(x: Any, ours: list[Simulated]) -> Any:
    """Wrap a result; one that lies in an argument's storage counts for that argument's block."""
    if not isinstance(x, torch.Tensor) or isinstance(x, Simulated):
        return x
    for each in ours:
        if torch._C._is_alias_of(each.held, x):
            return wrap(x, each.block)
    return wrap(x)


Simulated.__torch_dispatch__ = staticmethod(run)  # type: ignore[assignment]
