"""The exercise `guarded_step`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kept, kind
from torchcourse.probes.trainable_models import (
    BESIDE,
    LOSSES,
    RecordingModel,
    counted,
    flat,
    held_beside,
    learning,
    mode,
    number,
)

LossFn = Callable[[Tensor, Tensor], Tensor]


def nan_gradient(prediction: Tensor, target: Tensor) -> Tensor:
    """Return a finite loss whose gradient is NaN: that of a root at zero."""
    return LOSSES["mean squared error"](prediction, target) + (0 * prediction).sum().sqrt()


def infinite_gradient(prediction: Tensor, target: Tensor) -> Tensor:
    """Return a finite loss whose gradient is infinite, by the first output of the first sample alone."""
    first = torch.zeros_like(prediction)
    first[0, 0] = torch.inf
    if prediction.requires_grad:
        prediction.register_hook(lambda g: g + first)  # type: ignore[no-untyped-call]
    return LOSSES["mean squared error"](prediction, target)


def infinite_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """Return a loss that is infinite, with a finite gradient."""
    return LOSSES["mean squared error"](prediction, target) + torch.inf


BAD: dict[str, LossFn] = {
    "NaN gradient": nan_gradient, "infinite gradient": infinite_gradient, "infinite loss": infinite_loss, **LOSSES
}  # fmt: skip
OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, 0.05),
    "SGD for the last layer": lambda p: torch.optim.SGD(list(p)[-2:], 0.1),
}


def memory(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return copies of all tensors in an optimizer's state."""
    return [v.clone() for state in optimizer.state.values() for v in state.values() if isinstance(v, Tensor)]


def probe(
    answer: Watched, weights: dict[str, Tensor], xs: list[Tensor], ys: list[Tensor], loss: str, optimizer: str,
    max_norm: float, stale: bool, starts: str,
) -> Observations:  # fmt: skip
    """Observe what the step returns, and what it does to parameters, gradients and the optimizer."""
    model = RecordingModel(weights).train(starts == "training")
    made = OPTIMIZERS[optimizer](model.parameters())
    LOSSES["mean squared error"](model(xs[0]), ys[0]).backward()  # type: ignore[no-untyped-call]
    made.step()  # so that there is a state to lose
    model.zero_grad()
    beside = held_beside(xs[0], stale)
    made.add_param_group({"params": [beside]})
    if stale:
        LOSSES["mean squared error"](model(xs[0]), ys[0] + 1).backward()  # type: ignore[no-untyped-call]
    parameters, state, raw = flat(model.parameters()), memory(made), xs[1].clone()
    taken = counted(made)
    found = answer(model, (xs[1], ys[1]), BAD[loss], made, max_norm=max_norm)
    if not isinstance(found, dict) or not {"loss", "grad_norm", "stepped"} <= found.keys():
        return {"returned": f"{kind(found)} without the keys loss, grad_norm and stepped"}
    now, moved = memory(made), bool((flat(model.parameters()) != parameters).any())
    same = len(now) == len(state) and all(torch.equal(a, b) for a, b in zip(now, state, strict=True))
    seen: Observations = {
        "loss": "a tensor with its graph" if getattr(found["loss"], "requires_grad", False) else number(found["loss"]),
        "grad_norm": number(found["grad_norm"]),
        "stepped": bool(found["stepped"]),
        "optimizer steps": len(taken),
        "parameters afterwards": flat(model.parameters()) if moved else "as before",
        "optimizer state": "as before" if same else "changed",
        BESIDE: "as before" if float(beside) == 0 else "changed",
        "mode afterwards": mode(model),
        **kept(x=(xs[1], raw)),
    }
    if not taken:  # after a step they are whatever the answer likes
        held = [*model.parameters(), beside]
        cleared = all(p.grad is None or not bool((p.grad != 0).any()) for p in held)
        seen["gradients afterwards"] = "cleared" if cleared else "still there"
    return seen


def cases(draw: Draw) -> list[Case]:
    def drawn(loss: str, optimizer: str = "SGD", max_norm: float = 0.1, **more: Any) -> dict[str, Any]:
        inputs = learning(draw, "mean squared error", [5, draw.size(4, 6)], dtype=more.pop("dtype", torch.float32))
        kept_loss = {"loss": loss, "optimizer": optimizer, "max_norm": max_norm, "stale": False, "starts": "training"}
        return inputs | kept_loss | more

    spoilt = drawn("mean squared error", "Adam")
    spoilt["xs"][1][0, 0] = torch.nan
    return [
        case("a gradient to be clipped", **drawn("mean squared error")),
        case("a gradient below max_norm", **drawn("mean squared error", max_norm=100.0)),
        case("Adam, with gradients of an earlier batch", **drawn("mean squared error", "Adam", stale=True)),
        case("an optimizer for the last layer alone", **drawn("mean squared error", "SGD for the last layer")),
        case("NaN in x", **spoilt),
        case("a finite loss, a gradient of NaN", **drawn("NaN gradient", "momentum")),
        case("a finite loss, an infinite gradient", **drawn("infinite gradient", "Adam")),
        case("an infinite loss, a finite gradient", **drawn("infinite loss", "momentum", stale=True)),
        case("evaluation mode, float64", **drawn("mean squared error", starts="evaluation", dtype=torch.float64)),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"norm": seen.get("grad_norm"), "loss_now": seen.get("loss")}
    fields |= {"stepped": seen.get("stepped"), "limit": inputs["max_norm"], "true_norm": wanted.get("grad_norm")}
    return fields | {"gradients": seen.get("gradients afterwards"), "steps": seen.get("optimizer steps")}


EXERCISE = Exercise(
    "guarded_step",
    probe,
    cases,
    hints=(
        "It is the training step with a question between `backward` and `step`. Which two numbers have to be finite, "
        "and which of them can be bad while the other looks fine?",
        "`clip_grad_norm_` returns the norm as it was before. What does it make of all gradients when this norm is "
        "NaN, and what has to happen to them if you do not step?",
        "If the step is skipped, the optimizer must not notice. Which call changes its state, and which one only "
        "clears gradients?",
    ),
    quotes=quotes,
)
