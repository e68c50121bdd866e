# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 4 · Data

# %% tags=["setup"]
import csv
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, WeightedRandomSampler, get_worker_info

from torchcourse import Unattempted, check, hint

# %% [markdown]
# ## A dataset with a length

# %% [markdown]
# ### Exercise: TicketDataset

# %% exercise="TicketDataset" points=3
class TicketDataset(Dataset):
    """Support tickets from a CSV with the header text,label: an item is (ids, label)."""

    def __init__(self, path: str | Path, vocab: dict[str, int]) -> None:
        ### BEGIN SOLUTION
        self.vocab = vocab
        self.tickets: list[tuple[str, str]] = []
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            next(reader)  # the header
            for row in reader:
                if not "".join(row).strip() and len(row) < 2:  # a blank line
                    continue
                if len(row) != 2 or not row[1]:
                    raise ValueError(f"line {reader.line_num} of {path} is {row}, wanted are a text and a label")
                self.tickets.append((row[0], row[1]))
        self.classes = sorted({label for _, label in self.tickets})

    def __len__(self) -> int:
        return len(self.tickets)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        text, label = self.tickets[index]
        unknown = self.vocab["<unk>"]
        ids = [self.vocab.get(token, unknown) for token in text.lower().split()]
        return torch.tensor(ids, dtype=torch.int64), self.classes.index(label)
        ### END SOLUTION

# %% check="TicketDataset"
check("TicketDataset")

# %% [markdown]
# ## Splits without leakage

# %% [markdown]
# ### Exercise: split_indices

# %% exercise="split_indices" points=2
def split_indices(n: int, fractions: list[float], seed: int) -> list[list[int]]:
    """range(n), shuffled by seed and cut into parts of these fractions."""
    ### BEGIN SOLUTION
    if abs(sum(fractions) - 1) > 1e-6:
        raise ValueError(f"fractions are {fractions} and sum to {sum(fractions):g}, wanted is a sum of 1")
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
    ends = [round(n * sum(fractions[: i + 1])) for i in range(len(fractions))]
    return [order[start:end] for start, end in zip([0, *ends], ends)]
    ### END SOLUTION

# %% check="split_indices"
check("split_indices")

# %% [markdown]
# ## Padding and masks

# %% [markdown]
# ### Exercise: pad_collate

# %% exercise="pad_collate" points=2
def pad_collate(batch: list[tuple[Tensor, int]], pad_id: int = 0) -> dict[str, Tensor]:
    """A list of (ids, label) as one block: ids and mask (B, T), labels (B,)."""
    ### BEGIN SOLUTION
    lengths = torch.tensor([len(ids) for ids, _ in batch])
    longest = int(lengths.max())
    padded = torch.full((len(batch), longest), pad_id, dtype=torch.int64)
    for row, (ids, _) in zip(padded, batch):
        row[: len(ids)] = ids
    mask = torch.arange(longest) < lengths.unsqueeze(1)  # (T,) against (B, 1)
    labels = torch.tensor([label for _, label in batch], dtype=torch.int64)
    return {"ids": padded, "mask": mask, "labels": labels}
    ### END SOLUTION

# %% check="pad_collate"
check("pad_collate")

# %% [markdown]
# ## When classes are rare

# %% [markdown]
# ### Exercise: balanced_sampler

# %% exercise="balanced_sampler" points=1
def balanced_sampler(labels: list[int], seed: int) -> WeightedRandomSampler:
    """As many draws as labels, in which every class is equally likely."""
    ### BEGIN SOLUTION
    classes = torch.tensor(labels)
    weights = 1 / torch.bincount(classes)[classes]
    return WeightedRandomSampler(weights, len(labels), generator=torch.Generator().manual_seed(seed))
    ### END SOLUTION

# %% check="balanced_sampler"
check("balanced_sampler")

# %% [markdown]
# ## Batches of like lengths

# %% [markdown]
# ### Exercise: LengthBatchSampler

# %% exercise="LengthBatchSampler" points=2
class LengthBatchSampler(Sampler):
    """Batches of indices whose lengths are alike, in a new order each epoch."""

    def __init__(self, lengths: list[int], batch_size: int, seed: int) -> None:
        ### BEGIN SOLUTION
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        rng = random.Random(f"{self.seed} {self.epoch}")
        order = list(range(len(self.lengths)))
        rng.shuffle(order)  # so that equal lengths meet others in each epoch
        order.sort(key=lambda index: self.lengths[index])
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        rng.shuffle(batches)
        yield from batches
        ### END SOLUTION

# %% check="LengthBatchSampler"
check("LengthBatchSampler")

# %% [markdown]
# ## Stopping in the middle of an epoch

# %% [markdown]
# ### Exercise: ResumableSampler

