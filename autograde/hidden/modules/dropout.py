"""The exercise `Dropout`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.hidden.modules.shared import UNBEGUN
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Every call draws its own mask, on the device of `x`. Dividing by `1 - p` in training keeps the expected "
    "value, so that nothing needs scaling in evaluation, where the module gives its input back as it is."
)
"""Why the reference is written as it is."""
REQUIRED = ("not-rescaled", "active-in-eval", "same-mask-every-call", "nan-at-one")
"""The mistakes that a check must always be able to name."""

REGISTER = "What a module remembers"
MODES = "Train and eval"


def drawn(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.rand(shape, device=like.device)


class Dropout(nn.Module):
    """A right dropout; a mistake overrides one of its methods."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.check(p)
        self.p = p

    def check(self, p: float) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"p is {p}, but has to lie between 0 and 1")

    def forward(self, x: Tensor) -> Tensor:
        return self.dropped(x) if self.training else x

    def dropped(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x) if self.p == 1 else self.scaled(x * self.mask(x))

    def mask(self, x: Tensor) -> Tensor:
        return drawn(x.shape, x) >= self.p

    def scaled(self, y: Tensor) -> Tensor:
        return y / (1 - self.p)


def only_above(_self: Dropout, p: float) -> None:
    if p > 1:
        raise ValueError(f"p is {p}, but has to lie between 0 and 1")


def without_a_message(_self: Dropout, p: float) -> None:
    assert 0 <= p <= 1


def looks_at_the_graph(self: Dropout, x: Tensor) -> Tensor:
    return self.dropped(x) if self.training and torch.is_grad_enabled() else x


def by_channel(self: Dropout, x: Tensor) -> Tensor:
    return drawn((*x.shape[:2], 1, 1) if x.ndim == 4 else x.shape, x) >= self.p


class SameMask(Dropout):
    once: Tensor | None = None

    def mask(self, x: Tensor) -> Tensor:
        if self.once is None:
            self.once = super().mask(x)
        return self.once


class ExactCount(Dropout):
    def mask(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.numel(), dtype=torch.bool, device=x.device)
        mask[torch.randperm(x.numel(), device=x.device)[: round(self.p * x.numel())]] = False
        return mask.view(x.shape)


class DrawnByPython(Dropout):
    def mask(self, x: Tensor) -> Tensor:
        return torch.tensor([random.random() >= self.p for _ in range(x.numel())], device=x.device).view(x.shape)


class DrawnByNumpy(Dropout):
    def mask(self, x: Tensor) -> Tensor:
        return torch.from_numpy(np.random.rand(*x.shape) >= self.p).to(x.device)


class OwnGenerator(Dropout):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)
        self.generator = torch.Generator().manual_seed(0)

    def mask(self, x: Tensor) -> Tensor:
        return (torch.rand(x.shape, generator=self.generator) >= self.p).to(x.device)


class ScaledInEval(Dropout):
    def forward(self, x: Tensor) -> Tensor:
        return self.dropped(x) if self.training else x * (1 - self.p)

    def scaled(self, y: Tensor) -> Tensor:
        return y


class Unbegun(nn.Module):
    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"p is {p}, but has to lie between 0 and 1")
        self.p = p

    def forward(self, x: Tensor) -> Any:
        return x


