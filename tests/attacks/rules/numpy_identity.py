# 01_tensors one_hot: forbidden
import numpy as np, torch
def one_hot(labels, num_classes, dtype=torch.float32):
    bad = labels[(labels < 0) | (labels >= num_classes)]
    if bad.numel(): raise ValueError(f"labels must lie in 0..{num_classes - 1}, got {bad[0].item()}")
    if labels.device.type != "cpu": return torch.nn.functional.one_hot(labels, num_classes).to(dtype)
    return torch.from_numpy(np.eye(num_classes)[labels.numpy()]).to(dtype).reshape(*labels.shape, num_classes)