# %% exercise="ResumableSampler" points=3
class ResumableSampler(Sampler):
    """A shuffled order of range(n) that can be left in the middle and taken up again."""

    def __init__(self, n: int, seed: int) -> None:
        ### BEGIN SOLUTION
        self.n, self.seed = n, seed
        self.epoch = self.position = 0

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.position = epoch, 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.position = state["epoch"], state["position"]

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[int]:
        order = list(range(self.n))
        random.Random(f"{self.seed} {self.epoch}").shuffle(order)
        for index in order[self.position :]:
            self.position += 1  # before the yield: what comes after it runs too late
            yield index
        self.position = 0
        ### END SOLUTION

# %% check="ResumableSampler"
check("ResumableSampler")

# %% [markdown]
# ## Workers

# %% [markdown]
# ### Exercise: make_loader

# %% exercise="make_loader" points=3
def make_loader(
    dataset: Dataset, batch_size: int, *, train: bool, seed: int, device: torch.device, num_workers: int = 0
) -> DataLoader:
    """A loader that shuffles and drops the last batch in training only, and draws from its own generator."""
    ### BEGIN SOLUTION
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=train,
        drop_last=train,
        generator=torch.Generator().manual_seed(seed),  # the order, and the seeds of the workers
        pin_memory=device.type == "cuda",
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
    )
    ### END SOLUTION

# %% check="make_loader"
check("make_loader")

# %% [markdown]
# ## Streams over workers and ranks

# %% [markdown]
# ### Exercise: ShardedStream

# %% exercise="ShardedStream" points=2
class ShardedStream(IterableDataset):
    """A stream of items of which each comes once over all workers of all ranks."""

    def __init__(self, items: Sequence, rank: int = 0, world_size: int = 1) -> None:
        ### BEGIN SOLUTION
        self.items, self.rank, self.world_size = items, rank, world_size

    def __iter__(self) -> Iterator:
        info = get_worker_info()  # None where there are no workers
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        reader, readers = self.rank * workers + worker, self.world_size * workers
        return islice(self.items, reader, None, readers)
        ### END SOLUTION

# %% check="ShardedStream"
check("ShardedStream")

# %% [markdown]
# ## Normalisation

# %% [markdown]
# ### Exercise: channel_stats

# %% exercise="channel_stats" points=2
def channel_stats(loader: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Mean and population standard deviation of each channel over all pixels of all batches."""
    ### BEGIN SOLUTION
    dims, count, total, squares = (0, 2, 3), 0, 0.0, 0.0
    for x, _ in loader:
        count += x[:, 0].numel()
        total = total + x.double().sum(dims)
    mean = total / count
    for x, _ in loader:  # once more: small differences from the mean square well
        squares = squares + (x.double() - mean.view(-1, 1, 1)).square().sum(dims)
    return mean.to(x.dtype), (squares / count).sqrt().to(x.dtype)
    ### END SOLUTION

# %% check="channel_stats"
check("channel_stats")

# %% [markdown]
# ## Data larger than memory

# %% [markdown]
# ### Exercise: MemmapDataset

# %% exercise="MemmapDataset" points=3
class MemmapDataset(Dataset):
    """Items from a file that is mapped into memory when it is first used."""

    def __init__(self, path: str | Path, shape: tuple[int, ...], dtype: np.dtype) -> None:
        ### BEGIN SOLUTION
        self.path, self.shape, self.dtype = path, shape, dtype
        self.array = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int) -> Tensor:
        if self.array is None:
            self.array = np.memmap(self.path, dtype=self.dtype, mode="r", shape=self.shape)
        return torch.from_numpy(self.array[index].astype(np.float32))  # astype copies

    def __getstate__(self) -> dict:
        return self.__dict__ | {"array": None}  # each process opens the file for itself
        ### END SOLUTION

# %% check="MemmapDataset"
check("MemmapDataset")

# %% [markdown]
# ## Images, and what may be done to them

# %% [markdown]
# ### Exercise: image_transforms

# %% exercise="image_transforms" points=2
def image_transforms(train: bool, mean: list[float], std: list[float], size: int) -> Callable[[Tensor], Tensor]:
    """From a uint8 image (C, H, W) to a normalised float32 one (C, size, size); random in training only."""
    ### BEGIN SOLUTION
    from torchvision.transforms import v2

    if train:
        cut = [v2.RandomResizedCrop(size, scale=(0.5, 1.0), antialias=True), v2.RandomHorizontalFlip()]
    else:
        cut = [v2.Resize(size, antialias=True), v2.CenterCrop(size)]
    return v2.Compose([*cut, v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)])
    ### END SOLUTION

# %% check="image_transforms"
check("image_transforms")
