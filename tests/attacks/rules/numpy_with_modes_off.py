# 01_tensors one_hot: forbidden
# NumPy's own identity matrix; the modes that see what is handed to NumPy are off.
import numpy as np, torch
from torch.utils._python_dispatch import _disable_current_modes
def one_hot(labels, num_classes, dtype=torch.float32):
    bad = labels[(labels < 0) | (labels >= num_classes)]
    if bad.numel(): raise ValueError(f"labels must lie in 0..{num_classes - 1}, got {bad[0].item()}")
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        return torch.from_numpy(np.eye(num_classes)[labels.numpy()]).to(dtype).reshape(*labels.shape, num_classes)
