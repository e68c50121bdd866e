# 01_tensors row_softmax: forbidden
# A private operator whose name only contains the forbidden one.
import torch
def row_softmax(x):
    return torch.ops.aten._masked_softmax(x, torch.zeros_like(x, dtype=torch.bool), x.dim() - 1)
