"""The exercise `stray_tensors`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from autograde.source.mistakes import Mistake
from torchcourse.exercises.gpu.stray_tensors import entries
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Parameters and buffers move with `.to`; a tensor that is a plain attribute does not, and that is what is "
    "looked for. `torch.device('cuda')` and `cuda:0` are not equal, so the device is asked of a tensor that "
    "lies there."
)
"""Why the reference is written as it is."""
REQUIRED = ("misses-buffers", "misses-plain-attributes")
"""The mistakes that a check must always be able to name."""


class Strays:
    """A right answer, as an object that is called. Each mistake below is this one with one method written otherwise."""

    def __call__(self, model: nn.Module, device: torch.device) -> list[str]:
        home = self.home(device)
        return self.in_order([
            self.named(prefix, name)
            for prefix, module in model.named_modules()
            for name, value in self.attributes(prefix, module).items()
            if isinstance(value, Tensor) and self.stray(value, home)
        ])  # fmt: skip

    def home(self, device: torch.device) -> torch.device:
        return torch.empty(0, device=device).device

    def attributes(self, prefix: str, module: nn.Module) -> dict[str, Any]:
        return {**module._parameters, **module._buffers, **vars(module)}

    def stray(self, value: Tensor, home: torch.device) -> bool:
        return value.device != home

    def named(self, prefix: str, name: str) -> str:
        return f"{prefix}.{name}" if prefix else name

    def in_order(self, names: list[str]) -> list[str]:
        return sorted(names)


class MissesParameters(Strays):
    def attributes(self, prefix: str, module: nn.Module) -> dict[str, Any]:
        return {**module._buffers, **vars(module)}


class MissesBuffers(Strays):
    def attributes(self, prefix: str, module: nn.Module) -> dict[str, Any]:
        return {**module._parameters, **vars(module)}


class MissesPlainAttributes(Strays):
    def attributes(self, prefix: str, module: nn.Module) -> dict[str, Any]:
        return {**module._parameters, **module._buffers}


class PassesByWhatBeginsWithAnUnderscore(Strays):
    def attributes(self, prefix: str, module: nn.Module) -> dict[str, Any]:
        return {n: value for n, value in super().attributes(prefix, module).items() if not n.startswith("_")}


class LooksAtTheOutermostOnly(Strays):
    def attributes(self, prefix: str, module: nn.Module) -> dict[str, Any]:
        return {**module._parameters, **module._buffers, **({} if prefix else vars(module))}


class MissesUnsavedBuffers(Strays):
    def attributes(self, prefix: str, module: nn.Module) -> dict[str, Any]:
        return {**module._parameters, **self.saved(module), **vars(module)}

    def saved(self, module: nn.Module) -> dict[str, Any]:
        return {n: b for n, b in module._buffers.items() if n not in module._non_persistent_buffers_set}


class LooksAtTheStateDict(MissesUnsavedBuffers):
    def attributes(self, prefix: str, module: nn.Module) -> dict[str, Any]:
        return {**module._parameters, **self.saved(module)}


class TakesTheIndexLiterally(Strays):
    def home(self, device: torch.device) -> torch.device:
        return device


class IgnoresTheIndex(Strays):
    def stray(self, value: Tensor, home: torch.device) -> bool:
        return value.device.type != home.type


class ListsThoseAtHome(Strays):
    def stray(self, value: Tensor, home: torch.device) -> bool:
        return value.device == home


class LeavesOutThePath(Strays):
    def named(self, prefix: str, name: str) -> str:
        return name


class StartsWithADot(Strays):
    def named(self, prefix: str, name: str) -> str:
        return f"{prefix}.{name}"


class NeverSorts(Strays):
    def in_order(self, names: list[str]) -> list[str]:
        return names


class MovesTheModel(Strays):
    def __call__(self, model: nn.Module, device: torch.device) -> list[str]:
        found = super().__call__(model, device)
        for module in model.modules():
            for name, value in [*module._buffers.items(), *vars(module).items()]:
                if isinstance(value, Tensor):
                    setattr(module, name, torch.zeros(value.shape, device=device))
        return found


STRAYS = "Finding what stayed behind"
MISSED = 'In the case "{case}" the list lacks {missed}: '
LISTED = 'In the case "{case}" the list is {found}, and {wanted_names} is wanted: '
MISTAKES = [
    Mistake("misses-buffers", MissesBuffers(), MISSED + "buffers are not parameters; `named_buffers()` lists them.",
            STRAYS),
    Mistake("misses-plain-attributes", MissesPlainAttributes(), MISSED + "a tensor that is a plain attribute is "
            "neither a parameter nor a buffer; look in `vars(module)`.", STRAYS),
    Mistake("index-taken-literally", TakesTheIndexLiterally(), "For a device without an index the list has {extra}, "
            "though it is where it should be: torch.device('cuda') is not equal to torch.device('cuda:0').", STRAYS),
    Mistake("index-ignored", IgnoresTheIndex(), MISSED + "what lies on another device of the same kind has strayed as "
            "well. Two GPUs differ only in their index.", STRAYS),
    Mistake("unsorted", NeverSorts(), "The list is {found}, and {wanted_names} is wanted: sort it.", STRAYS),
    Mistake("misses-plain-attributes", LooksAtTheOutermostOnly(), MISSED + "submodules have attributes too, not only "
            "the model itself.", STRAYS),
    Mistake("misses-plain-attributes", PassesByWhatBeginsWithAnUnderscore(), MISSED + "an attribute whose name begins "
            "with an underscore counts as well.", STRAYS),
    Mistake("only-the-state-dict", LooksAtTheStateDict(), MISSED + "a `state_dict` holds what is saved, and that is "
            "not all that a model holds.", STRAYS),
    Mistake("misses-parameters", MissesParameters(), MISSED + "parameters may have been left behind as well.", STRAYS),
    Mistake("misses-unsaved-buffers", MissesUnsavedBuffers(), MISSED + "a buffer with persistent=False is in no "
            "`state_dict`, and moves all the same.", STRAYS),
    Mistake("names-without-path", LeavesOutThePath(), LISTED + "the path of the submodule belongs to the name.",
            STRAYS),
    Mistake("names-start-with-a-dot", StartsWithADot(), LISTED + "what the model itself holds has no path before its "
            "name.", STRAYS),
    Mistake("lists-those-at-home", ListsThoseAtHome(), LISTED + "the tensors that are not on `device` are wanted.",
            STRAYS),
    Mistake("moves-the-model", MovesTheModel(), 'In the case "{case}" the model was {afterwards} by the call: only '
            "look, and move nothing.", STRAYS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def drawn(name: str, *lines: str, away: str = "meta", indexed: bool = True) -> Case:
        return case(name, entries=entries(*lines), away=away, indexed=indexed, like=torch.zeros(1))

    deep = ".".join(draw.pick(["a", "b", "c"]) for _ in range(4))
    return [
        drawn("an empty model"),
        drawn("four levels down", f"{deep}.w parameter away", f"{deep}.m buffer away", f"{deep}.p plain away",
              f"{deep}.n number home", f"{deep}.q plain home"),
        drawn("names that sort in their own way", "layers.10.w parameter away", "layers.9.w parameter away",
              "Layers.w buffer away", "layers.w plain away"),
        drawn("all of it on the CPU", "a plain away", "b.c unsaved buffer away", away="cpu", indexed=False),
        drawn("a parameter on another GPU", f"{deep}.w parameter away", "w parameter home", away="cuda:3"),
        drawn("nothing but None", "bias nothing home", "a.bias nothing home"),
    ]  # fmt: skip


# Right answers unlike the reference


def strays_by_lists(model: nn.Module, device: torch.device) -> list[str]:
    def away(t: Tensor) -> bool:
        other_index = device.index is not None and t.device.index != device.index
        return t.device.type != device.type or other_index

    found = {name for name, p in model.named_parameters() if away(p)}
    found |= {name for name, b in model.named_buffers() if away(b)}
    for path, module in model.named_modules():
        for name, value in module.__dict__.items():
            if torch.is_tensor(value) and away(value):
                found.add(".".join(filter(None, [path, name])))
    return sorted(found)


def strays_by_descent(model: nn.Module, device: torch.device) -> list[str]:
    here = torch.zeros(1).to(device).device

    def walk(module: nn.Module, prefix: str) -> Iterator[str]:
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False), *vars(module).items()]
        yield from (prefix + name for name, value in own if isinstance(value, Tensor) and here != value.device)
        for name, child in module.named_children():
            yield from walk(child, f"{prefix}{name}.")

    return sorted(walk(model, ""))


RIGHT_ANSWERS: list[Callable[..., Any]] = [strays_by_lists, strays_by_descent]
