"""The exercise `EMA`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The average is a copy, and is moved by `lerp_` in place: decay of the old, the rest of the new. It is "
    "float32 at least, because in half precision the small steps round to nothing. Counters are no floats and "
    "are taken over. Buffers are averaged too: batch norm's running numbers belong to the weights."
)
"""Why the reference is written as it is."""
REQUIRED = ("tracks-by-reference", "averages-integer-buffers", "keeps-graph")
"""The mistakes that a check must always be able to name."""


def wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


class Average:
    """A right moving average. Each mistake below is this one with one method written otherwise."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.average = {name: self.first(tensor) for name, tensor in self.entries(model).items()}

    def entries(self, model: nn.Module) -> dict[str, Tensor]:
        state: dict[str, Tensor] = model.state_dict()
        return state

    def first(self, tensor: Tensor) -> Tensor:
        return wide(tensor.detach()).clone()

    def update(self, model: nn.Module) -> None:
        for name, tensor in self.entries(model).items():
            if self.is_averaged(tensor):
                self.average[name].mul_(self.decay).add_(tensor, alpha=1 - self.decay)
            else:
                self.take_over(name, tensor)

    def is_averaged(self, tensor: Tensor) -> bool:
        return tensor.is_floating_point()

    def take_over(self, name: str, whole: Tensor) -> None:
        self.average[name].copy_(whole)

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        own = model.state_dict(keep_vars=True)
        for name, average in self.average.items():
            own[name].copy_(average)


class TracksByReference(Average):
    def first(self, tensor: Tensor) -> Tensor:
        return tensor


class BeginsByReference(TracksByReference):
    def update(self, model: nn.Module) -> None:
        for name, tensor in self.entries(model).items():
            if self.is_averaged(tensor):
                self.average[name] = self.decay * self.average[name] + (1 - self.decay) * tensor


class BeginsWithFloatAlone(BeginsByReference):
    def first(self, tensor: Tensor) -> Tensor:
        return tensor.detach().float() if tensor.is_floating_point() else tensor.clone()

    def update(self, model: nn.Module) -> None:
        super().update(model)
        for name, tensor in self.entries(model).items():
            if not self.is_averaged(tensor):
                self.take_over(name, tensor)


class AveragesFloat32Only(Average):
    def is_averaged(self, tensor: Tensor) -> bool:
        return tensor.dtype == torch.float32


class LeavesSingleNumbers(Average):
    def is_averaged(self, tensor: Tensor) -> bool:
        return tensor.is_floating_point() and tensor.ndim > 0


class StartsAtZero(Average):
    def first(self, tensor: Tensor) -> Tensor:
        return torch.zeros_like(wide(tensor))


class StaysInHalf(Average):
    def first(self, tensor: Tensor) -> Tensor:
        return tensor.detach().clone()


class StaysInFloat16(Average):
    def first(self, tensor: Tensor) -> Tensor:
        return (tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()).clone()


class MadeOnTheCpu(Average):
    def first(self, tensor: Tensor) -> Tensor:
        return super().first(tensor).cpu()


class TurnsDecayRound(Average):
    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model, 1 - decay)


class WarmsUp(Average):
    """Begins with a smaller decay, as some libraries do."""

    given, count = 0.0, 0

    def update(self, model: nn.Module) -> None:
        self.given, self.count = self.given or self.decay, self.count + 1
        self.decay = min(self.given, (1 + self.count) / (10 + self.count))
        super().update(model)


class AveragesIntegers(Average):
    def take_over(self, name: str, whole: Tensor) -> None:
        self.average[name] = (self.decay * self.average[name] + (1 - self.decay) * whole).to(whole.dtype)


class AveragesIntegersAsFloats(Average):
    def take_over(self, name: str, whole: Tensor) -> None:
        self.average[name] = self.decay * self.average[name] + (1 - self.decay) * whole


class ForgetsIntegers(Average):
    def take_over(self, name: str, whole: Tensor) -> None:
        pass


class SharesIntegers(Average):
    def take_over(self, name: str, whole: Tensor) -> None:
        self.average[name] = whole


class ForgetsBuffers(Average):
    def entries(self, model: nn.Module) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in model.named_parameters(remove_duplicate=False)}


class KeepsGraph(Average):
    def update(self, model: nn.Module) -> None:
        for name, tensor in model.state_dict(keep_vars=True).items():
            if tensor.is_floating_point():
                self.average[name] = self.decay * self.average[name] + (1 - self.decay) * tensor
            else:
                self.take_over(name, tensor)


