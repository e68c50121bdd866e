# 01_tensors row_softmax: forbidden
# Hands the operator straight to the CPU's kernel, which passes by modes and profilers.
import torch
CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
def row_softmax(x):
    return torch.ops.aten._softmax.default.redispatch(CPU, x, -1, False)
