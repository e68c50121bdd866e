"""Cells for the exercise `LSTMCell`: a right one, and some that keep more than they should."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

State = tuple[Tensor, Tensor] | None


class Cell(nn.Module):
    """A right cell; a mistake overrides one of its methods."""

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.hold("weight_ih", 4 * hidden_size, input_size)
        self.hold("weight_hh", 4 * hidden_size, hidden_size)
        self.hold("bias_ih", 4 * hidden_size)
        self.hold("bias_hh", 4 * hidden_size)

    def hold(self, name: str, *shape: int) -> None:
        setattr(self, name, nn.Parameter(torch.zeros(shape)))

    def forward(self, x: Tensor, state: State = None) -> Any:
        h, c = self.start(x) if state is None else self.unpack(state)
        i, f, g, o = self.gates(self.sums(x, h))
        c = self.cell(f, c, i, g)
        return self.pack(self.hidden(o, c), c)

    def start(self, x: Tensor) -> tuple[Tensor, Tensor]:
        zeros = x.new_zeros((*x.shape[:-1], self.hidden_size))
        return zeros, zeros

    def unpack(self, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return state

    def sums(self, x: Tensor, h: Tensor) -> Tensor:
        return x @ self.weight_ih.T + self.bias_ih + h @ self.weight_hh.T + self.bias_hh

    def gates(self, sums: Tensor) -> tuple[Tensor, ...]:
        i, f, g, o = sums.chunk(4, -1)
        return i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()

    def cell(self, f: Tensor, c: Tensor, i: Tensor, g: Tensor) -> Tensor:
        return f * c + i * g

    def hidden(self, o: Tensor, c: Tensor) -> Tensor:
        return o * c.tanh()

    def pack(self, h: Tensor, c: Tensor) -> Any:
        return h, c


class RemembersTheState(Cell):
    last: tuple[Tensor, Tensor] | None = None

    def start(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().start(x) if self.last is None else self.last

    def pack(self, h: Tensor, c: Tensor) -> Any:
        self.last = h.detach(), c.detach()
        return h, c


class ZerosOfTheClass(Cell):
    zeros: Tensor | None = None

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        ZerosOfTheClass.zeros = None

    def start(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if ZerosOfTheClass.zeros is None:
            ZerosOfTheClass.zeros = super().start(x)[0]
        return ZerosOfTheClass.zeros, ZerosOfTheClass.zeros


class SizeOfTheClass(Cell):
    size = 0

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        SizeOfTheClass.size = hidden_size

    def start(self, x: Tensor) -> tuple[Tensor, Tensor]:
        zeros = x.new_zeros(*x.shape[:-1], SizeOfTheClass.size)
        return zeros, zeros


class StartsWithAnything(Cell):
    def hold(self, name: str, *shape: int) -> None:
        setattr(self, name, nn.Parameter(torch.empty(shape)))


class StartsWithNaN(Cell):
    def hold(self, name: str, *shape: int) -> None:
        setattr(self, name, nn.Parameter(torch.full(shape, torch.nan)))
