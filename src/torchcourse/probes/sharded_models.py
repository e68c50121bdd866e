"""What the probes of lesson 12 shard: a small model with blocks, its data and its training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from torchcourse.model.exercise import Draw

__all__ = ["Blocks", "drawn_model", "gathered", "local_elements"]


class Block(nn.Module):
    """A residual block: one linear layer, a norm, a tanh."""

    def __init__(self, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, dtype=dtype)
        self.linear = nn.Linear(width, width, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tanh(self.linear(self.norm(x)))


class Blocks(nn.Module):
    """An input layer, some blocks in `blocks`, and a head; weights from a seed. The buffers are not trained."""

    def __init__(self, width: int, depth: int, seed: int, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Linear(3, width, dtype=dtype)
        self.blocks = nn.ModuleList(Block(width, dtype) for _ in range(depth))
        self.head = nn.Linear(width, 2, dtype=dtype)
        self.centre: Tensor
        self.register_buffer("centre", torch.randn(3, dtype=dtype))
        self.register_buffer("scratch", torch.zeros(3, dtype=dtype), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x - self.centre)
        for block in self.blocks:
            x = block(x)
        found: Tensor = self.head(x)
        return found


def drawn_model(draw: Draw) -> dict[str, Any]:
    """Draw the parameters of a model."""
    return {"width": draw.size(4, 7), "depth": draw.size(2, 3), "seed": draw.size(0, 9999)}


def gathered(tensor: Tensor) -> Tensor:
    """Return a tensor without its shards: all ranks have to call this."""
    full: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full.detach().clone()


def local_elements(model: nn.Module) -> int:
    """Return how many elements of a model's parameters this rank holds."""
    return sum((p.to_local() if isinstance(p, DTensor) else p).numel() for p in model.parameters())
