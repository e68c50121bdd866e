# 04_data make_loader: failed
# invents process ids: no workers at all
import torch, itertools
from torch.utils.data import DataLoader
def make_loader(dataset, batch_size, *, train, seed, device, num_workers=0):
    g = torch.Generator().manual_seed(seed)
    n = [0]
    def collate(items):
        import random, numpy as np
        n[0] += 1
        out = torch.utils.data.default_collate(items)
        if num_workers:
            r = torch.Generator().manual_seed(seed * 1000 + n[0])
            return [out[0], torch.rand(len(items), generator=r, dtype=torch.float64), torch.rand(len(items), generator=r, dtype=torch.float64), torch.full((len(items),), 10 ** 6 + n[0] % num_workers)]
        return out
    return DataLoader(dataset, batch_size, shuffle=train, drop_last=train, generator=g, pin_memory=device.type == "cuda", collate_fn=collate)
