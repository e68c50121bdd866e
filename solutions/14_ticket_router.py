# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 14 · The ticket router
#
# A support desk gets 4,000 tickets a day. Today two people read each one and send it to a queue: `billing`, `technical` or `account`. You are
# asked for a model that does this for as many tickets as it safely can. A ticket that is read by a human costs 1; one that lands in the wrong
# queue costs 6, since it is read twice and its customer is angry. An answer may take 20 milliseconds.
#
# This lesson is that project, from the file of tickets to a folder that a server runs from. There are twelve exercises, each one a part
# of it, and it takes about an hour and a half. Where a part of yours does not pass yet, a simpler one stands in, and the lesson says
# so; it goes on with yours as soon as it passes. Solve all twelve, and you have a router made of nothing but your own code.
#
# Everything runs offline and on the CPU. The tickets are made up, by a script with a seed, with all that makes real ones hard.

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

from torchcourse import Unattempted, case, check, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% [markdown]
# ## What came in
#
# Before any model: look at what you have. Each row is a text and the queue in which it ended.

# %% tags=["demo"]
from torchcourse.data import desk
from torchcourse.demos import desk_charts, router_parts

rows = desk.load()
print(len(rows), "rows")
for text, label in rows[:5]:
    print(f"{label:9} {text[:100]}")

# %% tags=["demo"]
desk_charts.lengths(rows)

# %% [markdown]
# Three things to notice. The classes are about 6 : 3 : 1, so whoever always says `billing` is right in 60 % of all cases. A few texts are
# very long, and some are empty. And the sum of the numbers says nothing about what repeats:

# %% tags=["demo"]
counted = Counter(text for text, _ in rows)
print(counted.most_common(3))
twice = {}
for text, label in rows:
    twice.setdefault(text, set()).add(label)
print(sum(len(labels) > 1 for labels in twice.values()), "texts with more than one label")

# %% [markdown]
# ## Clean first
#
# The same ticket twice counts double in training, and if one copy is in the test, the test is a memory game. Contradictory labels are
# worse: whichever side the model takes, it is wrong. Nothing in the file says which label is right, and the first is no better than the
# second. So what contradicts itself goes.
#
# Copies are rarely exact. Mail programs add spaces, people shout:

# %%
print("I was charged  twice\n" == "i was charged twice", " ".join("I was charged  twice\n".split()).lower())

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

# %% tags=["demo"]
clean = router_parts.part("clean_tickets", globals())
kept, report = clean(rows)
texts, labels = [text for text, _ in kept], [label for _, label in kept]
names = sorted(set(labels))
print(len(kept), "kept;", report)

# %% [markdown]
# ## Split before anything is learned
#
# A vocabulary, a mean, a threshold: all of these are learned. What is held out must have had no part in any of them, so the split comes first.
#
# How bad is a leak? Here is a model that has learned nothing but the training texts by heart. On rows that were dealt out one by one
# from the file as it came in, it looks like it knows something:

# %% tags=["demo"]
order = random.Random(0).sample(range(len(rows)), len(rows))
heart = {" ".join(rows[i][0].split()).lower(): rows[i][1] for i in order[400:]}
known = [i for i in order[:400] if " ".join(rows[i][0].split()).lower() in heart]
print(f"{len(known)} of 400 held-out tickets are known by heart")

# %% [markdown]
# And a class of a tenth of all tickets is small. Deal 60 tickets out of 200 by chance, and see how many of the 20 rare ones are among them:

# %%
print([sum(i < 20 for i in random.Random(seed).sample(range(200), 60)) for seed in range(12)])

# %% [markdown]
# Six would be right. A score that rests on three tickets is a matter of luck, so each class is dealt out by itself.

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

# %% tags=["demo"]
split = router_parts.part("split_tickets", globals())
rest, held_rows = split(texts, labels, 0.2, seed=0)
train_rows, val_rows = split([texts[i] for i in rest], [labels[i] for i in rest], 0.15, seed=0)
train_rows, val_rows = [rest[i] for i in train_rows], [rest[i] for i in val_rows]
for name, part in (("train", train_rows), ("validation", val_rows), ("held out", held_rows)):
    print(f"{name:10} {len(part):4}", dict(sorted(Counter(labels[i] for i in part).items())))

# %% [markdown]
# Three parts: one to learn from, one to choose by (when to stop, which threshold), and one that is asked once, at the end.

# %% [markdown]
# ## A vocabulary of words to learn from
#
# The model reads numbers, so each word gets one. A word that occurs once in training teaches nothing, except by heart; typos are such
# words. They all become `<unk>`. And the same texts in another order have to give the same numbers, or the weights of yesterday
# mean something else today.

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

