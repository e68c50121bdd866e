"""The exercise `PositionalEncoding`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The table depends on nothing learned, so it is computed once and kept as a buffer, which moves with the "
    "model. Not persistent, since it can be made again, and a checkpoint should not fix `max_len`. The cast "
    "keeps half precision half."
)
"""Why the reference is written as it is."""
REQUIRED = ("plain-attribute", "saved-in-state-dict")
"""The mistakes that a check must always be able to name."""


class Encoding(nn.Module):
    """A right encoding. Each mistake below is this one with one method written otherwise."""

    table: Tensor
    base, first = 10_000.0, 0

    def __init__(self, dim: int, max_len: int) -> None:
        super().__init__()
        position = torch.arange(self.first, self.first + max_len, dtype=torch.float32)[:, None]
        column = torch.arange(dim)
        angle = position / self.base ** self.exponent(column, dim)
        self.hold(torch.where(self.is_sine(column, dim), angle.sin(), angle.cos()))

    def exponent(self, column: Tensor, dim: int) -> Tensor:
        return 2 * (column // 2) / dim

    def is_sine(self, column: Tensor, dim: int) -> Tensor:
        return column % 2 == 0

    def hold(self, table: Tensor) -> None:
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]].to(x.dtype)


class InTrainingOnly(Encoding):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) if self.training else x


# Mistakes in holding the table


class PlainAttribute(Encoding):
    def hold(self, table: Tensor) -> None:
        self.table = table


class SavedInStateDict(Encoding):
    def hold(self, table: Tensor) -> None:
        self.register_buffer("table", table)


class Detaches(Encoding):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.detach())


class TableIsTrained(Encoding):
    def hold(self, table: Tensor) -> None:
        self.table = nn.Parameter(table)


class Unbegun(nn.Module):
    def __init__(self, dim: int, max_len: int) -> None:
        self.table = nn.Buffer(torch.zeros(max_len, dim), persistent=False)


class UnbegunRegistering(nn.Module):
    def __init__(self, dim: int, max_len: int) -> None:
        self.register_buffer("table", torch.zeros(max_len, dim), persistent=False)


# Mistakes in its numbers


class Halves(Encoding):
    def exponent(self, column: Tensor, dim: int) -> Tensor:
        return 2 * (column % (dim // 2)) / dim

    def is_sine(self, column: Tensor, dim: int) -> Tensor:
        return column < dim // 2


class SineAndCosineSwapped(Encoding):
    def is_sine(self, column: Tensor, dim: int) -> Tensor:
        return column % 2 == 1


class ExponentNotDoubled(Encoding):
    def exponent(self, column: Tensor, dim: int) -> Tensor:
        return (column // 2) / dim


class ExponentDoubledTwice(Encoding):
    def exponent(self, column: Tensor, dim: int) -> Tensor:
        return 4 * (column // 2) / dim


class FrequencyForEachColumn(Encoding):
    def exponent(self, column: Tensor, dim: int) -> Tensor:
        return column / dim


class FrequencyForEachColumnDoubled(Encoding):
    def exponent(self, column: Tensor, dim: int) -> Tensor:
        return 2 * column / dim


class BaseOf1000(Encoding):
    base = 1000.0


class StartsAtOne(Encoding):
    first = 1


# Mistakes in adding it


class KeepsFloat32(Encoding):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[1]]


class CastsTheTableItself(Encoding):
    def forward(self, x: Tensor) -> Tensor:
        self.table = self.table.to(x.dtype)
        return x + self.table[: x.shape[1]]


class KeepsTheFirstRows(Encoding):
    rows: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.rows is None:
            self.rows = self.table[: x.shape[1]]
        return x + self.rows.to(x.dtype)


class ReplacesX(Encoding):
    def forward(self, x: Tensor) -> Tensor:
        return self.table[: x.shape[1]].to(x.dtype).expand_as(x)


class AddsInPlace(Encoding):
    def forward(self, x: Tensor) -> Tensor:
        x += self.table[: x.shape[1]].to(x.dtype)
        return x


class RowsOfTheBatch(Encoding):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.shape[0], None].to(x.dtype)


class AddsTheWholeTable(Encoding):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.table.to(x.dtype)


MAKING = "Making things where the data is"
AT = 'In the case "{case}" the value at {at} is {got_at} where {want_at} is wanted: '
PAIRS = AT + "sine and cosine of a pair of columns share one frequency, that of the even one."
UNBEGUN = (
    "Making the module ended with {construction}: `super().__init__()` has to be called first in `__init__`; before "
    "that, the module has nowhere to keep a buffer."
)
MISTAKES = [
    Mistake("detached", Detaches, 'In the case "{case}" gradients do not reach x: the result was cut off from it, as '
            "by `detach` or `no_grad`, and nothing below this module would ever train.", MAKING),
    Mistake("plain-attribute", PlainAttribute, "The table is {table}: as a plain attribute it stays behind when "
            "`.to()` moves the module, and if it is made in each call, it is computed again and again.", MAKING),
    Mistake("saved-in-state-dict", SavedInStateDict, "The state_dict holds {saved} numbers that can be computed again: "
            "a buffer with persistent=False moves as well and is not saved.", MAKING),
    Mistake("in-training-only", InTrainingOnly, "In eval mode the module gave {got}: the positions are part of the "
            "input in both modes, unlike dropout.", MAKING),
    Mistake("dtype-not-kept", KeepsFloat32, "The result is {got_dtype} where {want_dtype} is wanted: either "
            "something was cast to float32, or the float32 table was added as it is. It has to take x's dtype first.",
            MAKING),
    Mistake("casts-the-table-itself", CastsTheTableItself, 'In the case "{case}" zeros in float32 gave {got} after the '
            "call on x: the buffer itself was cast to x's dtype, and the digits that it lost do not come back. Cast "
            "what is added.", MAKING),
    Mistake("keeps-the-first-rows", KeepsTheFirstRows, 'In the case "{case}" a longer x than the first one raised '
            "{error}: the rows were taken from the table once and kept, and every x has a length of its own.", MAKING),
    Mistake("table-is-trained", TableIsTrained, "`parameters()` gives {parameters} numbers: the table is fixed, but a "
            "parameter is saved with the model, and trained unless it is frozen. Make it a buffer.", MAKING),
    Mistake("halves-not-interleaved", Halves, AT + "sine and cosine take turns from column to column; here all sines "
            "come first.", MAKING),
    Mistake("sine-and-cosine-swapped", SineAndCosineSwapped, AT + "the even columns, from column 0 on, hold the sines.",
            MAKING),
    Mistake("exponent-not-doubled", ExponentNotDoubled, AT + "the exponent is 2i/dim for the columns 2i and 2i+1.",
            MAKING),
    Mistake("exponent-doubled-twice", ExponentDoubledTwice, AT + "the exponent is 2i/dim, and here 2i was doubled "
            "once more, as where `torch.arange(0, dim, 2)` is multiplied by 2.", MAKING),
    Mistake("another-base", BaseOf1000, AT + "the base is 10000.", MAKING),
    Mistake("starts-at-one", StartsAtOne, AT + "the first position is 0.", MAKING),
    Mistake("replaces-x", ReplacesX, AT + "the table is returned in place of x, and not added to it.", MAKING),
    Mistake("changes-its-input", AddsInPlace, 'In the case "{case}" the caller\'s x was {got} by the call, and should '
            "be {want}: `x += table` and `x.add_(table)` write into it.", MAKING),
    Mistake("rows-of-the-batch", RowsOfTheBatch, 'In the case "{case}" the {what} is {got} where {want} is wanted: x '
            "has shape (b, t, dim), and positions are counted along t.", MAKING),
    Mistake("adds-the-whole-table", AddsTheWholeTable, 'In the case "{case}" the call raised {error}: of the max_len '
            "rows of the table only the first t are added.", MAKING),
    Mistake("a-frequency-for-each-column", FrequencyForEachColumn, PAIRS, MAKING),
    Mistake("a-frequency-for-each-column", FrequencyForEachColumnDoubled, PAIRS, MAKING),
    Mistake("missing-super-init", Unbegun, UNBEGUN, MAKING),
    Mistake("missing-super-init", UnbegunRegistering, UNBEGUN, MAKING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    long = draw.size(200, 300)
    return [
        case("two columns", dim=2, max_len=5, x=draw.normal(2, 4, 2), atol=1e-4),
        case("a long sequence", dim=8, max_len=long, x=draw.normal(1, long - 7, 8), atol=5e-4),
        case("one place", dim=4, max_len=1, x=draw.normal(3, 1, 4), atol=1e-4),
        case("transposed", dim=6, max_len=9, x=draw.normal(6, 4, 2).permute(2, 1, 0), atol=1e-4),
        case("float16", dim=6, max_len=9, x=draw.normal(2, 4, 6, dtype=torch.float16), atol=4e-3, rtol=2e-3),
    ]


# Right answers unlike the reference


class EncodingByExp(nn.Module):
    pe: Tensor

    def __init__(self, dim: int, max_len: int) -> None:
        super().__init__()
        pe = torch.zeros(max_len, dim)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)].to(x)


class EncodingByPhase(nn.Module):
    def __init__(self, dim: int, max_len: int) -> None:
        super().__init__()
        exponent = torch.arange(0, dim, 2, dtype=torch.float64) / dim
        angles = torch.outer(torch.arange(max_len, dtype=torch.float64), 10000**-exponent)
        both = torch.stack((angles, torch.pi / 2 - angles), dim=2).sin().flatten(1)
        self.positions = nn.Buffer(both.float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        rows = self.positions.narrow(0, 0, x.shape[-2])
        return torch.add(x, rows.type_as(x))


RIGHT_ANSWERS: list[Callable[..., Any]] = [EncodingByExp, EncodingByPhase]
