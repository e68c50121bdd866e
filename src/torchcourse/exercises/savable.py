"""Models that probes save, load and export: built from the tensors of a case, or from a name and a width."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from torchcourse.exercises.models import model as plain_model

__all__ = ["Exported", "exported_weights", "filled", "savable"]


class Patterned(nn.Module):
    """Tensors whose memory is not in the order of their elements, one of them a buffer; and a number that counts."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.turned = nn.Parameter(torch.zeros(width + 1, width).t())
        self.conv = nn.Conv2d(2, width, 3).to(memory_format=torch.channels_last)
        self.register_buffer("table", torch.zeros(width, 4).t())
        self.register_buffer("seen", torch.tensor(0))


class TiedPattern(nn.Module):
    """Tied, and beside it a tensor whose memory is turned."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2 * width, width)
        self.head = nn.Linear(width, 2 * width, bias=False)
        self.head.weight = self.embedding.weight
        self.turned = nn.Parameter(torch.zeros(width + 1, width).t())


MODELS: dict[str, Callable[[int], nn.Module]] = {"patterned": Patterned, "tied pattern": TiedPattern}


def savable(name: str, width: int, fill: float, device: torch.device | None = None) -> nn.Module:
    """A model by name, all of its entries filled with known values that depend on `fill`, and moved to `device`."""
    made = MODELS[name](width) if name in MODELS else plain_model(name, width)
    return filled(made, fill).to(device or "cpu")


def filled(model: nn.Module, fill: float) -> nn.Module:
    """Give every entry of a model's state known values, in place."""
    with torch.no_grad():
        for place, tensor in enumerate(model.state_dict().values()):
            wave = torch.sin(torch.arange(tensor.numel()) * (0.7 + fill) + place).view(tensor.shape)
            tensor.copy_(wave + 1.5 if tensor.is_floating_point() else wave * 0 + round(10 * fill) + place)
    return model


class Exported(nn.Module):
    """A network that does something else in training: its last step is half as large. `normed` puts a batch norm
    in; `turns` lets it end in a rotation of the columns, so that there is more to export than layers."""

    def __init__(self, weights: dict[str, Tensor], normed: bool = False, turns: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(weights["w1"].shape[1], weights["w1"].shape[0])
        self.norm = nn.BatchNorm1d(len(weights["w1"])) if normed else nn.Identity()
        self.last = nn.Linear(weights["w2"].shape[1], weights["w2"].shape[0])
        self.turns = turns
        with torch.no_grad():
            for layer, number in ((self.first, 1), (self.last, 2)):
                layer.weight.copy_(weights[f"w{number}"])
                layer.bias.copy_(weights[f"b{number}"])
            if isinstance(self.norm, nn.BatchNorm1d):
                self.norm.running_mean.copy_(weights["b1"] / 2)  # type: ignore[union-attr]
                self.norm.running_var.copy_(1 + weights["b1"] ** 2)  # type: ignore[union-attr]

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.norm(self.first(x)))
        out: Tensor = self.last(0.5 * hidden if self.training else hidden)
        return out.roll(1, dims=1) if self.turns else out


def exported_weights(w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> dict[str, Tensor]:
    """The weights of an `Exported`, as a case holds them."""
    return {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
