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

# %% [markdown]
# ## The router

# %% [markdown]
# ### Exercise: TicketRouter
#
# Write `TicketRouter(vocab_size, num_classes, dim=32, heads=4, layers=2, max_len=64)`, a transformer encoder with
# `forward(input_ids, attention_mask)`, which gives logits `(b, num_classes)` for ids and mask as `encode` makes them, up to `max_len` words long.
# The last layer is `self.head`, an `nn.Linear` from whatever describes the ticket to the classes, with nothing after it.
#
# In eval mode, neither more padding, nor what stands under it, nor other tickets in the batch may change a ticket's
# logits. The order of its words does. Use `nn.TransformerEncoderLayer` (with `batch_first=True`) or your block of lesson 11, and keep the encoder
# layers in an `nn.ModuleList` called `layers`: a later exercise gives each of them a learning rate.
#
# ```
# router = TicketRouter(100, 3)
# router(torch.tensor([[5, 8, 0]]), torch.tensor([[True, True, False]])).shape    # (1, 3)
# ```

# %% exercise="TicketRouter" points=3
class TicketRouter(nn.Module):
    """A transformer encoder over words, averaged over the real ones, and a head."""

    def __init__(
        self, vocab_size: int, num_classes: int, dim: int = 32, heads: int = 4, layers: int = 2, max_len: int = 64
    ) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.words, self.places = nn.Embedding(vocab_size, dim), nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, heads, 4 * dim, 0.1, "gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(dim, num_classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1], device=input_ids.device))
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=~attention_mask)
        real = attention_mask.unsqueeze(-1).to(x.dtype)
        return self.head((x * real).sum(1) / real.sum(1))
        ### END SOLUTION

# %% check="TicketRouter"
check("TicketRouter")

# %% [markdown]
# ## A new head

# %% [markdown]
# ### Exercise: swap_head
#
# Write `swap_head(model, num_classes)`: replace `model.head`, an `nn.Linear`, by a fresh `nn.Linear` with `num_classes` outputs, on the
# device and in the dtype of the old one. It learns, whatever is frozen elsewhere; all other parameters and buffers keep their values and
# flags. Return the sorted names of the new parameters, as `model.named_parameters()` has them.
#
# ```
# swap_head(TicketRouter(100, 100), 3)    # ["head.bias", "head.weight"]
# ```

# %% exercise="swap_head" points=1
def swap_head(model: nn.Module, num_classes: int) -> list[str]:
    """Give the model a new head of this width; return the names of its parameters."""
    ### BEGIN SOLUTION
    old = model.head
    model.head = nn.Linear(old.in_features, num_classes, device=old.weight.device, dtype=old.weight.dtype)
    return sorted(f"head.{name}" for name, _ in model.head.named_parameters())
    ### END SOLUTION

# %% check="swap_head"
check("swap_head")

# %% [markdown]
# ## Smaller steps further down

# %% [markdown]
# ### Exercise: layerwise_groups
#
# Write `layerwise_groups(model, lr, decay)`: a list of dicts with `params` and `lr`, which an optimizer takes. `model.head` learns at `lr`. Of
# `model.layers`, an `nn.ModuleList` from the embeddings up to the head, the last has `decay` times that, and each one below has
# `decay` times the rate of the one above it. Everything else (embeddings, and whatever the model has besides) has `decay` times the
# rate of the lowest layer. Each parameter that requires a gradient is in exactly one group, a frozen one in none. A parameter that two parts share counts to
# the higher one.
#
# ```
# groups = layerwise_groups(TicketRouter(100, 3), lr=0.001, decay=0.5)
# sorted({group["lr"] for group in groups})    # [0.000125, 0.00025, 0.0005, 0.001]
# ```

# %% exercise="layerwise_groups" points=2
def layerwise_groups(model: nn.Module, lr: float, decay: float) -> list[dict]:
    """Parameter groups whose learning rate falls from the head down to the embeddings."""
    ### BEGIN SOLUTION
    groups, placed = [], set()
    for depth, part in enumerate([model.head, *reversed(model.layers), model]):
        params = [p for p in part.parameters() if p.requires_grad and p not in placed]
        placed.update(params)
        if params:
            groups.append({"params": params, "lr": lr * decay**depth})
    return groups
    ### END SOLUTION

# %% check="layerwise_groups"
check("layerwise_groups")

# %% [markdown]
# ## Labels that look wrong

