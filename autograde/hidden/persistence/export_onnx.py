"""The exercise `export_onnx`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case
from torchcourse.probes.savable_models import export_weights

WHY = (
    "Dropout and batch norm behave differently in evaluation, and a server wants that. Each module's own mode "
    "is noted and put back, because parts of a model may be frozen in eval; `model.train()` at the end would "
    "wake them."
)
"""Why the reference is written as it is."""
REQUIRED = ("fixed-batch", "train-mode-export", "leaves-eval-mode")
"""The mistakes that a check must always be able to name."""


def write(model: nn.Module, example: Tensor, path: Path, dynamic: bool = True) -> None:
    """Export by the older exporter: it does the same in a fraction of the time."""
    torch.onnx.export(
        model, (example,), str(path), dynamo=False, input_names=["input"], output_names=["output"],
        dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}} if dynamic else None,
        training=torch.onnx.TrainingMode.PRESERVE,
    )  # fmt: skip


@contextlib.contextmanager
def in_eval_mode(model: nn.Module) -> Iterator[None]:
    """Put a model in eval mode for this block, and each of its parts back in its own mode after it."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    yield
    for module, training in modes:
        module.training = training


def fixed_batch(model: nn.Module, example: Tensor, path: Path) -> None:
    with in_eval_mode(model):
        write(model, example, path, dynamic=False)


def wakes_a_frozen_norm(model: nn.Module, example: Tensor, path: Path) -> None:
    training = model.training
    write(model.eval(), example, path)
    model.train(training)


def batch_of_one(model: nn.Module, example: Tensor, path: Path) -> None:
    fixed_batch(model, example[:1], path)


def exports_in_train_mode(model: nn.Module, example: Tensor, path: Path) -> None:
    write(model, example, path)


def exports_in_train_mode_by_torch_export(model: nn.Module, example: Tensor, path: Path) -> None:
    torch.onnx.export(model, (example,), path, dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False)


def exports_in_half(model: nn.Module, example: Tensor, path: Path) -> None:
    write(copy.deepcopy(model).eval().half(), example.half(), path)


def leaves_eval_mode(model: nn.Module, example: Tensor, path: Path) -> None:
    write(model.eval(), example, path)


def leaves_training_mode(model: nn.Module, example: Tensor, path: Path) -> None:
    write(model.eval(), example, path)
    model.train()


def never_saves(model: nn.Module, example: Tensor, path: Path) -> None:
    with in_eval_mode(model):
        pass


ONNX = "ONNX: a program for other runtimes"
FIXED = (
    "The example had a batch of {example}, and then a batch of {batch} was refused: {refused}. Without being told that "
    "dimension 0 may vary, the export writes the example's size into the program."
)
MODE = "The model was in {want_mode} mode before, and is in {its_mode} mode after the export: "
MISTAKES = [
    Mistake("fixed-batch", fixed_batch, FIXED, ONNX),
    *(Mistake("train-mode-export", program, "The exported program is off by up to {gap}: the model was exported in "
              "training mode, in which it computes something else than in evaluation mode.", ONNX)
      for program in (exports_in_train_mode, exports_in_train_mode_by_torch_export)),
    Mistake("exports-in-half", exports_in_half, "A batch of {batch} was refused: {refused}. The model takes float32, "
            "and so should its export.", ONNX),
    Mistake("leaves-eval-mode", leaves_eval_mode, MODE + "whoever goes on training it would never notice.", ONNX),
    Mistake("leaves-training-mode", leaves_training_mode, MODE + "`train()` does not bring the old mode back.", ONNX),
    Mistake("never-saves", never_saves, "In the case \"{case}\" the file at `path` is what is examined, and it {file}.",
            ONNX),
    Mistake("fixed-batch", batch_of_one, FIXED, ONNX),
    Mistake("wakes-frozen-parts", wakes_a_frozen_norm, 'In the case "{case}" the parts of the model are {got} '
            "afterwards: `train(training)` sets all of them alike, but one of them was in eval mode before.", ONNX),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    i, h, o = draw.size(2, 6), draw.size(3, 8), draw.size(2, 5)
    return [case("drawn sizes, the columns turned", rtol=1e-5, atol=1e-5, weights=export_weights(draw, i, h, o),
                 x=draw.normal(7, i), example=4, normed=True, turns=True, train=True)]  # fmt: skip


# Right answers unlike the reference


def onnx_the_old_way(model: nn.Module, example: Tensor, path: Path) -> None:
    with in_eval_mode(model):
        torch.onnx.export(
            model, (example,), str(path), dynamo=False, input_names=["x"], output_names=["y"],
            dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
        )  # fmt: skip


def onnx_of_a_copy(model: nn.Module, example: Tensor, path: Path) -> None:
    dynamic = torch.export.Dim.DYNAMIC
    program = torch.export.export(copy.deepcopy(model).eval(), (example,), dynamic_shapes=({0: dynamic},))
    exported = torch.onnx.export(program, dynamo=True, verbose=False, external_data=False)
    assert exported is not None
    exported.save(path)


RIGHT_ANSWERS: list[Callable[..., Any]] = [onnx_the_old_way, onnx_of_a_copy]
