"""Lesson 04: right answers in other styles than the reference's. Each must pass every case."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import mmap
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
    get_worker_info,
    random_split,
)

# --- TicketDataset -----------------------------------------------------------------------------------------------


class TicketsWithDictReader(Dataset[Any]):
    """Encodes on construction."""

    def __init__(self, path: Any, vocab: dict[str, int]) -> None:
        unknown, self.encoded, names = vocab["<unk>"], [], []
        with Path(path).open(encoding="utf8", newline="") as file:
            reader = csv.DictReader(file)
            for row in reader:
                if None in row or row["label"] is None or row["label"] == "":
                    raise ValueError(f"{path}:{reader.line_num}: expected text,label")
                ids = torch.empty(0, dtype=torch.long)
                tokens = row["text"].lower().split()
                if tokens:
                    ids = torch.LongTensor([vocab[t] if t in vocab else unknown for t in tokens])  # noqa: SIM401
                self.encoded.append(ids)
                names.append(row["label"])
        self.classes = tuple(sorted(set(names)))
        self.place = {name: i for i, name in enumerate(self.classes)}
        self.targets = [self.place[name] for name in names]

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return self.encoded[i].clone(), self.targets[i]


class TicketsReadByHand(Dataset[Any]):
    """A reader of quotes, letter by letter."""

    def __init__(self, path: Any, vocab: dict[str, int]) -> None:
        self.vocab = defaultdict(lambda: vocab["<unk>"], vocab)
        text = Path(path).read_bytes().decode("utf-8").replace("\r\n", "\n")
        _, *rows = self._rows(text)
        for line, fields in rows:
            if len(fields) != 2:
                raise ValueError(f"In line {line} there are {len(fields)} fields; 2 are wanted")
            if not fields[1]:
                raise ValueError(f"In line {line} the label is missing")
        self.texts = [fields[0] for _, fields in rows]
        self.labels = np.array([fields[1] for _, fields in rows], dtype=object)
        self.classes = sorted(set(self.labels.tolist()))

    def _rows(self, text: str) -> Iterator[tuple[int, list[str]]]:
        fields, field, quoted, line = [], "", False, 1
        letters = iter(range(len(text)))
        for i in letters:
            c = text[i]
            line += c == "\n"
            if quoted and c == '"' and text[i + 1 : i + 2] == '"':
                field += '"'
                next(letters)
            elif c == '"':
                quoted = not quoted
            elif c == "," and not quoted:
                fields, field = [*fields, field], ""
            elif c == "\n" and not quoted:
                if fields or field:
                    yield line - 1, [*fields, field]
                fields, field = [], ""
            else:
                field += c
        if fields or field:
            yield line, [*fields, field]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        tokens = self.texts[i].lower().split()
        array = np.fromiter((self.vocab.get(t, self.vocab["<unk>"]) for t in tokens), dtype=np.int64)
        return torch.from_numpy(array), self.classes.index(self.labels[i])


class TicketsInOneString(Dataset[Any]):
    def __init__(self, path: Any, vocab: dict[str, int]) -> None:
        reader = csv.reader(io.StringIO(Path(path).read_bytes().decode(), newline=""))
        self.rows = []
        for count, row in enumerate(reader):
            if count == 0 or row == []:
                continue
            try:
                text, label = row
                assert label
            except (ValueError, AssertionError) as error:
                raise ValueError(f"bad row at line {reader.line_num}: {len(row)} fields instead of 2") from error
            self.rows.append({"text": text, "label": label})
        self.vocab = vocab
        self.classes = sorted(Counter(row["label"] for row in self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> list[Any]:
        row = self.rows[i]
        ids = torch.zeros(len(row["text"].split()), dtype=torch.int64)
        for place, token in enumerate(row["text"].split()):
            ids[place] = self.vocab.get(token.lower(), self.vocab["<unk>"])
        return [ids, sum(name < row["label"] for name in self.classes)]


# --- split_indices -----------------------------------------------------------------------------------------------


def split_with_random(n: int, fractions: list[float], seed: int) -> list[list[int]]:
    if not math.isclose(math.fsum(fractions), 1.0, abs_tol=1e-9):
        raise ValueError(f"fractions must sum to 1, not {math.fsum(fractions)}")
    left = random.Random(seed).sample(range(n), n)
    parts = []
    for fraction in fractions[:-1]:
        take = int(fraction * n)
        parts.append(left[:take])
        left = left[take:]
    return [*parts, left]


def split_with_torch(n: int, fractions: list[float], seed: int) -> list[list[int]]:
    total = sum(Fraction(f).limit_denominator(10_000) for f in fractions)
    if total != 1:
        raise RuntimeError(f"the given fractions {fractions} sum to {float(total)}")
    if n == 0:
        return [[] for _ in fractions]
    generator = torch.Generator()
    generator.manual_seed(seed)
    return [list(part.indices) for part in random_split(range(n), fractions, generator)]  # type: ignore[arg-type]


def split_with_numpy(n: int, fractions: list[float], seed: int) -> list[list[int]]:
    assert abs(1 - sum(fractions)) < 1e-8, f"fractions sum to {sum(fractions)}"
    order = np.random.default_rng(seed).permutation(n)
    cuts = np.round(np.cumsum(fractions)[:-1] * n).astype(int)
    return [sorted(part.tolist()) for part in np.split(order, cuts)]


# --- pad_collate -------------------------------------------------------------------------------------------------


def collate_with_pad_sequence(batch: list[Any], pad_id: int = 0) -> dict[str, Tensor]:
    ids, labels = zip(*batch, strict=True)
    padded = nn.utils.rnn.pad_sequence(list(ids), batch_first=True, padding_value=pad_id)
    real = nn.utils.rnn.pad_sequence([torch.ones_like(one, dtype=torch.bool) for one in ids], batch_first=True)
    return {"ids": padded, "mask": real, "labels": torch.tensor(labels)}


def collate_with_lists(batch: list[Any], pad_id: int = 0) -> dict[str, Tensor]:
    rows = [ids.tolist() for ids, _ in batch]
    width = len(max(rows, key=len))
    filled = [[*row, *[pad_id] * (width - len(row))] for row in rows]
    return {
        "labels": torch.LongTensor([label for _, label in batch]),
        "mask": torch.tensor([[i < len(row) for i in range(width)] for row in rows], dtype=torch.bool),
        "ids": torch.tensor(filled, dtype=torch.int64).view(len(rows), width),
    }


def collate_with_f_pad(batch: list[Any], pad_id: int = 0) -> dict[str, Tensor]:
    width = max(ids.numel() for ids, _ in batch)
    ids = torch.stack([F.pad(one, (0, width - one.numel()), value=pad_id) for one, _ in batch])
    mask = torch.stack([torch.arange(width).lt(one.numel()) for one, _ in batch])
    return {"ids": ids, "mask": mask, "labels": torch.stack([torch.tensor(label) for _, label in batch])}


# --- ShardedStream -----------------------------------------------------------------------------------------------


class StreamByRemainder(IterableDataset[Any]):
    def __init__(self, items: Any, rank: int = 0, world_size: int = 1) -> None:
        super().__init__()
        self.items, self.rank, self.world_size = items, rank, world_size

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        count = 1 if worker is None else worker.num_workers
        mine = self.rank + self.world_size * (0 if worker is None else worker.id)
        for place, item in enumerate(self.items):
            if place % (count * self.world_size) == mine:
                yield item


class StreamInTwoSteps(IterableDataset[Any]):
    """First a share for the rank, then a share of that for the worker."""

    def __init__(self, items: Any, rank: int = 0, world_size: int = 1) -> None:
        self.mine = list(items)[rank::world_size]

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        return iter(self.mine if info is None else self.mine[info.id :: info.num_workers])


class StreamInBlocks(IterableDataset[Any]):
    def __init__(self, items: Any, rank: int = 0, world_size: int = 1) -> None:
        self.items, self.rank, self.world_size = list(items), rank, world_size

    def __iter__(self) -> Iterator[Any]:
        info: Any = get_worker_info()
        workers, worker = (info.num_workers, info.id) if info is not None else (1, 0)
        readers, reader = workers * self.world_size, worker * self.world_size + self.rank
        start, stop = (len(self.items) * k // readers for k in (reader, reader + 1))
        yield from self.items[start:stop]


# --- make_loader -------------------------------------------------------------------------------------------------


def loader_with_samplers(
    dataset: Any, batch_size: int, *, train: bool, seed: int, device: torch.device, num_workers: int = 0
) -> Any:
    generator = torch.Generator()
    generator.manual_seed(seed)
    sampler = RandomSampler(dataset, generator=generator) if train else SequentialSampler(dataset)
    more: dict[str, Any] = {"persistent_workers": True} if num_workers else {}
    return DataLoader(
        dataset, batch_sampler=BatchSampler(sampler, batch_size, drop_last=train), num_workers=num_workers,
        pin_memory=str(device).startswith("cuda"), generator=torch.Generator().manual_seed(seed + 1), **more,
    )  # fmt: skip


def _seed_worker(worker: int) -> None:
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def loader_with_worker_init(
    dataset: Any, batch_size: int, *, train: bool, seed: int, device: torch.device, num_workers: int = 0
) -> Any:
    options: dict[str, Any] = {"batch_size": batch_size, "num_workers": num_workers, "worker_init_fn": _seed_worker}
    if num_workers > 0:
        options.update(persistent_workers=True, prefetch_factor=4)
    if torch.device(device).type == "cuda":
        options.update(pin_memory=True)
    if train:
        options.update(shuffle=True, drop_last=True)
    return DataLoader(dataset, generator=torch.Generator().manual_seed(seed), **options)


class _SeedBy:
    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, worker: int) -> None:
        random.seed(self.seed * 1009 + worker)
        np.random.seed([self.seed, worker])


def loader_with_seeds_of_its_own(
    dataset: Any, batch_size: int, *, train: bool, seed: int, device: torch.device, num_workers: int = 0
) -> Any:
    order = Subset(dataset, range(len(dataset)))
    return DataLoader(
        order, batch_size, shuffle=train, num_workers=num_workers, drop_last=train, worker_init_fn=_SeedBy(seed),
        generator=torch.Generator().manual_seed(seed), pin_memory=device.type == "cuda",
        persistent_workers=bool(num_workers), multiprocessing_context=None,
    )  # fmt: skip


# --- balanced_sampler --------------------------------------------------------------------------------------------


def balanced_by_counter(labels: list[int], seed: int) -> Any:
    counts = Counter(labels)
    weights = [len(labels) / counts[label] for label in labels]
    return WeightedRandomSampler(weights, num_samples=len(weights), replacement=True,
                                 generator=torch.Generator().manual_seed(seed))  # fmt: skip


def balanced_by_numpy(labels: list[int], seed: int) -> Any:
    _, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    generator = torch.Generator()
    generator.manual_seed(seed)
    return WeightedRandomSampler((1.0 / counts)[place] / len(counts), len(place), generator=generator)  # type: ignore[arg-type]


# --- LengthBatchSampler ------------------------------------------------------------------------------------------


class LengthsWithTorch(Sampler[Any]):
    def __init__(self, lengths: list[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed, self.epoch = torch.tensor(lengths), batch_size, seed, 0

    def set_epoch(self, e: int) -> None:
        self.epoch = e

    def __iter__(self) -> Iterator[Any]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        noise = torch.rand(len(self.lengths), generator=generator)
        batches = (self.lengths + noise).argsort().split(self.batch_size)
        for i in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[i].tolist()


class LengthsInPools(Sampler[Any]):
    """Shuffles, then sorts within pools of many batches."""

    def __init__(self, lengths: list[int], batch_size: int, seed: int) -> None:
        self.lengths, self.batch_size, self.seed = lengths, batch_size, seed
        self.set_epoch(0)

    def set_epoch(self, e: int) -> None:
        rng = np.random.default_rng([self.seed, e])
        order = rng.permutation(len(self.lengths)).tolist()
        pool = 50 * self.batch_size
        self.batches = []
        for start in range(0, len(order), pool):
            some = sorted(order[start : start + pool], key=lambda i: self.lengths[i])
            self.batches += [tuple(some[i : i + self.batch_size]) for i in range(0, len(some), self.batch_size)]
        rng.shuffle(self.batches)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        return (list(map(int, batch)) for batch in self.batches)


# --- channel_stats -----------------------------------------------------------------------------------------------


def stats_merged(loader: Any) -> tuple[Tensor, Tensor]:
    """One pass, in the input's dtype: Chan's formula merges what is known with each batch."""
    count, mean, squares = 0, torch.zeros(1), torch.zeros(1)
    for x, _ in loader:
        pixels = x.transpose(0, 1).flatten(1).double()
        n, own = pixels.shape[1], pixels.mean(1)
        delta = own - mean
        squares = squares + ((pixels - own[:, None]) ** 2).sum(1) + delta**2 * count * n / (count + n)
        mean = mean + delta * n / (count + n)
        count += n
    return mean.to(x.dtype), (squares / count).sqrt().to(x.dtype)


def stats_of_everything(loader: Any) -> tuple[Tensor, Tensor]:
    x = torch.cat([x for x, _ in loader])
    std, mean = torch.std_mean(x.double(), dim=(0, 2, 3), correction=0)
    return mean.to(x), std.to(x)


def stats_in_float64(loader: Any) -> list[Tensor]:
    first, second, count = 0.0, 0.0, 0
    for x, _ in loader:
        values = x.numpy().astype(np.float64)
        first = first + values.sum(axis=(0, 2, 3))
        second = second + (values * values).sum(axis=(0, 2, 3))
        count += values[:, 0].size
    mean = first / count
    std = np.sqrt(np.clip(second / count - mean**2, 0, None))
    return [torch.as_tensor(mean, dtype=x.dtype), torch.as_tensor(std, dtype=x.dtype)]


# --- MemmapDataset -----------------------------------------------------------------------------------------------


class MemmapByProperty(Dataset[Any]):
    def __init__(self, path: Any, shape: Any, dtype: Any) -> None:
        self.__dict__.update(path=str(path), shape=tuple(shape), dtype=np.dtype(dtype))
        assert Path(path).stat().st_size == np.prod(shape) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getattr__(self, name: str) -> Any:
        if name != "rows":
            raise AttributeError(name)
        self.__dict__["rows"] = np.memmap(self.path, self.dtype, "r", 0, self.shape)
        return self.__dict__["rows"]

    def __reduce__(self) -> Any:
        return type(self), (self.path, self.shape, self.dtype)

    def __getitem__(self, i: int) -> Tensor:
        return torch.tensor(self.rows[i], dtype=torch.float32)


class ReadBySeeking(Dataset[Any]):
    """No map at all: each item is read from its place in the file."""

    def __init__(self, path: Any, shape: Any, dtype: Any) -> None:
        self.path, self.shape, self.dtype = path, shape, np.dtype(dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, i: int) -> Tensor:
        count = int(np.prod(self.shape[1:]))
        row = np.fromfile(self.path, self.dtype, count, offset=i * count * self.dtype.itemsize)
        return torch.from_numpy(row.reshape(self.shape[1:]).astype("float32"))


class MappedByModule(Dataset[Any]):
    def __init__(self, path: Any, shape: Any, dtype: Any) -> None:
        self.path, self.shape, self.dtype, self.map = path, shape, dtype, None

    def __len__(self) -> int:
        return len(range(self.shape[0]))

    def __getstate__(self) -> Any:
        return self.path, self.shape, self.dtype

    def __setstate__(self, state: Any) -> None:
        self.path, self.shape, self.dtype = state
        self.map = None

    def __getitem__(self, i: int) -> Tensor:
        if self.map is None:
            with Path(self.path).open("rb") as file:
                self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        size = int(np.prod(self.shape[1:])) * np.dtype(self.dtype).itemsize
        row = np.frombuffer(bytearray(self.map[i * size : (i + 1) * size]), self.dtype)
        return torch.from_numpy(row).float().reshape(self.shape[1:])


# --- image_transforms --------------------------------------------------------------------------------------------


def transforms_from_padding(train: bool, mean: Any, std: Any, size: int) -> Any:
    from torchvision.transforms import v2

    common = [v2.ToImage(), v2.Resize((size, size))]
    random_ones = [v2.RandomCrop(size, padding=max(1, size // 8)), v2.RandomHorizontalFlip(p=0.3)] if train else []
    return v2.Compose([*common, *random_ones, v2.ConvertImageDtype(torch.float32), v2.Normalize(mean, std)])


def transforms_as_a_function(train: bool, mean: Any, std: Any, size: int) -> Any:
    from torchvision.transforms.v2 import functional as TF

    def transform(image: Tensor) -> Tensor:
        x = TF.to_dtype(image, torch.float32, scale=True)
        x = TF.resize(x, [size + 4, size + 4] if train else [size, size], antialias=True)
        if train:
            top, left = torch.randint(0, 5, (2,)).tolist()
            x = x[:, top : top + size, left : left + size]
            x = x.flip(-1) if torch.rand(()) < 0.5 else x
        return (x - torch.tensor(mean)[:, None, None]) / torch.tensor(std)[:, None, None]

    return transform


class TransformsInAModule(nn.Module):
    def __init__(self, train: bool, mean: Any, std: Any, size: int) -> None:
        super().__init__()
        from torchvision.transforms import v2

        cut = v2.RandomResizedCrop((size, size)) if train else v2.Resize((size, size))
        flip = v2.RandomHorizontalFlip() if train else v2.Identity()
        self.steps = nn.Sequential(cut, flip, v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean=mean, std=std))

    def forward(self, image: Tensor) -> Tensor:
        out: Tensor = self.steps(image)
        return out


# --- ResumableSampler --------------------------------------------------------------------------------------------


class ResumableWithTorch(Sampler[int]):
    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed, self.epoch, self.done = n, seed, 0, 0

    def set_epoch(self, e: int) -> None:
        self.done = self.done if e == self.epoch else 0
        self.epoch = e

    def state_dict(self) -> dict[str, Any]:
        return {"state": json.dumps([self.seed, self.epoch, self.done])}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seed, self.epoch, self.done = json.loads(state["state"])

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(hash((self.seed, self.epoch)) % 2**31)
        order = torch.randperm(self.n, generator=generator).tolist()
        while self.done < self.n:
            self.done += 1
            yield order[self.done - 1]


class _Walk:
    def __init__(self, owner: Any, order: list[int]) -> None:
        self.owner, self.order = owner, order

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if not self.order:
            raise StopIteration
        self.owner.left = len(self.order) - 1
        return self.order.pop()


class ResumableByItsRest(Sampler[int]):
    """Keeps how many are left, and hands out from the end."""

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed = n, seed
        self.epoch, self.left = 0, n

    def set_epoch(self, e: int) -> None:
        if self.epoch != e:
            self.epoch, self.left = e, self.n

    def state_dict(self) -> Any:
        return {"epoch": torch.tensor(self.epoch), "left": torch.tensor(self.left)}

    def load_state_dict(self, state: Any) -> None:
        self.epoch, self.left = int(state["epoch"]), int(state["left"])

    def __iter__(self) -> Any:
        order = np.random.default_rng((self.seed, self.epoch)).permutation(self.n).tolist()
        return _Walk(self, order[: self.left])


class ResumableByIslice(Sampler[int]):
    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed, self.state = n, seed, (0, 0)

    def set_epoch(self, e: int) -> None:
        if e != self.state[0]:
            self.state = (e, 0)

    def state_dict(self) -> Any:
        return {"state": self.state}

    def load_state_dict(self, state: Any) -> None:
        self.state = tuple(state["state"])

    def __len__(self) -> int:
        return self.n - self.state[1]

    def __iter__(self) -> Iterator[int]:
        epoch, begin = self.state
        order = random.Random(self.seed * 7919 + epoch).sample(range(self.n), self.n)
        for place, index in itertools.islice(enumerate(order, 1), begin, None):
            self.state = (epoch, place)
            yield index


RIGHT: dict[str, list[Callable[..., Any]]] = {
    "TicketDataset": [TicketsWithDictReader, TicketsReadByHand, TicketsInOneString],
    "split_indices": [split_with_random, split_with_torch, split_with_numpy],
    "pad_collate": [collate_with_pad_sequence, collate_with_lists, collate_with_f_pad],
    "ShardedStream": [StreamByRemainder, StreamInTwoSteps, StreamInBlocks],
    "make_loader": [loader_with_samplers, loader_with_worker_init, loader_with_seeds_of_its_own],
    "balanced_sampler": [balanced_by_counter, balanced_by_numpy],
    "LengthBatchSampler": [LengthsWithTorch, LengthsInPools],
    "channel_stats": [stats_merged, stats_of_everything, stats_in_float64],
    "MemmapDataset": [MemmapByProperty, ReadBySeeking, MappedByModule],
    "image_transforms": [transforms_from_padding, transforms_as_a_function, TransformsInAModule],
    "ResumableSampler": [ResumableWithTorch, ResumableByItsRest, ResumableByIslice],
}