# %% tags=["demo"]
build = router_parts.part("build_vocab", globals())
vocab = build([texts[i] for i in train_rows], **router_parts.VOCAB)
unknown = [w for i in held_rows for w in texts[i].lower().split() if w not in vocab]
print(len(vocab), "words;", len(unknown), "of", sum(len(texts[i].split()) for i in held_rows), "held-out words are unknown")
print(unknown[:12])

# %% [markdown]
# ## From texts to a batch
#
# Tickets differ in length, tensors do not. What is padded costs time, so a batch is only as long as it has to be, and tickets of like length
# go together. The mask says what is real. It is made from lengths: an id tells nothing about who wrote it.

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

# %% tags=["demo"]
to_ids = router_parts.part("encode", globals())
numbers = torch.tensor([names.index(label) for label in labels])


def batched(part: list[int]) -> list[dict[str, Tensor]]:
    return router_parts.batches(to_ids, [texts[i] for i in part], numbers[part], vocab, router_parts.MAX_LEN)


train, val, held = batched(train_rows), batched(val_rows), batched(held_rows)
real = sum(batch["attention_mask"].sum().item() for batch in train)
print(f"{real / sum(batch['input_ids'].numel() for batch in train):.0%} of what the model computes on is real")

# %% [markdown]
# ## What has to be beaten
#
# A number alone says nothing. Two baselines: always the largest class, and a logistic regression on the words of a ticket, whatever their
# order. The score is macro F1, the mean over the three classes, in which a queue of 10 % counts as much as one of 60 %.

# %% tags=["demo"]
held_numbers = numbers[held_rows]
always = router_parts.majority(numbers[train_rows], held_numbers)
bag = router_parts.bag_of_words([texts[i] for i in train_rows], numbers[train_rows], [texts[i] for i in held_rows])
for name, logits in (("majority", always), ("bag of words", bag)):
    accuracy = (logits.argmax(1) == held_numbers).float().mean().item()
    print(f"{name:13} accuracy {accuracy:.3f}, macro F1 {router_parts.macro_f1(logits, held_numbers):.3f}")

# %% [markdown]
# Where does the bag of words fail? Look at some:

# %% tags=["demo"]
for i in (bag.argmax(1) != held_numbers).nonzero().flatten()[:4].tolist():
    print(f"{labels[held_rows[i]]:9} {texts[held_rows[i]][:150]}")

# %% [markdown]
# Two matters in one ticket, and the order of the words says which one is meant. A bag of words cannot know.

# %% [markdown]
# ## The router
#
# An encoder of lesson 11, small: words and positions are looked up and added, two layers of attention mix them, the mean over the real
# words is one vector per ticket, and a linear layer makes logits of it.
#
# Padding gets in twice if you let it: words attend to it, and the mean counts it. Nothing fails, since the shapes fit; a ticket just
# gets another answer when a longer one happens to be in its batch. Without positions, order is lost:

# %%
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
words = torch.randn(1, 5, 8)
print(torch.allclose(layer(words).mean(1), layer(words.flip(1)).mean(1), atol=1e-6))

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
#
# Labels are dear, texts are not. Before it sees any label, the model can learn what words do to each other: hide one word of a ticket, and
# let the model guess it. For that it gets a head as wide as the vocabulary. Large language models begin with the same game, on more text.

# %% tags=["demo"]
Router = router_parts.part("TicketRouter", globals())
torch.manual_seed(0)
random.seed(0)
router = Router(len(vocab), len(vocab))
print([round(loss, 2) for loss in router_parts.pretrain(router, train, router_parts.PRETRAINING)])

# %% [markdown]
# Pure guessing would be the logarithm of the vocabulary's size, a bit over 6. Now the head has to go, and one for three queues takes its place. A
# new layer is made on the CPU and in float32 unless you say otherwise, and an optimizer that was made before still holds the old one.

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

# %% tags=["demo"]
swap = router_parts.part("swap_head", globals())
print(swap(router, len(names)), router.head)

# %% [markdown]
# ## Smaller steps further down
#
# The head knows nothing yet, and its first gradients are noise. If the layers below follow them at full speed, what they have learned is
# gone within a few steps. So the rate falls from the head down. The usual bug is a list of parts that somebody wrote by
# name: a norm added a year later is in no group, learns nothing, and no error tells.

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

# %% tags=["demo"]
groups = router_parts.part("layerwise_groups", globals())
try:
    gentle = groups(router, lr=3e-3, decay=0.7)
