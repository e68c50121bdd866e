"""A small training run whose every loss depends on all that a checkpoint has to hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torchcourse.probes.data_loading import seed_generators

__all__ = ["Training", "equal_nested", "generators"]


class Counting(nn.Module):
    """A linear model with a buffer that counts its training steps."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.steps = nn.Buffer(torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.weight)


class Total:
    """A stateful part of a training run that is no module."""

    def __init__(self) -> None:
        self.total = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.total = state["total"]


class Training:
    """A training run that draws its data from the global generators, which it seeds with `seed`."""

    def __init__(self, weight: Tensor, seed: int, extra: bool = False) -> None:
        self.model = Counting(weight)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.7)
        # not a power of two, so that the scale shows in the last bits of the weights
        self.scaler = torch.amp.GradScaler("cpu", init_scale=3.0, growth_factor=1.7, growth_interval=2)
        self.total = Total() if extra else None
        seed_generators(seed)

    def parts(self) -> dict[str, Any]:
        """Return what a checkpoint has to hold, by name."""
        named = {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler, "scaler": self.scaler}
        return {**named, "random": self.total} if self.total else named

    def step(self, midway: Callable[[], None] = lambda: None) -> float:
        """Train one step and return the loss; `midway` is called between backward and the optimizer's step."""
        weight = self.model.weight
        x = torch.randn(6, len(weight)) + random.random()
        wanted = torch.rand(6, weight.shape[1]) + float(np.random.normal()) / 4
        shift = self.total.total / 100 if self.total else 0.0
        loss: Tensor = ((self.model(x) - wanted) ** 2).mean() + shift
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        midway()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.scheduler.step()
        with torch.no_grad():
            self.model.steps.add_(1)
        if self.total:
            self.total.total += loss.item()
        return loss.item()

    def state(self) -> dict[str, Any]:
        """Return a copy of the state that a checkpoint has to restore."""
        return {name: owned(part.state_dict()) for name, part in self.parts().items()} | generators()


def generators() -> dict[str, Any]:
    """Return the states of the three global generators."""
    return {
        "Python's generator": random.getstate(),
        "NumPy's generator": owned(list(np.random.get_state())),
        "torch's generator": torch.get_rng_state(),
    }


def owned(value: Any) -> Any:
    """Return a copy of nested plain values; arrays become tensors, tuples lists."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.astype(np.int64))
    if isinstance(value, dict):
        return {key: owned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [owned(item) for item in value]
    return value


def equal_nested(one: Any, other: Any) -> bool:
    """Return whether two nested plain values are equal, bit for bit."""
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal_nested(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal_nested, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    return bool(one == other)
