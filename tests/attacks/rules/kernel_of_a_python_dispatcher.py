# 01_tensors row_softmax: forbidden,error
# Makes a dispatcher of its own for an operator.
import torch
from torch.utils._python_dispatch import _disable_current_modes
op = torch.ops.aten._softmax.default
dispatch, redispatch = torch._C._dispatch_make_pyobj_dispatch_fns(op._handle, op._op, op._handle.redispatch_boxed)
CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
def row_softmax(x):
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        return redispatch(CPU, x, -1, False)
