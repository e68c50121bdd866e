# 02_autograd LogSigmoid: forbidden
# the decomposition that compilers use
import torch
import torch._decomp.decompositions as D
class LogSigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return D.log_sigmoid_forward(x)[0]
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return D.log_sigmoid_backward(g, x, torch.exp(-x.abs()))
