# 01_tensors pairwise_distances: forbidden
# all distances among both at once, of which those between a and b are picked
import torch


def pairwise_distances(a, b):
    n, m = len(a), len(b)
    both = torch.cat([a, b])
    square = both.new_zeros(n + m, n + m)
    rows, columns = torch.triu_indices(n + m, n + m, 1, device=a.device)
    square[rows, columns] = torch.pdist(both)
    return square[:n, n:]
