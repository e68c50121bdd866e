"""The exercise `export_program`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.savable_models import export_weights

WHY = (
    "Without `dynamic_shapes` the example's batch size would be fixed for good. What is returned is what was "
    "loaded back from the file, so it is the saved program that gets used and not the one in memory."
)
"""Why the reference is written as it is."""
REQUIRED = ("fixed-batch", "returns-original")
"""The mistakes that a check must always be able to name."""


def exported(model: nn.Module, example: Tensor, rows: Any = torch.export.Dim.DYNAMIC) -> Any:
    return torch.export.export(model, (example,), dynamic_shapes=({0: rows},))


def loaded_back(program: Any, path: Path) -> Any:
    torch.export.save(program, path)
    return torch.export.load(path)


def fixed_batch(model: nn.Module, example: Tensor, path: Path) -> Any:
    return loaded_back(torch.export.export(model, (example,)), path).module()


def example_of_one_row(model: nn.Module, example: Tensor, path: Path) -> Any:
    return loaded_back(exported(model, example[:1], torch.export.Dim.AUTO), path).module()


def other_dimension(model: nn.Module, example: Tensor, path: Path) -> Any:
    dynamic = torch.export.Dim.DYNAMIC
    return loaded_back(torch.export.export(model, (example,), dynamic_shapes=({1: dynamic},)), path).module()


def at_most_1024(model: nn.Module, example: Tensor, path: Path) -> Any:
    return loaded_back(exported(model, example, torch.export.Dim("rows", max=1024)), path).module()


def at_most_6(model: nn.Module, example: Tensor, path: Path) -> Any:
    return loaded_back(exported(model, example, torch.export.Dim("rows", max=6)), path).module()


def exports_in_train_mode(model: nn.Module, example: Tensor, path: Path) -> Any:
    return loaded_back(exported(model.train(), example), path).module()


def returns_the_model(model: nn.Module, example: Tensor, path: Path) -> Any:
    torch.export.save(exported(model, example), path)
    return model


def returns_what_was_saved(model: nn.Module, example: Tensor, path: Path) -> Any:
    program = exported(model, example)
    torch.export.save(program, path)
    return program.module()


def returns_a_copy(model: nn.Module, example: Tensor, path: Path) -> Any:
    return copy.deepcopy(returns_the_model(model, example, path))


def returns_the_program(model: nn.Module, example: Tensor, path: Path) -> Any:
    return loaded_back(exported(model, example), path)


def returns_nothing(model: nn.Module, example: Tensor, path: Path) -> Any:
    torch.export.save(exported(model, example), path)


def saves_elsewhere(model: nn.Module, example: Tensor, path: Path) -> Any:
    return loaded_back(exported(model, example), path.with_suffix(".program.pt2")).module()


def never_saves(model: nn.Module, example: Tensor, path: Path) -> Any:
    return exported(model, example).module()


def pickles_the_module(model: nn.Module, example: Tensor, path: Path) -> Any:
    torch.save(model, path)
    return torch.load(path, weights_only=False)


def saves_torchscript(model: nn.Module, example: Tensor, path: Path) -> Any:
    jit: Any = torch.jit
    jit.save(jit.trace(model, example), str(path))
    return jit.load(str(path))


PROGRAM = "torch.export: a program without Python"
NOT_BACK = (
    "When the model's own weights were changed afterwards, `{what}` changed with them, and is {got} where {want} is "
    "wanted: what came back is not what was loaded from the file."
)
BOUNDED = (
    "A batch of {batch} was refused: {refused}. A Dim with a `max` promises that no batch is larger, but here it may "
    "have any size."
)
MISTAKES = [
    Mistake("fixed-batch", fixed_batch, "The example had a batch of {example}, and then a batch of {batch} was "
            "refused: {refused}. Say in dynamic_shapes that dimension 0 may vary.", PROGRAM),
    Mistake("fixed-batch", example_of_one_row, "A batch of {batch} was refused: {refused}. A size of 1 is always "
            "built into the program, since tensors of one row broadcast: export with two rows or more.", PROGRAM),
    Mistake("another-dimension", other_dimension, 'In the case "{case}" the call raised {error}: it is dimension 0, '
            "the batch, that may vary. The width of the input is fixed by the weights.", PROGRAM),
    Mistake("returns-original", returns_the_model, NOT_BACK, PROGRAM),
    Mistake("returns-original", returns_what_was_saved, NOT_BACK, PROGRAM),
    Mistake("returns-original", returns_a_copy, "The call returned {returned}: the module that was loaded back from "
            "the file is wanted, since it shows whether the file is any good.", PROGRAM),
    Mistake("bounded-batch", at_most_1024, BOUNDED, PROGRAM),
    Mistake("bounded-batch", at_most_6, BOUNDED, PROGRAM),
    Mistake("exports-in-train-mode", exports_in_train_mode, 'In the case "{case}", `{what}` is {got} where {want} is '
            "wanted: the model was put into training mode, and the mode is part of what is exported.", PROGRAM),
    Mistake("saves-elsewhere", saves_elsewhere, "The file at `path` {file}: the program was saved under another "
            "name, or not at all.",
            PROGRAM),
    Mistake("returns-the-program", returns_the_program, "The call returned {returned}: a program itself cannot be "
            "called; its method `module()` returns a module that can.", PROGRAM),
    Mistake("returns-nothing", returns_nothing, "The call returned {returned}; a module that can be called is wanted, "
            "loaded back from the file.", PROGRAM),
    Mistake("never-saves", never_saves, "The file at `path` {file}: the program was made, and either not saved or "
            "saved under another name.", PROGRAM),
    Mistake("another-format", saves_torchscript, "The file should hold what `torch.export.save` writes; TorchScript, "
            "for one, is another format. Read as a program, the file was refused: {refused}", PROGRAM),
    Mistake("pickles-module", pickles_the_module, "The file should hold what `torch.export.save` writes, which needs "
            "neither your class nor Python. Read as a program, the file was refused: {refused}",
            PROGRAM),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    i, h, o = draw.size(2, 6), draw.size(3, 8), draw.size(2, 5)
    return [case("drawn sizes, the columns turned", rtol=1e-5, atol=1e-5, weights=export_weights(draw, i, h, o),
                 x=draw.normal(7, i), example=5, normed=True, turns=True)]  # fmt: skip


# Right answers unlike the reference


def program_with_a_named_dim(model: nn.Module, example: Tensor, path: Path) -> nn.Module:
    rows = torch.export.Dim("rows", min=1)
    with torch.no_grad():
        made = torch.export.export(model, args=(example,), dynamic_shapes=[{0: rows}], strict=True)
    torch.export.save(made, str(path))
    return torch.export.load(str(path)).module()


def program_by_file(model: nn.Module, example: Tensor, path: Path) -> nn.Module:
    everywhere = torch.export.Dim.DYNAMIC
    fixed = torch.export.Dim.STATIC
    made = torch.export.export(model, (example,), dynamic_shapes=((everywhere, fixed),))
    with open(path, "wb") as file:
        torch.export.save(made, file)
    with open(path, "rb") as file:
        return torch.export.load(file).module()


def program_by_keyword(model: nn.Module, example: Tensor, path: Path) -> nn.Module:
    (name,) = inspect.signature(model.forward).parameters
    shapes = {name: {0: torch.export.Dim.DYNAMIC}}
    torch.export.save(torch.export.export(model, (), kwargs={name: example}, dynamic_shapes=shapes), path)
    return torch.export.load(path).module()


def program_left_to_torch(model: nn.Module, example: Tensor, path: Path) -> nn.Module:
    shapes = {"x": (torch.export.Dim.AUTO, None)}
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=shapes), path)
    return torch.export.load(path).module()


RIGHT_ANSWERS: list[Callable[..., Any]] = [
    program_with_a_named_dim,
    program_by_file,
    program_by_keyword,
    program_left_to_torch,
]
