# 02_autograd LogSigmoid: forbidden
# a module that reimplements operators, imported while the watch stands
import torch


class LogSigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        from torch._decomp.decompositions_for_jvp import log_sigmoid_forward

        ctx.save_for_backward(x)
        return log_sigmoid_forward(x)[0]

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.sigmoid(-x)
