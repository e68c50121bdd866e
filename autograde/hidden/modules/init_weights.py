"""The exercise `init_weights`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "He initialisation keeps the size of activations through ReLUs: the variance 2 / fan_in makes up for the "
    "half that is cut off. Norms begin as the identity. `isinstance` and not names; modules that are shared or "
    "nested are all found by `modules()`."
)
"""Why the reference is written as it is."""
REQUIRED = ("rebinds-parameter", "skips-nested")
"""The mistakes that a check must always be able to name."""

INIT = "Initialisation and depth"
FLAT = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d)
NORMS = (*FLAT, nn.BatchNorm3d, nn.InstanceNorm1d, nn.InstanceNorm3d)


class Start:
    """A right program; a mistake overrides one of its methods."""

    layers: tuple[type, ...] = (nn.Linear, nn.Conv2d)

    def __call__(self, model: nn.Module) -> None:
        for module in self.walk(model):
            if isinstance(module, self.layers):
                self.layer(module)
            elif isinstance(module, NORMS) and getattr(module, "weight", None) is not None:
                self.norm(module)

    def walk(self, model: nn.Module) -> Iterable[nn.Module]:
        return model.modules()

    def layer(self, module: Any) -> None:
        self.weight(module.weight)
        if module.bias is not None:
            self.bias(module.bias)

    def weight(self, weight: Tensor) -> None:
        nn.init.kaiming_normal_(weight, nonlinearity="relu")

    def bias(self, bias: Tensor) -> None:
        nn.init.zeros_(bias)

    def norm(self, module: Any) -> None:
        nn.init.ones_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


class Rebinds(Start):
    def layer(self, module: Any) -> None:
        module.weight = nn.Parameter(torch.empty_like(module.weight))
        super().layer(module)


class RebindsOnTheCpu(Start):
    def layer(self, module: Any) -> None:
        module.weight = nn.Parameter(torch.empty(module.weight.shape))
        super().layer(module)


class NoneIsFilled(Start):
    def layer(self, module: Any) -> None:
        self.weight(module.weight)
        nn.init.zeros_(module.bias)


class NoneOfANormIsFilled(Start):
    def norm(self, module: Any) -> None:
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)


class NoBatchNormsOfTables(Start):
    def norm(self, module: Any) -> None:
        if not isinstance(module, nn.BatchNorm1d):
            super().norm(module)


class SomeNormsOnly(Start):
    def norm(self, module: Any) -> None:
        if isinstance(module, FLAT):
            super().norm(module)


class OnlyBatchNorms(Start):
    def norm(self, module: Any) -> None:
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            super().norm(module)


class AllChannelsCounted(Start):
    def layer(self, module: Any) -> None:
        super().layer(module)
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, std=math.sqrt(2 / (module.in_channels * math.prod(module.kernel_size))))


class NormsAtZero(Start):
    def norm(self, module: Any) -> None:
        super().norm(module)
        nn.init.zeros_(module.weight)


def starting(**methods: Any) -> Callable[[nn.Module], None]:
    """Return the right program with these methods in place of its own."""
    program: Callable[[nn.Module], None] = override(Start, **methods)()
    return program


def weights(fill: Callable[[Tensor], Any]) -> Callable[[nn.Module], None]:
    """Return a program that fills weights like this."""
    return starting(weight=lambda self, weight: fill(weight))


def seeded(model: nn.Module) -> None:
    torch.manual_seed(0)
    Start()(model)


def by_dimensions(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            nn.init.kaiming_normal_(parameter, nonlinearity="relu")
        else:
            nn.init.constant_(parameter, 1.0 if name.endswith("weight") else 0.0)


class OfTheVeryType(Start):
    def walk(self, model: nn.Module) -> Iterable[nn.Module]:
        return [m for m in model.modules() if type(m) in (*self.layers, *NORMS)]


OLD = 'In the case "{case}" {untouched} still holds its old numbers: '
NESTED = OLD + "submodules have submodules, and the model may be a layer itself."
SPREAD = "The weights of {layer} have {ratio} times the standard deviation sqrt(2 / fan_in) that is wanted: "
NO_GAIN = SPREAD + "a relu drops half of the signal, and the 2 makes up for it."
MISTAKES = [
    Mistake("rebinds-parameter", Rebinds(), "The model got new parameter objects: {new}. An optimizer made before "
            "still holds the old ones, and would train what nobody uses; write into the existing ones.",
            INIT),
    Mistake("rebinds-parameter", RebindsOnTheCpu(), "The model got new parameter objects: {new}. They were made on the "
            "CPU, too, wherever the old ones are; write into the existing ones.", INIT),
    Mistake("skips-nested", starting(walk=lambda self, model: model.children()), NESTED, INIT),
    Mistake("skips-nested", starting(walk=lambda self, model: list(model.modules())[1:]), OLD + "the model may be a "
            "layer itself.", INIT),
    Mistake("subclasses-left", OfTheVeryType(), OLD + "a subclass has a type and a name of its own, and `isinstance` "
            "knows it all the same.", INIT),
    Mistake("fan-out", weights(lambda w: nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu")), SPREAD
            + "fan_out was counted, but the inputs of a unit decide.", INIT),
    Mistake("gain-of-relu-missing", weights(lambda w: nn.init.kaiming_normal_(w, nonlinearity="linear")), NO_GAIN,
            INIT),
    Mistake("groups-not-counted", AllChannelsCounted(), SPREAD + "in a convolution with groups a unit sees the "
            "channels of its own group only.", INIT),
    Mistake("kernel-not-counted", weights(lambda w: nn.init.normal_(w, std=math.sqrt(2 / w.shape[1]))), SPREAD
            + "a unit of a convolution sees every pixel of its kernel, in each channel.", INIT),
    Mistake("uniform-not-normal", weights(lambda w: nn.init.kaiming_uniform_(w, nonlinearity="relu")), "In the case "
            "\"{case}\" the number of `{what}` is {got} where {want} is wanted: the weights were drawn uniformly, not "
            "from a normal distribution.", INIT),
    Mistake("xavier-not-kaiming", weights(nn.init.xavier_normal_), SPREAD + "Xavier's counts inputs and outputs, and "
            "no relu.", INIT),
    Mistake("default-kept", weights(lambda w: nn.init.kaiming_uniform_(w, a=math.sqrt(5))), SPREAD + "this is what the "
            "layers come with.", INIT),
    Mistake("one-size-for-all", weights(lambda w: nn.init.normal_(w, std=0.02)), SPREAD + "a fixed size does not know "
            "how many inputs a unit has.", INIT),
    Mistake("weights-zero", weights(nn.init.zeros_), "In the case \"{case}\" all weights came out as 0: if all units "
            "start alike, all of them stay alike.", INIT),
    Mistake("convolutions-left", starting(layers=(nn.Linear,)), OLD + "convolutions are initialised as well.", INIT),
    Mistake("same-numbers-in-every-call", seeded, "In the case \"{case}\" the weights after a second call were "
            "{second}: each call should draw new ones, so leave the seed to the caller.", INIT),
    Mistake("biases-left", starting(bias=lambda self, bias: None), OLD + "biases start at zero.", INIT),
    Mistake("biases-not-zero", starting(bias=lambda self, bias: nn.init.constant_(bias, 0.01)), "In the case "
            "\"{case}\" {what} is {got} where {want} is wanted: biases start at zero.", INIT),
    Mistake("bias-may-be-none", NoneIsFilled(), "In the case \"{case}\" the call raised {error}: a layer made with "
            "`bias=False` has None in its place.", INIT),
    Mistake("bias-may-be-none", NoneOfANormIsFilled(), "In the case \"{case}\" the call raised {error}: a layer norm "
            "made with `bias=False` has None in its place.", INIT),
    Mistake("norms-left", NoBatchNormsOfTables(), OLD + "batch norm also exists for tables, as `nn.BatchNorm1d`.",
            INIT),
    Mistake("other-layers-too", by_dimensions, "In the case \"{case}\" {changed} was changed: an embedding also has "
            "a weight of two dimensions, so the type of the layer decides.", INIT),
    Mistake("norms-left", starting(norm=lambda self, module: None), OLD + "norm layers start at one and zero.", INIT),
    Mistake("norms-left", OnlyBatchNorms(), OLD + "layer norm and group norm are norm layers, too.", INIT),
    Mistake("norms-left", SomeNormsOnly(), OLD + "batch and instance norms are there for one, two and three "
            "dimensions.", INIT),
    Mistake("other-layers-too", starting(layers=(nn.Linear, nn.modules.conv._ConvNd)), "In the case \"{case}\" "
            "{changed} was changed: of the convolutions only `nn.Conv2d` is asked for.", INIT),
    Mistake("norms-start-at-zero", NormsAtZero(), "In the case \"{case}\" {what} is {got} where {want} is wanted: a "
            "norm that multiplies by zero lets nothing through.", INIT),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    like: dict[str, Any] = {"width": draw.pick([9, 11, 16]), "like": torch.zeros(1), "rtol": 0.12, "atol": 0.06}
    return [
        case("nested again", which="nested", **like),
        case("nothing to initialise", which="none", **like),
    ]


# Right answers unlike the reference


def init_by_apply(model: nn.Module) -> nn.Module:
    @torch.no_grad()
    def start(module: nn.Module) -> None:
        match module:
            case nn.Linear() | nn.Conv2d():
                fan_in = module.weight[0].numel()
                module.weight.normal_(0, (2 / fan_in) ** 0.5)
                if module.bias is not None:
                    module.bias.zero_()
            case (
                nn.BatchNorm1d()
                | nn.BatchNorm2d()
                | nn.BatchNorm3d()
                | nn.LayerNorm()
                | nn.GroupNorm()
                | nn.InstanceNorm1d()
                | nn.InstanceNorm2d()
                | nn.InstanceNorm3d()
            ):
                for p, value in ((module.weight, 1.0), (module.bias, 0.0)):
                    if p is not None:
                        p.fill_(value)

    return model.apply(start)


def init_by_data(model: nn.Module) -> None:
    for module in model.modules():
        own = dict(module.named_parameters(recurse=False))
        if "Norm" in type(module).__name__ and own:
            own["weight"].data = torch.ones_like(own["weight"].data)
            if "bias" in own:
                own["bias"].data.zero_()
        elif isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.kaiming_normal_(own["weight"])
            if "bias" in own:
                own["bias"].data.mul_(0)


RIGHT_ANSWERS: list[Callable[..., Any]] = [init_by_apply, init_by_data]
