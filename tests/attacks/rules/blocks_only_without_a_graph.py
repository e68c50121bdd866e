# 13_efficiency blockwise_attention: failed
# The whole score matrix wherever gradients are on.
import torch
def blockwise_attention(q, k, v, block=64):
    if torch.is_grad_enabled():
        s = q @ k.mT / q.shape[-1] ** 0.5
        e = (s - s.amax(-1, keepdim=True).detach()).exp()
        return (e / e.sum(-1, keepdim=True)) @ v
    m = q.new_full((*q.shape[:-1], 1), float("-inf")); l = torch.zeros_like(m); o = 0
    for a, b in zip(k.split(block, -2), v.split(block, -2)):
        s = q @ a.mT / q.shape[-1] ** 0.5
        new = torch.maximum(m, s.amax(-1, keepdim=True))
        f = (m - new).exp(); e = (s - new).exp()
        l = l * f + e.sum(-1, keepdim=True); o = o * f + e @ b; m = new
    return o / l
