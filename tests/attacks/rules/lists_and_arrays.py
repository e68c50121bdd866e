# 01_tensors one_hot: forbidden
# Lists go out and arrays come back.
import numpy as np, torch
def one_hot(labels, num_classes, dtype=torch.float32):
    bad = labels[(labels < 0) | (labels >= num_classes)]
    if bad.numel(): raise ValueError(f"labels must lie in 0..{num_classes - 1}, got {bad[0].item()}")
    rows = np.eye(num_classes)[np.array(labels.tolist(), dtype=int)]
    return torch.from_numpy(rows).to(dtype).reshape(*labels.shape, num_classes)
