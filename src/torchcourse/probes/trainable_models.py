"""What probes train: small networks that record how they are used, their batches, losses and optimizers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse.model.exercise import Draw
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.observe import kind

__all__ = [
    "BESIDE", "LOSSES", "GraphsHeld", "OnBackward", "RecordingLoss", "RecordingModel", "SharedNotes", "batches",
    "counted", "drawn_weights", "flat", "held_beside", "learning", "mode", "number", "number_or_kind", "quotes_modes",
    "returned", "with_detail",
]  # fmt: skip


def drawn_weights(draw: Draw, inputs: int, hidden: int, outputs: int, dtype: torch.dtype = torch.float32) -> Any:
    """Draw the weights of a `RecordingModel`, as a case holds them."""
    return {
        "w1": 0.7 * draw.normal(hidden, inputs, dtype=dtype), "b1": 0.3 * draw.normal(hidden, dtype=dtype),
        "w2": 0.7 * draw.normal(outputs, hidden, dtype=dtype), "b2": 0.3 * draw.normal(outputs, dtype=dtype),
    }  # fmt: skip


class SharedNotes(list[Any]):
    """Notes of a model, which its deep copies share."""

    def __deepcopy__(self, _memo: object) -> SharedNotes:
        return self


class RecordingModel(nn.Module):
    """A network of two layers that records in which mode it runs, whether it builds a graph and whether hooks run.

    In training mode its hidden layer is halved, like a deterministic dropout. If `marked`, the first column of
    the input is not a feature but a mark: positive in batches to train on.
    """

    def __init__(self, weights: dict[str, Tensor], marked: bool = False) -> None:
        super().__init__()
        self.w1, self.b1, self.w2, self.b2 = (nn.Parameter(weights[name].clone()) for name in ("w1", "b1", "w2", "b2"))
        self.marked = marked
        self.ran: list[dict[str, Any]] = []
        self.hooked = 0
        self.register_forward_pre_hook(_count)

    def forward(self, x: Tensor) -> Tensor:
        note = {"mode": mode(self), "rows": len(x), "train": bool(x[0, 0] > 0) if self.marked and len(x) else True}
        x = x[:, 1:] if self.marked else x
        hidden = torch.tanh(x @ self.w1.T + self.b1)
        result = (0.5 * hidden if self.training else hidden) @ self.w2.T + self.b2
        self.ran.append(note | {"graph": result.requires_grad})
        return result

    def modes(self, train: bool = True) -> str:
        """Describe the modes in which it ran, over the batches to train on, or over the others."""
        modes = sorted({note["mode"] for note in self.ran if note["train"] == train})
        return " and ".join(modes) + " mode" if modes else "not at all"


class GraphsHeld:
    """Counts the examples for which a model has run and no gradient has come back yet.

    Attributes:
        most: how many they were at most.
    """

    def __init__(self, model: nn.Module) -> None:
        self.now = self.most = 0
        model.register_forward_hook(self._runs)

    def _runs(self, _model: nn.Module, _inputs: Any, output: Tensor) -> None:
        if not output.requires_grad:
            return
        rows = len(output)
        self.now += rows
        self.most = max(self.most, self.now)

        def lets_go(_gradient: Tensor) -> None:
            self.now -= rows

        output.register_hook(lets_go)  # type: ignore[no-untyped-call]


def _count(module: nn.Module, _inputs: object) -> None:
    assert isinstance(module, RecordingModel)
    module.hooked += 1


def mode(model: nn.Module) -> str:
    """Return the mode of a model in words."""
    return "training" if model.training else "evaluation"


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """Return a copy of all elements as one vector."""
    return torch.cat([t.detach().flatten() for t in tensors]).clone()


def number_or_kind(value: object) -> float | str:
    """Return a Python float as it is, and a description of anything else."""
    return value if isinstance(value, float) else kind(value)


def number(value: object) -> float | str:
    """Return a number, or a tensor with one element, as a float, and a description of anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | Tensor):
        return kind(value)
    return kind(value) if isinstance(value, Tensor) and value.numel() != 1 else float(value)


