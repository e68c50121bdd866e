"""Models that lesson 10's answers walk through: layers that run in another order than they are defined in."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

__all__ = ["BREAKS", "Block", "Step", "Winding", "winding"]

BREAKS = "the widths do not fit"


class Step(nn.Module):
    """A leaf: `tanh` of a linear map, halved in training mode; `flaw` says what is wrong with its output.

    Attributes:
        flaw: "" or "nan", "inf", "-inf" (in one entry), "shifted" (by 0.01), "negatives" (shifted where negative),
            "wrapped" (in one dimension more), "huge" (two numbers whose sum overflows), or "fine".
        place: "main" for a flaw of the output itself, "extra" for one of a nested output's second tensor.
        when: the number of the call with the flaw, from 0 on, or -1 for all.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.flaw, self.place, self.when, self.calls = "", "main", -1, 0

    def forward(self, x: Any) -> Any:
        y = torch.tanh(_first(x) @ self.weight.T) * (0.5 if self.training else 1.0)
        flawed = self._with_flaw(y) if self.when in (-1, self.calls) else y
        self.calls += 1
        return {"main": y, "more": [flawed]} if self.place == "extra" else flawed

    def _with_flaw(self, y: Tensor) -> Tensor:
        y = y.clone()
        if self.flaw == "wrapped":
            return y.unsqueeze(0)
        if self.flaw == "negatives":
            return torch.where(y < 0, y - 0.01, y)
        if self.flaw == "shifted":
            y[-1, -1] += 0.01
        elif self.flaw == "huge":
            y[0, :2] = 0.9 * torch.finfo(y.dtype).max
        elif self.flaw not in ("", "fine"):
            y[0, 0] = float(self.flaw)
        return y


def _first(x: Any) -> Tensor:
    found = tree_leaves(x)[0]
    assert isinstance(found, Tensor)
    return found


class Block(nn.Module):
    """A container with arithmetic of its own: two steps, the second around an in-place relu."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.second = Step(width)
        self.first = Step(width)
        self.scale = 1.0

    def forward(self, x: Any) -> Any:
        hidden = self.first(x)
        hidden = hidden.relu_() if isinstance(hidden, Tensor) else hidden
        out = _first(self.second(hidden))
        return out * self.scale


class Winding(nn.Module):
    """A head, a decoder and an encoder, defined in this order and run in the opposite one.

    Attributes:
        again: whether the encoder's first step runs once more, after the decoder.
        breaks: whether `forward` raises after the decoder.
        scale: what the model multiplies the head's output by.
    """

    def __init__(self, width: int, extra: str = "") -> None:
        super().__init__()
        self.head = Step(width)
        self.decoder = nn.ModuleDict({"block": Block(width)})
        self.spare = Step(width)
        self.encoder = nn.Sequential(Step(width), nn.Sequential(Step(width), Step(width)))
        if extra:
            self.add_module(extra, nn.Identity())
        self.extra, self.again, self.breaks, self.scale = extra, False, False, 1.0

    def forward(self, x: Tensor) -> Any:
        for module in self.modules():
            if isinstance(module, Step):
                module.calls = 0
        if self.extra:  # what only one of two models has may do what it likes
            getattr(self, self.extra)(x + len(self.extra))
        x = self.encoder(x)
        x = self.decoder["block"](x)
        if self.breaks:
            raise RuntimeError(BREAKS)
        return _first(self.head(self.encoder[0](x) if self.again else x)) * self.scale


def winding(
    width: int, seed: int, flaws: dict[str, str], like: Tensor, extra: str = "", again: bool = False
) -> Winding:
    """Return a model with drawn weights and flaws by name: "inf", "inf extra", or "inf main 0" for the first call.

    The flaw of a module with arithmetic of its own, a block or the model (whose name is ""), is its factor: "1.1".
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Winding(width, extra)
    for name, flaw in flaws.items():
        module = model.get_submodule(name)
        if isinstance(module, Block | Winding):
            module.scale = float(flaw)
        elif isinstance(module, Step):
            words = flaw.split()
            module.flaw = words[0]
            module.place = words[1] if len(words) > 1 else "main"
            module.when = int(words[2]) if len(words) > 2 else -1
    model.again = again
    return model.to(like.device, like.dtype)
