"""What probes train: small networks built from the tensors of a case, which note how they are used."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcourse.exercise import Draw
from torchcourse.exercises.looking import kind
from torchcourse.observations import Raised

__all__ = ["LOSSES", "Noted", "Witness", "drawn_weights", "flat", "mode", "number", "plainly_float", "remark"]


def drawn_weights(draw: Draw, inputs: int, hidden: int, outputs: int, dtype: torch.dtype = torch.float32) -> Any:
    """Weights for a `Noted`, as a case holds them."""
    return {
        "w1": 0.7 * draw.normal(hidden, inputs, dtype=dtype), "b1": 0.3 * draw.normal(hidden, dtype=dtype),
        "w2": 0.7 * draw.normal(outputs, hidden, dtype=dtype), "b2": 0.3 * draw.normal(outputs, dtype=dtype),
    }  # fmt: skip


class Noted(nn.Module):
    """A network of two layers that notes in which mode it runs, whether it builds a graph and whether hooks run.

    In training mode its hidden layer counts for half: a dropout without chance. Where `marked`, the first column of the
    input is no feature but says what the batch is for: above zero it is trained on.
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
        """In which mode it ran, over all batches that are to train on, or all others."""
        modes = sorted({note["mode"] for note in self.ran if note["train"] == train})
        return " and ".join(modes) + " mode" if modes else "not at all"


def _count(module: nn.Module, _inputs: object) -> None:
    assert isinstance(module, Noted)
    module.hooked += 1


def mode(model: nn.Module) -> str:
    """The mode that a model is in."""
    return "training" if model.training else "evaluation"


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """A copy of all elements in one row."""
    return torch.cat([t.detach().flatten() for t in tensors]).clone()


def plainly_float(value: object) -> float | str:
    """A Python float as it is; of anything else, what it is."""
    return value if isinstance(value, float) else kind(value)


def number(value: object) -> float | str:
    """A number, or a tensor that holds one, as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float | Tensor):
        return kind(value)
    return kind(value) if isinstance(value, Tensor) and value.numel() != 1 else float(value)


def remark(fact: str, detail: str) -> Raised:
    """A fact that is compared, with a detail for people that is not."""
    return Raised(fact, detail, "remark")


def lopsided(prediction: Tensor, target: Tensor) -> Tensor:
    """A loss to which a prediction that is too high matters more than one that is too low."""
    gap = prediction - target
    return (gap.exp() - gap - 1).mean()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean squared error": F.mse_loss, "lopsided": lopsided, "cross entropy": F.cross_entropy,
}  # fmt: skip


class _Token:
    """Something that can be asked whether it still lives, and that notes when it is differentiated through."""

    def __init__(self, events: list[str]) -> None:
        self.events = events


class _Mark(torch.autograd.Function):
    """The identity; a node of the graph that holds a token."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, token: _Token) -> Tensor:
        ctx.token = token
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.token.events.append("backward")
        return grads[0], None


class Witness:
    """A loss function that knows how many graphs it was part of are still alive. `most` is how many there were at one
    call, that call's own not counted. `events` gets an entry whenever gradients pass through it."""

    def __init__(self, loss_fn: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.loss_fn = loss_fn
        self.tokens: list[weakref.ref[_Token]] = []
        self.most = 0
        self.events: list[str] = []

    def __call__(self, prediction: Tensor, target: Tensor) -> Tensor:
        self.most = max(self.most, self.alive())
        token = _Token(self.events)
        self.tokens.append(weakref.ref(token))
        marked: Tensor = _Mark.apply(self.loss_fn(prediction, target), token)
        return marked

    def alive(self) -> int:
        """How many graphs are alive now."""
        return sum(token() is not None for token in self.tokens)
