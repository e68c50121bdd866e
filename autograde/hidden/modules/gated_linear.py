"""The exercise `GatedLinear`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograde.hidden.common import ROUNDED, override
from autograde.hidden.modules.shared import UNBEGUN, UNREGISTERED, plain
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.modules import affine_weights

WHY = (
    "The gate is a weight like any other, so it has to be a parameter: only then does an optimizer see it. The "
    "sigmoid is bounded by 0 and 1, so the gate chooses how much of each output passes."
)
"""Why the reference is written as it is."""
REQUIRED = ("gate-not-sigmoid", "plain-tensor")
"""The mistakes that a check must always be able to name."""

REGISTER = "What a module remembers"


class Gated(nn.Module):
    """A right layer; a mistake overrides one of its methods."""

    weight: Any
    gate_weight: Any
    bias: Any

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = self.hold("weight", torch.randn(out_features, in_features))
        self.gate_weight = self.hold("gate_weight", torch.randn(out_features, in_features))
        self.bias = self.hold("bias", torch.randn(out_features))

    def hold(self, _name: str, tensor: Tensor) -> Tensor:
        return nn.Parameter(tensor)

    def forward(self, x: Tensor) -> Any:
        return (x @ self.weight.T + self.bias) * self.opened(x @ self.gate_weight.T)

    def opened(self, gate: Tensor) -> Tensor:
        return gate.sigmoid()


class Swapped(Gated):
    def forward(self, x: Tensor) -> Any:
        return (x @ self.gate_weight.T + self.bias) * (x @ self.weight.T).sigmoid()


class SigmoidOfTheValue(Gated):
    def forward(self, x: Tensor) -> Any:
        return (x @ self.weight.T + self.bias).sigmoid() * (x @ self.gate_weight.T)


class BiasAfterwards(Gated):
    def forward(self, x: Tensor) -> Any:
        return (x @ self.weight.T) * (x @ self.gate_weight.T).sigmoid() + self.bias


class BiasInTheGate(Gated):
    def forward(self, x: Tensor) -> Any:
        return (x @ self.weight.T) * (x @ self.gate_weight.T + self.bias).sigmoid()


class BiasInBoth(Gated):
    def forward(self, x: Tensor) -> Any:
        return (x @ self.weight.T + self.bias) * (x @ self.gate_weight.T + self.bias).sigmoid()


class BiasUnused(Gated):
    def forward(self, x: Tensor) -> Any:
        return (x @ self.weight.T) * (x @ self.gate_weight.T).sigmoid()


class Added(Gated):
    def forward(self, x: Tensor) -> Any:
        return x @ self.weight.T + self.bias + (x @ self.gate_weight.T).sigmoid()


class DividedByOne(Gated):
    def forward(self, x: Tensor) -> Any:
        return (x @ self.weight.T + self.bias) / (1 + torch.exp(-(x @ self.gate_weight.T)))


class InFloat32(Gated):
    def forward(self, x: Tensor) -> Any:
        y, value, gate = x.float(), self.weight.float(), self.gate_weight.float()
        return ((y @ value.T + self.bias.float()) * (y @ gate.T).sigmoid()).to(x.dtype)


class Transposed(Gated):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.weight = nn.Parameter(torch.randn(in_features, out_features))
        self.gate_weight = nn.Parameter(torch.randn(in_features, out_features))

    def forward(self, x: Tensor) -> Any:
        return (x @ self.weight + self.bias) * (x @ self.gate_weight).sigmoid()


class OtherNames(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear, self.gate = nn.Linear(in_features, out_features), nn.Linear(in_features, out_features, False)

    def forward(self, x: Tensor) -> Any:
        return self.linear(x) * self.gate(x).sigmoid()


class Unbegun(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        self.weight = nn.Parameter(torch.empty(out_features, in_features))


AT = "The value at {at} is {got_at} and should be {want_at}: "
NOT_SIGMOID = AT + "the gate is not a sigmoid, which opens from 0 to 1 for each output by itself."
BIAS_PLACE = AT + "the bias belongs to x W^T, before the gate is applied."
ALL = ("weight", "gate_weight", "bias")
MISTAKES = [
    Mistake("missing-super-init", Unbegun, UNBEGUN, REGISTER),
    *(Mistake("gate-not-sigmoid", override(Gated, opened=opened), NOT_SIGMOID, REGISTER) for opened in (
        lambda self, gate: gate.tanh(),
        lambda self, gate: gate.relu(),
        lambda self, gate: gate.softmax(-1),
        lambda self, gate: gate,
        lambda self, gate: F.silu(gate),
        lambda self, gate: F.gelu(gate),
    )),
    *(Mistake("sigmoid-overflows", program, "In the case \"{case}\" the {what} is {got_at} at {at} where {want_at} is "
              "wanted: far to the left `exp(-gate)` is inf, and on the way back 0 times inf is NaN; `torch.sigmoid` "
              "knows its own derivative.", REGISTER) for program in (
        override(Gated, opened=lambda self, gate: 1 / (1 + torch.exp(-gate))), DividedByOne)),
    Mistake("plain-tensor", override(Gated, hold=plain(*ALL)), UNREGISTERED, REGISTER),
    Mistake("plain-tensor", override(Gated, hold=plain("gate_weight")), UNREGISTERED, REGISTER),
    Mistake("plain-tensor", override(Gated, hold=plain("bias")), UNREGISTERED, REGISTER),
    Mistake("plain-tensor", override(Gated, hold=plain("weight", "gate_weight")), UNREGISTERED, REGISTER),
    Mistake("plain-tensor", override(Gated, hold=plain("weight")), UNREGISTERED, REGISTER),
    Mistake("bias-in-the-wrong-place", BiasAfterwards, BIAS_PLACE, REGISTER),
    Mistake("bias-in-the-wrong-place", BiasInTheGate, BIAS_PLACE, REGISTER),
    Mistake("bias-in-the-wrong-place", BiasInBoth, BIAS_PLACE, REGISTER),
    Mistake("bias-unused", BiasUnused, AT + "the bias is registered, but forward does not add it.", REGISTER),
    Mistake("gate-and-value-swapped", Swapped, AT + "weight and gate_weight have changed places.", REGISTER),
    Mistake("gate-and-value-swapped", SigmoidOfTheValue, AT + "the sigmoid belongs to the gate, x G^T, and not to the "
            "value.", REGISTER),
    Mistake("added-not-multiplied", Added, AT + "the value is multiplied by the gate; the two are not added.",
            REGISTER),
    Mistake("computes-in-float32", InFloat32, ROUNDED, REGISTER),
    Mistake("weight-transposed", Transposed, "`parameters` came out as {got} where {want} is wanted: weights have "
            "shape (out, in), as in every other module of torch.", REGISTER),
    Mistake("other-names", OtherNames, "`parameters()` finds {registered}: they should be `weight`, `gate_weight` and "
            "`bias`, registered on the module itself.", REGISTER),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    i, o = draw.size(1, 9), draw.size(1, 9)
    weights = affine_weights(draw, i, o, "weight", "gate_weight", "bias")
    return [
        case("drawn sizes", sizes=(i, o), weights=weights, x=draw.normal(3, 2, i)),
        case("an empty batch", sizes=(i, o), weights=weights, x=torch.empty(0, i)),
    ]


# Right answers unlike the reference


class GatedByProducts(nn.Module):
    weight: Tensor
    gate_weight: Tensor

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        for name in ("gate_weight", "weight"):
            self.register_parameter(name, nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5))
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.weight.mT + self.bias) * torch.sigmoid(x @ self.gate_weight.mT)


class GatedByGlu(nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.gate_weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.empty(out_features))
        for p in self.parameters():
            nn.init.normal_(p, std=0.1)

    def forward(self, x: Tensor) -> Tensor:
        both = F.linear(x, torch.cat([self.weight, self.gate_weight]), torch.cat([self.bias, self.bias * 0]))
        return F.glu(both, dim=-1)


RIGHT_ANSWERS: list[Callable[..., Any]] = [GatedByProducts, GatedByGlu]
