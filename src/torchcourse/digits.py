"""Handwritten digits that come with scikit-learn, and the small network that reads them: what lesson 05 trains on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["SmallCNN", "load", "split"]


def load() -> tuple[Tensor, Tensor]:
    """All 1797 digits: images `(1797, 1, 8, 8)`, float32 in [0, 1], and labels `(1797,)`, int64. Needs no internet."""
    from sklearn.datasets import load_digits  # takes a second or two, so not before it is needed

    digits = load_digits()
    return torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16, torch.tensor(digits.target).long()


def split(seed: int = 0) -> dict[str, tuple[Tensor, Tensor]]:
    """The digits shuffled and divided: 1200 to train on, 300 to choose by, 297 to be judged by at the very end."""
    images, labels = load()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    parts = dict(zip(("train", "val", "test"), torch.split(order, [1200, 300, 297]), strict=True))
    return {name: (images[rows], labels[rows]) for name, rows in parts.items()}


class SmallCNN(nn.Sequential):
    """Two convolutions and a linear layer: `(n, 1, 8, 8)` to ten logits, with about 6000 parameters."""

    def __init__(self, width: int = 16) -> None:
        super().__init__(
            *self.stage(1, width), *self.stage(width, 2 * width), nn.Flatten(), nn.Linear(2 * width * 2 * 2, 10)
        )

    @staticmethod
    def stage(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
        """A convolution with batch norm; the pooling halves height and width."""
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        return convolution, nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)
