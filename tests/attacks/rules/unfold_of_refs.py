# 01_tensors sliding_windows: forbidden
# the same with a view
import torch
import torch._refs
def sliding_windows(x, size, step=1):
    if not 1 <= size <= len(x):
        raise ValueError(f"size {size}")
    if step < 1:
        raise ValueError(f"step {step}")
    return torch._refs.unfold(x, 0, size, step)
