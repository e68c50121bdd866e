"""What several private halves of lesson 10 share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TRACES = "Modes, and how to leave no trace"
NAMED = 'In the case "{case}" the result is {found}, and it should be {right}: '
LEFT_HOOKS = (
    'In the case "{case}" hooks were left behind ({left}): each would run in every later call. '
    "Remove them in a `finally`, which also runs if the model raises."
)
MODE = "After the call some modules were no longer in their old mode ({modes}): "
LOST_MODE = MODE + "the caller goes on with the model, and wants it as it was."
ONE_MODE = MODE + (
    "`model.train` gives every submodule one and the same mode, even one that was frozen in evaluation mode."
)
NOT_FINALLY = (
    'In the case "{case}" a run raised, and afterwards some modules were no longer in their old mode ({modes}): what '
    "has to be put back in any case belongs in a `finally`."
)
RAN = (
    "The model ran in {ran}, and evaluation mode is wanted: in training mode dropout draws, and batch norm goes by "
    "this one batch and changes its statistics."
)


@contextlib.contextmanager
def judged(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, each submodule's own mode afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.train(False)
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


class Modes:
    """How a right program treats modes; a mistake overrides a method."""

    def before(self, model: nn.Module) -> Any:
        modes = [(m, m.training) for m in model.modules()]
        model.eval()
        return modes

    def after(self, model: nn.Module, modes: Any) -> None:
        for module, training in modes:
            module.training = training


def no_eval(_self: Any, _model: nn.Module) -> Any:
    return []


def train_mode(_self: Any, model: nn.Module) -> Any:
    modes = [(m, m.training) for m in model.modules()]
    model.train()
    return modes


def remembers_one(_self: Any, model: nn.Module) -> bool:
    was = model.training
    model.eval()
    return was


def restores_one(_self: Any, model: nn.Module, was: bool) -> None:
    model.train(was)


def restores_nothing(_self: Any, _model: nn.Module, _modes: Any) -> None:
    return None


def restores_training(_self: Any, model: nn.Module, _modes: Any) -> None:
    model.train()


def log_probabilities(logits: Tensor, y: Tensor) -> Tensor:
    return -F.log_softmax(logits, 1)[torch.arange(len(y), device=y.device), y]
