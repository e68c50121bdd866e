# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 4 · Data
#
# A model sees what the loader hands it, and nothing else. If the loader skips a class, pads on the wrong side or puts
# a test sample into training, no error is raised: the loss goes down all the same, and the result is wrong. So the
# path from a file to a batch deserves as much care as the model.
#
# This lesson follows that path: datasets, samplers, collating, workers, streams, statistics, large files, images. You
# write eleven pieces of it, each a few lines long.

# %% tags=["setup"]
import csv
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## A dataset with a length
#
# A *map dataset* is anything with a length and an item for each index, counting from 0. That is the whole contract.
# When the data is already in tensors, `TensorDataset` is enough:

# %%
points = TensorDataset(torch.arange(10.0), torch.arange(10) % 2)
print(len(points), points[3])

# %% [markdown]
# A `DataLoader` turns a dataset into batches. Three parts do the work, and each can be replaced: a *sampler* says
# which index comes next, a *batch sampler* groups indices, and `collate_fn` makes one batch out of the items.

# %%
for x, y in DataLoader(points, batch_size=4):
    print(x, y)

# %%
print(
    list(DataLoader(points).sampler),
    list(DataLoader(points, batch_size=4).batch_sampler),
)

# %% [markdown]
# Our data is a file: 600 messages to a help desk, each with the department it belongs to. They come with the course
# (we made them up). The file is a CSV, and a realistic one:

# %%
from importlib import resources

tickets_csv = resources.files("torchcourse") / "data" / "tickets.csv"
print(tickets_csv.read_text(encoding="utf-8")[:420])

# %% [markdown]
# A text may contain commas, line breaks and quotes; then the field is quoted, and a quote inside it is doubled. If
# you split the file at commas or line ends, it falls apart:

# %%
with tickets_csv.open(encoding="utf-8", newline="") as file:
    first = next(islice(file, 4, None))
print(first.split(","))

# %% [markdown]
# `csv.reader` knows the rules. Open the file with `newline=""`, so that line breaks inside quotes reach the reader as
# they are. Rows and lines are therefore not the same thing: `reader.line_num` counts the physical lines read so far.

# %%
with tickets_csv.open(encoding="utf-8", newline="") as file:
    reader = csv.reader(file)
    rows = [(reader.line_num, row) for row in reader]
print(len(rows), "rows,", rows[-1][0], "lines")
print(rows[4:6])

# %% [markdown]
# A model computes with numbers. A *vocabulary* gives each word an id; words it does not know share the id of `<unk>`.
# It is built from the training texts, and fixed from then on. (Nothing is split yet, so this first one counts all 600.)

# %%
from collections import Counter

words = Counter(word for _, (text, _) in rows[1:] for word in text.lower().split())
vocab = {"<pad>": 0, "<unk>": 1} | {
    word: i for i, (word, _) in enumerate(words.most_common(500), 2)
}
print(
    [
        vocab.get(word, vocab["<unk>"])
        for word in "My card was charged by a dinosaur".lower().split()
    ]
)

# %% [markdown]
# Two details are traps. A label is stored as a number, and the numbers follow the *sorted* names: numbered by first
# appearance, they would depend on the first lines of the file. And an empty text gives an empty list, for which
# `torch.tensor` guesses a dtype:

# %%
print(torch.tensor([]).dtype, torch.tensor([], dtype=torch.int64).dtype)

# %% [markdown]
# **In short:** a dataset has a length and items; files are read by a reader that knows their rules; errors in the
# data are best found when the dataset is made, with the number of the line at fault.

# %% [markdown]
# ### Exercise: TicketDataset
#
# Write `class TicketDataset(Dataset)`, made by `TicketDataset(path, vocab)` from a CSV (UTF-8) with the header
# `text,label`. Its length is the number of tickets. An item is a pair: the ids of the text's tokens as an `int64`
# tensor, and the label as an `int`, its place in `.classes`, the sorted list of label names. Tokens are the
# white-space-separated pieces of the lower-cased text; one that is not in `vocab` becomes `vocab["<unk>"]`. Blank
# lines are skipped, an empty text is allowed. A row without exactly two fields, or with an empty label, raises
# `ValueError` on construction; the message names its physical line number, where the header is line 1.
#
# ```
# dataset = TicketDataset("tickets.csv", {"<unk>": 0, "my": 1, "card": 2})
# dataset[0], dataset.classes      # ((tensor([1, 2, 0]), 1), ['account', 'billing', 'technical'])
# ```

# %% exercise="TicketDataset" points=3
class TicketDataset(Dataset):
    """Support tickets from a CSV with the header text,label: an item is (ids,
    label)."""

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
                    raise ValueError(
                        f"line {reader.line_num} of {path} is {row}, but must be a "
                        "text and a label"
                    )
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
#
# To know how good a model is, you need data it has not seen. Two things can go wrong. The first: the file is sorted (by
# date, by class), and the last fifth is a different kind of data from the rest.

# %%
by_class = sorted(label for _, (_, label) in rows[1:])
print(Counter(by_class[:480]), Counter(by_class[480:]))

# %% [markdown]
# So indices are shuffled before they are cut. (A model that will be used on later data is tested on later data: cut by
# date then, or it learns from the future.) The shuffle has to come from a seed of its own: a split that changes
# from run to run lets yesterday's test data into today's training. `torch.manual_seed` inside a helper is no good
# either, because it resets the generator that everything else shares:

# %%
torch.manual_seed(0)
undisturbed = torch.rand(2)
torch.manual_seed(0)
torch.manual_seed(42)  # somewhere inside a helper
print(undisturbed, torch.rand(2))

