"""The exercise `to_safetensors`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from autograde.hidden.common import one
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`save_model` knows about tensors that share memory and keeps one of them, and makes what is not contiguous"
    " so; `save_file` refuses both. The file holds numbers and names only, so nothing in it can run."
)
"""Why the reference is written as it is."""
REQUIRED = ("fails-on-tied", "fails-on-noncontiguous")
"""The mistakes that a check must always be able to name."""


SAFE = "Safetensors"


def safely_by_file(model: nn.Module, path: Path, contiguous: bool = True, cloned: bool = False) -> None:
    from safetensors.torch import save_file

    state = model.state_dict()
    state = {name: tensor.contiguous() for name, tensor in state.items()} if contiguous else dict(state)
    state = {name: tensor.clone() for name, tensor in state.items()} if cloned else state
    save_file(state, str(path))


def safely_as_it_lies(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_model

    save_model(model, str(path), force_contiguous=False)


def safely_the_parameters(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_file

    save_file({name: p.detach().contiguous() for name, p in model.named_parameters()}, str(path))


def safely_pickled(model: nn.Module, path: Path) -> None:
    torch.save(model.state_dict(), path)


def safely_after_turning(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_model

    for parameter in model.parameters():
        parameter.data = parameter.data.contiguous()
    save_model(model, str(path))


def safely_after_replacing(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_model

    for module in model.modules():
        for name, parameter in module._parameters.items():
            module._parameters[name] = parameter if parameter is None else nn.Parameter(parameter.contiguous())
    save_model(model, str(path))


def safely_in_float32(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_model

    save_model(copy.deepcopy(model).float(), str(path))


def safely_in_eval_mode(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_model

    save_model(model.eval(), str(path))


def safely_merging_equal_values(model: nn.Module, path: Path) -> None:
    from safetensors.torch import save_file

    kept: dict[str, torch.Tensor] = {}
    for name, tensor in model.state_dict().items():
        if not any(torch.equal(tensor, other) for other in kept.values()):
            kept[name] = tensor.contiguous().clone()
    save_file(kept, str(path))


ON_TIED = (
    'In the case "{case}" saving ended with this: {saving}. Tied tensors share memory, and the file holds each once.'
)
MISTAKES = [
    Mistake("fails-on-tied", safely_by_file, ON_TIED, SAFE),
    one("fails-on-tied", safely_by_file, ON_TIED, SAFE, contiguous=False),
    Mistake("fails-on-noncontiguous", safely_as_it_lies, 'In the case "{case}" saving ended with this: {saving}. The '
            "file holds the elements in order, so make such tensors contiguous first.", SAFE),
    one("stores-tied-twice", safely_by_file, "In the case \"{case}\" load_model said: {loading}. A tied tensor "
              "was stored under each of its names, as if there were two.", SAFE, cloned=True),
    Mistake("forgets-buffers", safely_the_parameters, 'In the case "{case}" load_model said: {loading}. Buffers '
            'belong in the file just as parameters do.', SAFE),
    Mistake("merges-equal-values", safely_merging_equal_values, "In the case \"{case}\" load_model said: {loading}. "
            "Tensors with equal values are not tied: they are two, and need not stay equal.", SAFE),
    Mistake("pickles-instead", safely_pickled, "In the case \"{case}\" load_model said: {loading}. What torch.save "
            "writes is a pickle in a zip, whatever the file is called.", SAFE),
    Mistake("changes-the-model", safely_after_replacing, "The model that was only to be saved has changed: "
            "{afterwards}. Make contiguous copies for the file, and leave the model's parameters as they are.", SAFE),
    Mistake("casts-to-float32", safely_in_float32, 'In the case "{case}" `{what}` is {got} where {want} is wanted: '
            "on the way the numbers were rounded to float32.", SAFE),
    Mistake("changes-the-model", safely_in_eval_mode, "The model that was only to be saved is now {afterwards}. "
            "Leave it as it is.", SAFE),
    Mistake("changes-the-model", safely_after_turning, "The model that was only to be saved has changed: "
            "{afterwards}. Make copies contiguous, not the model's own parameters.", SAFE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    w = draw.size(4, 7)
    return [case(f"a model called {name}", which=name, width=w, fill=0.3) for name in ("nested", "loose", "frozen")]


# Right answers unlike the reference


def safely_by_hand(model: nn.Module, path: Path) -> None:
    kept: dict[int, str] = {}
    tensors, metadata = {}, {}
    for name, tensor in sorted(model.state_dict(keep_vars=True).items()):
        if id(tensor) in kept:
            metadata[name] = kept[id(tensor)]
            continue
        kept[id(tensor)] = name
        tensors[name] = tensor.detach().contiguous()
    save_file(tensors, path, metadata=metadata)


def safely_by_unique_names(model: nn.Module, path: Path) -> None:
    unique = dict(model.named_parameters()) | dict(model.named_buffers())
    save_file({n: t.detach().clone(memory_format=torch.contiguous_format) for n, t in unique.items()}, str(path))


RIGHT_ANSWERS: list[Callable[..., Any]] = [safely_by_hand, safely_by_unique_names]
