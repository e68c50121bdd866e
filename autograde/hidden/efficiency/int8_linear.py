"""The exercise `Int8Linear`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograde.hidden.common import MIXED, override
from autograde.source.mistakes import Mistake
from torchcourse.exercises.efficiency.int8_linear import layer_case
from torchcourse.model.exercise import Case, Draw

WHY = (
    "Buffers are saved and moved but not trained, which is what quantized weights want. The scale of an output does "
    "not depend on the input, so it can be applied after the product, to a result that is much smaller than the "
    "weight. The bias is small and stays as it is."
)
"""Why the reference is written as it is."""
REQUIRED = ("keeps-float-weight", "plain-tensor", "scale-per-input", "loses-bias")
"""The mistakes that a check must always be able to name."""

READ = "A layer in eight bits"


class Right(nn.Module):
    """A right answer; a mistake overrides one of its methods."""

    q: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        with torch.no_grad():
            self.keep(*self.quantized(linear.weight))
        self.keep_bias(linear)

    @classmethod
    def from_linear(cls, linear: nn.Linear) -> Any:
        return cls(linear)

    def quantized(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        largest = weight.abs().amax(1, keepdim=True)
        scale = torch.where(largest == 0, torch.ones_like(largest), largest / 127)
        return (weight / scale).round().to(torch.int8), scale

    def keep(self, q: Tensor, scale: Tensor) -> None:
        self.register_buffer("q", q)
        self.register_buffer("scale", scale)

    def keep_bias(self, linear: nn.Linear) -> None:
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.q.float() * self.scale, self.bias)


class TinyIsZero(Right):
    def quantized(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        q, scale = super().quantized(weight)
        tiny = weight.abs().amax(1, keepdim=True) < 1e-6
        return torch.where(tiny, 0, q).to(torch.int8), torch.where(tiny, 1.0, scale)


class KeepsFloat(Right):
    def keep(self, q: Tensor, scale: Tensor) -> None:
        super().keep(q, scale)
        self.weight = nn.Parameter(q.float() * scale)


class KeepsFloatAside(Right):
    """Computes with the float weight, in a list, where it is neither a buffer nor a Parameter."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        self.original = [linear.weight.detach().clone()]

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.original[0], self.bias)


class FloatLevels(Right):
    def keep(self, q: Tensor, scale: Tensor) -> None:
        super().keep(q.float(), scale)


class Int32Levels(Right):
    def keep(self, q: Tensor, scale: Tensor) -> None:
        super().keep(q.int(), scale)


class PlainTensor(Right):
    def keep(self, q: Tensor, scale: Tensor) -> None:
        self.q, self.scale = q, scale


class PlainScale(Right):
    def keep(self, q: Tensor, scale: Tensor) -> None:
        self.register_buffer("q", q)
        self.scale = scale


class NotPersistent(Right):
    def keep(self, q: Tensor, scale: Tensor) -> None:
        self.register_buffer("q", q, persistent=False)
        self.register_buffer("scale", scale, persistent=False)


class Trained(Right):
    def keep(self, q: Tensor, scale: Tensor) -> None:
        self.q = nn.Parameter(q, requires_grad=False)
        self.scale = nn.Parameter(scale, requires_grad=False)


class FlatScale(Right):
    """Keeps one scale for each output, in one dimension."""

    def keep(self, q: Tensor, scale: Tensor) -> None:
        super().keep(q, scale.flatten())

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.q.float() * self.scale[:, None], self.bias)


class TrainedWithFlatScale(FlatScale, Trained):
    pass


class TrainedLevels(Right):
    def keep(self, q: Tensor, scale: Tensor) -> None:
        self.q = nn.Parameter(q, requires_grad=False)
        self.register_buffer("scale", scale)


class TrainedScale(Right):
    def keep(self, q: Tensor, scale: Tensor) -> None:
        self.register_buffer("q", q)
        self.scale = nn.Parameter(scale)


class TrainedFlatScale(FlatScale, TrainedScale):
    pass


class PerInput(Right):
    def quantized(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        q, scale = super().quantized(weight.T)
        return q.T.contiguous(), scale.T.contiguous()


class PerTensor(Right):
    def quantized(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        scale = weight.abs().max() / 127
        return (weight / scale).round().to(torch.int8), scale


class LosesBias(Right):
    def keep_bias(self, linear: nn.Linear) -> None:
        self.bias = None


class BiasScaled(Right):
    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.q.to(x.dtype), self.bias)
        return y * self.scale.T.squeeze(0)


class ForgetsScale(Right):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.q.to(x.dtype), self.bias)