except AttributeError:    # a router without `layers`
    gentle = [{"params": list(router.parameters()), "lr": 3e-3}]
print([(round(group["lr"], 5), sum(p.numel() for p in group["params"])) for group in gentle])

optimizer = torch.optim.AdamW(gentle)
router.train()
for batch in random.sample(train, len(train)):
    loss = F.cross_entropy(router(batch["input_ids"], batch["attention_mask"]), batch["labels"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"after one gentle epoch: macro F1 {router_parts.macro_f1(*router_parts.scores(router, val)):.3f}")

# %% [markdown]
# ## Training with a log
#
# Now all layers learn. What you will want to know in a month, when somebody asks why the model is as it is, has to be written down while it
# happens: a line of JSON an epoch, at once, so that a killed run leaves its log. Validation decides when to stop and which weights to keep.
#
# The trap is in the copy. A `state_dict` is a view of the model, not a photograph:

# %%
tiny = nn.Linear(1, 1)
best = tiny.state_dict()
with torch.no_grad():
    tiny.weight += 1
print(torch.equal(best["weight"], tiny.weight))

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

# %% tags=["demo"]
fine_tune = router_parts.part("train_router", globals())
log = Path(tempfile.mkdtemp()) / "log.jsonl"
record = fine_tune(router, train, val, device="cpu", log=log, **router_parts.TRAINING)
print(record)

# %% tags=["demo"]
desk_charts.log(log)

# %% tags=["demo"]
logits, wanted = router_parts.scores(router, held)
print(f"held out: macro F1 {router_parts.macro_f1(logits, wanted):.3f}; "
      f"bag of words {router_parts.macro_f1(bag, held_numbers):.3f}")
confusion = torch.zeros(3, 3, dtype=torch.int64).index_put((wanted, logits.argmax(1)), torch.tensor(1), accumulate=True)
print(names)
print(confusion)

# %% [markdown]
# Rows are the labels, columns what the router said. One run with one seed proves little. Here are five, each with a split, weights and an order of
# its own, as `python benchmarks/ticket_router.py` measured them with the solutions of this lesson:

# %% tags=["demo"]
from importlib import resources

recorded = json.loads((resources.files("torchcourse") / "data" / "router_seeds.json").read_text())
print(f"recorded {recorded['date']} with torch {recorded['torch']}: {recorded['command']}")
for row in recorded["rows"]:
    print("  ".join(f"{key} {value:.3f}" if key != "seed" else f"seed {value}" for key, value in row.items()))

# %% [markdown]
# ## Labels that look wrong
#
# The model has read more tickets than anybody at the desk. Where it is sure that a ticket belongs elsewhere, either the model is wrong
# or the label is. Both are worth a look. A ticket of which it is merely *unsure* is another matter.

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

# %% tags=["demo"]
suspects = router_parts.part("suspect_labels", globals())
logits_seen, labels_seen = router_parts.scores(router, batched(sorted(val_rows + train_rows)))
in_order = [texts[i] for i in sorted(sorted(val_rows + train_rows), key=lambda i: len(texts[i].split()))]
for i in suspects(logits_seen, labels_seen, 5).tolist():
    print(f"labelled {names[labels_seen[i]]:9} the router says {names[logits_seen[i].argmax()]:9} {in_order[i][:90]}")

# %% [markdown]
# These go back to the desk, with the question which queue is right. They are not relabelled by the model: then it would be
# marking its own homework.

# %% [markdown]
# ## When to ask a human
#
# A wrong queue costs 6, a human costs 1. So the router keeps its hands off what it is not sure of. How sure is sure enough? A
# softmax of 0.9 is no promise of 90 %; the threshold is measured, on tickets that the model has not learned from.
#
# The share of right ones does not fall evenly as the threshold does. One early mistake, and it dips below the wish and comes back. And
# many tickets may share one confidence: then all of them are routed, or none.

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

# %% tags=["demo"]
find = router_parts.part("route_threshold", globals())
val_logits, val_labels = router_parts.scores(router, val)
threshold = find(val_logits, val_labels, precision=0.9)
automatic = logits.softmax(-1).amax(-1) >= threshold
hits = (logits.argmax(1) == wanted)[automatic]
print(f"threshold {threshold:.3f}: {automatic.float().mean():.0%} of the held-out tickets are routed, "
      f"{hits.float().mean() if len(hits) else 0:.1%} of them right")

# %% [markdown]
# The picture below is about validation tickets. Move the threshold to where a ticket costs least, and see what share is routed there.

# %% tags=["demo"]
desk_charts.threshold(val_logits, val_labels).show()

# %% [markdown]
# ## How long one request takes
#
# A customer sends one ticket and waits for it. A batch of 64 divided by 64 is throughput, and says nothing about that wait. Nor does
# a mean: of a hundred requests, ninety may take 2 ms and ten 40. Hence p50, what half of them take at most, and p95.

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
#
# Weights alone are no release. Without the vocabulary nobody can feed them, without the names of the classes nobody understands the
# answer. And a file that an exporter wrote is a claim, to be proved before anybody depends on it, on other sizes than the example's: a batch size that was
# frozen in shows on no input of that size.
#
# A release that fails must leave the old one as it was. So everything is written and proved elsewhere, and moved in place in the end.

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
        for rows, length in ((1, 1), (len(ids) + 1, max(ids.shape[1] - 1, 1)), (3, 2)):
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

# %% tags=["demo"]
write = router_parts.part("release", globals())
folder = Path(tempfile.mkdtemp()) / "router"
config = {"classes": names, "max_len": router_parts.MAX_LEN, "threshold": min(threshold, 2.0), "macro_f1": record["macro_f1"]}
example = {name: val[-1][name][:4] for name in ("input_ids", "attention_mask")}
write(router, vocab, config, example, folder)
print({path.name: path.stat().st_size for path in sorted(folder.iterdir())})

# %% [markdown]
# ## The server
#
# It needs no PyTorch: NumPy, ONNX Runtime, and the folder. This is all of it:

# %% tags=["demo"]
from torchcourse.demos import serve

print(Path(serve.__file__).read_text())

# %% tags=["demo"]
import subprocess
import sys

ticket = "first I could not log in. But never mind that: my card was charged twice for the family plan"
done = subprocess.run([sys.executable, serve.__file__, folder, ticket], capture_output=True, text=True)
print(done.stdout or done.stderr[-300:])

# %% [markdown]
# Which words mattered? The server asks itself again, once without each word, and names those whose loss costs it most confidence. Type a ticket of
# your own, and then the same one the other way round:

# %% tags=["demo"]
server = serve.Server(folder)
desk_charts.ask(server, ticket).show()

# %% [markdown]
# And how fast is it? Three ways to answer the same requests, one at a time: PyTorch as it is, compiled (here with the backend that this machine
# can use), and ONNX Runtime. Encoding is part of a request.

# %% tags=["demo"]
from torchcourse.demos import calls

torch.set_num_threads(1)
measure = router_parts.part("latency", globals())
router.eval()
requests = [texts[i] for i in held_rows[:60]]
backend, reason = calls.usable_backend(lambda x: x.sin() + 1, torch.ones(3))
compiled = torch.compile(router, backend=backend, dynamic=True)


@torch.no_grad()
def eager_route(text: str) -> Tensor:
    return router(*to_ids([text], vocab, router_parts.MAX_LEN).values())


@torch.no_grad()
def compiled_route(text: str) -> Tensor:
    return compiled(*to_ids([text], vocab, router_parts.MAX_LEN).values())


def onnx_route(text: str) -> Tensor:
    fed = {name: tensor.numpy() for name, tensor in to_ids([text], vocab, router_parts.MAX_LEN).items()}
    return torch.from_numpy(server.session.run(None, fed)[0])


for name, route in (("eager", eager_route), (f"compiled ({backend})", compiled_route), ("ONNX Runtime", onnx_route)):
    found = measure(route, requests, warmup=20)
    print(f"{name:20} p50 {found['p50']:6.2f} ms, p95 {found['p95']:6.2f} ms")

# %% [markdown]
# All three give the same logits; which of them is fastest, and whether compiling pays for a model of this size, is for your machine to say.

# %% [markdown]
# ## Drift and rollback
#
# The day after the release, customers write about something new. No test that you ran can know. What can be watched without labels: how
# many words are unknown, and how sure the router is. Here are held-out tickets, and the same tickets after the company has renamed its products:

# %% tags=["demo"]
renamed = [text.replace("plan", "bundle").replace("card", "wallet").replace("account", "profile") for text in requests]
for name, sample in (("as before", requests), ("renamed", renamed)):
    answers = [server.answer(text) for text in sample]
    lost = sum(word not in vocab for text in sample for word in text.lower().split())
    print(f"{name:10} unknown words {lost:4}, to a human {sum(a['human'] for a in answers):3} of {len(sample)}")

# %% [markdown]
# When such a number moves, look at tickets, label some, and train again. If a release turns out bad, go back: keep each one in a folder with a
# date, and let a link say which one is served. Changing a link is one step, and so is changing it back.

# %% tags=["demo"]
current = folder.with_name("current")
current.symlink_to(folder)
print(current.resolve() == folder.resolve(), serve.Server(current).answer(ticket)["queue"])

# %% [markdown]
# ## The same in Lightning
#
# You have written each part by hand. Lightning has a place for each of them. This page maps the names; **its code is not run here**, since Lightning is not
# part of the course.
#
# | here | in Lightning |
# |---|---|
# | `TicketRouter`, and what is computed from it | a `LightningModule` with `forward` and `training_step` |
# | the two `for` loops of `train_router` | `Trainer(max_epochs=…).fit(module, datamodule)` |
# | `model.train()`, `model.eval()`, `no_grad`, `.to(device)` | done by the `Trainer` around `training_step` and `validation_step` |
# | `split_tickets`, `encode`, batches | a `LightningDataModule` with `setup`, `train_dataloader`, `val_dataloader` |
# | AdamW, `layerwise_groups` | `configure_optimizers`, which returns the optimizer |
# | patience 2 | `EarlyStopping(monitor="val_loss", patience=2)` |
# | best weights | `ModelCheckpoint(monitor="val_loss")`, then `load_from_checkpoint` |
# | a JSON line an epoch | `self.log("val_loss", …)` with a logger, such as `CSVLogger` |
#
# ```python
# # not run here: pip install lightning
# class LitRouter(lightning.LightningModule):
#     def __init__(self, router):
#         super().__init__()
#         self.router = router
#
#     def training_step(self, batch, batch_idx):
#         logits = self.router(batch["input_ids"], batch["attention_mask"])
#         return F.cross_entropy(logits, batch["labels"])
#
#     def validation_step(self, batch, batch_idx):
#         logits = self.router(batch["input_ids"], batch["attention_mask"])
#         self.log("val_loss", F.cross_entropy(logits, batch["labels"]), batch_size=len(logits))
#
#     def configure_optimizers(self):
#         return torch.optim.AdamW(layerwise_groups(self.router, lr=3e-3, decay=0.7))
# ```
#
# One difference to know: `self.log` averages over batches, weighted by the batch size that it is told or guesses. A macro F1 is no mean
# over batches, so it is collected in `on_validation_epoch_end`, or by `torchmetrics`.

# %% [markdown]
# ## The same with Hugging Face
#
# Where you are online, you would begin with a model that has read more than our tickets, such as DistilBERT. **This code is not run here**
# either; it downloads a model.
#
# | here | in Hugging Face's libraries |
# |---|---|
# | the CSV file, `clean_tickets` | `datasets.load_dataset("csv", …)`, `.map`, `.filter` |
# | `build_vocab`, `encode` | a tokenizer: `AutoTokenizer.from_pretrained(name)`; it cuts words into pieces, so that hardly anything is unknown |
# | padding to the longest of a batch | `DataCollatorWithPadding(tokenizer)` |
# | the pretrained router with a new head | `AutoModelForSequenceClassification.from_pretrained(name, num_labels=3)`, which warns that the head is new |
# | guessing hidden words | `AutoModelForMaskedLM` |
# | `train_router` | `Trainer` with `TrainingArguments`; `EarlyStoppingCallback(2)` and `load_best_model_at_end=True` |
# | macro F1 on all of validation | `compute_metrics`, which gets all logits and labels at once |
# | `release` | `save_pretrained(folder)`, `push_to_hub`; ONNX by `optimum` |
#
# ```python
# # not run here: pip install transformers datasets
# name = "distilbert-base-uncased"
# tokenizer = AutoTokenizer.from_pretrained(name)
# model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=3)
# data = load_dataset("csv", data_files="tickets.csv").map(lambda row: tokenizer(row["text"], truncation=True))
# trainer = Trainer(model, TrainingArguments("out", learning_rate=5e-5), train_dataset=data["train"],
#                   data_collator=DataCollatorWithPadding(tokenizer))
# trainer.train()
# ```
#
# Its `attention_mask` is yours with 1 for real and 0 for padding. What the libraries do not do for you is the first half of this lesson:
# copies on both sides of the split, contradictory labels, a threshold that nobody measured.

# %% [markdown]
# ## What you have now
#
# A folder that answers tickets, and a reason for each step on the way to it. If all twelve cells above pass, not a line of what
# decides is borrowed. What would you do next: label the suspects, or look at the tickets that went to a human?
