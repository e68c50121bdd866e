"""The handwritten digits of scikit-learn and a small network for them, for lesson 05."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["SmallCNN", "load", "split"]


def load() -> tuple[Tensor, Tensor]:
    """Return all 1797 digits, offline: images `(1797, 1, 8, 8)`, float32 in [0, 1], and labels `(1797,)`, int64."""
    from sklearn.datasets import load_digits  # takes a second or two

    digits = load_digits()
    return torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(digits.target).long()


def split(seed: int = 0) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the shuffled digits as "train" (1200), "val" (300) and "test" (297)."""
    images, labels = load()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    parts = dict(zip(("train", "val", "test"), torch.split(order, [1200, 300, 297]), strict=True))
    return {name: (images[rows], labels[rows]) for name, rows in parts.items()}


class SmallCNN(nn.Sequential):
    """Two convolutions and a linear layer: from `(n, 1, 8, 8)` to ten logits, about 6000 parameters."""

    def __init__(self, width: int = 16) -> None:
        super().__init__(
            *self.stage(1, width), *self.stage(width, 2 * width), nn.Flatten(), nn.Linear(2 * width * 2 * 2, 10)
        )

    @staticmethod
    def stage(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
        """Return the layers of one stage: convolution, batch norm, ReLU, and pooling that halves height and width."""
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)
