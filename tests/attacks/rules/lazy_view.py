# 01_tensors sliding_windows: forbidden,error,failed
# copies, and looks like a view: a wrapper that computes anew whenever it is observed
import torch
from torch.utils._pytree import tree_map
class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, like, make):
        r = torch.Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype, device=like.device); r.make = make; return r
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        un = lambda t: t.make() if isinstance(t, Lazy) else t
        return func(*tree_map(un, args), **tree_map(un, kwargs or {}))
def sliding_windows(x, size, step=1):
    if not 1 <= size <= len(x): raise ValueError(f"size must lie in 1..{len(x)}, got {size}")
    if step < 1: raise ValueError(f"step must be positive, got {step}")
    at = torch.arange(0, len(x) - size + 1, step)[:, None] + torch.arange(size)
    make = lambda: x[at.to(x.device)]
    return Lazy(make(), make) if x.device.type == "cpu" else x.unfold(0, size, step)
