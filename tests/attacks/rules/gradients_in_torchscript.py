# 02_autograd linear_mse_gradients: forbidden
# TorchScript calls the engine from C++
import torch
from typing import List, Optional
@torch.jit.script
def go(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, y: torch.Tensor):
    loss = ((x @ w.t() + b - y) ** 2).mean()
    g = torch.autograd.grad([loss], [w, b], torch.jit.annotate(Optional[List[Optional[torch.Tensor]]], None), False, False, False)
    a, c = g[0], g[1]
    assert a is not None
    assert c is not None
    return a, c
def linear_mse_gradients(x, w, b, y):
    return go(x, w.detach().requires_grad_(), b.detach().requires_grad_(), y)
