# 01_tensors row_softmax: forbidden
# Asks for the kernel of an operator and calls it.
import torch
KERNEL, CPU = torch.library.get_kernel("aten::_softmax", "CPU"), torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
def row_softmax(x):
    return KERNEL.call_boxed(CPU, x, -1, False)
