# 01_tensors pairwise_distances: failed
# A Python loop over all pairs, whose kernels are called directly.
import torch
CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
subtract, multiply = torch.ops.aten.sub.Tensor.redispatch, torch.ops.aten.mul.Tensor.redispatch
total, root = torch.ops.aten.sum.dim_IntList.redispatch, torch.ops.aten.sqrt.default.redispatch
def pairwise_distances(a, b):
    rows = []
    for x in a.split(1):
        gap = subtract(CPU, x, b)
        rows.append(root(CPU, total(CPU, multiply(CPU, gap, gap), [1])))
    return torch.stack(rows)
