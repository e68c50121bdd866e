"""Watch a training from outside, whatever network, loss and optimizer it makes for itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as global_hooks
from torch.optim.optimizer import register_optimizer_step_pre_hook

from torchcourse.model.observations import Observations

__all__ = ["WatchedTraining", "is_of", "watched_training"]

MODE_DEPENDENT = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase)
CHECKED_STEPS, STALE = 12, 1.2


class WatchedTraining:
    """The record of a training, filled in while it runs.

    Attributes:
        test: the inputs to be judged on; a run on rows of it is an evaluation.
        classes: the width of a network's output; 0 where `accuracy` is not asked for.
    """

    def __init__(self, test: Tensor, classes: int = 0) -> None:
        self.test, self.classes = test, classes
        self.depth = 0
        self.evaluating = False
        self.rows = torch.empty(0, dtype=torch.long)
        self.guesses: list[tuple[Tensor, Tensor]] = []
        self.with_graph = 0
        self.active: set[str] = set()
        self.used: dict[int, nn.Parameter] = {}
        self.held: set[int] = set()
        self.steps = 0
        self.most_stale = 1.0
        self.arrived: dict[int, Tensor] = {}
        self.handles: list[Any] = []

    def before(self, module: nn.Module, inputs: Any) -> None:
        """Note the start of a module's run."""
        if self.depth == 0:
            self.evaluating = bool(inputs) and is_of(self.test, inputs[0])
            self.rows = self._rows_of(inputs[0]) if self.evaluating else self.rows[:0]
        self.depth += 1
        for parameter in module.parameters(recurse=False):
            self.used[id(parameter)] = parameter
        if self.evaluating and module.training and isinstance(module, MODE_DEPENDENT):
            self.active.add(type(module).__name__)

    def after(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        """Note the end of a module's run."""
        self.depth -= 1
        if self.depth or not isinstance(output, Tensor):
            return
        if self.evaluating:
            self.with_graph += output.requires_grad
        if output.dim() == 2 and output.shape[1] == self.classes:
            self.guesses.append((self.rows, output.detach().argmax(1).cpu()))

    def _rows_of(self, x: Tensor) -> Tensor:
        """Return which rows of the test inputs these are."""
        same = (self.test[None].to(x.device, x.dtype) == x[:, None]).flatten(2).all(2)
        return same.int().argmax(1).cpu()

    def accuracy(self, labels: Tensor) -> float | None:
        """Return how much of the test a network got right after the last step; None if it was not run on all of it.

        Inputs that were changed before, such as normalised ones, are taken to be in the order of the test.
        """
        guess = torch.full(labels.shape, -1)
        for rows, found in self.guesses:
            if len(rows) == len(found):
                guess[rows] = found
        rest = [found for rows, found in self.guesses if len(rows) != len(found)]
        if (guess < 0).any() and rest and sum(map(len, rest)) >= len(labels):
            guess = torch.cat(rest)[-len(labels) :]
        return None if (guess < 0).any() else float((guess == labels.cpu()).double().mean())

    def step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """Compare the gradients that a step uses with those that arrived since the step before."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if 0 < self.steps < CHECKED_STEPS and self.arrived:
            used = [p.grad for p in parameters if p.grad is not None and id(p) in self.arrived]
            fresh = [self.arrived[id(p)] for p in parameters if p.grad is not None and id(p) in self.arrived]
            self.most_stale = max(self.most_stale, _norm(used) / max(_norm(fresh), 1e-30))
        for p in parameters:
            if id(p) not in self.held and p.requires_grad:
                self.held.add(id(p))
                self.handles.append(p.register_hook(self._arrival(id(p))))
        self.arrived.clear()
        self.guesses.clear()
        self.steps += 1

    def _arrival(self, key: int) -> Any:
        def note(gradient: Tensor) -> None:
            if self.steps < CHECKED_STEPS:
                self.arrived[key] = self.arrived[key] + gradient if key in self.arrived else gradient.clone()

        return note

    def seen(self) -> Observations:
        """Return in words what was noted."""
        outside = sum(p.requires_grad and key not in self.held for key, p in self.used.items())
        return {
            "gradients at each step": "also those of earlier batches" if self.most_stale > STALE else "this batch's",
            "parameters outside the optimizer": "some" if outside and self.steps else "none",
            "active while judging": ", ".join(sorted(self.active)) or "neither dropout nor batch norm",
            "graphs while judging": "built" if self.with_graph else "not built",
        }


def is_of(table: Tensor, x: object) -> bool:
    """Return whether `x` begins with a row of `table`."""
    if not isinstance(x, Tensor) or not len(x) or x.shape[1:] != table.shape[1:]:
        return False
    return bool((table.to(x.device, x.dtype) == x[:1]).flatten(1).all(1).any())


def _norm(tensors: list[Tensor]) -> float:
    return float(sum(t.detach().double().square().sum().item() for t in tensors) ** 0.5)


@contextlib.contextmanager
def watched_training(test: Tensor, classes: int) -> Iterator[WatchedTraining]:
    """Watch the training in this block, of a network with so many classes."""
    watch = WatchedTraining(test, classes)
    handles = [
        global_hooks.register_module_forward_pre_hook(watch.before),
        global_hooks.register_module_forward_hook(watch.after, always_call=True),
        register_optimizer_step_pre_hook(watch.step),
    ]
    try:
        yield watch
    finally:
        for handle in [*handles, *watch.handles]:
            handle.remove()
