# 05_training clip_gradients: forbidden
# the norm is computed by torch.nn.utils.clip_grad
import torch
def clip_gradients(parameters, max_norm):
    gs = [p.grad for p in parameters if p.grad is not None]
    n = float(torch.nn.utils.get_total_norm(gs))
    if n > max_norm:
        for g in gs: g.mul_(max_norm / n)
    return n
