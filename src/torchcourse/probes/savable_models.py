"""Models that probes save, load and export, observations of their state, and a harmless malicious pickle."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.audit import COPIES, PROCESSES, Audit, children
from torchcourse.model.exercise import Draw
from torchcourse.model.observations import Observations
from torchcourse.probes.models import model as plain_model
from torchcourse.probes.observe import kind
from torchcourse.probes.resumable_training import equal_nested

__all__ = [
    "BATCHES", "EXPORT", "Copies", "Exported", "baited", "copy_of", "export_weights", "filled", "savable",
    "untouched", "values",
]  # fmt: skip


class Patterned(nn.Module):
    """Tensors that are not contiguous, one of them a buffer, and a counter."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.turned = nn.Parameter(torch.zeros(width + 1, width).t())
        self.conv = nn.Conv2d(2, width, 3).to(memory_format=torch.channels_last)
        self.register_buffer("table", torch.zeros(width, 4).t())
        self.register_buffer("seen", torch.tensor(0))


class TiedPattern(nn.Module):
    """Tied weights, and a transposed tensor."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2 * width, width)
        self.head = nn.Linear(width, 2 * width, bias=False)
        self.head.weight = self.embedding.weight
        self.turned = nn.Parameter(torch.zeros(width + 1, width).t())


class Twins(nn.Module):
    """Two layers of their own that have equal values."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)


def _double(width: int) -> nn.Module:
    return plain_model("mlp", width).double()


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "patterned": Patterned, "tied pattern": TiedPattern, "twins": Twins, "double": _double,
    "bfloat16": lambda width: nn.Linear(width, 2).bfloat16(), "float16": lambda width: nn.Linear(width, 2).half(),
}  # fmt: skip


def savable(name: str, width: int, fill: float, device: torch.device | None = None) -> nn.Module:
    """Return a model by name on `device`, its entries filled with known values that depend on `fill`."""
    made = MODELS[name](width) if name in MODELS else plain_model(name, width)
    filled(made, fill)
    if isinstance(made, Twins):
        made.second.load_state_dict(made.first.state_dict())
    return made.to(device or "cpu")


def filled(model: nn.Module, fill: float) -> nn.Module:
    """Give every entry of a model's state known values, in place, and return the model."""
    with torch.no_grad():
        for place, tensor in enumerate(model.state_dict().values()):
            wide = torch.float64 if tensor.dtype == torch.float64 else None  # whose values fill all its digits
            wave = torch.sin(torch.arange(1, tensor.numel() + 1, dtype=wide) * (0.7 + fill) + place).view(tensor.shape)
            tensor.copy_(wave + 1.5 if tensor.is_floating_point() else wave * 0 + round(10 * fill) + place)
    return model


class Exported(nn.Module):
    """A network whose hidden layer counts half in training mode.

    `normed` adds a batch norm; `turns` rotates the columns of the output, so that there is more to export than layers.
    """

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


EXPORT = (
    "torch.export._trace", "torch._functorch.aot_autograd", "torch._inductor.ir", "sympy.tensor.tensor", "networkx",
    "torch._export.passes.replace_autocast_with_hop_pass",
)  # fmt: skip
"""Modules that the first export imports."""


def values(state: dict[str, Any]) -> Observations:
    """Return the tensors of a state dict by name, and descriptions of anything else in it."""
    return {str(name): held if isinstance(held, Tensor) else kind(held) for name, held in state.items()}


def untouched(net: nn.Module, before: dict[str, Tensor]) -> str:
    """Describe whether a model's state is still `before`."""
    return "as before" if equal_nested(net.state_dict(), before) else "changed"


def copy_of(net: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a model's state that shares no memory with it."""
    return {name: tensor.detach().clone() for name, tensor in net.state_dict().items()}


class Copies:
    """An object whose pickle copies a file when it is loaded: a harmless stand-in for any code."""

    def __reduce__(self) -> Any:
        folder = Path.cwd()  # the code may be run from another
        return shutil.copyfile, (str(folder / "page.txt"), str(folder / "touched.txt"))


@contextlib.contextmanager
def baited() -> Iterator[Callable[[], str]]:
    """Write the file that a pickle of `Copies` copies; yield what describes whether one has been loaded in this block.

    The copy raises an audit event, so it is noticed even if the file is gone. Events of another process are not seen
    here, so starting one counts as a possible run.
    """
    page, touched = Path("page.txt").absolute(), Path("touched.txt").absolute()
    page.write_text("what the code in the file copies\n")
    before = children()

    def was_run() -> str:
        if COPIES in audit.used or touched.exists():
            return "was run"
        return "may have run in another process" if PROCESSES in audit.used or children() != before else "was not run"

    with Audit() as audit:
        yield was_run


BATCHES = (1, 2, 7)


def export_weights(draw: Draw, i: int, h: int, o: int) -> dict[str, Tensor]:
    """Draw the weights of an `Exported` with i inputs, h hidden units and o outputs."""
    return {"w1": draw.normal(h, i), "b1": 0.5 + draw.normal(h).abs(), "w2": draw.normal(o, h), "b2": draw.normal(o)}
