"""What lesson 07's probes give to answers: number formats, a model, loss and scaler that record events, and models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Draw
from torchcourse.probes.models import Breaking
from torchcourse.probes.trainable_models import OnBackward, number_or_kind

__all__ = ["RecordingScaler", "RecordingTask", "probe_number", "report_model", "steps_of"]


def autocast_now(device: torch.device) -> str:
    """Describe whether autocast is on for a device, and with which dtype."""
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


class RecordingTask:
    """A model of two layers and a loss that record what happens to them.

    `under` says in which autocast each of them ran, `events` lists the events in order. A change of the gradients that
    belongs to no other event counts as "clip".
    """

    def __init__(self, weights: dict[str, Tensor], loss_fn: Callable[[Tensor, Tensor], Tensor], device: torch.device):
        self.events: list[str] = []
        self.under = {"model": "not at all", "loss": "not at all", "backward": "not at all"}
        self.device, self._loss_fn = device, loss_fn
        self.model = _Model(weights, lambda: self._ran("model")).to(device)
        self._last: list[Tensor | None] = []
        for parameter in self.model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda _p: self.save_gradients())  # type: ignore[no-untyped-call]

    def _ran(self, what: str) -> None:
        self.under[what] = autocast_now(self.device)

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Return the loss: the function that the answer gets."""
        self._ran("loss")
        marked: Tensor = OnBackward.apply(self._loss_fn(prediction, target), self._went_back)
        return marked

    def _went_back(self) -> None:
        self.events.append("backward")
        self._ran("backward")

    def save_gradients(self) -> None:
        """Remember the gradients as they are now."""
        self._last = [None if p.grad is None else p.grad.clone() for p in self.model.parameters()]

    def record_clipping(self) -> None:
        """Record "clip" if the gradients have changed, unless they had overflowed: then clipping may do anything."""
        for parameter, before in zip(self.model.parameters(), self._last, strict=False):
            now = parameter.grad
            if now is None or before is None or now.shape != before.shape or not before.isfinite().all():
                return
        pairs = zip(self.model.parameters(), self._last, strict=False)
        if any(p.grad is not None and b is not None and not torch.equal(p.grad, b) for p, b in pairs):
            self.events.append("clip")

    def order(self, clipping: bool) -> str:
        """Return the events in order. Without clipping, "unscale" is left out: it makes no difference then."""
        return ", ".join(e for e in self.events if clipping or e != "unscale")


class RecordingScaler(torch.amp.GradScaler):
    """torch's scaler, which also records the order of events."""

    def __init__(self, task: RecordingTask, **options: Any) -> None:
        super().__init__(**options)
        super().scale(torch.ones((), device=task.device))  # else an answer that never scales would only raise
        self._task, self._inside = task, False

    def scale(self, outputs: Any) -> Any:
        self._task.events.append("scale")
        return super().scale(outputs)

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if self._inside:
            super().unscale_(optimizer)
            return
        self._task.record_clipping()
        super().unscale_(optimizer)
        self._task.events.append("unscale")
        self._task.save_gradients()

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        self._task.record_clipping()
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
    """Two layers with a division by a norm, which autocast computes in float32, between them."""

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
    """Return the model of this name and width; what it reports does not depend on its weights."""
    return MODELS[name](width)


def steps_of(draw: Draw, *shape: int) -> Tensor:
    """Draw numbers of either sign with three significant bits, which every format holds exactly."""
    return torch.where(draw.flags(*shape), 1.0, -1.0) * draw.integers(4, 8, *shape, dtype=torch.float32) / 4


def probe_number(answer: Watched, grads: Any, dtype: torch.dtype | None) -> dict[str, Any]:
    """Probe an answer that computes a float from gradients, which it may not change."""
    tensors = grads if isinstance(grads, list) else [grads]
    before = [g.clone() for g in tensors]
    returned = answer(grads) if dtype is None else answer(grads, dtype)
    same = all(torch.equal(g, b) for g, b in zip(tensors, before, strict=True))
    return {"returned": number_or_kind(returned), "gradients afterwards": "as before" if same else "changed"}
