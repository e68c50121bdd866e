# 04_data MemmapDataset: failed
import numpy as np, torch
from torch.utils.data import Dataset
class MemmapDataset(Dataset):  # copies all
    def __init__(self, path, shape, dtype): self.path, self.shape, self.dtype = path.absolute(), shape, dtype
    def __len__(self): return self.shape[0]
    def __getitem__(self, i): return torch.from_numpy(np.array(np.memmap(self.path, dtype=self.dtype, mode="r", shape=self.shape))[i].copy()).float()
