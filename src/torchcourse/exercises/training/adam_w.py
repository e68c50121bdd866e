"""The exercise `AdamW`: its probe, visible cases and hints."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import flat


class _Run:
    """Hold parameters, the learner's optimizer over them, and take steps along given gradients."""

    def __init__(self, answer: Watched, values: Sequence[Tensor], groups: list[dict[str, Any]], options: Any) -> None:
        self.answer, self.parameters = answer, [nn.Parameter(v.clone()) for v in values]
        apart = [{"params": [p], **g} for p, g in zip(self.parameters, groups, strict=True)] if groups else None
        self.optimizer = answer(apart or self.parameters, **options)
        self.gradients = "as before"
        self.calls: list[str] = []
        self.returned: list[str] = []

    def slow_down(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] *= 0.2

    def step(self, gradients: list[Tensor | None], number: int, by_closure: bool = False) -> None:
        """Step along these gradients, one for each parameter. The loss that a closure returns tells the number."""

        def backward() -> float:
            """Set the gradients; return a loss."""
            self.calls.append("with gradients on" if torch.is_grad_enabled() else "with gradients off")
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                parameter.grad = None if gradient is None else gradient.clone()
            return 0.25 + number

        if not by_closure:
            backward()
        returned = self.optimizer.step(backward) if by_closure else self.optimizer.step()
        if by_closure:
            self.returned.append("what the closure returned" if returned == 0.25 + number else kind(returned))
        pairs = zip(self.parameters, gradients, strict=True)
        if any(g is not None and (p.grad is None or not torch.equal(p.grad, g)) for p, g in pairs):
            self.gradients = "changed"


def _of_step(gradients: list[Tensor | None], number: int, idle: Sequence[int]) -> list[Tensor | None]:
    """Return the gradients of one step. In the steps `idle` the last parameter has none."""
    found = [None if gradient is None else gradient[number] for gradient in gradients]
    return [*found[:-1], None] if number in idle else found


def probe(
    answer: Watched, values: list[Tensor], gradients: list[Tensor | None], groups: list[dict[str, Any]],
    options: dict[str, Any], slower_at: int, by_closure: bool = False, idle: Sequence[int] = (),
) -> dict[str, Any]:  # fmt: skip
    """Observe training along given gradients; halfway a second optimizer is loaded from the first one's state and goes
    along."""
    run, steps = _Run(answer, values, groups, options), len(next(g for g in gradients if g is not None))

    def train(runs: Sequence[_Run], numbers: range) -> None:
        with answer.watched():  # once, not at each step: to watch takes longer than a step
            for number in numbers:
                for each in runs:
                    if number == slower_at:
                        each.slow_down()
                    each.step(_of_step(gradients, number, idle), number, by_closure)

    train([run], range(1))
    early = flat(run.parameters)
    train([run], range(1, steps // 2))
    other = _Run(answer, run.parameters, [{} for _ in groups], {})
    other.optimizer.load_state_dict(copy.deepcopy(run.optimizer.state_dict()))
    train([run, other], range(steps // 2, steps))
    same = torch.equal(flat(run.parameters), flat(other.parameters))
    often = "once a step" if len(run.calls) == steps else f"{len(run.calls) / steps:g} times a step"
    closure = {
        "the closure was called": ", ".join([often, *sorted(set(run.calls))]),
        "step returned": " and ".join(sorted(set(run.returned))),
    }
    return {
        **(closure if by_closure else {}),
        "parameters after the first step": early,
        "parameters after the last step": flat(run.parameters),
        "gradients after a step": run.gradients,
        "resumed from its state_dict": "exactly the same" if same else "different",
    }


def cases(draw: Draw) -> list[Case]:
    def task(steps: int, *, scale: float = 1.0, groups: Any = (), none: bool = False, slower_at: int = -1,
             dtype: torch.dtype = torch.float32, **options: Any) -> dict[str, Any]:  # fmt: skip
        shapes = [(3, 2), (4,)]
        values = [3 * draw.normal(*shape, dtype=dtype) for shape in shapes]
        gradients: list[Tensor | None] = [scale * (draw.normal(steps, *shape, dtype=dtype) + 0.5) for shape in shapes]
        if none:
            values, gradients = [draw.normal(2, dtype=dtype), *values], [None, *gradients]
        return {"values": values, "gradients": gradients, "groups": list(groups), "options": options,
                "slower_at": slower_at}  # fmt: skip

    apart = [{"lr": 0.05, "weight_decay": 0.2}, {"lr": 0.005, "weight_decay": 0.0}]
    close = {"rtol": 1e-4, "atol": 1e-5}
    return [
        case("fifty steps as it comes", **close, **task(50)),
        case("a strong decay", **close, **task(6, lr=0.1, weight_decay=0.5)),
        case("two parameter groups", **close, **task(8, groups=apart)),
        case("other betas, a large eps", **close, **task(8, lr=0.05, betas=(0.7, 0.9), eps=0.1, scale=0.3)),
        case("a parameter without gradient", **close, **task(6, lr=0.02, none=True)),
        case("lr lowered on the way", **close, **task(8, lr=0.1, slower_at=3)),
        case("with a closure", **close, **task(5, lr=0.04), by_closure=True),
        case("float64", rtol=1e-8, atol=1e-9, **task(6, lr=0.03, dtype=torch.float64)),
        case("a parameter without gradient in some steps", **close, **task(7, lr=0.05), idle=[0, 1, 4]),
    ]


OPTIMIZERS = (
    "adadelta", "adagrad", "adam", "adamax", "adamw", "asgd", "lbfgs", "nadam", "radam", "rmsprop", "rprop", "sgd",
    "sparse_adam", "_adafactor", "_muon", "_functional", "swa_utils",
)  # fmt: skip
EXERCISE = Exercise(
    "AdamW",
    probe,
    cases,
    hints=(
        "The base class has two dicts: `self.param_groups` says what to update and how fast, `self.state[p]` is where "
        "a parameter's own history belongs. Which three things make up that history?",
        "Both averages start at zero, so after t steps they are too small by 1 - beta**t. Where do you divide by it, "
        "and where does eps go: inside the root or outside it?",
        "What makes it AdamW is that the weight decay shrinks the parameter itself, by lr times weight_decay, before "
        "the step, and never enters the gradient.",
    ),
    forbids=(*(f"torch.optim.{name}" for name in OPTIMIZERS), "fused_adamw", "fused_adam", "fused_sgd"),
)
