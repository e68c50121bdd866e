"""What several private halves of lesson 11 share."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from autograde.hidden.common import reading

__all__ = ["UNBEGUN", "Attention", "reading"]

UNBEGUN = (
    "Making the module ended with {construction}: without `super().__init__()` as the first line of `__init__` there "
    "is nothing yet that could remember a parameter."
)


class Attention(nn.Module):
    """A right attention with heads; a mistake overrides one of its methods."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.dim, self.heads = dim, heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.parts(self.qkv(x))
        scores = q @ k.transpose(-2, -1) * self.scale()
        mixed = self.shares(scores, mask) @ v
        return self.out(self.merge(mixed))

    def parts(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (self.split(part) for part in qkv.chunk(3, -1))
        return q, k, v

    def split(self, part: Tensor) -> Tensor:
        b, t, _ = part.shape
        return part.reshape(b, t, self.heads, -1).transpose(1, 2)

    def scale(self) -> float:
        return float((self.dim // self.heads) ** -0.5)

    def shares(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return self.softmax(scores if mask is None else self.masked(scores, mask))

    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, torch.finfo(scores.dtype).min)

    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def merge(self, mixed: Tensor) -> Tensor:
        b, _, t, _ = mixed.shape
        return mixed.transpose(1, 2).reshape(b, t, -1)

    def out(self, mixed: Tensor) -> Tensor:
        result: Tensor = self.proj(mixed)
        return result
