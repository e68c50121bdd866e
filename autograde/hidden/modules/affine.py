"""The exercise `Affine`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import DTYPE, ROUNDED, override
from autograde.hidden.modules.shared import UNBEGUN, UNREGISTERED, plain
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.modules import affine_weights

WHY = (
    "A parameter is registered by being assigned as an attribute, which is how `parameters`, `.to` and "
    "`state_dict` find it. `register_parameter('bias', None)` keeps the name there and says that there is none."
    " The bound shrinks with the number of inputs, because that many products are summed."
)
"""Why the reference is written as it is."""
REQUIRED = ("plain-tensor", "bias-false-ignored", "missing-super-init")
"""The mistakes that a check must always be able to name."""

REGISTER = "What a module remembers"
INIT = "Initialisation and depth"


class Affine(nn.Module):
    """A right layer; a mistake overrides one of its methods."""

    weight: Any
    bias: Any

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        limit = self.bound(in_features, out_features)
        self.weight = self.hold("weight", self.start(limit, out_features, in_features))
        if bias:
            self.bias = self.hold("bias", self.start(limit, out_features))
        else:
            self.no_bias(out_features)

    def bound(self, inputs: int, _outputs: int) -> float:
        return 1 / math.sqrt(inputs)

    def start(self, limit: float, *shape: int) -> Tensor:
        return torch.empty(shape).uniform_(-limit, limit)

    def hold(self, _name: str, tensor: Tensor) -> Tensor:
        return nn.Parameter(tensor)

    def no_bias(self, _outputs: int) -> None:
        self.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Any:
        y = x @ self.weight.T
        return y if getattr(self, "bias", None) is None else y + self.bias


def bias_is_none(self: Affine, _outputs: int) -> None:
    self.bias = None


class Transposed(Affine):
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias)
        self.weight = nn.Parameter(self.weight.detach().T.clone())

    def forward(self, x: Tensor) -> Any:
        return x @ self.weight if self.bias is None else x @ self.weight + self.bias


class Detached(Affine):
    def forward(self, x: Tensor) -> Any:
        y = x @ self.weight.detach().T
        return y if self.bias is None else y + self.bias


class NotTransposed(Affine):
    def forward(self, x: Tensor) -> Any:
        return x @ self.weight if self.bias is None else x @ self.weight + self.bias


class InFloat32(Affine):
    def forward(self, x: Tensor) -> Any:
        y = x.float() @ self.weight.float().T
        return y if self.bias is None else y + self.bias.float()


class ThroughFloat32(InFloat32):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x).to(x.dtype)


class NoneAdded(Affine):
    def forward(self, x: Tensor) -> Any:
        return x @ self.weight.T + self.bias


class AlwaysWithBias(Affine):
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features)


class Unbegun(nn.Module):
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None

    def forward(self, x: Tensor) -> Any:
        return x @ self.weight.T


def normal(size: float | None, bias: str = "normal") -> Callable[..., Tensor]:
    """Return a `start` with normal numbers of a standard deviation, of the bound where it is None."""

    def start(self: Affine, limit: float, *shape: int) -> Tensor:
        if len(shape) == 1 and bias != "normal":
            return torch.zeros(shape) if bias == "zero" else Affine.start(self, limit, *shape)
        return torch.randn(shape) * (limit if size is None else size)

    return start


def from_a_generator_of_its_own(self: Affine, limit: float, *shape: int) -> Tensor:
    return torch.empty(shape).uniform_(-limit, limit, generator=torch.Generator().manual_seed(0))


def zero_for_the_bias(self: Affine, limit: float, *shape: int) -> Tensor:
    return torch.zeros(shape) if len(shape) == 1 else Affine.start(self, limit, *shape)


def evenly_spaced_for_the_bias(self: Affine, limit: float, *shape: int) -> Tensor:
    return torch.linspace(-limit, limit, *shape) if len(shape) == 1 else Affine.start(self, limit, *shape)


START = 'In the case "{case}" the {what} is {got} where {want} is wanted, in units of 1/sqrt(in): '
RANGE = START + "the bound of the range is not 1/sqrt(in)."
NORMAL = START + "normal numbers have no bound, but uniform ones do."
NO_BIAS = (
    "With `bias=False` the check found under the name `bias`: {got}. Register it as None, so that the module knows the "
    "name and that it is empty."
)
ALIKE = (
    'In the case "{case}" the {what} are {got} where {want} are wanted: either nothing is drawn at random, or a seed '
    "set inside the layer makes every layer start alike."
)
BOTH = ("weight", "bias")
MISTAKES = [
    Mistake("missing-super-init", Unbegun, UNBEGUN, REGISTER),
    Mistake("plain-tensor", override(Affine, hold=plain(*BOTH)), UNREGISTERED, REGISTER),
    Mistake("plain-tensor", override(Affine, hold=plain("bias")), UNREGISTERED, REGISTER),
    Mistake("plain-tensor", override(Affine, hold=plain("weight")), UNREGISTERED, REGISTER),
    Mistake("plain-tensor", override(Affine, hold=plain(*BOTH), no_bias=bias_is_none), UNREGISTERED, REGISTER),
    Mistake("bias-false-ignored", AlwaysWithBias, "With `bias=False` the module still has a bias: `parameters()` finds "
            "{registered}.", REGISTER),
    Mistake("bias-not-registered", override(Affine, no_bias=bias_is_none), NO_BIAS, REGISTER),
    Mistake("bias-not-registered", override(Affine, no_bias=lambda self, outputs: None), NO_BIAS, REGISTER),
    Mistake("none-added", NoneAdded, "In the case \"{case}\" the call raised {error}: with `bias=False` there is "
            "nothing to add.", REGISTER),
    Mistake("weight-transposed", Transposed, "`parameters` came out as {got} where {want} is wanted: the weight has "
            "shape (out, in), as in every other module of torch.", REGISTER),
    Mistake("weight-not-transposed", NotTransposed, "In the case \"{case}\" the value at {at} is {got_at} and should "
            "be {want_at}: the weight has a row for each output, so x is multiplied by its transpose.", REGISTER),
    *(Mistake("starts-from-another-range", override(Affine, bound=bound), RANGE, INIT) for bound in (
        lambda self, i, o: 1 / i,
        lambda self, i, o: 1 / math.sqrt(o),
        lambda self, i, o: math.sqrt(6 / (i + o)),
        lambda self, i, o: math.sqrt(6 / i),
        lambda self, i, o: math.sqrt(3 / i),
        lambda self, i, o: 1.0,
    )),
    Mistake("starts-normal", override(Affine, start=normal(None)), NORMAL, INIT),
    Mistake("starts-normal", override(Affine, start=normal(None, bias="zero")), NORMAL, INIT),
    Mistake("starts-normal", override(Affine, start=normal(None, bias="uniform")), NORMAL, INIT),
    Mistake("starts-normal", override(Affine, start=normal(1.0)), NORMAL, INIT),
    Mistake("starts-normal", override(Affine, start=normal(1.0, bias="zero")), NORMAL, INIT),
    Mistake("bias-starts-at-zero", override(Affine, start=zero_for_the_bias), START + "the bias is drawn from the same "
            "range as the weight.", INIT),
    Mistake("starts-positive", override(Affine, start=lambda self, limit, *shape: torch.rand(shape) * limit), START
            + "no entry is below zero, but the range goes from -1/sqrt(in) to 1/sqrt(in).", INIT),
    Mistake("starts-alike", override(Affine, start=from_a_generator_of_its_own), ALIKE, INIT),
    Mistake("starts-alike", override(Affine, start=evenly_spaced_for_the_bias), ALIKE, INIT),
    Mistake("dtype-not-kept", InFloat32, DTYPE, REGISTER),
    Mistake("computes-in-float32", ThroughFloat32, ROUNDED, REGISTER),
    Mistake("detached", Detached, "The {what} came out as {got}, and a tensor is wanted: either the weight was cut "
            "out of the graph, or it does not require grad.", INIT),
    Mistake("does-not-train", override(Affine, hold=lambda self, name, t: nn.Parameter(t, requires_grad=False)), "The "
            "{what} came out as {got}, and a tensor is wanted: either the parameters do not require grad, or `forward` "
            "cuts them out of the graph.", INIT),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    i, o = draw.size(2, 9), draw.size(2, 9)
    both = affine_weights(draw, i, o, "weight", "bias")
    return [
        case("drawn sizes", sizes=(i, o), bias=None, weights=both, x=draw.normal(3, 1, 2, i)),
        case("one input, one output", sizes=(1, 1), bias=False, weights=affine_weights(draw, 1, 1, "weight"),
             x=draw.normal(4, 1)),
        case("an empty batch", sizes=(i, o), bias=None, weights=both, x=torch.empty(0, i)),
        case("a transposed batch", sizes=(i, o), bias=None, weights=both, x=draw.normal(i, 5).t()),
    ]  # fmt: skip


# Right answers unlike the reference


class AffineByInit(nn.Module):
    bias: Tensor | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty((out_features, in_features)))
        self.register_parameter("bias", nn.Parameter(torch.empty(out_features)) if bias else None)
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(in_features)
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("...i,oi->...o", x, self.weight)
        return y if self.bias is None else self.bias + y


class AffineByRand(nn.Module):
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        nn.Module.__init__(self)
        root = in_features**0.5
        self.weight = torch.nn.Parameter((2 * torch.rand(out_features, in_features) - 1) / root)
        self.bias = torch.nn.Parameter((2 * torch.rand(out_features) - 1) / root) if bias else None
        if not bias:
            del self.bias
            self.register_parameter("bias", None)

    def forward(self, x: Tensor) -> Tensor:
        y = (x.unsqueeze(-2) * self.weight).sum(-1)
        if self.bias is not None:
            y = y + self.bias
        return y


class AffineWithExtras(nn.Module):
    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.zeros(out_features, in_features))
        if bias:
            self.bias = nn.Parameter(torch.zeros(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for p in self.parameters():
            p.copy_(torch.distributions.Uniform(-1.0, 1.0).sample(p.shape) * self.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.matmul(x, self.weight.t())
        return y + self.bias if self.bias is not None else y


RIGHT_ANSWERS: list[Callable[..., Any]] = [AffineByInit, AffineByRand, AffineWithExtras]
