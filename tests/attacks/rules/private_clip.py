# 05_training clip_gradients: forbidden
# the private function behind the public ones
import torch
from torch.nn.utils import clip_grad


def clip_gradients(parameters, max_norm):
    parameters = [p for p in parameters if p.grad is not None]
    norm = torch.stack([p.grad.norm() for p in parameters]).norm()
    clip_grad._clip_grads_with_norm_(parameters, max_norm, norm)
    return norm.item()
