"""Models that probes give to answers, made from a name and a width, which a case can hold."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["model"]


class Tied(nn.Module):
    """A small language model whose output layer is its embedding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2 * width + 1, width)
        self.body = nn.Linear(width, width)
        self.decoder = nn.Linear(width, 2 * width + 1)
        self.decoder.weight = self.embedding.weight


class Tower(nn.Module):
    """Submodules whose names begin alike, and one without parameters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(inplace=True))
        self.encoder2 = nn.Linear(width, width)
        self.act = nn.ReLU(inplace=True)
        self.pass_on = nn.Identity()
        self.pre_encoder = nn.Linear(width, width, bias=False)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pre_encoder(self.pass_on(x))
        x = self.act(self.encoder2(self.encoder(x)))
        out: Tensor = self.head(x)
        return out


class Loose(nn.Module):
    """Parameters outside of layers: a scalar, a vector, a table."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.shift = nn.Parameter(torch.zeros(width))
        self.table = nn.Parameter(torch.ones(width, 3))
        self.positions = nn.Embedding(5, width)
        self.layer = nn.Linear(width, 2)
        self.register_buffer("seen", torch.zeros(4))


class Frozen(nn.Module):
    """A frozen backbone and a head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(width, 2 * width), nn.LayerNorm(2 * width)).requires_grad_(False)
        self.head = nn.Linear(2 * width, 3)


class Stack(nn.Module):
    """Twelve layers, so that the names `layers.1` and `layers.10` begin alike."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(12))


class Breaking(nn.Module):
    """Two layers that do not fit: forward raises midway."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width + 1, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x))
        return out


class Labelled(nn.Linear):
    """A linear layer of a class of its own."""


class Block(nn.Module):
    """Layers two levels down, of several kinds."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, 2 * width, 3)
        self.norm = nn.BatchNorm2d(2 * width)
        self.inner = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(4 * width, 16 * width), nn.LayerNorm(16 * width)))


def shared(width: int) -> nn.Module:
    layer = nn.Linear(width, width)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(width, 1))


def zeroed(width: int) -> nn.Module:
    """Return two layers of one shape, of which every weight is zero."""
    net = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    return net


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "linear": lambda w: nn.Linear(4 * w, 16 * w),
    "no bias": lambda w: nn.Sequential(nn.Linear(4 * w, 16 * w, bias=False), nn.GroupNorm(2, 16 * w),
                                     nn.BatchNorm1d(16 * w), nn.LayerNorm(16 * w, bias=False)),
    "mlp": lambda w: nn.Sequential(nn.Linear(w, w + 1), nn.ReLU(), nn.Linear(w + 1, 2)),
    "normed": lambda w: nn.Sequential(nn.Linear(w, w + 1), nn.BatchNorm1d(w + 1), nn.ReLU(), nn.Linear(w + 1, 2)),
    "convolutional": lambda w: nn.Sequential(nn.Conv2d(w, 4 * w, 3), nn.BatchNorm2d(4 * w), nn.ReLU(), nn.Flatten(),
                                             nn.Linear(16 * w, 8 * w)),
    "nested": lambda w: nn.Sequential(nn.Linear(4 * w, 16 * w), nn.Sequential(Block(w), nn.ReLU())),
    "grouped": lambda w: nn.Sequential(nn.Conv2d(2 * w, 8 * w, 3, groups=4, bias=False),
                                       nn.InstanceNorm2d(8 * w, affine=True), nn.BatchNorm2d(8 * w, affine=False),
                                       nn.InstanceNorm1d(w, affine=True), nn.BatchNorm3d(w)),
    "no numbers": lambda w: nn.Sequential(nn.Linear(w, w + 1), nn.ReLU(), nn.Linear(w + 1, 2)).to("meta"),
    "tied": Tied, "tower": Tower, "loose": Loose, "frozen": Frozen, "stack": Stack, "breaking": Breaking,
    "shared": shared, "zeroed": zeroed,
    "embedded": lambda w: nn.Sequential(nn.Embedding(5 * w, 4 * w), nn.Linear(4 * w, 16 * w), nn.Conv1d(w, 2 * w, 3)),
    "labelled": lambda w: nn.Sequential(Labelled(4 * w, 16 * w), nn.ReLU()),
    "none": lambda w: nn.Sequential(nn.ReLU(), nn.Flatten()),
    "biases": lambda w: nn.Sequential(nn.LayerNorm(w), nn.ReLU(), nn.BatchNorm1d(w)),
    "matrices": lambda w: nn.Sequential(nn.Linear(w, w, bias=False), nn.Linear(w, 2, bias=False)),
}  # fmt: skip


def model(name: str, width: int) -> nn.Module:
    """Return the model of this name and width, with weights from the current random state."""
    return MODELS[name](width)
