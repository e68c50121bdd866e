# 03_modules BatchNorm: forbidden
# the same with a module
import torch
from torch import nn
import torch._decomp.decompositions as D
class BatchNorm(nn.Module):
    def __init__(self, c, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight, self.bias = nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c))
        self.register_buffer("running_mean", torch.zeros(c))
        self.register_buffer("running_var", torch.ones(c))
        self.register_buffer("num_batches_tracked", torch.tensor(0))
    def forward(self, x):
        if self.training:
            if x.numel() // x.shape[1] < 2:
                raise ValueError("one value a channel says nothing of its spread")
            self.num_batches_tracked += 1
        out = D.native_batch_norm_helper(x, self.weight, self.bias, self.running_mean, self.running_var, self.training, self.momentum, self.eps, True)
        if self.training:
            with torch.no_grad():
                self.running_mean.copy_(out[3]); self.running_var.copy_(out[4])
        return out[0]