# %%
own = torch.Generator().manual_seed(42)
print(torch.randperm(8, generator=own))

# %% [markdown]
# The second: *leakage*. With the same customer, patient or near-duplicate in both parts, the model can recognise them
# instead of learning. Then you must split groups, not rows. The same holds for everything *computed* from data (the
# vocabulary, means, class weights): compute it from the training part alone.

# %%
customers = torch.arange(20) // 4  # five customers, four tickets each
order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
train, test = order[:15], order[15:]
print(
    "customers in both parts:",
    sorted(set(customers[train].tolist()) & set(customers[test].tolist())),
)

# %% [markdown]
# scikit-learn has the split by groups ready-made: no customer ends up in both parts.

# %% tags=["demo"]
from sklearn.model_selection import GroupShuffleSplit

splitter = GroupShuffleSplit(n_splits=1, test_size=0.4, random_state=0)
train, test = next(splitter.split(customers, groups=customers))
print(
    "customers:",
    sorted(set(customers[train].tolist())),
    sorted(set(customers[test].tolist())),
)

# %% [markdown]
# One more trap, in the arithmetic: fractions are floats.

# %%
print(
    0.7 + 0.2 + 0.1 == 1, 0.1 + 0.2 + 0.7 == 1, [int(97 * f) for f in (0.7, 0.2, 0.1)]
)

# %% [markdown]
# The sum depends on the order of the terms, so compare with a tolerance. (Python's `sum` makes up for the rounding from
# 3.12 on, and does not before.) And the parts of 67, 19 and 9 make 95 of 97: two samples are lost.
# `torch.utils.data.random_split` splits a dataset by fractions without losing any; here you write the same for indices.

# %% [markdown]
# ### Exercise: split_indices
#
# Write `split_indices(n, fractions, seed)`: a list of lists of ints, one list for each fraction. Together they contain
# each index of `range(n)` exactly once, shuffled by `seed` (the same seed gives the same split). Each size is the
# fraction of `n`, up to rounding. The global generators of torch, NumPy and `random` are left as they were. Fractions
# that do not sum to 1 raise an error; the message names `fractions` and says what they are or what they sum to.
#
# ```
# train, test = split_indices(10, [0.8, 0.2], seed=0)
# len(train), len(test), sorted(train + test) == list(range(10))    # 8, 2, True
# ```

# %% exercise="split_indices" points=2
def split_indices(n: int, fractions: list[float], seed: int) -> list[list[int]]:
    """range(n), shuffled by seed and cut into parts of these fractions."""
    ### BEGIN SOLUTION
    if abs(sum(fractions) - 1) > 1e-6:
        raise ValueError(
            f"fractions are {fractions} and sum to {sum(fractions):g}, but must sum "
            "to 1"
        )
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).tolist()
    ends = [round(n * sum(fractions[: i + 1])) for i in range(len(fractions))]
    return [order[start:end] for start, end in zip([0, *ends], ends)]
    ### END SOLUTION

# %% check="split_indices"
check("split_indices")

# %% [markdown]
# ## Padding and masks
#
# A batch is a block, and tickets differ in length. The default `collate_fn` stacks the items, and complains when it
# cannot:

# %%
try:
    next(iter(DataLoader([torch.tensor([4, 7]), torch.tensor([5])], batch_size=2)))
except RuntimeError as error:
    print(str(error)[:120])

# %% [markdown]
# So the short ones are padded with a special id, and a mask records what is real. As in lesson 1, **True means real**
# here. In `nn.MultiheadAttention` it is the other way round: True in `key_padding_mask` means *ignore*.
#
# The mask comes from the lengths. Asking which ids equal the padding id looks equivalent, and fails as soon as a real
# token has that id:

# %%
ids, lengths = torch.tensor([[0, 3, 9], [8, 0, 0]]), torch.tensor([3, 1])
print(ids != 0)
print(torch.arange(3) < lengths[:, None])

# %% [markdown]
# How wide is the block? As wide as the longest of *this* batch; a global maximum would be mostly padding. Where texts
# can be very long they are also cut (*truncated*) at some length. Then check what is lost; here, with a limit of 12
# tokens:

# %%
token_counts = torch.tensor([len(text.split()) for _, (text, _) in rows[1:]])
cut = token_counts > 12
print(
    f"{cut.sum()} of {len(cut)} tickets lose words, {(token_counts - 12)[cut].sum()} "
    "words in all"
)

# %% [markdown]
# **In short:** pad on the right to the longest of the batch, make the mask from the lengths, and know what a limit
# throws away.

# %% [markdown]
# ### Exercise: pad_collate
#
# Write `pad_collate(batch, pad_id=0)`: from a list of pairs `(ids, label)`, as `TicketDataset` gives them, a dict of
# `ids`, `(B, T)` `int64`, padded on the right with `pad_id`; `mask`, `(B, T)` `bool`, True where a token is real;
# `labels`, `(B,)` `int64`. T is the length of the longest in the batch. There may be tickets without words, even a
# whole batch of them.
#
# ```
# pad_collate([(torch.tensor([5, 6]), 1), (torch.tensor([7]), 0)])
# {'ids': [[5, 6], [7, 0]], 'mask': [[True, True], [True, False]], 'labels': [1, 0]}
# ```

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
#
# Of our tickets, fewer than one in six are about accounts. In a batch of 8 there is often none at all. The last number
# below is the share of batches that have at least one:

