"""The exercise `amp_step`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.source.mistakes import Mistake
from torchcourse.exercises.precision.amp_step import cases as cases_amp
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Only the forward pass runs under autocast; backward takes each operator's dtype from it. The gradients are"
    " unscaled before clipping, because the limit is meant for the true ones, and `scaler.step` sees to it that"
    " this happens only once."
)
"""Why the reference is written as it is."""
REQUIRED = ("clips-before-unscale", "no-autocast", "no-scaler-update", "missing-zero-grad")
"""The mistakes that a check must always be able to name."""


class Step:
    """A right step, as an object that is called. Each mistake below is this one with one method written otherwise."""

    def __call__(
        self, model: Any, batch: Any, loss_fn: Any, optimizer: Any, scaler: Any, *, device: Any, dtype: Any,
        max_norm: float | None = None,
    ) -> Any:  # fmt: skip
        self.model, self.loss_fn, self.optimizer, self.scaler = model, loss_fn, optimizer, scaler
        self.device, self.dtype = device, dtype
        self.begin()
        loss = self.forward(*batch)
        self.backward(loss)
        if max_norm is not None:
            self.clip(max_norm)
        self.step()
        return self.result(loss)

    def begin(self) -> None:
        self.optimizer.zero_grad()

    def autocast(self) -> Any:
        return torch.autocast(self.device.type, dtype=self.dtype)

    def forward(self, x: Tensor, y: Tensor) -> Any:
        with self.autocast():
            return self.loss_fn(self.model(x), y)

    def backward(self, loss: Tensor) -> None:
        self.scaled = self.scaler.scale(loss)
        self.scaled.backward()

    def clip(self, max_norm: float) -> None:
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), max_norm)

    def step(self) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def result(self, loss: Tensor) -> Any:
        return loss.item()


class ClipsScaled(Step):
    def clip(self, max_norm: float) -> None:
        nn.utils.clip_grad_norm_(self.model.parameters(), max_norm)


class ClipsThenUnscales(Step):
    def clip(self, max_norm: float) -> None:
        nn.utils.clip_grad_norm_(self.model.parameters(), max_norm)
        self.scaler.unscale_(self.optimizer)


class ClipsEachTensor(Step):
    def clip(self, max_norm: float) -> None:
        self.scaler.unscale_(self.optimizer)
        for p in self.model.parameters():
            nn.utils.clip_grad_norm_(p, max_norm)


class ClipsValues(Step):
    def clip(self, max_norm: float) -> None:
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_value_(self.model.parameters(), max_norm)


class ClipsTheFirstGroup(Step):
    def clip(self, max_norm: float) -> None:
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.optimizer.param_groups[0]["params"], max_norm)


class TakesZeroForNone(Step):
    def clip(self, max_norm: float) -> None:
        if max_norm:
            super().clip(max_norm)


class NeverClips(Step):
    def clip(self, max_norm: float) -> None:
        pass


class NoAutocast(Step):
    def autocast(self) -> Any:
        return contextlib.nullcontext()


class BackwardInside(Step):
    def backward(self, loss: Tensor) -> None:
        with self.autocast():
            super().backward(loss)


class LossOutside(Step):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        with self.autocast():
            out = self.model(x)
        return self.loss_fn(out, y)


class AlwaysFloat16(Step):
    def autocast(self) -> Any:
        return torch.autocast(self.device.type, dtype=torch.float16)


class AlwaysBfloat16(Step):
    def autocast(self) -> Any:
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


class NamesNoDtype(Step):
    def autocast(self) -> Any:
        return torch.autocast(self.device.type)


class NeverUpdates(Step):
    def step(self) -> None:
        self.scaler.step(self.optimizer)


class UpdatesFirst(Step):
    def step(self) -> None:
        self.scaler.update()
        self.scaler.step(self.optimizer)


class StepsScaled(Step):
    def step(self) -> None:
        self.optimizer.step()
        self.scaler.update()


class UnscalesAndStepsItself(Step):
    def backward(self, loss: Tensor) -> None:
        super().backward(loss)
        self.scaler.unscale_(self.optimizer)

    def clip(self, max_norm: float) -> None:
        nn.utils.clip_grad_norm_(self.model.parameters(), max_norm)

    def step(self) -> None:
        self.optimizer.step()
        self.scaler.update()


class NeverClears(Step):
    def begin(self) -> None:
        pass


class ClearsTheModel(Step):
    def begin(self) -> None:
        self.model.zero_grad()


class ClearsAfterwards(NeverClears):
    def step(self) -> None:
        super().step()
        self.optimizer.zero_grad()


class NeverScales(Step):
    def backward(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]


class ReturnsScaledLoss(Step):
    def result(self, loss: Tensor) -> Any:
        return self.scaled.item()


class DividesByTheNewScale(Step):
    def result(self, loss: Tensor) -> Any:
        return self.scaled.item() / self.scaler.get_scale()


class ReturnsTensor(Step):
    def result(self, loss: Tensor) -> Any:
        return loss.detach()


class ReturnsNothing(Step):
    def result(self, loss: Tensor) -> Any:
        pass


PROTOCOL = "The protocol, in order"
VALUE = 'In the case "{case}", `{what}` came out as {got} where {want} is wanted: '
CAST = "`{what}`: {got}; wanted: {want}. "
ORDER = 'The order was "{got}" where "{want}" is wanted: '
CLIP_EARLY = (
    'In the case "{case}" the order was "{got}" where "{want}" is wanted: before `scaler.unscale_` the gradients carry '
    "the scale. If they are clipped at that point, they are cut down to max_norm = {max_norm} and then divided by the "
    "scale in `scaler.step`, even if you have divided them by hand."
)
DTYPE = CAST + "The dtype is the caller's choice."
MISTAKES = [
    Mistake("clips-before-unscale", ClipsScaled(), CLIP_EARLY, PROTOCOL),
    Mistake("clips-before-unscale", ClipsThenUnscales(), CLIP_EARLY, PROTOCOL),
    Mistake("no-autocast", NoAutocast(), CAST + "Either there is no `torch.autocast` around forward and loss, or it is "
            "for another kind of device, or not enabled. They run in float32, and nothing is gained.", PROTOCOL),
    Mistake("loss-outside-autocast", LossOutside(), CAST + "The loss belongs inside autocast as well. Autocast takes "
            "care that it is computed in float32; outside, half-precision logits go into it as they are.", PROTOCOL),
    Mistake("backward-inside-autocast", BackwardInside(), CAST + "Leave the block before `backward`, which takes each "
            "operator's dtype from the forward pass and needs no autocast of its own.", PROTOCOL),
    Mistake("dtype-ignored", AlwaysFloat16(), DTYPE, PROTOCOL),
    Mistake("dtype-ignored", NamesNoDtype(), DTYPE, PROTOCOL),
    Mistake("dtype-ignored", AlwaysBfloat16(), DTYPE, PROTOCOL),
    Mistake("no-scaler-update", NeverUpdates(), ORDER + "without `update` the scale neither grows nor backs off, and "
            "the next call of `step` is refused.", PROTOCOL),
    Mistake("updates-before-step", UpdatesFirst(), ORDER + "`update` closes the round and may change the scale, so it "
            "comes last.", PROTOCOL),
    Mistake("missing-zero-grad", NeverClears(), VALUE + "gradients of an earlier step were still there, and `backward` "
            "added the new ones to them.", PROTOCOL),
    Mistake("missing-zero-grad", ClearsAfterwards(), VALUE + "the gradients were cleared only after the step, so those "
            "that were there before the call still counted.", PROTOCOL),
    Mistake("clears-the-model-only", ClearsTheModel(), VALUE + "the optimizer holds a parameter that is not the "
            "model's (a loss may have some of its own), and its old gradient still counted. `optimizer.zero_grad()` "
            "clears them all.",
            PROTOCOL),
    Mistake("never-scales", NeverScales(), ORDER + "`backward` was called on the loss itself, so small gradients "
            "vanish in the 16-bit parts of the network, and the step divides by a scale that was never there.",
            PROTOCOL),
    Mistake("steps-past-the-scaler", StepsScaled(), ORDER + "`optimizer.step()` was called directly, on gradients that "
            "still carry the scale, and even if they hold inf or NaN.", PROTOCOL),
    Mistake("steps-past-the-scaler", UnscalesAndStepsItself(), ORDER + "`optimizer.step()` was called directly. After "
            "an overflow it fills the weights with NaN; `scaler.step` leaves such a step out.", PROTOCOL),
    Mistake("never-clips", NeverClips(), ORDER + "max_norm was given, but the gradients were not clipped before the "
            "step.", PROTOCOL),
    Mistake("takes-zero-for-none", TakesZeroForNone(), ORDER + "max_norm was 0, which `if max_norm` takes for None: "
            "ask `is not None`.", PROTOCOL),
    Mistake("clips-the-first-group", ClipsTheFirstGroup(), VALUE + "the optimizer has more than one group of "
            "parameters, and only the gradients of the first were clipped to {max_norm}.", PROTOCOL),
    Mistake("clips-each-tensor", ClipsEachTensor(), VALUE + "the gradient of each parameter was clipped by itself, but "
            "max_norm = {max_norm} is meant for the norm of all of them together.", PROTOCOL),
    Mistake("clips-values", ClipsValues(), VALUE + "each entry was cut off at max_norm = {max_norm}, which is meant "
            "for the norm of all gradients together.", PROTOCOL),
    Mistake("returns-scaled-loss", ReturnsScaledLoss(), VALUE + "that is the loss times the scale.", PROTOCOL),
    Mistake("divides-by-the-new-scale", DividesByTheNewScale(), VALUE + "the scaled loss was divided by the scale as "
            "`update` left it, and `update` may change the scale. The loss itself is still there to return.", PROTOCOL),
    Mistake("returns-tensor", ReturnsTensor(), "What came back is {got} where {want} is wanted: the loss has to be a "
            "Python float.", PROTOCOL),
    Mistake("returns-nothing", ReturnsNothing(), "The loss should come back as a Python float, {want}, but what came "
            "back is {got}.", PROTOCOL),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    near = {"rtol": 2e-2, "atol": 5e-3}
    again = {c.name: c.inputs for c in cases_amp(draw)}
    two = again["two steps in bfloat16"]
    return [
        case("clipped, with gradients left over", **near, **{**again["gradients that are clipped"], "stale": 64.0}),
        case("float16, two steps", **near, **{**two, "dtype": torch.float16}),
        case("gradients small enough, a scale of one", **near, **{**two, "scale": 1.0, "max_norm": 900.0}),
    ]


# Right answers unlike the reference


def amp_always_unscaling(
    model: Any, batch: Any, loss_fn: Any, optimizer: Any, scaler: Any, *, device: Any, dtype: Any, max_norm: Any = None
) -> float:
    inputs, targets = (t.to(device) for t in batch)
    with torch.amp.autocast(device_type=torch.device(device).type, dtype=dtype):
        prediction = model(inputs)
        loss = loss_fn(prediction, targets)
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = None
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf if max_norm is None else max_norm)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return float(loss)


def amp_clipping_by_hand(
    model: Any, batch: Any, loss_fn: Any, optimizer: Any, scaler: Any, *, device: Any, dtype: Any, max_norm: Any = None
) -> float:
    optimizer.zero_grad(set_to_none=False)
    loss = torch.autocast(device.type, dtype=dtype)(lambda: loss_fn(model(batch[0]), batch[1]))()
    scaler.scale(loss).backward()
    if max_norm is not None:
        scaler.unscale_(optimizer)
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.cat([g.flatten() for g in grads]).norm().item()
        if math.isfinite(norm) and norm > max_norm:
            for g in grads:
                g.mul_(max_norm / (norm + 1e-6))
    scaler.step(optimizer)
    scaler.update()
    return loss.detach().cpu().tolist()  # type: ignore[no-any-return]


def amp_by_autograd_grad(
    model: Any, batch: Any, loss_fn: Any, optimizer: Any, scaler: Any, *, device: Any, dtype: Any, max_norm: Any = None
) -> float:
    with torch.autocast(device.type, dtype):
        loss = loss_fn(model(batch[0]), batch[1])
    parameters = list(model.parameters())
    optimizer.zero_grad()
    for p, g in zip(parameters, torch.autograd.grad(scaler.scale(loss), parameters), strict=True):
        p.grad = g
    if max_norm is not None:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, torch.nn.utils.get_total_norm(
            [p.grad for p in parameters]))  # fmt: skip
    scaler.step(optimizer)
    scaler.update()
    return float(loss.item())


RIGHT_ANSWERS: list[Callable[..., Any]] = [amp_always_unscaling, amp_clipping_by_hand, amp_by_autograd_grad]
