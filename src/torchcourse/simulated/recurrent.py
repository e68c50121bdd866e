"""The cells that PyTorch's LSTM and GRU call on devices other than the CPU, which has no kernels for them."""

from __future__ import annotations

from typing import Any

import torch

from torchcourse.simulated.counting import RECORDERS, record
from torchcourse.simulated.dispatch import unwrap, wrap_all
from torchcourse.simulated.errors import refuse_mixture
from torchcourse.simulated.plans import PLANS, Handler, special

Tensor = torch.Tensor


def cell(name: str) -> Handler:
    """Register a function of plain tensors as the operator `name` of the device."""

    def register(compute: Handler) -> Handler:
        @special(name)
        def handler(func: Any, args: Any, kwargs: Any) -> Any:
            foreign_tensors: list[Tensor] = []
            plain = [unwrap(x, foreign_tensors) for x in args]
            if foreign_tensors:
                refuse_mixture(PLANS[func], func, args, kwargs, foreign_tensors)
            if RECORDERS:
                record(f"kernel:{name}")
            return wrap_all(compute(*plain, **kwargs))

        return compute

    return register


def _biased(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


@cell("_thnn_fused_lstm_cell")
def lstm_cell(
    of_input: Tensor, of_hidden: Tensor, cx: Tensor, b_input: Tensor | None = None, b_hidden: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the new hidden and cell state, and the four gates for the backward pass."""
    i, f, g, o = (_biased(of_input, b_input) + _biased(of_hidden, b_hidden)).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat((i, f, g, o), 1)


@cell("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, gates: Tensor, has_bias: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of the gates before their activation, of the old cell state, and of the bias."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    i, f, g, o = gates.chunk(4, 1)
    squashed = cy.tanh()
    from_hidden = torch.zeros_like(cy) if grad_hy is None else grad_hy
    grad_c = from_hidden * o * (1 - squashed * squashed)
    grad_c = grad_c if grad_cy is None else grad_c + grad_cy
    parts = (
        grad_c * g * i * (1 - i),
        grad_c * cx * f * (1 - f),
        grad_c * i * (1 - g * g),
        from_hidden * squashed * o * (1 - o),
    )
    grad_gates = torch.cat(parts, 1)
    return grad_gates, grad_c * f, grad_gates.sum(0) if has_bias else None


@cell("_thnn_fused_gru_cell")
def gru_cell(
    of_input: Tensor, of_hidden: Tensor, hx: Tensor, b_input: Tensor | None = None, b_hidden: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the new hidden state, and what the backward pass needs."""
    input_r, input_z, input_n = _biased(of_input, b_input).chunk(3, 1)
    hidden_r, hidden_z, hidden_n = _biased(of_hidden, b_hidden).chunk(3, 1)
    r, z = (input_r + hidden_r).sigmoid(), (input_z + hidden_z).sigmoid()
    n = (input_n + r * hidden_n).tanh()
    return (hx - n) * z + n, torch.cat((r, z, n, hx, hidden_n), 1)


@cell("_thnn_fused_gru_cell_backward")
def gru_cell_backward(grad: Tensor, saved: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    """Return the gradients of both sets of gates before their activation, of the old state, and of both biases."""
    r, z, n, hx, hidden_n = saved.chunk(5, 1)
    grad_n = grad * (1 - z) * (1 - n * n)
    grad_r = grad_n * hidden_n * r * (1 - r)
    grad_z = grad * (hx - n) * z * (1 - z)
    of_input = torch.cat((grad_r, grad_z, grad_n), 1)
    of_hidden = torch.cat((grad_r, grad_z, grad_n * r), 1)
    biases = (of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return of_input, of_hidden, grad * z, *biases