def returned(values: list[float | str]) -> Observations:
    """Observe what a call returned, or what each of several calls did."""
    return {"returned": values[0]} if len(values) == 1 else {"returned by each call": values}


def with_detail(fact: str, detail: str) -> Raised:
    """Return an observation: a fact, which is compared, with a detail for people, which is not."""
    return Raised(fact, detail, "remark")


def lopsided(prediction: Tensor, target: Tensor) -> Tensor:
    """Return a loss that punishes a prediction which is too high more than one which is too low."""
    gap = prediction - target
    return (gap.exp() - gap - 1).mean()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean squared error": F.mse_loss, "lopsided": lopsided, "cross entropy": F.cross_entropy,
}  # fmt: skip


class _Token:
    """An object that lives as long as a graph, and records when that is differentiated."""

    def __init__(self, events: list[str]) -> None:
        self.events = events

    def __call__(self) -> None:
        self.events.append("backward")


class OnBackward(torch.autograd.Function):
    """The identity, as a node of the graph that holds a function and calls it when gradients come back through it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, note: Callable[[], None]) -> Tensor:
        """Return a copy of `x`, and hold `note`."""
        ctx.note = note
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Call what was held, and pass the gradient on."""
        ctx.note()
        return grads[0], None


class RecordingLoss:
    """A loss function that knows how many of the graphs it was part of are still alive.

    `most` is the largest number at any call, without that call's own. `events` gets an entry whenever gradients pass
    through it.
    """

    def __init__(self, loss_fn: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.loss_fn = loss_fn
        self.tokens = weakref.WeakSet[_Token]()
        self.most = 0
        self.events: list[str] = []

    def __call__(self, prediction: Tensor, target: Tensor) -> Tensor:
        self.most = max(self.most, self.alive())
        token = _Token(self.events)
        self.tokens.add(token)
        marked: Tensor = OnBackward.apply(self.loss_fn(prediction, target), token)
        return marked

    def alive(self) -> int:
        """Return how many graphs are alive now."""
        return len(self.tokens)


BESIDE = "a parameter that only the optimizer holds"


def held_beside(like: Tensor, stale: bool) -> nn.Parameter:
    """Return a parameter for an optimizer that holds more than a model's, zero, with an old gradient if `stale`."""
    parameter = nn.Parameter(like.new_zeros(1))
    parameter.grad = like.new_ones(1) if stale else None
    return parameter


def counted(optimizer: torch.optim.Optimizer) -> list[int]:
    """Return a list that gets an entry for each step that the optimizer takes."""
    steps: list[int] = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    return steps


def quotes_modes(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    """Return the fields `ran` and `should_run`, the model's modes, and `steps` and `wanted_steps`, for messages."""
    fields = {"ran": seen["the model ran in"], "should_run": wanted["the model ran in"]}
    steps = "optimizer steps"
    if steps in seen and steps in wanted:
        fields |= {"steps": seen[steps], "wanted_steps": wanted[steps]}
    return fields


def batches(draw: Draw, loss: str, sizes: list[int], inputs: int, outputs: int, dtype: torch.dtype) -> dict[str, Any]:
    """Draw batches of these sizes: `xs` and, to suit the loss, `ys`."""
    xs = [draw.normal(size, inputs, dtype=dtype) for size in sizes]
    if loss == "cross entropy":
        return {"xs": xs, "ys": [draw.integers(0, outputs, size) for size in sizes]}
    return {"xs": xs, "ys": [draw.normal(size, outputs, dtype=dtype) for size in sizes]}


def learning(
    draw: Draw, loss: str, sizes: list[int], dtype: torch.dtype = torch.float32, outputs: int = 0, **more: Any
) -> dict[str, Any]:
    """Draw the inputs of a case about training: weights, batches of these sizes, the loss, and `more`.

    The model has so many `outputs`, or two or three if that is 0.
    """
    inputs, hidden, outputs = draw.size(2, 4), draw.size(4, 5), outputs or draw.size(2, 3)
    weights = drawn_weights(draw, inputs, hidden, outputs, dtype)
    return {"weights": weights, **batches(draw, loss, sizes, inputs, outputs, dtype), "loss": loss, **more}
