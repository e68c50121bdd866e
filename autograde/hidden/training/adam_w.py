"""The exercise `AdamW`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import override
from autograde.hidden.training.shared import VALUE
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The averages start at 0, so they are divided by `1 - beta ** step` until they have filled up. The decay "
    "acts on the weight itself, and not through the gradient, where the division by the root of the squares "
    "would undo it for large gradients. `eps` stands outside the root."
)
"""Why the reference is written as it is."""
REQUIRED = ("coupled-weight-decay", "no-bias-correction", "eps-inside-root")
"""The mistakes that a check must always be able to name."""

OPTIMIZERS = "Optimizers"


class AdamW(torch.optim.Optimizer):
    """A right optimizer; a mistake overrides one of its methods."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = self.called(closure)
        for group in self.groups():
            for p in group["params"]:
                if self.takes_part(p):
                    self.update(p, group)
        return loss

    def takes_part(self, p: Any) -> bool:
        return p.grad is not None

    def called(self, closure: Any) -> Any:
        if closure is None:
            return None
        with torch.enable_grad():
            return closure()

    def groups(self) -> list[dict[str, Any]]:
        return self.param_groups

    def update(self, p: Any, group: dict[str, Any]) -> None:
        (b1, b2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        gradient, state = self.gradient(p, decay), self.memory(p)
        if not state:
            mean, square = self.start(gradient)
            state.update(step=0, mean=mean, square=square)
        state["step"] += 1
        state["mean"] = b1 * state["mean"] + (1 - b1) * gradient
        state["square"] = b2 * state["square"] + (1 - b2) * gradient**2
        t = self.steps(state)
        c1, c2 = self.corrections(1 - b1**t, 1 - b2**t)
        step = lr * state["mean"] / c1 / self.below(state["square"], c2, group["eps"])
        self.move(p, step, lr, decay)

    def gradient(self, p: Any, _decay: float) -> Any:
        return p.grad

    def memory(self, p: Any) -> Any:
        return self.state[p]

    def start(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(gradient), torch.zeros_like(gradient)

    def steps(self, state: Any) -> Any:
        return state["step"]

    def corrections(self, c1: float, c2: float) -> tuple[float, float]:
        return c1, c2

    def below(self, square: Tensor, c2: float, eps: float) -> Tensor:
        return (square / c2).sqrt() + eps

    def move(self, p: Tensor, step: Tensor, lr: float, decay: float) -> None:
        p.mul_(1 - lr * decay)
        p.sub_(step)


class ZeroForNone(AdamW):
    def takes_part(self, p: Any) -> bool:
        return True

    def gradient(self, p: Any, _decay: float) -> Any:
        return torch.zeros_like(p) if p.grad is None else p.grad


class BetasSwapped(AdamW):
    def update(self, p: Any, group: dict[str, Any]) -> None:
        super().update(p, group | {"betas": group["betas"][::-1]})


class OverwritesGradients(AdamW):
    def update(self, p: Any, group: dict[str, Any]) -> None:
        super().update(p, group)
        p.grad.square_()


class DropsTheLoss(AdamW):
    def step(self, closure: Any = None) -> Any:
        super().step(closure)


class Coupled(AdamW):
    def gradient(self, p: Any, decay: float) -> Any:
        return p.grad + decay * p

    def move(self, p: Tensor, step: Tensor, lr: float, decay: float) -> None:
        p.sub_(step)


class DecaysAfterTheStep(AdamW):
    def move(self, p: Tensor, step: Tensor, lr: float, decay: float) -> None:
        p.sub_(step)
        p.mul_(1 - lr * decay)


class StopsAtNone(AdamW):
    def groups(self) -> list[dict[str, Any]]:
        return [g | {"params": list(takewhile(lambda p: p.grad is not None, g["params"]))} for g in self.param_groups]


class AveragesInAnAttribute(AdamW):
    def memory(self, p: Any) -> Any:
        return self.__dict__.setdefault("own", {}).setdefault(p, {})


class CountInAnAttribute(AdamW):
    count = 0

    def step(self, closure: Any = None) -> Any:
        self.count += 1
        return super().step(closure)

    def steps(self, state: Any) -> int:
        return self.count


class CountsForTheGroup(AdamW):
    def groups(self) -> list[dict[str, Any]]:
        for group in self.param_groups:
            group["count"] = group.get("count", 0) + 1
        return self.param_groups

    def update(self, p: Any, group: dict[str, Any]) -> None:
        self.count = group["count"]
        super().update(p, group)

    def steps(self, state: Any) -> Any:
        return self.count


ONE_CORRECTED = VALUE + "only one of the two averages was corrected for its start at zero."
RESUMED = "After a resume from its state_dict, the parameters are {got} at the end, and should be {want}: "
MISTAKES = [
    Mistake("overwrites-gradients", OverwritesGradients, "In the case \"{case}\" the {what} were {got}, but should be "
            "{want}: the optimizer must not write into `p.grad`; others read it after the step, and only `zero_grad` "
            "clears it.", OPTIMIZERS),
    Mistake("closure-ignored", override(AdamW, called=lambda self, closure: None), 'In the case "{case}" {what} {got}, '
            "where it should be {want}: `step(closure)` calls the closure first, which computes the gradients.",
            OPTIMIZERS),
    Mistake("closure-without-gradients", override(AdamW, called=lambda self, closure: closure and closure()), "In the "
            'case "{case}" {what} {got}, where it should be {want}: under `no_grad` its backward would fail, so '
            "`torch.enable_grad()` goes around the call.", OPTIMIZERS),
    Mistake("loss-not-returned", DropsTheLoss, 'In the case "{case}" {what} {got}. It should return {want}.',
            OPTIMIZERS),
    Mistake("coupled-weight-decay", Coupled, VALUE + "the decay was added to the gradient, where Adam divides it by "
            "the size of the gradients. In AdamW it shrinks the parameter directly.", OPTIMIZERS),
    Mistake("no-bias-correction", override(AdamW, corrections=lambda self, c1, c2: (1, 1)), VALUE + "both averages "
            "start at zero and are too small at first; dividing by 1 - beta**t makes up for it.", OPTIMIZERS),
    Mistake("no-bias-correction", override(AdamW, corrections=lambda self, c1, c2: (c1, 1)), ONE_CORRECTED, OPTIMIZERS),
    Mistake("no-bias-correction", override(AdamW, corrections=lambda self, c1, c2: (1, c2)), ONE_CORRECTED, OPTIMIZERS),
    Mistake("no-bias-correction", override(AdamW, start=lambda self, g: (g.clone(), g**2)), VALUE + "the averages were "
            "started from the first gradient; they should start at zero.", OPTIMIZERS),
    *(Mistake("eps-inside-root", override(AdamW, below=below), VALUE + "eps was added to the square before the root; "
              "it belongs to the root itself, where it is far smaller in effect.", OPTIMIZERS) for below in (
        lambda self, square, c2, eps: (square / c2 + eps).sqrt(),
        lambda self, square, c2, eps: ((square + eps) / c2).sqrt(),
    )),
    Mistake("eps-before-correction",
            override(AdamW, below=lambda self, square, c2, eps: (square.sqrt() + eps) / c2**0.5), VALUE + "eps "
            "was added before the second average was corrected, and so was corrected along with it.",
            OPTIMIZERS),
    Mistake("steps-not-counted", override(AdamW, steps=lambda self, state: 1), VALUE + "the correction stayed that of "
            "the first step: t counts the steps, but was not kept or not increased.", OPTIMIZERS),
    Mistake("betas-swapped", BetasSwapped, VALUE + "the two betas have changed places: the first belongs to the "
            "average of the gradient, the second to that of its square.", OPTIMIZERS),
    Mistake("corrected-after-the-root",
            override(AdamW, below=lambda self, square, c2, eps: square.sqrt() / c2 + eps), VALUE + "the root was taken "
            "first and then divided by 1 - beta2**t; the average square has to be corrected, under the root.",
            OPTIMIZERS),
    Mistake("square-not-rooted", override(AdamW, below=lambda self, square, c2, eps: square / c2 + eps), VALUE + "the "
            "step is divided by the average square itself, where its root is wanted.", OPTIMIZERS),
    Mistake("no-weight-decay", override(AdamW, move=lambda self, p, step, lr, decay: p.sub_(step)), VALUE + "the "
            "parameters were not shrunk by lr times weight_decay.", OPTIMIZERS),
    Mistake("decay-not-scaled-by-lr",
            override(AdamW, move=lambda self, p, step, lr, decay: p.mul_(1 - decay).sub_(step)), VALUE + "the "
            "parameters were shrunk by weight_decay alone; the learning rate scales the decay too.", OPTIMIZERS),
    Mistake("decays-after-the-step", DecaysAfterTheStep, VALUE + "the decay came after the step and so shrank the step "
            "as well.", OPTIMIZERS),
    Mistake("ignores-parameter-groups",
            override(AdamW, update=lambda self, p, group: AdamW.update(self, p, self.defaults)), VALUE + "a setting "
            "was not taken from the parameter's group. That is where a schedule changes it, and where "
            "`load_state_dict` puts it.",
            OPTIMIZERS),
    Mistake("ignores-parameter-groups", override(AdamW, groups=lambda self: self.param_groups[:1]), VALUE + "only the "
            "first group was updated.", OPTIMIZERS),
    Mistake("zero-for-a-missing-gradient", ZeroForNone, VALUE + "a parameter without a gradient was moved as if it had "
            "one of zeros, by the decay and by what its averages held. It should be skipped.", OPTIMIZERS),
    Mistake("stops-at-a-missing-gradient", StopsAtNone, VALUE + "the loop ended at a parameter without a gradient; "
            "skip that one, but not those after it.", OPTIMIZERS),
    Mistake("one-count-for-all", CountsForTheGroup, VALUE + "one count of steps served the whole group. A parameter "
            "that had no gradient in some steps has taken fewer, and each counts its own.", OPTIMIZERS),
    Mistake("state-outside-state-dict", AveragesInAnAttribute, RESUMED + "averages or counts of steps are kept in an "
            "attribute. `self.state[p]` is what `state_dict()` saves.", OPTIMIZERS),
    Mistake("state-outside-state-dict", CountInAnAttribute, RESUMED + "the count of steps is an attribute, and started "
            "again. `self.state[p]` is what `state_dict()` saves.", OPTIMIZERS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    shape, steps = (draw.size(1, 4), draw.size(1, 4)), draw.size(6, 20)
    values = [draw.normal(*shape), draw.normal(5)]
    gradients = [draw.normal(steps, *shape), 10 * draw.normal(steps, 5)]
    gradients[1][3] = 0.0  # that is a gradient, and the averages move the parameter
    common: dict[str, Any] = {"values": values, "gradients": gradients, "slower_at": 2}
    drawn = {"lr": draw.uniform(0.001, 0.1).item(), "weight_decay": draw.uniform(0.0, 0.3).item()}
    groups = [{"betas": (0.5, 0.99)}, {"eps": 0.01, "lr": 0.2}]
    return [
        case("drawn settings", **common, groups=[], options=drawn),
        case("groups with betas and eps of their own", **common, groups=groups, options={"weight_decay": 0.1}),
        case("no decay", **common, groups=[], options={"weight_decay": 0.0, "lr": 0.05}),
    ]


# Right answers unlike the reference


class AdamWWithTensors(torch.optim.Optimizer):
    def __init__(
        self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:  # fmt: skip
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = closure() if closure else None
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    s = self.state[p]
                    if len(s) == 0:
                        s["step"] = torch.tensor(0.0)
                        s["exp_avg"], s["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                    s["step"] += 1
                    (b1, b2), t = group["betas"], s["step"].item()
                    s["exp_avg"].mul_(b1).add_(p.grad, alpha=1 - b1)
                    s["exp_avg_sq"].mul_(b2).add_(p.grad * p.grad, alpha=1 - b2)
                    p.data.mul_(1 - group["lr"] * group["weight_decay"])
                    denominator = s["exp_avg_sq"].sqrt() / math.sqrt(1 - b2**t) + group["eps"]
                    p.data.addcdiv_(s["exp_avg"], denominator, value=-group["lr"] / (1 - b1**t))
        return loss


class AdamWUncorrectedState(torch.optim.Optimizer):
    """Keeps the products of the betas in place of a count of steps."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: Any = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        with torch.enable_grad():
            loss = closure() if closure else None
        for g in self.param_groups:
            for p in (p for p in g["params"] if p.grad is not None):
                s = self.state[p]
                m, v, left1, left2 = s.get("all", (torch.zeros_like(p), torch.zeros_like(p), 1.0, 1.0))
                b1, b2 = g["betas"]
                m, v = torch.lerp(p.grad, m, b1), b2 * v + (1 - b2) * p.grad.square()
                left1, left2 = left1 * b1, left2 * b2
                s["all"] = (m, v, left1, left2)
                size = m / (1 - left1) / ((v / (1 - left2)).sqrt() + g["eps"])
                p.copy_(p - g["lr"] * (g["weight_decay"] * p + size))
        return loss


RIGHT_ANSWERS: list[Callable[..., Any]] = [AdamWWithTensors, AdamWUncorrectedState]
