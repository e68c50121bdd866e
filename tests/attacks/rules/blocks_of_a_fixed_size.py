# 13_efficiency blockwise_attention: failed
# Always 16 keys at a time.
import torch
def blockwise_attention(q, k, v, block=64):
    m = q.new_full((*q.shape[:-1], 1), float("-inf")); l = torch.zeros_like(m); o = 0
    for a, b in zip(k.split(16, -2), v.split(16, -2)):
        s = q @ a.mT / q.shape[-1] ** 0.5
        new = torch.maximum(m, s.amax(-1, keepdim=True)).detach()
        f = (m - new).exp(); e = (s - new).exp()
        l = l * f + e.sum(-1, keepdim=True); o = o * f + e @ b; m = new
    return o / l
