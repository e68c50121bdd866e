"""The exercise `stray_tensors`: its probe, visible cases and hints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind


class Elsewhere(Tensor):
    """A tensor that says it is on a GPU, which need not exist. It has no elements to compute with."""

    @staticmethod
    def __new__(cls, device: torch.device) -> Elsewhere:
        made: Elsewhere = Tensor._make_wrapper_subclass(cls, (2,), device=device)
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return cls(args[0].device)  # nn.Parameter calls detach


class ManyGPUs(TorchFunctionMode):
    """Let tensors be made on GPUs of any index in this block."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        places = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, str | torch.device)]
        named = [place for place in places if str(place).startswith("cuda")]
        if not named or func is torch.device:
            return func(*args, **(kwargs or {}))
        return Elsewhere(torch.device("cuda", torch.device(named[0]).index or 0))


def populated(entries: list[list[str]], home: torch.device, away: torch.device) -> nn.Module:
    """Return a model with these tensors: each entry is a dotted name, the kind of tensor, and its place."""
    root = nn.Module()
    for name, how, place in entries:
        *path, last = name.split(".")
        owner = root
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        value = torch.zeros(2, device=away if place == "away" else home)
        if how == "parameter":
            owner.register_parameter(last, nn.Parameter(value))
        elif how == "nothing":
            owner.register_parameter(last, None)
        elif how == "no buffer":
            owner.register_buffer(last, None)
        elif how in ("buffer", "unsaved buffer"):
            owner.register_buffer(last, value, persistent=how == "buffer")
        else:
            setattr(owner, last, value if how == "plain" else 3)
    return root


def tensors_of(model: nn.Module) -> list[tuple[str, str, str]]:
    return sorted(
        (path, name, str(value.device))
        for path, module in model.named_modules()
        for name, value in {**module._parameters, **module._buffers, **vars(module)}.items()
        if isinstance(value, Tensor)
    )


def probe(answer: Watched, entries: list[list[str]], away: str, indexed: bool, like: Tensor) -> Observations:
    """Look for strays in a model of which some tensors are on another device."""
    gpus = away.startswith("cuda")
    home = torch.device("cuda", 0) if gpus else like.device
    with ManyGPUs() if gpus else contextlib.nullcontext():
        model = populated(entries, home, torch.device(away))
        before = tensors_of(model)
        found = answer(model, home if indexed else torch.device(home.type))
    listed = isinstance(found, list) and all(isinstance(name, str) for name in found)
    return {
        "strays": list(found) if listed else kind(found),
        "model afterwards": "as before" if tensors_of(model) == before else "changed",
    }


def entries(*lines: str) -> list[list[str]]:
    """Return entries from lines such as "body.0.weight parameter away"."""
    return [[line.split()[0], " ".join(line.split()[1:-1]), line.split()[-1]] for line in lines]


def cases(draw: Draw) -> list[Case]:
    def drawn(name: str, *lines: str, away: str = "meta", indexed: bool = True) -> Case:
        return case(name, entries=entries(*lines), away=away, indexed=indexed, like=torch.zeros(1))

    word, layer = draw.pick(["scale", "table", "offset"]), draw.size(2, 9)
    home = ("body.weight parameter home", "body.bias parameter home", "norm.mean buffer home", f"{word} plain home")
    return [
        drawn("all at home", *home),
        drawn("a parameter", *home, f"layers.{layer}.weight parameter away", f"layers.{layer}.bias nothing home"),
        drawn("a buffer", *home, "norm.var buffer away", "norm.bias no buffer home"),
        drawn("a buffer that is not saved", *home, f"{word}s unsaved buffer away"),
        drawn("a plain attribute of the model itself", *home, "_zoom plain away", "count number home"),
        drawn("a plain attribute deep inside", *home, f"layers.{layer}.attention.mask plain away"),
        drawn("several of each kind", "z.weight parameter away", "a.mean buffer away", "m.mask plain away",
              "a.weight parameter away", "z.kept parameter home", "b plain away", "y parameter away"),
        drawn("a model that was never moved", "body.weight parameter away", "body.mask plain away", "mean buffer away",
              away="cpu"),
        drawn("another GPU", *home, "norm.var buffer away", "body.mask plain away", away="cuda:1"),
        drawn("a device without an index", *home, "norm.var buffer away", "body.mask plain away", indexed=False),
    ]  # fmt: skip


def quotes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    found, should = seen.get("strays"), wanted["strays"]
    if not isinstance(found, list):
        return {}
    missed = [name for name in should if name not in found]
    extra = [name for name in found if name not in should]
    fields: dict[str, object] = {"found": found, "wanted_names": should, "afterwards": seen["model afterwards"]}
    return {**fields, **({"missed": ", ".join(missed)} if missed else {}), **({"extra": extra[0]} if extra else {})}


EXERCISE = Exercise(
    "stray_tensors",
    probe,
    cases,
    hints=(
        "`named_parameters()` and `named_buffers()` walk over the whole model. A tensor that is a plain attribute is "
        "in neither. In which dict does Python keep the attributes of an object?",
        "`named_modules()` gives every submodule with its dotted path, the model itself with an empty one. How do path "
        "and attribute become one name, in both cases?",
        "A device may be given without its index, and a tensor always tells one: torch.device('cuda') is not equal to "
        "torch.device('cuda:0'). What does a tensor that you make on `device` say where it is?",
    ),
    quotes=quotes,
)