class SharesBias(Right):
    def keep_bias(self, linear: nn.Linear) -> None:
        self.bias = linear.bias


class QuantizesBias(Right):
    def keep_bias(self, linear: nn.Linear) -> None:
        bias = linear.bias
        step = None if bias is None else bias.detach().abs().max() / 3
        self.bias = None if bias is None else nn.Parameter((bias.detach() / step).round() * step)


class BiasAsBuffer(Right):
    def keep_bias(self, linear: nn.Linear) -> None:
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().clone())


class Truncates(Right):
    def quantized(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        _, scale = super().quantized(weight)
        return (weight / (8 * scale)).to(torch.int8) * 8, scale


class ChangesOriginal(Right):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        with torch.no_grad():
            linear.weight.copy_(self.q.float() * self.scale)


class FreezesOriginal(Right):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.requires_grad_(False))


class WithoutGraph(Right):
    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class ProductWithoutGraph(Right):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y: Tensor = (x @ self.q.to(x.dtype).T) * self.scale[:, 0]
        return y if self.bias is None else y + self.bias


class Float32Only(Right):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = F.linear(x, self.q.float()) * self.scale[:, 0]
        return y if self.bias is None else y + self.bias


class OnesOnCpu(Right):
    def quantized(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        largest = weight.abs().amax(1, keepdim=True)
        scale = torch.where(largest == 0, torch.ones(len(weight), 1), largest / 127)
        return (weight / scale).round().to(torch.int8), scale


class ScaleAsARow(Right):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = F.linear(x, self.q.to(x.dtype)) * self.scale.T
        return y if self.bias is None else y + self.bias


class RowsOnly(Right):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.mm(x, (self.q.float() * self.scale).T)
        return y if self.bias is None else y + self.bias


class MadeOnCpu(Right):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.zeros(1)


class IgnoresBiasNone(Right):
    def keep_bias(self, linear: nn.Linear) -> None:
        self.bias = nn.Parameter(linear.bias.detach().clone())


FILE = "The file of its `state_dict` takes {file}: "
OFF = 'In the case "{case}" the outputs are {off}: '
MISTAKES = [
    Mistake("keeps-float-weight", KeepsFloat, FILE + "the float weight is still there, beside the levels.", READ),
    Mistake("keeps-float-weight", FloatLevels, FILE + "the levels are kept as floats; in int8 they take a byte each.",
            READ),
    Mistake("computes-with-floats", KeepsFloatAside, "Another layer, into which its state_dict was loaded, gave "
            "{loading}. And its own outputs are {outputs}, which eight bits cannot give: `forward` used a float weight "
            "that is no buffer.", READ),
    Mistake("keeps-int32-levels", Int32Levels, FILE + "the levels are kept in wider integers; they fit into int8, a "
            "byte each.", READ),
    Mistake("plain-tensor", PlainTensor, "In the case \"{case}\" no int8 buffer has the weight's size: a tensor "
            "that is a plain attribute is neither saved nor moved.", READ),
    Mistake("plain-tensor", PlainScale, "As scales, the buffers hold {scales}. A tensor that is a plain attribute is "
            "neither saved nor moved.", READ),
    Mistake("not-in-state-dict", NotPersistent, "Another layer, into which its state_dict was loaded, gave {loading}. "
            "With `persistent=False` a buffer moves, but is not saved.", READ),
    *(Mistake("levels-as-parameters", program, "The parameters have the shapes {parameters}: levels and scales are not "
              "trained, so they belong among the buffers.", READ)
      for program in (Trained, TrainedWithFlatScale, TrainedLevels)),
    Mistake("levels-as-parameters", TrainedScale, "The parameters have the shapes {parameters}: the scales are not "
            "trained, so they belong among the buffers.", READ),
    Mistake("levels-as-parameters", TrainedFlatScale, "The parameters have the shapes {parameters}: the scales are not "
            "trained, so they belong among the buffers.", READ),
    Mistake("scale-per-input", PerInput, "As scales, the buffers hold {scales}, one for each input. Such a scale "
            "cannot be taken out of the sum over the inputs; there has to be one for each output.", READ),
    Mistake("scale-per-tensor", PerTensor, "As scales, the buffers hold {scales}, where each output should have its "
            "own. Rows of small weights are left with few levels.", READ),
    Mistake("loses-bias", LosesBias, OFF + "the bias is missing.", READ),
    Mistake("bias-scaled", BiasScaled, OFF + "the scales were applied to the bias as well; it is added last.", READ),
    Mistake("forgets-scale", ForgetsScale, OFF + "the product with the levels was never multiplied by the scales.",
            READ),
    Mistake("shares-the-bias", SharesBias, 'In the case "{case}" the new layer uses the memory of {got} of the '
            "original: training or moving one of them changes the other; clone it.", READ),
    Mistake("tiny-is-zero", TinyIsZero, OFF + "weights that are all small were taken for zeros; only a row of zeros "
            "has no scale of its own.", READ),
    Mistake("bias-quantized", QuantizesBias, OFF + "the bias was rounded too; it should stay as it is.", READ),
    Mistake("bias-as-buffer", BiasAsBuffer, "The shapes of the parameters: {parameters}. The bias has to stay a "
            "Parameter.",
            READ),
    Mistake("too-coarse", Truncates, OFF + "the levels are far coarser than 255 of them would be.", READ),
    Mistake("changes-the-original", ChangesOriginal, 'In the case "{case}" the weight of the layer '
            "that was converted is {got} afterwards, and should be {want}.", READ),
    Mistake("freezes-the-original", FreezesOriginal, 'In the case "{case}" the {what} are {got} and should be {want}: '
            "the layer that was converted got another mode, or its parameters another `requires_grad`, dtype or "
            "device. `detach()` leaves it alone.", READ),
    Mistake("without-a-graph", WithoutGraph, 'In the case "{case}" the {what} is {got}; it should lead {want}: the '
            "bias is a Parameter and can be trained, and so can layers before this one. Under `no_grad`, or detached, "
            "nothing reaches them.", READ),
    Mistake("without-a-graph", ProductWithoutGraph, 'In the case "{case}" the {what} is {got} where {want} is wanted: '
            "the product was taken under `no_grad`, or of a detached x, and layers before this one can be trained.",
            READ),
    Mistake("float32-only", Float32Only, 'In the case "{case}" the call raised {error}: the levels became float32 for '
            "the product, and x has another dtype; `.to(x.dtype)` makes them fit.", READ),
    Mistake("two-dimensions-only", RowsOnly, "In the case \"{case}\" the call raised {error}: a linear layer takes any "
            "leading dimensions.", READ),
    Mistake("scale-as-a-row", ScaleAsARow, 'In the case "{case}" {what} are {got} where {want} is wanted: scales of '
            "shape (1, outputs) add a dimension to the result for a single row; keep the scales flat, of shape "
            "(outputs,).", READ),
    Mistake("needs-a-bias", IgnoresBiasNone, 'In the case "{case}" the call raised {refusal}: a layer may have no '
            "bias; `linear.bias` is None then.", READ),
    Mistake("made-on-cpu", MadeOnCpu, MIXED, READ),
    Mistake("made-on-cpu", OnesOnCpu, MIXED, READ),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        layer_case(draw, "drawn sizes", draw.size(90, 200), draw.size(90, 200), draw.size(1, 8)),
        layer_case(draw, "drawn sizes, no bias", draw.size(90, 200), draw.size(90, 200), draw.size(1, 8), bias=False),
        layer_case(draw, "three leading dimensions", 110, 130, 2, 1, 3),
        layer_case(draw, "an empty batch", 100, 140, 0),
    ]


# Right answers unlike the reference


class AsDataclassLike(nn.Module):
    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight, self.scale = nn.Buffer(weight), nn.Buffer(scale)
        self.register_parameter("bias", None if bias is None else nn.Parameter(bias))

    @staticmethod
    def from_linear(linear: nn.Linear) -> Any:
        weight = linear.weight.data
        scale = (weight.abs().max(dim=1).values / 127).clamp(min=1e-12)
        levels = torch.round(weight / scale[:, None]).char()
        bias = linear.bias
        return AsDataclassLike(levels, scale, None if bias is None else bias.data.clone())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = (x @ self.weight.to(x.dtype).mT) * self.scale
        return y if self.bias is None else y + self.bias


class Dynamic(Right):
    """Quantizes the inputs as well, row by row."""

    def forward(self, x: Tensor) -> Tensor:
        largest = x.abs().amax(-1, keepdim=True)
        step = torch.where(largest == 0, torch.ones_like(largest), largest / 127)
        levels = (x / step).round()
        y = (levels.double() @ self.q.double().T).to(x.dtype) * step * self.scale.squeeze(1)
        return y if self.bias is None else y + self.bias


RIGHT_ANSWERS: list[Callable[..., Any]] = [AsDataclassLike, Dynamic, override(Right)]
