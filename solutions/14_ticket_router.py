# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 14 · The ticket router

# %% tags=["setup"]
import copy
import json
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchcourse import Unattempted, check, hint

# %% [markdown]
# ## Clean first

# %% [markdown]
# ### Exercise: clean_tickets
#
# Write `clean_tickets(rows)`: `rows` is a list of `(text, label)` strings. Two texts are the same ticket if they are equal after trimming,
# collapsing runs of white space to one space, and lower-casing.
#
# - A row whose text is empty after that is dropped.
# - Of the rows of one ticket, the first is kept as it was written; where their labels disagree, all are dropped.
# - The order stays.
#
# Return `(kept, report)`: a list of `(text, label)`, and a dict that counts rows that were dropped: `empty`, `conflicts` (their ticket had
# several labels), `duplicates` (all others). So the kept rows and the three counts add up to the rows that came in.
#
# ```
# clean_tickets([("Refund!", "billing"), ("refund! ", "billing")])
# # ([("Refund!", "billing")], {"duplicates": 1, "conflicts": 0, "empty": 0})
# ```

# %% exercise="clean_tickets" points=2
def clean_tickets(rows: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Each ticket once, none with contradictory labels, and what was dropped."""
    ### BEGIN SOLUTION
    keys = [" ".join(text.split()).lower() for text, _ in rows]
    labels: dict[str, set[str]] = {}
    for key, (_, label) in zip(keys, rows):
        labels.setdefault(key, set()).add(label)
    kept, seen, report = [], set(), {"duplicates": 0, "conflicts": 0, "empty": 0}
    for key, row in zip(keys, rows):
        if not key:
            report["empty"] += 1
        elif len(labels[key]) > 1:
            report["conflicts"] += 1
        elif key in seen:
            report["duplicates"] += 1
        else:
            seen.add(key)
            kept.append(row)
    return kept, report
    ### END SOLUTION

# %% check="clean_tickets"
check("clean_tickets")

# %% [markdown]
# ## Split before anything is learned

# %% [markdown]
# ### Exercise: split_tickets
#
# Write `split_tickets(texts, labels, fraction, seed)`: return `(train, held_out)`, two lists of ints, which together hold each index once.
#
# - `fraction` is the share to hold out, and every class has that share there, as nearly as whole tickets allow. Every class is on
#   both sides.
# - Texts that are equal after trimming, collapsing white space and lower-casing never stand on both sides.
# - The same `seed` gives the same split, another seed another; the global generators are untouched.
# - A class with a single text (equal ones count once) raises `ValueError`, with a message that names the class.
#
# ```
# train, held_out = split_tickets(["a", "b", "c", "d"], ["x", "x", "y", "y"], fraction=0.5, seed=0)
# ```

# %% exercise="split_tickets" points=3
def split_tickets(texts: list[str], labels: list[str], fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """Indices to train on and to hold out, class by class, equal texts together."""
    ### BEGIN SOLUTION
    groups: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        groups.setdefault(" ".join(text.split()).lower(), []).append(index)
    by_class: dict[str, list[list[int]]] = {}
    for group in groups.values():
        by_class.setdefault(labels[group[0]], []).append(group)
    draw = random.Random(seed)
    train, held_out = [], []
    for label, members in sorted(by_class.items()):
        if len(members) == 1:
            raise ValueError(f"labels: the class {label!r} has a single text, and both sides need one")
        draw.shuffle(members)
        wanted, taken = fraction * sum(map(len, members)), 0
        for place, group in enumerate(members):
            nearer = taken + len(group) / 2 <= wanted
            last_of_train = place == len(members) - 1 and taken == sum(map(len, members[:-1]))
            if (nearer or place == 0) and not last_of_train:
                held_out += group
                taken += len(group)
            else:
                train += group
    return train, held_out
    ### END SOLUTION

# %% check="split_tickets"
check("split_tickets")

# %% [markdown]
# ## A vocabulary of words to learn from

# %% [markdown]
# ### Exercise: build_vocab
#
# Write `build_vocab(texts, max_size, min_count=1)`: a dict from word to id. Words are the lower-cased pieces between white space. `<pad>` is
# 0 and `<unk>` is 1. Then come the words that occur at least `min_count` times, the most frequent first, equally frequent ones in
# alphabetical order, with ids 2, 3, 4 and so on. There are at most `max_size` entries, `<pad>` and `<unk>` among them. (A customer may
# well write `<unk>` in a ticket: that changes nothing.)
#
# ```
# build_vocab(["Pay the bill", "the BILL"], max_size=4)    # {"<pad>": 0, "<unk>": 1, "bill": 2, "the": 3}
# ```

# %% exercise="build_vocab" points=1
def build_vocab(texts: list[str], max_size: int, min_count: int = 1) -> dict[str, int]:
    """The words of these texts, by count and then by alphabet, after <pad> and <unk>."""
    ### BEGIN SOLUTION
    counts = Counter(word for text in texts for word in text.lower().split())
    words = [word for word, count in counts.items() if count >= min_count and word not in ("<pad>", "<unk>")]
    words.sort(key=lambda word: (-counts[word], word))
    return {word: index for index, word in enumerate(["<pad>", "<unk>", *words][:max_size])}
    ### END SOLUTION

# %% check="build_vocab"
check("build_vocab")

# %% [markdown]
# ## From texts to a batch

# %% [markdown]
# ### Exercise: encode
#
# Write `encode(texts, vocab, max_len)`: a dict with `input_ids`, int64 of shape `(b, t)`, and `attention_mask`, bool of that shape, True where
# a word is real. Words are the lower-cased pieces between white space; unknown ones get the id of `<unk>`. Each text is cut at `max_len` words
# and padded on the right with the id of `<pad>`. `t` is the length of the longest text *after* cutting, not more. A text without
# any word becomes one `<unk>`.
#
# ```
# encode(["pay the bill", "pay"], {"<pad>": 0, "<unk>": 1, "pay": 2, "bill": 3}, max_len=16)
# # input_ids [[2, 1, 3], [2, 0, 0]], attention_mask [[True, True, True], [True, False, False]]
# ```

# %% exercise="encode" points=2
def encode(texts: list[str], vocab: dict[str, int], max_len: int) -> dict[str, Tensor]:
    """Ids and mask of a batch, as long as its longest text but at most `max_len`."""
    ### BEGIN SOLUTION
    rows = [[vocab.get(word, vocab["<unk>"]) for word in text.lower().split()[:max_len]] for text in texts]
    rows = [row or [vocab["<unk>"]] for row in rows]
    longest = max(map(len, rows), default=0)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    ids = [row + [vocab["<pad>"]] * (longest - len(row)) for row in rows]
    return {
        "input_ids": torch.tensor(ids, dtype=torch.int64).reshape(len(rows), longest),
        "attention_mask": torch.arange(longest) < lengths[:, None],
    }
    ### END SOLUTION

# %% check="encode"
check("encode")
