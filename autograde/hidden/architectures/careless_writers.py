"""Programs for the exercise `generate` whose text is right, at a first look."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.architectures.writers import Writer


class SwitchesGradOff(Writer):
    """Switches gradients off for good."""

    def prepare(self, model: nn.Module) -> None:
        super().prepare(model)
        torch.set_grad_enabled(False)

    def context(self) -> Any:
        return contextlib.nullcontext()


class FreezesTheModel(Writer):
    def prepare(self, model: nn.Module) -> None:
        super().prepare(model)
        model.requires_grad_(False)

    def context(self) -> Any:
        return contextlib.nullcontext()


class LastEight(Writer):
    def read(self, model: Any, ids: Tensor) -> Tensor:
        return super().read(model, ids[:, -8:])


class LastFortyEight(Writer):
    def read(self, model: Any, ids: Tensor) -> Tensor:
        return super().read(model, ids[:, -48:])


class AsksTheFirstParameter(Writer):
    """Takes the device from the model."""

    def read(self, model: Any, ids: Tensor) -> Tensor:
        return super().read(model, ids.to(next(model.parameters()).device))


class CopiesTheGenerator(Writer):
    def write(self, model: Any, ids: Tensor, max_new: int, eos: int | None, **options: Any) -> Tensor:
        given = options["generator"]
        copied = given if given is None else torch.Generator(given.device).set_state(given.get_state())
        return super().write(model, ids, max_new, eos, **options | {"generator": copied})


class OneNoiseForAllSteps(Writer):
    noise: Tensor | None = None

    def write(self, model: Any, ids: Tensor, max_new: int, eos: int | None, **options: Any) -> Tensor:
        self.noise = None
        return super().write(model, ids, max_new, eos, **options)

    def draw(self, shares: Tensor, generator: torch.Generator | None) -> Tensor:
        if self.noise is None:
            self.noise = torch.rand(shares.shape, generator=generator, device=shares.device)
        return (shares.log() - (-self.noise.log()).log()).argmax(-1)


class EndsIfGreedy(Writer):
    """Asks for the end token in the branch of the largest score only."""

    def write(self, model: Any, ids: Tensor, max_new: int, eos: int | None, **options: Any) -> Tensor:
        greedy = options["temperature"] == 0 or options["top_k"] == 1
        return super().write(model, ids, max_new, eos if greedy else None, **options)
