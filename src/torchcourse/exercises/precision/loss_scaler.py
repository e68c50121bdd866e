"""The exercise `LossScaler`: its probe, visible cases and hints."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import flat, number

SPOILT = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
FIRST = " in the first"  # of an optimizer's gradients


class _Learner:
    """Two parameters, a group each, with an optimizer that notes when it ran, and on which gradients. Where `idle`, it
    has a third one, which never gets a gradient."""

    def __init__(self, gradient: Tensor, idle: bool) -> None:
        self.gradient = gradient
        self.weights = [nn.Parameter(torch.ones_like(part)) for part in (gradient[:1], gradient[1:])]
        others = [nn.Parameter(torch.ones_like(gradient))] if idle else []
        groups = [{"params": self.weights[:1]}, {"params": [*others, *self.weights[1:]]}]
        self.optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.5)
        self.seen: list[Tensor] = []
        self.optimizer.register_step_pre_hook(self._note)

    def _note(self, *_: object) -> None:
        self.seen.append(flat(weight.grad for weight in self.weights if weight.grad is not None))

    def loss(self) -> Tensor:
        return (torch.cat(list(self.weights)) * self.gradient).sum()

    def spoil(self, how: str) -> None:
        value, first, _ = how.partition(FIRST)
        gradient = self.weights[0 if first else -1].grad
        if value in SPOILT and gradient is not None:
            gradient[-1] = SPOILT[value]


def probe(
    answer: Watched, options: dict[str, float], pattern: list[str], gradients: list[Tensor], idle: bool
) -> dict[str, Any]:
    """Replay a pattern: for each update, and each optimizer, "fine" or what one of its gradients holds."""
    learners, one = [_Learner(g, idle) for g in gradients], torch.ones((), device=gradients[0].device)
    scaler, scales, stepped, ran = answer(**options), list[Any](), list[Any](), list[bool]()
    with answer.watched():
        for round_ in pattern:
            scales.append(number(scaler.scale(one.clone())))
            for learner in learners:
                learner.optimizer.zero_grad()
            scaler.scale(sum(learner.loss() for learner in learners)).backward()
            for learner, how in zip(learners, round_.split(","), strict=True):
                learner.spoil(how)
                before = len(learner.seen)
                did = scaler.step(learner.optimizer)
                stepped.append("nothing" if did is None else kind(did) if isinstance(did, str) else bool(did))
                ran.append(len(learner.seen) > before)
            scaler.update()
        scales.append(number(scaler.scale(one.clone())))
    return {
        "scales": scales,
        "the optimizer ran": ran,
        "step returned": stepped,
        "gradients that the optimizer saw": [g for learner in learners for g in learner.seen[:2]],
        "parameters afterwards": flat(weight for learner in learners for weight in learner.weights),
    }


def drawn_pattern(draw: Draw, length: int, share: float) -> list[str]:
    spoilt = ["inf", "nan", "-inf", f"inf{FIRST}", f"nan{FIRST}"]
    return [draw.pick(spoilt) if flag else "fine" for flag in draw.flags(length, share=share)]


def cases(draw: Draw) -> list[Case]:
    def replay(pattern: list[str], learners: int = 1, idle: bool = False, **options: float) -> dict[str, Any]:
        gradients = [draw.normal(3) for _ in range(learners)]
        return {"options": options, "pattern": pattern, "gradients": gradients, "idle": idle}

    fine, bad = "fine", draw.pick(["inf", "-inf"])
    listed = [
        case("one overflow, as it comes", **replay([fine, bad, fine])),
        case("growing every second update", **replay([fine] * 5, scale=8.0, interval=2)),
        case("a NaN", **replay([fine, "nan", fine, fine], scale=256.0, interval=3)),
        case("an overflow between", **replay([fine, fine, bad + FIRST, *[fine] * 4], scale=64.0, interval=3)),
        case("a row of overflows", **replay([bad, "nan", fine, fine], scale=2.0, interval=2)),
        case("growing from a high scale", **replay([fine, fine], scale=2.0**24, interval=1)),
        case("other factors", **replay([fine, fine, bad, fine], scale=100.0, growth=3.0, backoff=0.25, interval=1)),
        case("two optimizers, the first overflows", **replay(["inf,fine", "fine,fine"], 2, scale=32.0, interval=2)),
        case("two optimizers, the second overflows", **replay(["fine,fine", "fine,inf", "fine,fine"], 2, scale=32.0)),
        case("a parameter without gradient", **replay([fine, "nan", fine], idle=True)),
        case("a drawn pattern", **replay(drawn_pattern(draw, 8, 0.3), scale=1024.0, interval=2)),
    ]
    huge = {**replay([fine], scale=1.0, interval=1), "gradients": [draw.uniform(2.5e38, 3e38, 3)]}
    return [*listed, case("gradients near the end of float32", **huge)]


def _exactly(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    got, want = seen["scales"], wanted["scales"]
    place = next((i for i, (g, w) in enumerate(zip(got, want, strict=False)) if g != w), None)
    known = place is not None
    return {
        "pattern": ", ".join(inputs["pattern"]), "interval": int(inputs["options"].get("interval", 2000)),
        "update": place if known else "no update", "scale_got": _exactly(got[place] if known else got[-1]),
        "scale_want": _exactly(want[place] if known else want[-1]),
        "steps": sum(seen["the optimizer ran"]), "right_steps": sum(wanted["the optimizer ran"]),
    }  # fmt: skip


EXERCISE = Exercise(
    "LossScaler",
    probe,
    cases,
    hints=(
        "Three things have to be remembered from call to call: the scale, how many updates in a row were fine, and one "
        "more, which `step` finds out and `update` needs. Which?",
        "`step` divides every gradient by the scale before the optimizer may see it. How do you learn whether all of "
        "them are finite, and what if a parameter has none?",
        "When does the count of good updates go back to zero? There are two occasions. And if two optimizers step "
        "before one update, whose overflow counts?",
    ),
    forbids=(
        "torch.amp.grad_scaler",
        "torch.cuda.amp.grad_scaler",
        "torch.cpu.amp.grad_scaler",
        "amp_update_scale",
        "amp_foreach_non_finite_check_and_unscale",
    ),
    quotes=quotes,
)
