# 01_tensors row_softmax: forbidden,error,failed
# A lazy tensor inside a wrapper of a gradient that has ended, whose class is that of all tensors.
import torch
from torch.utils._pytree import tree_map
F = torch._C._functorch
class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, x):
        r = torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device); r.x = x; return r
    __torch_function__ = torch._C._disabled_torch_function_impl
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        un = lambda t: torch.softmax(t.x, -1) if isinstance(t, Lazy) else t
        return func(*tree_map(un, args), **tree_map(un, kwargs or {}))
def row_softmax(x):
    level = F._grad_increment_nesting()
    try:
        return F._wrap_for_grad(Lazy(x), level)
    finally:
        F._grad_decrement_nesting()
