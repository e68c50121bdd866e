"""Print simulated tensors as PyTorch prints tensors of other devices."""

from __future__ import annotations

from typing import Any

import torch

TEXT: Any = torch._tensor_str
PREFIX = "tensor("


def shown(t: torch.Tensor, **_: Any) -> str:
    """Return the values, the device, and how the tensor stands to autograd. Printing copies to the host."""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        held = t.detach().cpu()
        text: str = TEXT._add_suffixes(PREFIX + _contents(held), _suffixes(t), len(PREFIX), False)
    return f"Parameter containing:\n{text}" if getattr(t, "_is_param", False) else text


def formatted(t: torch.Tensor, spec: str) -> str:
    """Format a tensor with one value as that value, any other as its text."""
    if t.dim() == 0:
        return format(t.item(), spec)
    return object.__format__(t, spec)


def _contents(held: torch.Tensor) -> str:
    return "[]" if held.numel() == 0 else str(TEXT._tensor_str(held, len(PREFIX)))


def _suffixes(t: torch.Tensor) -> list[str]:
    usual = (torch.get_default_dtype(), torch.int64, torch.bool, torch.complex64)
    parts = [f"device='{t.device}'"]
    if t.numel() == 0 and t.dim() != 1:
        parts.append(f"size={tuple(t.shape)}")
    if t.dtype not in usual or (t.numel() == 0 and t.dtype != torch.get_default_dtype()):
        parts.append(f"dtype={t.dtype}")
    if t.grad_fn is not None:
        parts.append(f"grad_fn=<{type(t.grad_fn).__name__}>")
    elif t.requires_grad:
        parts.append("requires_grad=True")
    return parts
