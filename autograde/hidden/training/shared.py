"""What several private halves of lesson 05 share."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

MIXED = (
    "Everything works on the CPU; on the second device the call raised {error}: something was made, or left, on the "
    "CPU while the rest lives elsewhere."
)
VALUE = 'In the case "{case}", `{what}` came out as {got} where {want} is wanted: '


STALE = VALUE + ("gradients of an earlier step were still there, and `backward` added the new ones to them.")
NO_NUMBER = (
    "What came back is {got} where {want} is wanted: a tensor keeps its whole graph alive, or at least memory on the "
    "device; `item()` gives the number alone."
)


def step_clearing_afterwards(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> float:
    x, y = batch
    prediction = model.train()(x)
    loss = loss_fn(prediction, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    number: float = loss.detach().cpu().tolist()
    return number


def step_with_closure(model: Any, batch: Any, loss_fn: Any, optimizer: Any) -> float:
    model.train()

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = loss_fn(model(batch[0]), batch[1])
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    return float(optimizer.step(closure).item())


@contextlib.contextmanager
def in_eval(model: nn.Module) -> Iterator[None]:
    was = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was)


@torch.inference_mode()
def evaluate_in_inference_mode(model: Any, loader: Any, loss_fn: Any, device: Any) -> dict[str, float]:
    with in_eval(model):
        seen = [(model(x.to(device)), y.to(device)) for x, y in loader]
    n = sum(len(y) for _, y in seen)
    return {
        "loss": sum(float(loss_fn(out, y)) * len(y) / n for out, y in seen),
        "accuracy": sum(int(out.argmax(-1).eq(y).sum()) for out, y in seen) / n,
    }


def evaluate_with_sums_on_the_device(model: Any, loader: Any, loss_fn: Any, device: Any) -> dict[str, float]:
    was = model.training
    model.eval()
    sums = torch.zeros(3, device=device)
    with torch.set_grad_enabled(False):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            out = model(x)
            right = (out.argmax(1) == y).float().sum()
            sums += torch.stack([loss_fn(out, y) * x.size(0), right, sums.new_ones(()) * len(x)])
    if was:
        model.train()
    loss, hits, n = sums.tolist()
    return {"loss": loss / n, "accuracy": hits / n}


def schedule_early_returns(step: int, *, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    if step >= total:
        return floor
    if step < warmup:
        return peak / warmup * step
    angle = math.pi * (step - warmup) / (total - warmup)
    return (peak + floor) / 2 + (peak - floor) / 2 * math.cos(angle)


class StoppingFromHistory:
    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        self.patience, self.min_delta, self.improved = patience, min_delta, list[bool]()
        self.best: float = math.inf
        self.saved: dict[str, Tensor] = {}

    def update(self, metric: float, model: nn.Module) -> bool:
        better = self.best - metric > self.min_delta
        self.improved.append(better)
        if better:
            self.best = float(metric)
            self.saved = {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}
        return len(self.improved) >= self.patience and not any(self.improved[-self.patience :])

    def restore(self, model: nn.Module) -> None:
        model.load_state_dict(self.saved)


class StoppingWithCountdown:
    best: float | None = None

    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        self.full = self.left = patience
        self.margin = min_delta

    def update(self, metric: float, model: nn.Module) -> bool:
        valid = not math.isnan(metric)
        if valid and (self.best is None or metric + self.margin < self.best):
            self.best, self.left = metric, self.full
            self.tensors = [t.clone() for t in (*model.parameters(), *model.buffers())]
            return False
        self.left -= 1
        return self.left <= 0

    @torch.no_grad()
    def restore(self, model: nn.Module) -> None:
        for t, saved in zip((*model.parameters(), *model.buffers()), self.tensors, strict=True):
            t.copy_(saved)