# %%
labels = torch.tensor(
    [["account", "billing", "technical"].index(label) for _, (_, label) in rows[1:]]
)
print(torch.bincount(labels))
batches = labels[torch.randperm(600, generator=torch.Generator().manual_seed(0))].view(
    75, 8
)
print((batches == 0).any(dim=1).float().mean())

# %% [markdown]
# `WeightedRandomSampler` draws indices with given weights, one for each *sample*. (Another cure is to weight the
# loss: lesson 5.) With replacement, a sample of a rare class is drawn several times in an epoch, and one of a frequent
# class perhaps not at all. Here is how it works on five samples, the last of which has half of the total weight:

# %%
sampler = WeightedRandomSampler(
    [1, 1, 1, 1, 4], num_samples=2000, generator=torch.Generator().manual_seed(0)
)
print(torch.bincount(torch.tensor(list(sampler))) / 2000)

# %% [markdown]
# Balance only for training. Evaluate on the data as it is, and never let the repeated samples of a balanced draw get
# into both parts of a split: split first, then balance.

# %% [markdown]
# ### Exercise: balanced_sampler
#
# Write `balanced_sampler(labels, seed)`: `labels` is a list of ints from 0 up, the class of each sample. Return a
# `WeightedRandomSampler` of `len(labels)` draws under which the classes that occur come up equally often. The same
# seed gives the same draws, and the global generators stay as they are. Some class numbers may not occur at all.
#
# ```
# draws = list(balanced_sampler([0] * 900 + [1] * 100, seed=0))
# sum(i >= 900 for i in draws)     # about 500
# ```

# %% exercise="balanced_sampler" points=1
def balanced_sampler(labels: list[int], seed: int) -> WeightedRandomSampler:
    """As many draws as labels, in which every class is equally likely."""
    ### BEGIN SOLUTION
    classes = torch.tensor(labels)
    weights = 1 / torch.bincount(classes)[classes]
    return WeightedRandomSampler(
        weights, len(labels), generator=torch.Generator().manual_seed(seed)
    )
    ### END SOLUTION

# %% check="balanced_sampler"
check("balanced_sampler")

# %% [markdown]
# ## Batches of similar lengths
#
# Padding costs computation and teaches nothing. How much of it there is depends on which samples share a batch:

# %%
def padding(order: Tensor) -> float:
    groups = token_counts[order].split(16)
    return 1 - token_counts.sum().item() / sum(len(g) * g.max().item() for g in groups)

# %%
shuffled = torch.randperm(600, generator=torch.Generator().manual_seed(0))
print(
    f"shuffled: {padding(shuffled):.0%} padding, sorted by length: "
    f"{padding(token_counts.argsort()):.0%}"
)

# %% [markdown]
# But a sorted epoch goes from short to long each time, always with the same samples together. So sort, cut into
# batches, and then shuffle the *batches*; if you shuffle the indices before sorting, samples of equal length end up in
# different company each time.
#
# A *batch sampler* yields lists of indices and is passed as `batch_sampler=`. One that shuffles needs to know the
# epoch. The convention, which PyTorch's own `DistributedSampler` follows too, is a method `set_epoch`: the order is a
# function of seed and epoch, and so can be reproduced.

# %%
for epoch in (0, 1, 0):
    print(epoch, random.Random(f"7 {epoch}").sample(range(6), 6))

# %% [markdown]
# ### Exercise: LengthBatchSampler
#
# Write `class LengthBatchSampler(Sampler)`, made by `LengthBatchSampler(lengths, batch_size, seed)`, with a method
# `set_epoch(e)`; before it is called, the epoch is 0. Iterating yields batches, lists of at most `batch_size` indices
# whose lengths are similar: neighbours, once all lengths are sorted. Every index comes once per epoch, including
# those of a smaller last batch. The batches come in a new order each epoch, which depends only on `seed` and the
# epoch; the global generators stay as they are.
#
# ```
# sampler = LengthBatchSampler([3, 50, 4, 52, 51, 2], batch_size=3, seed=0)
# list(sampler)      # for instance [[1, 4, 3], [5, 0, 2]]
# ```

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
        rng.shuffle(order)  # so that equal lengths meet other samples in each epoch
        order.sort(key=lambda index: self.lengths[index])
        batches = [
            order[i : i + self.batch_size]
            for i in range(0, len(order), self.batch_size)
        ]
        rng.shuffle(batches)
        yield from batches
        ### END SOLUTION

# %% check="LengthBatchSampler"
check("LengthBatchSampler")

# %% [markdown]
# ## Stopping in the middle of an epoch
#
# A long epoch gets interrupted: the machine is needed elsewhere, the time is up. Starting the epoch again shows some
# samples twice; continuing with a fresh shuffle shows some twice and some never:

# %%
before = random.Random(1).sample(range(10), 10)[:6]
after = random.Random(2).sample(range(10), 10)[6:]
print("never seen:", sorted(set(range(10)) - set(before) - set(after)))

# %% [markdown]
# The order is a function of seed and epoch. So all that has to be saved is the epoch and how many indices were handed
# out. `state_dict` and `load_state_dict` are the names PyTorch uses for saving and loading state everywhere.
#
# One trap is how generators run. What comes after `yield` is executed only when the *next* value is requested:

# %%
def counting(state: dict) -> Iterator[int]:
    for i in range(5):
        yield i
        state["after the yield"] += 1

state = {"after the yield": 0}
print(list(islice(counting(state), 3)), state)

