# 11_architectures LSTMCell: forbidden
# the cell that torch has once more, for being quantized later
import torch
from torch import nn
from torch.ao.nn import quantizable


class LSTMCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.hidden, bound = hidden_size, hidden_size**-0.5
        shapes = {"weight_ih": (4 * hidden_size, input_size), "weight_hh": (4 * hidden_size, hidden_size)}
        for name, shape in {**shapes, "bias_ih": (4 * hidden_size,), "bias_hh": (4 * hidden_size,)}.items():
            setattr(self, name, nn.Parameter(torch.empty(shape).uniform_(-bound, bound)))

    def forward(self, x, state=None):
        cell = quantizable.LSTMCell(x.shape[-1], self.hidden)
        cell.igates.weight, cell.hgates.weight = self.weight_ih, self.weight_hh
        cell.igates.bias, cell.hgates.bias = self.bias_ih, self.bias_hh
        if x.ndim == 1:
            h, c = self(x[None], state and tuple(part[None] for part in state))
            return h[0], c[0]
        h, c = state or (x.new_zeros(*x.shape[:-1], self.hidden),) * 2
        return tuple(cell(x, (h, c)))
