"""Autocast for the simulated device: which operators run in the lower precision."""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.simulated.tensor import NAME

LOWER = ("linear", "mm", "matmul", "bmm", "addmm", "conv2d")


def _lowered(operator: Any) -> Any:
    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def cast(x: Any) -> Any:
        ours = isinstance(x, torch.Tensor) and x.is_floating_point() and x.device.type == NAME
        return x.to(torch.get_autocast_dtype(NAME)) if ours else x

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(key):
            return operator(*map(cast, args), **kwargs)

    return kernel


def install(library: torch.library.Library, fallback: torch.library.Library) -> None:
    """Register the autocast kernels; operators that are not listed keep their dtypes."""
    fallback.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in LOWER:
        library.impl(name, _lowered(getattr(torch.ops.aten, name)), "AutocastPrivateUse1")
