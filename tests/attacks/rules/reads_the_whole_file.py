# 04_data MemmapDataset: failed
# no memory map: reads the whole file for each item
import numpy as np, torch
from torch.utils.data import Dataset
class MemmapDataset(Dataset):
    def __init__(self, path, shape, dtype): self.path, self.shape, self.dtype = path.absolute(), shape, dtype
    def __len__(self): return self.shape[0]
    def __getitem__(self, i): return torch.from_numpy(np.fromfile(self.path, dtype=self.dtype).reshape(self.shape)[i].copy()).float()
