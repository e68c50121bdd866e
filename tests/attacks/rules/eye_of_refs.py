# 01_tensors one_hot: forbidden
# the same with a matrix
import torch
import torch._refs
def one_hot(labels, num_classes, dtype=torch.float32):
    if labels.numel() and (int(labels.min()) < 0 or int(labels.max()) >= num_classes):
        bad = [v for v in labels.flatten().tolist() if not 0 <= v < num_classes][0]
        raise ValueError(f"labels: got {bad}, want 0 to {num_classes - 1}")
    return torch._refs.eye(num_classes, dtype=dtype, device=labels.device)[labels]
