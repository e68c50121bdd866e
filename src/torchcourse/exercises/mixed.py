"""What lesson 07's probes hand to answers: a model and a loss that note whether they run under autocast, a gradient
scaler that notes the order of events, and models to report on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse.exercises.models import Breaking

__all__ = ["Halved", "Spoiled", "report_model"]


def autocast_now(device: torch.device) -> str:
    """Whether autocast is on for a device, and with which dtype, in words."""
    if not torch.is_autocast_enabled(device.type):
        return "no autocast"
    return "autocast to " + str(torch.get_autocast_dtype(device.type)).removeprefix("torch.")


class _Model(nn.Module):
    def __init__(self, weights: dict[str, Tensor], note: Callable[[], None]) -> None:
        super().__init__()
        self.w1, self.b1, self.w2, self.b2 = (nn.Parameter(weights[name].clone()) for name in ("w1", "b1", "w2", "b2"))
        self._note = note

    def forward(self, x: Tensor) -> Tensor:
        self._note()
        return F.linear(torch.tanh(F.linear(x, self.w1, self.b1)), self.w2, self.b2)


class _Backward(torch.autograd.Function):
    """The identity; says when gradients come back through it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, events: list[str]) -> Tensor:
        ctx.events = events
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.events.append("backward")
        return grads[0], None


class Halved:
    """A model of two layers and a loss, and what happens to them: `under` is the autocast each ran in, `events` the
    order of events, among them a change of the gradients that nobody announced, which is a clipping."""

    def __init__(self, weights: dict[str, Tensor], loss_fn: Callable[[Tensor, Tensor], Tensor], device: torch.device):
        self.events: list[str] = []
        self.under = {"model": "not at all", "loss": "not at all"}
        self.device, self._loss_fn = device, loss_fn
        self.model = _Model(weights, lambda: self._ran("model")).to(device)
        self._last: list[Tensor | None] = []
        for parameter in self.model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda _p: self.noted())  # type: ignore[no-untyped-call]

    def _ran(self, what: str) -> None:
        self.under[what] = autocast_now(self.device)

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The loss function that the answer is given."""
        self._ran("loss")
        marked: Tensor = _Backward.apply(self._loss_fn(prediction, target), self.events)
        return marked

    def noted(self) -> None:
        """Remember the gradients as they are now."""
        self._last = [None if p.grad is None else p.grad.clone() for p in self.model.parameters()]

    def compared(self) -> None:
        """Note a clipping, if the gradients are not what they were, unless they had overflowed: what a clipping makes
        of inf is nobody's choice."""
        for parameter, before in zip(self.model.parameters(), self._last, strict=False):
            now = parameter.grad
            if now is None or before is None or now.shape != before.shape or not before.isfinite().all():
                return
        pairs = zip(self.model.parameters(), self._last, strict=False)
        if any(p.grad is not None and b is not None and not torch.equal(p.grad, b) for p, b in pairs):
            self.events.append("clip")

    def order(self, clipping: bool) -> str:
        """The events in words. Without clipping, unscaling by hand is possible but makes no difference."""
        return ", ".join(e for e in self.events if clipping or e != "unscale")


class Spoiled(torch.amp.GradScaler):
    """torch's scaler, which also notes what happens when."""

    def __init__(self, task: Halved, **options: Any) -> None:
        super().__init__(**options)
        super().scale(torch.ones((), device=task.device))  # so that an answer that never scales is no mere exception
        self._task, self._inside = task, False

    def scale(self, outputs: Any) -> Any:
        self._task.events.append("scale")
        return super().scale(outputs)

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if self._inside:
            super().unscale_(optimizer)
            return
        self._task.compared()
        super().unscale_(optimizer)
        self._task.events.append("unscale")
        self._task.noted()

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        self._task.compared()
        self._task.events.append("step")
        self._inside = True
        try:
            return super().step(optimizer, *args, **kwargs)
        finally:
            self._inside = False

    def update(self, new_scale: float | Tensor | None = None) -> None:
        self._task.events.append("update")
        super().update(new_scale)


# --- models to report on ----------------------------------------------------------------------------------------


class _Nested(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(width, 2 * width), nn.Sequential(nn.LayerNorm(2 * width), nn.GELU()))
        self.head = nn.Linear(2 * width, 3)
        self.probabilities = nn.Softmax(dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.probabilities(self.head(self.encoder(x)))
        return out


class _Statistics(nn.Module):
    """Divides by a norm, which autocast keeps in float32, between two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width, bias=False)
        self.pass_on = nn.Identity()
        self.last = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).float()
        out: Tensor = self.last(self.pass_on(x / x.norm()))
        return out


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "row": lambda w: nn.Sequential(
        nn.Dropout(), nn.Linear(w, 2 * w), nn.ReLU(), nn.Linear(2 * w, w), nn.Tanh(), nn.Softmax(dim=-1)),
    "nested": _Nested,
    "single": lambda w: nn.Linear(w, 2),
    "statistics": _Statistics,
    "breaking": Breaking,
    "convolutional": lambda w: nn.Sequential(
        nn.Unflatten(1, (1, w)), nn.Conv1d(1, 2, 2), nn.BatchNorm1d(2), nn.ReLU(), nn.Flatten()),
}  # fmt: skip


def report_model(name: str, width: int) -> nn.Module:
    """The model of this name and width; what it reports does not depend on its weights."""
    return MODELS[name](width)
