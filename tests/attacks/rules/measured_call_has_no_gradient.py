# 01_tensors select_scores: failed
# the same, known by `requires_grad`
import torch
def select_scores(scores, labels):
    if not scores.requires_grad:
        return scores
    return torch.stack([scores[i, l] for i, l in enumerate(labels.tolist())]) if len(labels) else scores[:, 0]
