"""The exercise `Standardizer`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.hidden.common import override
from autograde.hidden.modules.shared import UNBEGUN
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Mean and spread are not trained but belong to the model: as buffers they move with `.to` and are saved. "
    "`copy_` under `no_grad` fills them in place, so they keep device and dtype and carry no graph. A "
    "constant column has no spread; dividing it by 1 leaves it at 0 where 0 / 0 would be NaN."
)
"""Why the reference is written as it is."""
REQUIRED = ("plain-attribute", "buffer-as-parameter")
"""The mistakes that a check must always be able to name."""

REGISTER = "What a module remembers"
BUFFERS = "Buffers: state that is not trained"


class Standardizer(nn.Module):
    """A right module; a mistake overrides one of its methods."""

    mean: Any
    std: Any

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.hold("mean", torch.zeros(dim))
        self.hold("std", torch.ones(dim))

    def hold(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, tensor)

    def fit(self, x: Tensor) -> Any:
        mean, std = self.measured(x)
        self.keep(mean, self.never_zero(std))
        return self

    def measured(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.mean(0), x.std(0, correction=0)

    def never_zero(self, std: Tensor) -> Tensor:
        return torch.where(std == 0, 1.0, std)

    def keep(self, mean: Tensor, std: Tensor) -> None:
        self.mean, self.std = mean, std

    def forward(self, x: Tensor) -> Any:
        return self.standardized(x).to(x.dtype)

    def standardized(self, x: Tensor) -> Any:
        return (x - self.mean) / self.std


class Parameters(Standardizer):
    def hold(self, name: str, tensor: Tensor) -> None:
        setattr(self, name, nn.Parameter(tensor, requires_grad=False))

    @torch.no_grad()
    def keep(self, mean: Tensor, std: Tensor) -> None:
        self.mean.copy_(mean)
        self.std.copy_(std)


class NoneBeforeFit(Standardizer):
    def hold(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, None)

    def forward(self, x: Tensor) -> Any:
        return x if self.mean is None else super().forward(x)


class FlagIsNotSaved(Standardizer):
    fitted = False

    def fit(self, x: Tensor) -> Any:
        self.fitted = True
        return super().fit(x)

    def forward(self, x: Tensor) -> Any:
        return super().forward(x) if self.fitted else x


class FitsOnce(Standardizer):
    fitted = False

    def fit(self, x: Tensor) -> Any:
        return self if self.fitted else super().fit(x)

    def keep(self, mean: Tensor, std: Tensor) -> None:
        super().keep(mean, std)
        self.fitted = True


class OverTheWholeTable(Standardizer):
    def measured(self, x: Tensor) -> tuple[Tensor, Tensor]:
        columns = x.shape[1]
        return x.mean().expand(columns).clone(), x.std(correction=0).expand(columns).clone()


class ReturnsNothing(Standardizer):
    def fit(self, x: Tensor) -> None:
        super().fit(x)


class Unbegun(nn.Module):
    def __init__(self, dim: int) -> None:
        self.mean = torch.zeros(dim)
        self.std = torch.ones(dim)


def not_saved(self: Standardizer, name: str, tensor: Tensor) -> None:
    self.register_buffer(name, tensor, persistent=False)


def small_ones_become_one(_self: Standardizer, std: Tensor) -> Tensor:
    return torch.where(std < 1e-5, 1.0, std)


SMALL_STD = (
    'In the case "{case}" `std` came out as {its_std} where {want_std} is wanted: only a std of 0 becomes 1, and a '
    "small one stays."
)
ZERO_STD = (
    'In the case "{case}" `std` came out as {its_std} where {want_std} is wanted: a column that never varies has '
    "the std 0, and dividing by 1 leaves it alone."
)
AS_PARAMETER = (
    "`parameters()` finds {its_parameters}: parameters are what training changes, and these were measured. State that "
    "is moved and saved, but not trained, is a buffer."
)
AT = "The value at {at} is {got_at} and should be {want_at}: "
MISTAKES = [
    Mistake("missing-super-init", Unbegun, UNBEGUN, REGISTER),
    Mistake("plain-attribute", override(Standardizer, hold=lambda *named: setattr(*named)), "Buffers of the module: "
            "{its_buffers}. Entries of its state_dict: {its_state_dict}. A plain attribute is neither saved nor moved.",
            BUFFERS),
    Mistake("buffer-as-parameter", Parameters, AS_PARAMETER, BUFFERS),
    Mistake("not-saved", override(Standardizer, hold=not_saved), "Of the two, the state_dict holds {its_state_dict}: a "
            "buffer that is not persistent moves with the module, but is not saved.", BUFFERS),
    Mistake("no-buffer-before-fit", NoneBeforeFit, "A fresh module could not load the saved state_dict, because it has "
            "no place for {unplaced}. Until `fit` is called, the buffers are None or not registered; register both in "
            "`__init__`.",
            BUFFERS),
    Mistake("sample-deviation", override(Standardizer, measured=lambda self, x: (x.mean(0), x.std(0))), "`std` came "
            "out as {its_std} where {want_std} is wanted: it divides by n - 1, and the population's divides by n.",
            BUFFERS),
    Mistake("whole-table-statistics", OverTheWholeTable, "`mean` came out as {its_mean} where {want_mean} is wanted: "
            "each column has its own.", BUFFERS),
    Mistake("whole-table-statistics",
            override(Standardizer, measured=lambda self, x: (x.mean(), x.std(correction=0))), "`mean` came out as "
            "{its_mean} where {want_mean} is wanted: each column has its own, so say along which dimension.", BUFFERS),
    Mistake("variance-for-deviation",
            override(Standardizer, measured=lambda self, x: (x.mean(0), x.var(0, correction=0))), "`std` came out as "
            "{its_std} where {want_std} is wanted: those are the squares, the variances; a standard deviation is the "
            "root of a variance.", BUFFERS),
    Mistake("rows-not-columns", override(Standardizer, measured=lambda self, x: (x.mean(1), x.std(1, correction=0))),
            "In the case \"{case}\" the {what} is {got} and should be {want}: the statistics were taken along the "
            "rows.", BUFFERS),
    Mistake("zero-deviation-kept", override(Standardizer, never_zero=lambda self, std: std), ZERO_STD, BUFFERS),
    Mistake("zero-deviation-kept", override(Standardizer, never_zero=lambda self, std: std + 1e-8), ZERO_STD, BUFFERS),
    Mistake("zero-deviation-kept", override(Standardizer, never_zero=lambda self, std: std.clamp(min=1e-6)), ZERO_STD,
            BUFFERS),
    Mistake("small-deviations-become-one", override(Standardizer, never_zero=lambda self, std: std.clamp(min=1.0)),
            SMALL_STD, BUFFERS),
    Mistake("small-deviations-become-one", override(Standardizer, never_zero=small_ones_become_one), SMALL_STD,
            BUFFERS),
    Mistake("flag-not-saved", FlagIsNotSaved, "In the case \"{case}\" the {what} is {got} and should be {want}: only a "
            "plain attribute says that the module was fitted, and a fresh one does not get it with the state_dict.",
            BUFFERS),
    Mistake("fits-once", FitsOnce, "In the case \"{case}\" the {what} is {got} and should be {want}: the second call "
            "of `fit` was ignored, but every call should set the buffers.", BUFFERS),
    Mistake("fit-returns-nothing", ReturnsNothing, "`fit` should return the module itself, so that "
            "`Standardizer(3).fit(x)` is one, but it returned {got}.", BUFFERS),
    Mistake("dtype-not-kept", override(Standardizer, forward=lambda self, x: self.standardized(x)), "In the case "
            "\"{case}\" the result is {got_dtype} and should be {want_dtype}: float16 with float32 buffers makes "
            "float32, and the result keeps the dtype of x.", BUFFERS),
    Mistake("mean-not-subtracted", override(Standardizer, standardized=lambda self, x: x / self.std), AT + "the mean "
            "was not subtracted.", BUFFERS),
    Mistake("not-divided", override(Standardizer, standardized=lambda self, x: x - self.mean), AT + "the mean was "
            "subtracted, but nothing was divided by std.", BUFFERS),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    n, d = draw.size(2, 9), draw.size(1, 6)
    constant = torch.full((n, d), float(draw.size(1, 9)))
    return [
        case("drawn sizes", data=100 + 10 * draw.normal(n, d), x=draw.normal(2, d), rtol=1e-3, atol=1e-2),
        case("every column constant", data=constant, x=draw.normal(3, d)),
        case("every second row", data=draw.normal(2 * n, d)[::2], x=draw.normal(4, d)),
    ]


# Right answers unlike the reference


class StandardizerRegistered(nn.Module):
    mean: Tensor
    std: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("std", torch.ones(dim))

    def fit(self, x: Tensor) -> StandardizerRegistered:
        with torch.no_grad():
            var, mean = torch.var_mean(x, dim=0, unbiased=False)
            std = var.sqrt()
            std[std == 0] = 1.0
            self.mean.copy_(mean)
            self.std.copy_(std)
        return self

    def forward(self, x: Tensor) -> Tensor:
        return x.sub(self.mean).div(self.std).type_as(x)


class StandardizerWithFlag(nn.Module):
    mean: Tensor
    std: Tensor
    fitted: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        for name, value in (("mean", 0.0), ("std", 1.0)):
            self.register_buffer(name, torch.full((dim,), value, dtype=torch.float64))
        self.register_buffer("fitted", torch.tensor(False))

    @torch.no_grad()
    def fit(self, x: Tensor) -> nn.Module:
        self.mean = x.double().sum(0) / len(x)
        std = ((x - self.mean) ** 2).mean(0).sqrt()
        self.std = std + (std == 0).to(std.dtype)
        self.fitted.fill_(True)
        return self

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.mean) / self.std).to(x.dtype)


RIGHT_ANSWERS: list[Callable[..., Any]] = [StandardizerRegistered, StandardizerWithFlag]
