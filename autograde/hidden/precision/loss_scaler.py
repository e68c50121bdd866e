"""The exercise `LossScaler`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograde.source.mistakes import Mistake
from torchcourse.exercises.precision.loss_scaler import drawn_pattern
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "All gradients are looked at before the step: one that is not finite spoils the moments of the whole "
    "optimizer. A skipped step costs little, so the scale may grow until one is skipped. `update` is separate, "
    "so that several optimizers can share one scale."
)
"""Why the reference is written as it is."""
REQUIRED = ("steps-on-overflow", "never-grows", "never-unscales")
"""The mistakes that a check must always be able to name."""


class Scaler:
    """A right scaler. Each mistake below is this one with one method written otherwise."""

    def __init__(self, scale: float = 2.0**16, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000) -> None:
        self.now, self.growth, self.backoff, self.interval = scale, growth, backoff, interval
        self.good, self.bad = 0, False

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self.now

    def gradients(self, optimizer: torch.optim.Optimizer) -> list[Tensor]:
        return [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]

    def unscale(self, grads: list[Tensor]) -> None:
        for g in grads:
            g.div_(self.now)

    def finite(self, grads: list[Tensor]) -> bool:
        return all(bool(g.isfinite().all()) for g in grads)

    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        grads = self.gradients(optimizer)
        self.unscale(grads)
        fine = self.finite(grads)
        if fine:
            optimizer.step()
        self.bad = self.bad or not fine
        return fine

    def update(self) -> None:
        if self.bad:
            self.back_off()
        else:
            self.good += 1
            if self.may_grow():
                self.grow()
        self.bad = False

    def may_grow(self) -> bool:
        return self.good >= self.interval

    def grow(self) -> None:
        self.now, self.good = self.now * self.growth, 0

    def back_off(self) -> None:
        self.now, self.good = self.now * self.backoff, 0


# Mistakes in `step`


class StepsAnyway(Scaler):
    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        fine = super().step(optimizer)
        if not fine:
            optimizer.step()
        return fine


class StepsAlongZeros(Scaler):
    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        fine = super().step(optimizer)
        if not fine:
            for g in self.gradients(optimizer):
                g.zero_()
            optimizer.step()
        return fine


class StepsAlongWhatIsFinite(Scaler):
    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        fine = super().step(optimizer)
        if not fine:
            for g in self.gradients(optimizer):
                g.nan_to_num_(0.0, 0.0, 0.0)
            optimizer.step()
        return fine


class NeverUnscales(Scaler):
    def unscale(self, grads: list[Tensor]) -> None:
        pass


class UnscalesAfterTheStep(NeverUnscales):
    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        fine = super().step(optimizer)
        for g in self.gradients(optimizer):
            g.div_(self.now)
        return fine


class MissesNan(Scaler):
    def finite(self, grads: list[Tensor]) -> bool:
        return not any(bool(g.isinf().any()) for g in grads)


class MissesInf(Scaler):
    def finite(self, grads: list[Tensor]) -> bool:
        return not any(bool(g.isnan().any()) for g in grads)


class LooksAtTheLastGradient(Scaler):
    def finite(self, grads: list[Tensor]) -> bool:
        return bool(grads[-1].isfinite().all())


class AddsTheGradientUp(Scaler):
    def finite(self, grads: list[Tensor]) -> bool:
        return all(bool(g.sum().isfinite()) for g in grads)


class NeverLooks(Scaler):
    def finite(self, grads: list[Tensor]) -> bool:
        return True


class FirstGroupOnly(Scaler):
    def gradients(self, optimizer: torch.optim.Optimizer) -> list[Tensor]:
        return [p.grad for p in optimizer.param_groups[0]["params"] if p.grad is not None]


class FailsOnNone(Scaler):
    def gradients(self, optimizer: torch.optim.Optimizer) -> list[Tensor]:
        return [p.grad for group in optimizer.param_groups for p in group["params"]]


class SaysSkipped(Scaler):
    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        return not super().step(optimizer)


class SaysNothing(Scaler):
    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        super().step(optimizer)


class SkipsTheOthersToo(Scaler):
    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        grads = self.gradients(optimizer)
        self.unscale(grads)
        self.bad = self.bad or not self.finite(grads)
        if not self.bad:
            optimizer.step()
        return not self.bad


# Mistakes in what `update` makes of the overflows


class ForgetsAnEarlierOverflow(Scaler):
    def step(self, optimizer: torch.optim.Optimizer) -> Any:
        fine = super().step(optimizer)
        self.bad = not fine
        return fine


class NeverForgetsAnOverflow(Scaler):
    def update(self) -> None:
        bad = self.bad
        super().update()
        self.bad = bad


class NeverGrows(Scaler):
    def may_grow(self) -> bool:
        return False


class GrowsEveryUpdate(Scaler):
    def may_grow(self) -> bool:
        return True


class GrowsOneTooLate(Scaler):
    def may_grow(self) -> bool:
        return self.good > self.interval


class GrowsOnAndOn(Scaler):
    def grow(self) -> None:
        self.now *= self.growth


class Adds(Scaler):
    def grow(self) -> None:
        self.now, self.good = self.now + self.growth, 0


class NeverBacksOff(Scaler):
    def back_off(self) -> None:
        self.good = 0


class CountsThroughOverflows(Scaler):
    def back_off(self) -> None:
        self.now *= self.backoff


class GrowsAtEveryMultiple(Scaler):
    count = 0  # of all updates

    def update(self) -> None:
        self.count += 1
        super().update()

    def may_grow(self) -> bool:
        return self.count % self.interval == 0


class BacksOffByGrowth(Scaler):
    def back_off(self) -> None:
        self.now, self.good = self.now / self.growth, 0


class StopsAtOne(Scaler):
    def update(self) -> None:
        super().update()
        self.now = max(self.now, 1.0)


class CappedWhereItStarts(Scaler):
    def update(self) -> None:
        super().update()
        self.now = min(self.now, 2.0**16)


class CappedFarUp(Scaler):
    def update(self) -> None:
        super().update()
        self.now = min(self.now, 2.0**24)


DYNAMIC = "A scale that finds itself"
VALUE = 'In the case "{case}", `{what}` came out as {got} where {want} is wanted: '
SCALES = 'After update {update} of the pattern "{pattern}" the scale is {scale_got} where GradScaler has {scale_want}: '
STEPS = 'In the pattern "{pattern}" the optimizer stepped {steps} times, and {right_steps} is right: '
STEPS_ON = STEPS + (
    "one of the gradients held inf or NaN, and a step along it, or along zeros, still moves the weights. Leave such a "
    "step out altogether."
)
CAPPED = SCALES + "there is no upper limit but the next overflow."
MISTAKES = [
    Mistake("steps-on-overflow", StepsAnyway, STEPS_ON, DYNAMIC),
    Mistake("steps-on-overflow", StepsAlongZeros, STEPS_ON, DYNAMIC),
    Mistake("steps-on-overflow", StepsAlongWhatIsFinite, STEPS_ON, DYNAMIC),
    Mistake("never-grows", NeverGrows, SCALES + "it grows after {interval} updates in a row without overflow.",
            DYNAMIC),
    Mistake("never-unscales", NeverUnscales, VALUE + "the optimizer got gradients that still carried the scale, so its "
            "steps were too large by that factor.", DYNAMIC),
    Mistake("never-unscales", UnscalesAfterTheStep, VALUE + "the optimizer got gradients that still carried the scale; "
            "they were divided only after it had stepped.", DYNAMIC),
    Mistake("never-backs-off", NeverBacksOff, SCALES + "after an overflow it has to go down, or the next gradient "
            "overflows as well.", DYNAMIC),
    Mistake("grows-every-update", GrowsEveryUpdate, SCALES + "it grows only after {interval} good updates in a row.",
            DYNAMIC),
    *(Mistake("counts-through-overflows", counts, SCALES + "an overflow begins the count of good updates anew.",
              DYNAMIC) for counts in (CountsThroughOverflows, GrowsAtEveryMultiple)),
    Mistake("grows-on-and-on", GrowsOnAndOn, SCALES + "after it has grown, the count begins anew as well.", DYNAMIC),
    Mistake("off-by-one", GrowsOneTooLate, SCALES + "it grows at the update that makes {interval} in a row, not at the "
            "one after.", DYNAMIC),
    Mistake("adds-not-multiplies", Adds, SCALES + "growing means multiplying by the factor `growth`.", DYNAMIC),
    Mistake("misses-nan", MissesNan, STEPS + "NaN is not finite either, and `isinf` does not see it.", DYNAMIC),
    Mistake("misses-inf", MissesInf, STEPS + "`isnan` does not see inf; `isfinite` sees both.", DYNAMIC),
    Mistake("looks-at-the-last-gradient", LooksAtTheLastGradient, STEPS + "only the last gradient decided, but any one "
            "that holds inf or NaN spoils the step.", DYNAMIC),
    Mistake("first-group-only", FirstGroupOnly, VALUE + "an optimizer may have several groups of parameters, and only "
            "the gradients of the first were looked at.", DYNAMIC),
    Mistake("never-looks", NeverLooks, STEPS + "gradients that hold inf or NaN were taken for finite. One such entry "
            "is enough to leave the step out.", DYNAMIC),
    Mistake("adds-the-gradient-up", AddsTheGradientUp, STEPS + "every entry of the gradients is finite, and only their "
            "sum is not. Look at the entries, not at the sum.", DYNAMIC),
    Mistake("skips-the-others-too", SkipsTheOthersToo, STEPS + "an optimizer steps if its own gradients are finite. If "
            "another one met an overflow, that counts only in `update`.", DYNAMIC),
    Mistake("forgets-an-earlier-overflow", ForgetsAnEarlierOverflow, SCALES + "two optimizers stepped before the "
            "update, and only the last of them was remembered.", DYNAMIC),
    Mistake("never-forgets-an-overflow", NeverForgetsAnOverflow, SCALES + "`update` has to forget the overflow, or "
            "every later update looks like one.", DYNAMIC),
    Mistake("says-skipped", SaysSkipped, "`{what}` came out as {got} where {want} is wanted: True stands for a step "
            "that was made.", DYNAMIC),
    Mistake("says-nothing", SaysNothing, "`{what}` came out as {got} where {want} is wanted: True for a step, False "
            "for one that was left out.", DYNAMIC),
    Mistake("fails-on-none", FailsOnNone, 'In the case "{case}" the call raised {error}: a parameter that took no part '
            "has no gradient; skip it.", DYNAMIC),
    Mistake("stops-at-one", StopsAtOne, SCALES + "it may fall below 1, where gradients are too large as they are.",
            DYNAMIC),
    Mistake("capped", CappedWhereItStarts, CAPPED, DYNAMIC),
    Mistake("capped", CappedFarUp, CAPPED, DYNAMIC),
    Mistake("backs-off-by-growth", BacksOffByGrowth, SCALES + "after an overflow it is multiplied by `backoff`.",
            DYNAMIC),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def replay(length: int, share: float, learners: int = 1, **options: float) -> dict[str, Any]:
        patterns = [drawn_pattern(draw, length, share) for _ in range(learners)]
        pattern = [",".join(each) for each in zip(*patterns, strict=True)]
        return {"options": options, "pattern": pattern, "gradients": [draw.normal(2) for _ in range(learners)],
                "idle": learners == 2}  # fmt: skip

    return [
        case("drawn, few overflows", **replay(12, 0.15, scale=2.0**10, interval=3)),
        case("drawn, many overflows", **replay(8, 0.6, interval=1)),
        case("drawn, two optimizers", **replay(4, 0.25, 2, scale=2.0**8, interval=2)),
        case("drawn, three optimizers", **replay(3, 0.2, 3, scale=2.0**8, interval=2, growth=4.0)),
        case("drawn, other factors", **replay(7, 0.3, scale=3.0, growth=1.5, backoff=0.1, interval=2)),
    ]


# Right answers unlike the reference


class ScalerInATensor:
    def __init__(self, scale: float = 2.0**16, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000):
        self._scale = torch.tensor(scale, dtype=torch.float32)
        self.options = growth, backoff, interval
        self.tracker = 0
        self.found: list[bool] = []

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self._scale.to(loss.device)

    @torch.no_grad()
    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = p.grad / self._scale.to(p.grad.device)
                    bad |= not torch.isfinite((p.grad * 0).sum()).item()
        self.found.append(bad)
        if not bad:
            optimizer.step()
        return not bad

    def update(self) -> None:
        growth, backoff, interval = self.options
        bad, self.found = any(self.found), []
        if bad:
            self._scale, self.tracker = self._scale * backoff, 0
        else:
            self.tracker += 1
            if self.tracker % interval == 0:
                self._scale, self.tracker = self._scale * growth, 0


class ScalerWithCountdown:
    def __init__(self, scale: float = 65536.0, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000):
        self.s, self.up, self.down, self.wait = scale, growth, backoff, interval
        self.left, self.skipped = interval, 0

    def scale(self, loss: Tensor) -> Tensor:
        return self.s * loss

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        parameters = [p for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters], norm_type=float("inf"))
        if not math.isfinite(norm.item()):
            self.skipped += 1
            return False
        for p in parameters:
            p.grad.mul_(1.0 / self.s)
        optimizer.step()
        return True

    def update(self) -> None:
        if self.skipped:
            self.s, self.left, self.skipped = self.s * self.down, self.wait, 0
            return
        self.left -= 1
        if not self.left:
            self.s, self.left = self.s * self.up, self.wait


RIGHT_ANSWERS: list[Callable[..., Any]] = [ScalerInATensor, ScalerWithCountdown]