# %% [markdown]
# Three handed out, two counted. Another trap: a training loop calls `set_epoch(epoch)` at the start of each epoch,
# including the one that was just resumed. And a third, with workers: they fetch ahead, so the sampler has handed out
# more than the model has seen. Then the position to save has to come from the number of batches that were *trained on*;
# the `torchdata` package has a `StatefulDataLoader` that takes care of this.

# %% [markdown]
# ### Exercise: ResumableSampler
#
# Write `class ResumableSampler(Sampler)`, made by `ResumableSampler(n, seed)`: iterating yields `range(n)` in an
# order that depends on `seed` and the epoch. `set_epoch(e)` begins a new epoch at its first index; called with the
# current epoch it keeps the position. `state_dict()` returns what a fresh sampler, made with the same arguments,
# needs in `load_state_dict(state)` to continue: if it was stopped after k < n indices, those k are not repeated, and
# the rest of the same order follows. It may be stopped several times. A saved state does not change when the sampler
# goes on.
#
# ```
# sampler = ResumableSampler(5, seed=0)
# list(islice(sampler, 2)), sampler.state_dict()    # two indices, and all that is needed for the other three
# ```

# %% exercise="ResumableSampler" points=3
class ResumableSampler(Sampler):
    """A shuffled order of range(n) that can be interrupted and resumed."""

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
#
# While the model trains on one batch, the next could be loaded. `num_workers=2` starts two processes that do this.
# Each holds a copy of the dataset, gets lists of indices, and sends back whole batches. In the picture, blue is
# loading a batch and orange training on it: first without workers, then with two.

# %% tags=["demo"]
from torchcourse.demos import timeline

timeline.draw(workers=0)

# %% tags=["demo"]
timeline.draw(workers=2)

# %% [markdown]
# Move the sliders. When do more workers stop helping? What does `prefetch_factor`, the number of batches each worker
# prepares in advance, change when all batches take equally long?

# %% tags=["demo"]
timeline.explore()

# %% [markdown]
# The other switches, in one table:
#
# | argument | what it does | when |
# |---|---|---|
# | `num_workers` | processes that load | when loading is slower than training |
# | `prefetch_factor` | batches each worker prepares ahead (2 by default) | when loading times vary |
# | `persistent_workers` | keeps the workers alive from epoch to epoch | nearly always when there are workers: starting them takes time |
# | `pin_memory` | copies each batch into memory that a GPU can read by itself | for CUDA only (other accelerators pin, too, but the exercise below asks for CUDA); with `.to(device, non_blocking=True)` |
# | `drop_last` | leaves out a smaller last batch | training only |
# | `shuffle` | a new order each epoch | training only |
# | `generator` | where that order and the workers' seeds come from | whenever a run should be repeatable |
#
# In evaluation every sample counts once, and the order is that of the file, so that results are comparable.
#
# Pinning reaches every tensor in a batch, including those inside dicts, lists, tuples and namedtuples. A batch that is
# an instance of your own class passes through unpinned, unless that class has a method `pin_memory()`, which is then
# called.
#
# How a worker starts depends on the system and on Python's version. macOS and Windows *spawn* a fresh process; Linux
# *forks* the notebook's own process up to Python 3.13, and asks a fresh *fork server* from 3.14 on. A forked worker
# knows all that the notebook knows. A fresh one gets the dataset as a pickle, and the dataset's class has to live in
# a module that it can import. `multiprocessing_context=` lets you choose. The cells below fork where that is possible.

# %% tags=["demo"]
can_fork = "fork" in torch.multiprocessing.get_all_start_methods()
two_workers = {"num_workers": 2, "multiprocessing_context": "fork"} if can_fork else {}
print("the default here:", torch.multiprocessing.get_context().get_start_method())

# %% [markdown]
# **Random numbers.** A forked worker would start with a copy of the parent's generators, and all would draw the same
# numbers. That was a famous bug with NumPy; today the loader seeds torch, `random` and NumPy differently in each
# worker, from a number that it draws from `generator`. See for yourself (one number for each item, in two runs):

# %% tags=["demo"]
class Drawing(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return round(np.random.rand(), 3)

def drawn(dataset: Dataset, **options: object) -> list[float]:
    generator = torch.Generator().manual_seed(0)
    return [
        round(x.item(), 3)
        for x in DataLoader(dataset, generator=generator, **two_workers, **options)
    ]


print(drawn(Drawing()), drawn(Drawing()))

# %% [markdown]
# There are still two ways to break this. The first is a `worker_init_fn` with a constant seed, often copied from old
# recipes. Item 0 and item 1 go to different workers, and draw the same number:

# %% tags=["demo"]
def constant_seed(worker: int) -> None:
    np.random.seed(0)

print(drawn(Drawing(), worker_init_fn=constant_seed))

# %% [markdown]
# The second is a generator that the dataset itself holds. It is copied with the dataset, state and all, and the
# loader does not know about it:

# %% tags=["demo"]
class Holding(Drawing):
    def __init__(self) -> None:
        self.generator = np.random.default_rng(0)

    def __getitem__(self, index: int) -> float:
        return round(self.generator.random(), 3)

print(drawn(Holding()))

# %% [markdown]
# The cure: create such a generator in the worker, at first use, from `torch.initial_seed()`, which differs in each.
#
# **Errors.** When an item fails in a worker, the loader raises an exception of the same type, with the worker's
# traceback as its text. A debugger cannot follow there. So the first step is always `num_workers=0`: same items, one
# process, an ordinary traceback.

# %% tags=["demo"]
class Broken(Drawing):
    def __getitem__(self, index: int) -> float:
        return 1 / (index - 2)

try:
    list(DataLoader(Broken(), **two_workers))
except ZeroDivisionError as error:
    print(
        str(error).strip().splitlines()[0], "...", str(error).strip().splitlines()[-1]
    )
    error.__traceback__ = None  # its frames hold the loader's workers

# %% [markdown]
# ### Exercise: make_loader
#
# Write `make_loader(dataset, batch_size, *, train, seed, device, num_workers=0)`: a `DataLoader` over a map dataset.
#
# - In training it shuffles anew in each epoch, in orders determined by `seed`, and drops a smaller last batch. In
#   evaluation it does neither.
# - It pins memory only if `device`, a `torch.device`, is a CUDA device.
# - Workers persist from epoch to epoch. NumPy and `random` draw different numbers in each of them, and the same ones in
#   a second run with the same seed, whatever state the global generators are in.
#
# ```
# loader = make_loader(points, 4, train=True, seed=0, device=torch.device("cpu"))
# len(loader)      # 2 batches of 4; two of the ten points are left over
# ```

# %% exercise="make_loader" points=3
def make_loader(
    dataset: Dataset,
    batch_size: int,
    *,
    train: bool,
    seed: int,
    device: torch.device,
    num_workers: int = 0,
) -> DataLoader:
    """A loader that shuffles and drops the last batch in training only,
    and draws from its own generator."""
    ### BEGIN SOLUTION
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=train,
        drop_last=train,
        # the order, and the seeds of the workers
        generator=torch.Generator().manual_seed(seed),
        pin_memory=device.type == "cuda",
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
    )
    ### END SOLUTION