# %% [markdown]
# ### Exercise: suspect_labels
#
# Write `suspect_labels(logits, labels, k)` for logits `(n, classes)` and int64 labels `(n,)`: an int64 tensor with the indices of the `k` tickets
# to whose own label the model gives the lowest probability, the lowest first, equal ones by index. With fewer than `k` tickets, all of them.
#
# ```
# logits = torch.tensor([[4.0, 0.0], [0.0, 1.0], [0.0, 6.0]])
# suspect_labels(logits, torch.tensor([0, 0, 0]), 2)    # tensor([2, 1])
# ```

# %% exercise="suspect_labels" points=2
def suspect_labels(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    """Indices of the tickets whose own label the model finds least likely, worst first."""
    ### BEGIN SOLUTION
    own = logits.log_softmax(-1).gather(1, labels[:, None])[:, 0]
    return own.argsort(stable=True)[:k]
    ### END SOLUTION

# %% check="suspect_labels"
check("suspect_labels")

# %% [markdown]
# ## When to ask a human

# %% [markdown]
# ### Exercise: route_threshold
#
# Write `route_threshold(logits, labels, precision)`. A ticket's confidence is the largest probability that the model gives it. Return the
# lowest confidence `c`, of those that occur, for which at least the share `precision` of all tickets with a confidence of `c` or more is
# classified right; `inf` if there is none. A float. Tickets with the same confidence are routed together or not at all.
#
# ```
# logits = torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
# route_threshold(logits, torch.tensor([0, 1, 0]), 0.6)    # 0.7311: of all three, two are right
# ```

# %% exercise="route_threshold" points=2
def route_threshold(logits: Tensor, labels: Tensor, precision: float) -> float:
    """The lowest confidence from which on routing automatically is right often enough."""
    ### BEGIN SOLUTION
    confidence, predicted = logits.softmax(-1).max(-1)
    right = predicted == labels
    for candidate in confidence.unique().tolist():    # from the lowest up
        routed = confidence >= candidate
        if int((routed & right).sum()) / int(routed.sum()) >= precision:
            return candidate
    return float("inf")
    ### END SOLUTION

# %% check="route_threshold"
check("route_threshold")

# %% [markdown]
# ## Training with a log

# %% [markdown]
# ### Exercise: train_router
#
# Write `train_router(model, train, val, *, epochs, lr, device, log)`. `train` and `val` are lists of batches, dicts with `input_ids`, `attention_mask`
# and `labels`, on the CPU. Train with AdamW and cross-entropy on `device`, going through the batches of `train` in a new order each epoch.
#
# - After each epoch, append a line to the file `log`, a JSON object with `epoch` (from 1), `lr` (what the optimizer used), `train_loss`,
#   `val_loss` and `macro_f1`. The last two are measured on all of `val` together, in eval mode. Lines that are there already stay.
# - Stop early: when `val_loss` has not been lower than its best for two epochs in a row.
# - At the end the model has the weights of the epoch with the lowest `val_loss`. Return that epoch's record, as a dict.
#
# Macro F1 is the mean over classes of `2 * TP / (predicted + labelled)`, of those that occur in the labels or predictions.

# %% exercise="train_router" points=4
def train_router(model: nn.Module, train: list, val: list, *, epochs: int, lr: float, device, log) -> dict:
    """Fine-tune, log an epoch a line, stop early, keep the best weights."""
    ### BEGIN SOLUTION
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    best, weights = {"val_loss": float("inf"), "epoch": 0}, copy.deepcopy(model.state_dict())

    def scored(batch: dict) -> tuple[Tensor, Tensor]:
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        return model(batch["input_ids"], batch["attention_mask"]), batch["labels"]

    for epoch in range(1, epochs + 1):
        model.train()
        total, count = 0.0, 0
        for batch in random.sample(train, len(train)):
            logits, labels = scored(batch)
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, count = total + loss.item() * len(labels), count + len(labels)
        model.eval()
        with torch.no_grad():
            logits, labels = map(torch.cat, zip(*map(scored, val)))
        predicted, f1 = logits.argmax(-1), []
        for c in torch.cat([predicted, labels]).unique().tolist():
            hits = ((predicted == c) & (labels == c)).sum().item()
            f1.append(2 * hits / ((predicted == c).sum().item() + (labels == c).sum().item()))
        record = {"epoch": epoch, "lr": optimizer.param_groups[0]["lr"], "train_loss": total / count,
                  "val_loss": F.cross_entropy(logits, labels).item(), "macro_f1": sum(f1) / len(f1)}
        with open(log, "a") as file:
            file.write(json.dumps(record) + "\n")
        if record["val_loss"] < best["val_loss"]:
            best, weights = record, copy.deepcopy(model.state_dict())
        elif epoch - best["epoch"] == 2:
            break
    model.load_state_dict(weights)
    return best
    ### END SOLUTION

# %% check="train_router"
check("train_router")

# %% [markdown]
# ## How long one request takes

# %% [markdown]
# ### Exercise: latency
#
# Write `latency(route, requests, *, warmup=5)`. `route(request)` answers one request, maybe on an accelerator, which works while the host goes on. Call
# it `warmup` times without measuring, with requests from the list, then once with each request. Return a dict with `p50` and `p95`, the
# 50th and the 95th percentile of the single times, in milliseconds. `torch.accelerator.synchronize()` waits for the device; it raises where
# `torch.accelerator.is_available()` is False.
#
# ```
# latency(lambda text: text.upper(), ["a ticket"] * 100)    # {"p50": 0.0002, "p95": 0.0003}, or so
# ```

# %% exercise="latency" points=2
def latency(route, requests: list, *, warmup: int = 5) -> dict[str, float]:
    """The median and the 95th percentile of single requests, in milliseconds."""
    ### BEGIN SOLUTION
    def wait() -> None:
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    for place in range(warmup):
        route(requests[place % len(requests)])
    times = []
    for request in requests:
        wait()
        start = time.perf_counter()
        route(request)
        wait()
        times.append(1000 * (time.perf_counter() - start))
    p50, p95 = torch.tensor(times, dtype=torch.float64).quantile(torch.tensor([0.5, 0.95], dtype=torch.float64)).tolist()
    return {"p50": p50, "p95": p95}
    ### END SOLUTION

# %% check="latency"
check("latency")

# %% [markdown]
# ## The release

# %% [markdown]
# ### Exercise: release
#
# Write `release(model, vocab, config, example, directory, atol=1e-4)`. `example` is a dict with `input_ids` and `attention_mask`, as the model takes them.
# After it, `directory` is a folder with exactly these four files:
#
# - `weights.pt`, the `state_dict`, by `torch.save`; `config.json` and `vocab.json`;
# - `router.onnx`, the model in eval mode, for any batch size and length, with inputs `input_ids` and `attention_mask`.
#
# Write them to a temporary folder beside `directory`. Run the ONNX file in ONNX Runtime on inputs of *other* sizes than the example's, and
# compare with the model. Only if all logits agree within `atol`, put the folder in the place of `directory`. Otherwise raise `ValueError`; then the old release
# stands as it was, and nothing else is left beside it. Whatever happens, the model gets its mode back.

# %% exercise="release" points=4
def release(model: nn.Module, vocab: dict, config: dict, example: dict, directory, atol: float = 1e-4) -> None:
    """Write a release, prove its ONNX file right, and only then put it in place."""
    ### BEGIN SOLUTION
    import onnxruntime

    directory, names = Path(directory), ("input_ids", "attention_mask")
    folder, modes = Path(tempfile.mkdtemp(dir=directory.parent)), [(m, m.training) for m in model.modules()]
    try:
        model.eval()
        torch.save(model.state_dict(), folder / "weights.pt")
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "vocab.json").write_text(json.dumps(vocab))
        torch.onnx.export(
            model, tuple(example[name] for name in names), folder / "router.onnx", dynamo=True, verbose=False,
            external_data=False, input_names=names, output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},) * 2,
        )
        session = onnxruntime.InferenceSession(folder / "router.onnx", providers=["CPUExecutionProvider"])
        ids, mask = (example[name] for name in names)
        for rows, length in ((1, 1), (len(ids) + 1, ids.shape[1] + 1), (3, 2)):
            other = {"input_ids": torch.randint(len(vocab), (rows, length)),
                     "attention_mask": torch.arange(length) < torch.randint(1, length + 1, (rows, 1))}
            got = torch.from_numpy(session.run(None, {name: tensor.numpy() for name, tensor in other.items()})[0])
            with torch.no_grad():
                wanted = model(*other.values())
            if not torch.allclose(got, wanted, rtol=0, atol=atol):
                raise ValueError(f"the ONNX file is off by {(got - wanted).abs().max():.2g}, and atol is {atol}")
        if directory.exists():
            directory.rename(folder.with_suffix(".old"))
        folder.rename(directory)
        shutil.rmtree(folder.with_suffix(".old"), ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for module, training in modes:
            module.training = training
    ### END SOLUTION

# %% check="release"
check("release")