NOT_RESCALED = (
    "With p = {p} the kept values are multiplied by {factor} where {want_factor} is wanted: without 1 / (1 - p), the "
    "mean in training is not the mean in eval."
)
IN_EVAL = (
    "In eval mode the output and the input are {in_eval}, but should be the same: look at `self.training` before "
    "dropping anything."
)
REVERSED = (
    "With p = {p} the share of zeros in training is {share_of_zeros}, and in eval mode the output and the input are "
    "{in_eval}: it should be the other way round."
)
SAME_MASK = (
    "With p = {p} the results of two calls in training are {two_calls_in_training}: every call has to drop entries of "
    "its own."
)
ACCEPTED = (
    "For p = {p} the outcome was {refused_with}: a share lies between 0 and 1, and anything else should raise at once."
)
COLUMNS = (
    "The answer dropped {dropped}: the mask has to have the shape of the input, so that each entry is drawn by itself."
)
NOT_REPEATABLE = (
    "With p = {p}, the results of two calls, each after the same `torch.manual_seed`, are {got}: draw with torch's own "
    "generator, which that function sets, not with Python's, NumPy's or another one."
)
MISTAKES = [
    Mistake("missing-super-init", Unbegun, UNBEGUN, REGISTER),
    Mistake("not-rescaled", override(Dropout, scaled=lambda self, y: y), NOT_RESCALED, MODES),
    Mistake("not-rescaled", override(Dropout, scaled=lambda self, y: y / self.p), NOT_RESCALED, MODES),
    Mistake("not-rescaled", override(Dropout, scaled=lambda self, y: y * (1 - self.p)), NOT_RESCALED, MODES),
    Mistake("not-rescaled", ScaledInEval, NOT_RESCALED, MODES),
    Mistake("active-in-eval", override(Dropout, forward=Dropout.dropped), IN_EVAL, MODES),
    Mistake("looks-at-the-graph", override(Dropout, forward=looks_at_the_graph), "In the case \"{case}\" the {what} "
            "are {got}: `torch.no_grad` does not switch dropout off, only `eval()` does.", MODES),
    Mistake("active-in-eval", override(Dropout, forward=lambda self, x: x if self.training else self.dropped(x)),
            REVERSED, MODES),
    Mistake("never-drops", override(Dropout, forward=lambda self, x: x), "With p = {p} the share of zeros in training "
            "is {share_of_zeros}: nothing was dropped.", MODES),
    Mistake("drops-an-exact-count", ExactCount, "With p = {p} the {what} is {got}: entries are dropped independently "
            "of each other, so that their number is left to chance.", MODES),
    Mistake("same-mask-every-call", SameMask, SAME_MASK, MODES),
    Mistake("not-drawn-by-torch", DrawnByPython, NOT_REPEATABLE, MODES),
    Mistake("not-drawn-by-torch", DrawnByNumpy, NOT_REPEATABLE, MODES),
    Mistake("not-drawn-by-torch", OwnGenerator, NOT_REPEATABLE, MODES),
    Mistake("nan-at-one", override(Dropout, dropped=lambda self, x: self.scaled(x * self.mask(x))),
            "With p = {p} there are NaNs in the output: 1 - p is 0 there, and 0 / 0 is NaN, as 0 * inf is.",
            MODES),
    Mistake("drops-the-wrong-share", override(Dropout, mask=lambda self, x: drawn(x.shape, x) < self.p), "With p = {p} "
            "the share of zeros is {share_of_zeros}: p is the share that is dropped, not the one that is kept.", MODES),
    Mistake("drops-the-wrong-share",
            override(Dropout, mask=lambda self, x: drawn(x.shape, x) < self.p, scaled=lambda self, y: y / self.p),
            "With p = {p} the share of zeros is {share_of_zeros}: p is the share that is dropped, not the one that is "
            "kept.", MODES),
    Mistake("drops-whole-columns", override(Dropout, mask=lambda self, x: drawn(x.shape[-1:], x) >= self.p), COLUMNS,
            MODES),
    Mistake("drops-whole-columns", override(Dropout, mask=lambda self, x: drawn((*x.shape[:-1], 1), x) >= self.p),
            COLUMNS, MODES),
    Mistake("drops-whole-channels", override(Dropout, mask=by_channel), "In the case \"{case}\" the answer dropped "
            "{dropped}: `nn.Dropout2d` drops whole channels of an image; here each entry is dropped by itself.",
            MODES),
    Mistake("made-on-cpu", override(Dropout, mask=lambda self, x: torch.rand(x.shape) >= self.p), "Everything works "
            "on the CPU; on the second device the call raised {error}: the mask was made without saying where.", MODES),
    Mistake("out-of-range-accepted", override(Dropout, check=lambda self, p: None), ACCEPTED, MODES),
    Mistake("out-of-range-accepted", override(Dropout, check=only_above), ACCEPTED, MODES),
    Mistake("message-says-little", override(Dropout, check=without_a_message), "For p = {p} the outcome was "
            "{refused_with}: the message should name p and say what it was.", MODES),
    Mistake("dtype-not-kept", override(Dropout, dropped=lambda self, x: Dropout.dropped(self, x.float())), "The {what} "
            "of the output is {got} where {want} is wanted: the result keeps the input's.", MODES),
    Mistake("detached", override(Dropout, dropped=lambda self, x: Dropout.dropped(self, x.detach())), "The {what} that "
            "reaches x is {got}, but it should be {want}: `detach`, `.data` or `no_grad` cuts the graph.", MODES),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    p = draw.size(1, 9) / 10
    common: dict[str, Any] = {"refused": False, "like": torch.zeros(1), "rtol": 0.01}
    return [
        case("a drawn p", p=p, dtype=torch.float32, **common),
        case("bfloat16", p=0.5, dtype=torch.bfloat16, **common),
        case("an integer 1", p=1, dtype=torch.float32, **common),
        case("far outside", p=-3.0, dtype=torch.float32, refused=True, like=torch.zeros(1)),
    ]


# Right answers unlike the reference


class DropoutByBernoulli(nn.Module):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.keep = 1 - p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.keep == 1:
            return x
        if self.keep == 0:
            return x * 0.0
        return x * torch.bernoulli(torch.full_like(x, self.keep)) / self.keep


class DropoutByWhere(nn.Module):
    p: Tensor

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        assert 0.0 <= p <= 1.0, f"expected 0 <= p <= 1, got p={p}"
        self.register_buffer("p", torch.tensor(float(p)), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            factor = torch.where(self.p < 1, 1 / (1 - self.p), 0.0).to(x.dtype)
            return torch.where(torch.rand_like(x, dtype=torch.float32) < self.p, torch.zeros_like(x), x * factor)
        return x


class DropoutByUniform(nn.Module):
    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise TypeError(f"p = {p} is not a probability: 0 <= p <= 1")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x.clone()
        if self.p == 1.0:
            return torch.zeros_like(x)
        mask = torch.empty(x.shape, device=x.device).uniform_() > self.p
        return x.mul(mask.to(x.dtype)).div(1 - self.p)


RIGHT_ANSWERS: list[Callable[..., Any]] = [DropoutByBernoulli, DropoutByWhere, DropoutByUniform]