# %% check="make_loader"
check("make_loader")

# %% [markdown]
# ## Streams over workers and ranks
#
# Some data has no length: a log, a queue, a directory of archives read in order. An *iterable dataset* needs `__iter__`
# and nothing else. There are no indices, so there is no sampler, and nothing divides the work. With two workers, this
# one delivers everything twice:

# %% tags=["demo"]
class Counting(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))

print(list(DataLoader(Counting(), batch_size=None, **two_workers)))

# %% [markdown]
# Each worker has its own copy of the dataset and runs its `__iter__`. Inside it, `get_worker_info()` says which worker
# is running: its result has `id` and `num_workers`, and is None in a process that is not a worker.

# %% tags=["demo"]
class WhoAmI(IterableDataset):
    def __iter__(self) -> Iterator[str]:
        info = get_worker_info()
        yield "no worker" if info is None else f"worker {info.id} of {info.num_workers}"

print(
    list(DataLoader(WhoAmI(), batch_size=None)),
    list(DataLoader(WhoAmI(), batch_size=None, **two_workers)),
)

# %% [markdown]
# Training on several GPUs adds a second level: one process for each GPU, a *rank*, and each rank has workers of its
# own. For map datasets `DistributedSampler` deals the indices out to the ranks. By default it repeats some indices so
# that all ranks get the same number:

# %%
from torch.utils.data.distributed import DistributedSampler

for rank in (0, 1):
    print(
        rank,
        list(DistributedSampler(range(5), num_replicas=2, rank=rank, shuffle=False)),
    )

# %% [markdown]
# For a stream you have to divide the items yourself. Number the readers from 0 to `ranks * workers - 1`, and let
# reader k take every item whose position, divided by `ranks * workers`, leaves the remainder k.

# %% [markdown]
# ### Exercise: ShardedStream
#
# Write `class ShardedStream(IterableDataset)`, made by `ShardedStream(items, rank=0, world_size=1)`, where `items` is
# a list. Over all workers of all `world_size` ranks, each item comes exactly once; every rank has the same number of
# workers, possibly none. A stream can be read again in the next epoch. Only `__iter__` is missing.
#
# ```
# list(ShardedStream(["a", "b", "c"], rank=0, world_size=2))     # for instance ['a', 'c']
# list(ShardedStream(["a", "b", "c"], rank=1, world_size=2))     # then ['b']
# ```

# %% exercise="ShardedStream" points=2
class ShardedStream(IterableDataset):
    """A stream of items of which each comes once over all workers of all ranks."""

    def __init__(self, items: Sequence, rank: int = 0, world_size: int = 1) -> None:
        self.items, self.rank, self.world_size = items, rank, world_size

    def __iter__(self) -> Iterator:
        ### BEGIN SOLUTION
        info = get_worker_info()  # None where there are no workers
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        reader, readers = self.rank * workers + worker, self.world_size * workers
        return islice(self.items, reader, None, readers)
        ### END SOLUTION

# %% check="ShardedStream"
check("ShardedStream")

# %% [markdown]
# **Shuffling a stream.** There are no indices to shuffle. A *shuffle buffer* holds some items, hands out a random one
# of them, and fills the gap with the next. An item can come out much later than its place in the stream, but earlier
# by no more than the length of the buffer; a file sorted by class stays nearly sorted if the buffer is small:

# %% tags=["demo"]
def shuffled_stream(items: Iterable, size: int, rng: random.Random) -> Iterator:
    buffer = []
    for item in items:
        buffer.append(item)
        if len(buffer) > size:
            yield buffer.pop(rng.randrange(len(buffer)))
    rng.shuffle(buffer)
    yield from buffer

for size in (0, 4, 40):
    print(size, list(shuffled_stream(range(20), size, random.Random(0))))

# %% [markdown]
# **Unequal shards.** Five items over two ranks make three and two. In distributed training (lesson 12) each step ends
# with an exchange between all ranks, so the rank with three items waits, in its last step, for a partner that has
# gone home: the run hangs. That is why `DistributedSampler` repeats indices, and why streams are cut to the same
# number of batches everywhere. Batches of two may hide it:

# %% tags=["demo"]
for items in (5, 7, 8):
    shards = [len(range(rank, items, 2)) for rank in (0, 1)]
    batches = [(size + 1) // 2 for size in shards]
    print(items, "items, ranks read", shards, "and run", batches, "steps;", end=" ")
    print("the first rank hangs" if batches[0] > batches[1] else "all end together")

# %% [markdown]
# **Stale copies.** With `persistent_workers=True` each worker keeps the copy of the dataset that it got when it
# started. Whatever you change in the dataset after that, a new stage of augmentation or another list of files, stays
# in the main process. Samplers run in the main process, so `set_epoch` of a sampler does take effect.

# %% tags=["demo"]
class Stage(Dataset):
    stage = "first"

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> str:
        return self.stage

data = Stage()
loader = DataLoader(data, 2, **two_workers, persistent_workers=bool(two_workers))
print(next(iter(loader)))
data.stage = "second"
print(next(iter(loader)), data[0])
del loader    # and with it, its workers

# %% [markdown]
# ## Normalisation
#
# Networks train best on inputs around 0 with a spread of about 1. For images that means: subtract a mean and divide
# by a standard deviation for each channel, both computed over the training part, and used unchanged everywhere else.
#
# The data comes in batches, and the obvious thing is to average what each batch says. That is wrong in two ways. A
# small last batch counts as much as a full one; and the overall spread is not the average of the spreads, because the
# batches also differ in their means:

# %%
batches = [torch.tensor([0.0, 2.0]), torch.tensor([10.0, 12.0]), torch.tensor([20.0])]
together = torch.cat(batches)
print(
    "averaged:",
    torch.stack([b.mean() for b in batches]).mean(),
    [b.std(correction=0).item() for b in batches],
)
print("together:", together.mean(), together.std(correction=0))

# %% [markdown]
# Sums, unlike averages, can be added up over batches: the number of values, their sum, and the sum of their squares.
# Then the variance is E[x²] - E[x]², which is exact on paper. In float32 it subtracts two numbers that are accurate
# to seven digits:

# %%
x = 1e4 + torch.randn(100_000, generator=torch.Generator().manual_seed(0))
for dtype in (torch.float32, torch.float64):
    y = x.to(dtype)
    print(dtype, ((y * y).mean() - y.mean() ** 2).item())

# %% [markdown]
# The variance is 1. In float32 the answer can be anything, even a negative number, whose root is NaN. Compute in
# float64, or go through the data twice, first for the mean, then for the squares of the differences from it.

# %% [markdown]
# ### Exercise: channel_stats
#
# Write `channel_stats(loader)`: from batches `(x, y)` with `x` of shape `(B, C, H, W)`, the pair `(mean, std)` over
# all pixels of all images, each of shape `(C,)` and in `x`'s dtype. `std` is that of the population (divide by n).
# Both are exact whatever the batch sizes, even with a mean of 10,000. You may iterate over the loader more than once.
#
# ```
# channel_stats([(torch.zeros(2, 1, 2, 2), None), (torch.ones(2, 1, 2, 2), None)])    # ([0.5], [0.5])
# ```

# %% exercise="channel_stats" points=2
def channel_stats(loader: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Mean and population standard deviation of each channel over all pixels of all
    batches."""
    ### BEGIN SOLUTION
    dims, count, total, squares = (0, 2, 3), 0, 0.0, 0.0
    for x, _ in loader:
        count += x[:, 0].numel()
        total = total + x.double().sum(dims)
    mean = total / count
    for x, _ in loader:  # second pass: squares of small differences are accurate
        squares = squares + (x.double() - mean.view(-1, 1, 1)).square().sum(dims)
    return mean.to(x.dtype), (squares / count).sqrt().to(x.dtype)
    ### END SOLUTION

# %% check="channel_stats"
check("channel_stats")

# %% [markdown]
# ## Data larger than memory
#
# A file of 200 GB does not fit into memory, and does not have to. A *memory map* looks like an array and reads from
# the file only what is accessed, page by page; the operating system keeps what is used often.

# %%
import tempfile

scratch = tempfile.TemporaryDirectory()
path = Path(scratch.name) / "numbers.bin"
np.arange(20_000, dtype=np.float32).tofile(path)
mapped = np.memmap(path, dtype=np.float32, mode="r", shape=(200, 100))
print(mapped.shape, mapped[150, :3])

# %% [markdown]
# Raw bytes have neither shape nor dtype, so you have to supply both. (`np.load(path, mmap_mode="r")` reads both from a
# `.npy` file.)
#
# Three things can go wrong. **Pickling.** Workers that are started as fresh processes get the dataset as a pickle, and
# a map is pickled with everything in it:

# %%
import pickle

print(
    len(pickle.dumps(mapped)),
    "bytes for a map,",
    len(pickle.dumps(path)),
    "for its path",
)

# %% [markdown]
# **Opening too early.** A dataset that opens the file in `__init__` holds the map when it is pickled. So open it at
# first use, in whatever process that is, and leave the map out of the pickle. `__getstate__` says what is pickled:

# %%
class Remembers:
    def __init__(self) -> None:
        self.path, self.handle = "here", "something large"

    def __getstate__(self) -> dict:
        return self.__dict__ | {"handle": None}

copy = pickle.loads(pickle.dumps(Remembers()))
print(copy.path, copy.handle)

# %% [markdown]
# **Sharing.** `torch.from_numpy` copies nothing. A tensor made from a slice of the map points straight at the file:
# if that was opened for writing, an in-place augmentation rewrites your data; if for reading, the first write ends the
# process with a segmentation fault, which no `except` can catch. All that you get is a warning beforehand, once, when
# the tensor is made. And `.float()` does not help where the file holds float32 already.

# %%
writable = np.memmap(path, dtype=np.float32, mode="r+", shape=(200, 100))
torch.from_numpy(writable[0]).float().add_(1000)
print(np.fromfile(path, dtype=np.float32, count=3))

# %%
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.from_numpy(mapped[0])  # reading is fine; a write here would end this kernel
print(str(caught[0].message)[:81] if caught else "warned before, and only once")

# %% [markdown]
# `np.array(…)`, `.astype(…)` and `torch.tensor(…)` always copy.

# %% [markdown]
# ### Exercise: MemmapDataset
#
# Write `class MemmapDataset(Dataset)`, made by `MemmapDataset(path, shape, dtype)`: `path` is a file of raw numbers
# of the NumPy dtype `dtype`, and `shape` is the shape of the whole, its first entry being the number of items. The
# file is opened at the first use in each process, not on construction, and never read as a whole. The dataset pickles
# in under 10 kB, before and after use. An item is a `float32` tensor of its own, which may be written to.
#
# ```
# dataset = MemmapDataset(path, (200, 100), np.dtype("float32"))
# len(dataset), dataset[3].shape      # 200, torch.Size([100])
# ```

# %% exercise="MemmapDataset" points=3
class MemmapDataset(Dataset):
    """Items from a file that is mapped into memory when it is first used."""

    def __init__(
        self, path: str | Path, shape: tuple[int, ...], dtype: np.dtype
    ) -> None:
        ### BEGIN SOLUTION
        self.path, self.shape, self.dtype = path, shape, dtype
        self.array = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int) -> Tensor:
        if self.array is None:
            self.array = np.memmap(
                self.path, dtype=self.dtype, mode="r", shape=self.shape
            )
        return torch.from_numpy(np.array(self.array[index], np.float32))  # a copy

    def __getstate__(self) -> dict:
        return self.__dict__ | {"array": None}  # each process opens the file for itself
        ### END SOLUTION

# %% check="MemmapDataset"
check("MemmapDataset")

# %% [markdown]
# ## Images, and what may be done to them
#
# A cat moved a little to the left is still a cat. *Augmentation* shows the model such variants, new ones in each
# epoch, so that it learns what does not matter. In evaluation it is off; otherwise the result would change from run
# to run.
#
# `torchvision.transforms.v2` has the pieces. They work on uint8 images `(C, H, W)`; `v2.ToImage()` brings PIL images
# and arrays into that form. (Importing torchvision takes a few seconds.)

# %% tags=["demo"]
from torchcourse.demos import digits
from torchvision.transforms import v2

torch.manual_seed(0)
two = digits.seven_segment(2)
crop = v2.RandomResizedCrop((24, 16), scale=(0.6, 1.0))
digits.draw(
    {"a 2": two, "one crop": crop(two), "another": crop(two)},
    "The digit 2, and two random crops of it.",
)

# %% [markdown]
# What *does* matter depends on the task. A mirrored cat is a cat. If you mirror this 2, you train the model to call a
# 5 a 2:

# %% tags=["demo"]
five = digits.seven_segment(5)
print(torch.equal(two.flip(-1), five))
digits.draw({"a 2": two, "mirrored": v2.functional.horizontal_flip(two), "a 5": five})

# %% [markdown]
# Now from bytes to numbers. Conversion alone keeps 255 as 255; `scale=True` brings the values to 0..1. Means and
# standard deviations such as 0.5 and 0.25 belong to the *scaled* values, so scaling comes first:

# %% tags=["demo"]
grey = torch.full((1, 2, 2), 204, dtype=torch.uint8)
for scale in (False, True):
    number = v2.ToDtype(torch.float32, scale=scale)(grey)
    print(
        scale,
        number[0, 0, 0].item(),
        v2.Normalize([0.5], [0.25])(number)[0, 0, 0].item(),
    )

# %% [markdown]
# In older code you will meet `transforms.ToTensor()`, which did three things at once: convert to a tensor, put
# channels first, and scale to 0..1. In v2 these are `ToImage()` and `ToDtype(torch.float32, scale=True)`, with the
# same numbers up to rounding:

# %% tags=["demo"]
from torchvision import transforms

array = np.full((2, 2, 3), 204, dtype=np.uint8)
new = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])(array)
print(torch.allclose(transforms.ToTensor()(array), new))

# %% [markdown]
# As for sizes: `v2.Resize(16)` sets the *shorter* side and keeps the proportions; a square comes from a crop after
# it, or from `v2.Resize((16, 16))`.

# %% tags=["demo"]
wide = torch.zeros(3, 24, 48, dtype=torch.uint8)
print(
    v2.Resize(16)(wide).shape,
    v2.CenterCrop(16)(v2.Resize(16)(wide)).shape,
    v2.Resize((16, 16))(wide).shape,
)

# %% [markdown]
# For pictures in folders named after their classes there is a dataset already:
# `torchvision.datasets.ImageFolder(root, transform)`. Its classes are the sorted folder names, as in `TicketDataset`.

# %% tags=["demo"]
from torchvision.datasets import ImageFolder
from torchvision.io import write_png

with tempfile.TemporaryDirectory() as root:
    for name in ("dog", "cat"):
        (Path(root) / name).mkdir()
        write_png(wide, f"{root}/{name}/0.png")
    pictures = ImageFolder(root, v2.ToImage())
    print(pictures.classes, pictures[1][0].shape, pictures[1][1])

# %% [markdown]
# ### Exercise: image_transforms
#
# Write `image_transforms(train, mean, std, size)`: a callable that turns a `uint8` image `(C, H, W)` into a `float32`
# one `(C, size, size)`, normalised with `mean` and `std` (a number for each channel, for values scaled to 0..1). In
# training it crops and flips at random; in evaluation nothing is random. Images are at least as large as `size`. Import
# `v2` inside the function or above it.
#
# ```
# transform = image_transforms(False, [0.5], [0.25], 16)
# transform(torch.full((1, 20, 24), 255, dtype=torch.uint8)).unique()    # 2.0, shape (1, 16, 16)
# ```

# %% exercise="image_transforms" points=2
def image_transforms(
    train: bool, mean: list[float], std: list[float], size: int
) -> Callable[[Tensor], Tensor]:
    """From a uint8 image (C, H, W) to a normalised float32 one (C, size, size);
    random in training only."""
    ### BEGIN SOLUTION
    from torchvision.transforms import v2

    if train:
        cut = [
            v2.RandomResizedCrop(size, scale=(0.5, 1.0), antialias=True),
            v2.RandomHorizontalFlip(),
        ]
    else:
        cut = [v2.Resize(size, antialias=True), v2.CenterCrop(size)]
    return v2.Compose(
        [*cut, v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]
    )
    ### END SOLUTION

# %% check="image_transforms"
check("image_transforms")

# %% [markdown]
# ## From the file to a trained model
#
# Four of your pieces make the path from `tickets.csv` to batches: dataset, split, batch sampler, collate function. The
# vocabulary is counted on the training part alone; so the dataset is made twice, once without any words, to know what
# there is to split, and once with them. `Subset(dataset, indices)` is the part of a dataset at these indices. (Your
# `make_loader` is not among the pieces: it has no place for a batch sampler or a collate function.)

# %% tags=["demo"]
from torch.utils.data import Subset
from torchcourse.demos import parts

def ticket_loaders(max_words: int = 500) -> tuple[DataLoader, DataLoader, int]:
    rows = TicketDataset(tickets_csv, {"<unk>": 1})
    train_rows, test_rows = split_indices(len(rows), [0.8, 0.2], seed=0)
    with tickets_csv.open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    counts = Counter(word for i in train_rows for word in texts[i].lower().split())
    common = [word for word, _ in counts.most_common(max_words)]
    known = {"<pad>": 0, "<unk>": 1} | {word: i for i, word in enumerate(common, 2)}
    tickets = TicketDataset(tickets_csv, known)
    train, test = Subset(tickets, train_rows), Subset(tickets, test_rows)
    sampler = LengthBatchSampler([len(ids) for ids, _ in train], batch_size=16, seed=0)
    return (
        DataLoader(train, batch_sampler=sampler, collate_fn=pad_collate),
        DataLoader(test, batch_size=64, collate_fn=pad_collate),
        len(known),
    )

# %% [markdown]
# The model is as plain as can be: a vector for each word, the mean over the real words of a ticket, a linear layer. The
# mask is what keeps the padding out of the mean. `set_epoch` gives each epoch an order of its own.

# %% tags=["demo"]
import torch.nn.functional as F
from torch import nn

class MeanOfWords(nn.Module):
    def __init__(self, words: int, classes: int) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(words, 32), nn.Linear(32, classes)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        vectors = self.table(ids).masked_fill(~mask.unsqueeze(-1), 0)
        return self.head(
            vectors.sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)
        )


needed = "TicketDataset", "split_indices", "pad_collate", "LengthBatchSampler"
if not parts.still_open(globals(), *needed):
    torch.manual_seed(0)
    train, test, words = ticket_loaders()
    model = MeanOfWords(words, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        model.train()
        train.batch_sampler.set_epoch(epoch)
        for batch in train:
            loss = F.cross_entropy(model(batch["ids"], batch["mask"]), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum(
                (model(b["ids"], b["mask"]).argmax(1) == b["labels"]).sum().item()
                for b in test
            )
        print(
            f"epoch {epoch}: {right} of {len(test.dataset)} unseen tickets routed "
            "correctly"
        )

# %% [markdown]
# These tickets are made from templates, so the task is easy; the tickets of lesson 14 are harder. The loop itself is
# the subject of lesson 5.

# %% [markdown]
# ## What you have seen
#
# | idea | remember |
# |---|---|
# | map dataset | a length and items; find bad data on construction, name the line |
# | splits | shuffle with a generator of your own, cut, lose nothing; split groups; compute statistics on the training part |
# | padding | to the longest of the batch; the mask comes from the lengths; True means real, here |
# | rare classes | a weight for each sample: 1 / (count of its class); in training only |
# | samplers | the order is a function of seed and epoch, so it can be reproduced and resumed |
# | loaders | shuffle and drop in training only; pin for CUDA only; workers persist |
# | workers | seeded by the loader; do not undo it; debug with `num_workers=0` |
# | streams | every worker of every rank has its own copy: number the readers |
# | statistics | add up sums, not averages, in float64 |
# | memory maps | open at first use, keep out of the pickle, copy the item |
# | augmentation | only what leaves the label true; scale before you normalise |
#
# For more data, torchvision has ready-made datasets, such as `torchvision.datasets.MNIST(root, download=True)`, if
# you are online. Next comes **lesson 5, training**: the loop that all of this feeds.