class KeepsGraphOfParameters:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.average = {name: wide(p).clone() for name, p in model.named_parameters()}
        self.rest = {name: b.clone() for name, b in model.named_buffers()}

    def update(self, model: nn.Module) -> None:
        for name, p in model.named_parameters():
            self.average[name] = self.average[name] * self.decay + p * (1 - self.decay)
        for name, b in model.named_buffers():
            old = self.rest[name]
            self.rest[name] = old * self.decay + b * (1 - self.decay) if b.is_floating_point() else b.clone()

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        for name, p in model.named_parameters():
            p.copy_(self.average[name])
        for name, b in model.named_buffers():
            b.copy_(self.rest[name])


def widened(model: nn.Module) -> nn.Module:
    """The model, with what it holds in half precision in float32."""
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = wide(tensor.data)
    return model


class AveragesTiedTwice:
    """The average as a second model, whose tied tensors have their turn under each of their names."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.copy = decay, widened(copy.deepcopy(model))

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for mine, theirs in zip(self.copy.state_dict().values(), model.state_dict().values(), strict=True):
            if mine.is_floating_point():
                mine.lerp_(theirs, 1 - self.decay)
            else:
                mine.copy_(theirs)

    def copy_to(self, model: nn.Module) -> None:
        model.load_state_dict(self.copy.state_dict())


class LeavesBuffersOfACopy(AveragesTiedTwice):
    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for mine, theirs in zip(self.copy.parameters(), model.parameters(), strict=True):
            mine.lerp_(theirs, 1 - self.decay)


class HandsOutTheAverage(Average):
    def copy_to(self, model: nn.Module) -> None:
        own = model.state_dict(keep_vars=True)
        for name, average in self.average.items():
            own[name].data = average.detach()


class ExchangesMemory(Average):
    def copy_to(self, model: nn.Module) -> None:
        own = model.state_dict(keep_vars=True)
        for name, average in self.average.items():
            own[name].data = average.detach().to(own[name].dtype, copy=True)


class Rebinds(Average):
    def copy_to(self, model: nn.Module) -> None:
        for name, average in self.average.items():
            place, _, last = name.rpartition(".")
            owner, fresh = model.get_submodule(place), average.detach().clone()
            setattr(owner, last, nn.Parameter(fresh) if last in owner._parameters else fresh)


class Assigns(Average):
    def copy_to(self, model: nn.Module) -> None:
        model.load_state_dict(self.average, assign=True)


AVERAGES = "Averages of weights"
ENTRY = "The entry {entry} came out as {value} where {want_value} is wanted: "
WHOLE = ENTRY + "a counter has no average, and is copied as it is."
GRAPH = (
    'In the case "{case}" the average keeps a graph: every update hangs on to the one before, and memory grows with '
    "every step."
)
REPLACED = "The parameter {replaced} is another object after copy_to: write into the one that is there."
MISTAKES = [
    Mistake("tracks-by-reference", TracksByReference, ENTRY + "the average holds the model's own tensors, so it moves "
            "with every step of the model.", AVERAGES),
    Mistake("tracks-by-reference", BeginsByReference, ENTRY + "the average began with the model's own tensors, not "
            "with copies, so up to the first update it was the model itself.", AVERAGES),
    Mistake("tracks-by-reference", BeginsWithFloatAlone, ENTRY + "of a float32 tensor, `.float()` returns that tensor "
            "itself, so up to the first update the average was the model itself.", AVERAGES),
    Mistake("averages-integer-buffers", AveragesIntegers, WHOLE, AVERAGES),
    Mistake("decay-turned-round", TurnsDecayRound, ENTRY + "the decay is the weight of the old average, and the rest "
            "is that of the new value.", AVERAGES),
    Mistake("warms-the-decay-up", WarmsUp, ENTRY + "the first updates had a smaller decay, as in some libraries. The "
            "decay is the given one from the first update on.", AVERAGES),
    Mistake("starts-at-zero", StartsAtZero, ENTRY + "the average starts at zero, and should start at the model's own "
            "values.", AVERAGES),
    Mistake("averages-integer-buffers", AveragesIntegersAsFloats, WHOLE, AVERAGES),
    Mistake("keeps-graph", KeepsGraph, GRAPH, AVERAGES),
    Mistake("keeps-graph", KeepsGraphOfParameters, GRAPH, AVERAGES),
    Mistake("averages-tied-weights-twice", AveragesTiedTwice, ENTRY + "the entry is tied to another, and still is in "
            "a copy of the model or of its state, so it was averaged once for each of its names.", AVERAGES),
    Mistake("averages-float32-only", AveragesFloat32Only, ENTRY + "it was copied like a counter. Floats of any width "
            "are averaged: ask `is_floating_point()`.", AVERAGES),
    Mistake("stays-in-half", StaysInHalf, ENTRY + "the average was kept in half precision, where steps as small as "
            "these are rounded away. Keep it in float32.", AVERAGES),
    Mistake("stays-in-half", StaysInFloat16, ENTRY + "bfloat16 was averaged in float32, but float16 was not, and it "
            "has too few digits for small steps as well.", AVERAGES),
    Mistake("leaves-single-numbers", LeavesSingleNumbers, ENTRY + "it was copied like a counter. A float is averaged "
            "whatever its shape: a number without dimensions may be learned as well.", AVERAGES),
    Mistake("forgets-integer-buffers", ForgetsIntegers, WHOLE, AVERAGES),
    Mistake("forgets-buffers", ForgetsBuffers, ENTRY + "the statistics of a batch norm are buffers, and belong to the "
            "average too.", AVERAGES),
    Mistake("forgets-buffers", LeavesBuffersOfACopy, ENTRY + "it is a buffer, and `parameters()` leaves buffers out.",
            AVERAGES),
    Mistake("shares-memory-with-the-copy", HandsOutTheAverage, "After copy_to the model was changed, and a second copy "
            "of {entry} came out as {value} where {want_value} is wanted: the average itself was handed out.",
            AVERAGES),
    Mistake("shares-memory-with-the-model", SharesIntegers, ENTRY + "the average holds the model's own tensor, which "
            "went on changing after the last update.", AVERAGES),
    Mistake("exchanges-memory", ExchangesMemory, "After copy_to the tensor {exchanged} of the model lies elsewhere "
            "in memory: `.data = ` exchanges it. Write into the one that is there, as `copy_` does.", AVERAGES),
    Mistake("rebinds-parameter", Rebinds, REPLACED, AVERAGES),
    Mistake("rebinds-parameter", Assigns, REPLACED, AVERAGES),
    Mistake("made-on-cpu", MadeOnTheCpu, "On the second device the call raised {error}: the average was made on, or "
            "moved to, the CPU, but the model lives elsewhere.", AVERAGES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    common: dict[str, Any] = {"width": draw.size(3, 6), "x": torch.zeros(1)}
    fills = [draw.size(1, 9) / 10 for _ in range(8)]
    return [
        case("eight updates", which="nested", decay=0.8, fills=fills, **common),
        case("a decay near 1", which="normed", decay=0.999, fills=fills[:4], **common),
        case("parameters and buffers of its own", which="loose", decay=0.5, fills=fills[:3], **common),
    ]


# Right answers unlike the reference


class right_EMAOfACopy:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.copy = widened(copy.deepcopy(model)).requires_grad_(False)

    def update(self, model: nn.Module) -> None:
        with torch.no_grad():
            for mine, theirs in zip(
                [*self.copy.parameters(), *self.copy.buffers()], [*model.parameters(), *model.buffers()], strict=True
            ):
                if torch.is_floating_point(mine):
                    mine.copy_(self.decay * mine + (1 - self.decay) * theirs)
                else:
                    mine.copy_(theirs)

    def copy_to(self, model: nn.Module) -> None:
        model.load_state_dict(self.copy.state_dict())


class EMAByLists:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.d = decay
        self.names = list(model.state_dict())
        self.values = [v.float() if v.itemsize == 2 else v.clone() for v in model.state_dict().values()]

    def update(self, model: nn.Module) -> None:
        state = model.state_dict()
        new = []
        for name, old in zip(self.names, self.values, strict=True):
            now = state[name]
            new.append(old + (1 - self.d) * (now - old) if now.is_floating_point() else now.clone())
        self.values = new

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        places = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
        for name, value in zip(self.names, self.values, strict=True):
            places[name].copy_(value)


class EMAByTorch:
    def __init__(self, model: nn.Module, decay: float) -> None:
        from torch.optim.swa_utils import AveragedModel

        def average(old: Tensor, new: Tensor, count: Any) -> Tensor:
            return new.clone() if not old.is_floating_point() else old * decay + new * (1 - decay)

        self.inner = AveragedModel(model, avg_fn=average, use_buffers=True)
        self.inner.n_averaged += 1
        widened(self.inner.module)

    def update(self, model: nn.Module) -> None:
        self.inner.update_parameters(model)

    def copy_to(self, model: nn.Module) -> None:
        model.load_state_dict(self.inner.module.state_dict())


RIGHT_ANSWERS: list[Callable[..., Any]] = [right_EMAOfACopy, EMAByLists, EMAByTorch]
