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
# A support desk gets 4,000 tickets a day. Two people share the reading, and send each ticket to a queue: `billing`,
# `technical` or `account`. You are asked for a model that sorts as many of them as it safely can. A ticket that a
# human reads costs 1; one that lands in the wrong queue costs 6, since it is read twice and its customer is
# angry. An answer may take 20 milliseconds.
#
# This lesson is that project, from the file of tickets to a folder that a server runs from. There are twelve exercises,
# each one a part of it. Where a part of yours does not pass yet, a simpler one stands in, and the lesson says so; as
# soon as yours passes, the lesson goes on with that. Solve all twelve, and every part that was an exercise is your own.
#
# Everything runs offline and on the CPU. The tickets are made up by a script with a seed. They have duplicates,
# typos, contradictory labels, and two matters in one ticket, as real ones do.

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
# Before any model: look at what you have. Each row is a text and the queue it ended up in.

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
# The classes are about 6 : 3 : 1, so a program that always says `billing` is right 60 % of the time. A few texts are
# very long, and some are empty. What the chart does not show is how much of this repeats:

# %% tags=["demo"]
counted = Counter(text for text, _ in rows)
print(counted.most_common(3))
twice = {}
for text, label in rows:
    twice.setdefault(text, set()).add(label)
print(
    sum(len(labels) > 1 for labels in twice.values()), "texts with more than one label"
)

# %% [markdown]
# ## Clean first
#
# The same ticket twice counts double in training, and if one copy is in the training set and another in the test set,
# the test measures only memory. Contradictory labels are worse: whichever side the model takes, it is wrong. Nothing
# in the file says which label is right, and the first is no better than the second. So we drop every ticket that has
# two labels. (Those are the hard ones; the scores below do not count them, and the desk will still get some.)
#
# Copies are rarely exact. Mail programs add spaces, people shout:

# %%
print(
    "I was charged  twice\n" == "i was charged twice",
    " ".join("I was charged  twice\n".split()).lower(),
)

# %% [markdown]
# ### Exercise: clean_tickets
#
# Write `clean_tickets(rows)`: `rows` is a list of `(text, label)` strings. Two texts are the same ticket if they are
# equal after trimming, collapsing runs of white space to one space, and lower-casing.
#
# - A row whose text is empty after that is dropped.
# - Of the rows of one ticket, the first is kept as it was written; if their labels disagree, none is kept.
# - The order stays.
#
# Return `(kept, report)`: a list of `(text, label)`, and a dict that counts the rows that were dropped: `empty`,
# `conflicts` (their ticket had several labels), `duplicates` (all other dropped rows). All three keys are always
# there, and the kept rows and the three counts add up to the rows that came in.
#
# ```
# clean_tickets([("Refund!", "billing"), ("refund! ", "billing")])
# # ([("Refund!", "billing")], {"duplicates": 1, "conflicts": 0, "empty": 0})
# ```

# %% exercise="clean_tickets" points=2
def clean_tickets(
    rows: list[tuple[str, str]],
) -> tuple[list[tuple[str, str]], dict[str, int]]:
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
# A vocabulary, a mean, a threshold: all of these are learned. What is held out must have had no part in any of them,
# so the split comes first.
#
# How bad is a leak? Here is a model that has only learned the training texts by heart. On rows dealt out one by one
# from the file as it came in, it seems to know something:

# %% tags=["demo"]
order = random.Random(0).sample(range(len(rows)), len(rows))
heart = {" ".join(rows[i][0].split()).lower(): rows[i][1] for i in order[400:]}
known = [i for i in order[:400] if " ".join(rows[i][0].split()).lower() in heart]
right = sum(heart[" ".join(rows[i][0].split()).lower()] == rows[i][1] for i in known)
print(
    f"{len(known)} of 400 held-out tickets are known by heart, {right} with the right "
    "label"
)

# %% [markdown]
# And a class of a tenth of all tickets is small. Deal 60 tickets out of 200 at random, and see how many of the 20 rare
# ones are among them:

# %%
print(
    [
        sum(i < 20 for i in random.Random(seed).sample(range(200), 60))
        for seed in range(12)
    ]
)

# %% [markdown]
# Six would be right; it is anything from four to eight. The score of a class that rests on four tickets is a matter of
# luck, so each class is dealt out by itself.

# %% [markdown]
# ### Exercise: split_tickets
#
# Write `split_tickets(texts, labels, fraction, seed)`: return `(train, held_out)`, two lists of ints, which together
# hold each index once.
#
# - `fraction`, between 0 and 1, is the share to hold out: that share of the rows of each class, give or take the number
#   of rows of the class's most frequent text. Every class is on both sides; for one with two texts, that is enough.
# - Texts that are equal after trimming, collapsing white space and lower-casing never stand on both sides, whatever
#   their labels are. If a text has two labels, the shares may come out differently.
# - The same `seed` gives the same split, and other seeds, as a rule, other splits; the global generators are untouched.
# - If a class has only one distinct text, it cannot be on both sides: raise `ValueError`, with a message that names the
#   class.
#
# ```
# train, held_out = split_tickets(["a", "b", "c", "d"], ["x", "x", "y", "y"], fraction=0.5, seed=0)
# ```

# %% exercise="split_tickets" points=3
def split_tickets(
    texts: list[str], labels: list[str], fraction: float, seed: int
) -> tuple[list[int], list[int]]:
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
            raise ValueError(
                f"labels: the class {label!r} has a single text, and both sides need "
                "one"
            )
        draw.shuffle(members)
        wanted, taken = fraction * sum(map(len, members)), 0
        for place, group in enumerate(members):
            nearer = taken + len(group) / 2 <= wanted
            last_of_train = place == len(members) - 1 and taken == sum(
                map(len, members[:-1])
            )
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
train_rows, val_rows = split(
    [texts[i] for i in rest], [labels[i] for i in rest], 0.15, seed=0
)
train_rows, val_rows = [rest[i] for i in train_rows], [rest[i] for i in val_rows]
for name, part in (
    ("train", train_rows),
    ("validation", val_rows),
    ("held out", held_rows),
):
    print(
        f"{name:10} {len(part):4}",
        dict(sorted(Counter(labels[i] for i in part).items())),
    )

# %% [markdown]
# The split is used twice, and gives three parts: one to learn from, one to choose by (when to stop, which threshold),
# and one by which nothing is chosen, so that its scores are honest.

# %% [markdown]
# ## A vocabulary of words to learn from
#
# The model reads numbers, so each word gets one. A word that occurs only once, such as a typo, can only be learned by
# heart; here all of these become `<unk>` (`min_count=2`). And the same texts in another order have to give the same
# numbers, or yesterday's weights no longer fit today's ids.
#
# Texts are cut at white space only, so `twice.` is a different word from `twice`. A real tokenizer would cut the full
# stop off, or split rare words into pieces.

# %% [markdown]
# ### Exercise: build_vocab
#
# Write `build_vocab(texts, max_size, min_count=1)`: a dict from word to id. Words are the lower-cased pieces between
# white space. `<pad>` is 0 and `<unk>` is 1. Then come the words that occur at least `min_count` times, the most
# frequent first, equally frequent ones in alphabetical order, with ids 2, 3, 4 and so on. There are at most
# `max_size` entries, `<pad>` and `<unk>` among them; `max_size` is 2 or more. (A customer may well write `<unk>` or `<pad>` in a
# ticket: that changes nothing.)
#
# ```
# build_vocab(["Pay the bill", "the BILL"], max_size=4)    # {"<pad>": 0, "<unk>": 1, "bill": 2, "the": 3}
# ```

# %% exercise="build_vocab" points=1
def build_vocab(texts: list[str], max_size: int, min_count: int = 1) -> dict[str, int]:
    """The words of these texts, by count and then by alphabet,
    after <pad> and <unk>."""
    ### BEGIN SOLUTION
    counts = Counter(word for text in texts for word in text.lower().split())
    words = [
        word
        for word, count in counts.items()
        if count >= min_count and word not in ("<pad>", "<unk>")
    ]
    words.sort(key=lambda word: (-counts[word], word))
    return {
        word: index for index, word in enumerate(["<pad>", "<unk>", *words][:max_size])
    }
    ### END SOLUTION

# %% check="build_vocab"
check("build_vocab")

# %% tags=["demo"]
build = router_parts.part("build_vocab", globals())
vocab = build([texts[i] for i in train_rows], **router_parts.VOCAB)
unknown = [w for i in held_rows for w in texts[i].lower().split() if w not in vocab]
print(
    len(vocab),
    "words;",
    len(unknown),
    "of",
    sum(len(texts[i].split()) for i in held_rows),
    "held-out words are unknown",
)
print(unknown[:12])

# %% [markdown]
# ## From texts to a batch
#
# Tickets differ in length; the rows of a tensor cannot. Padding costs time, so a batch is only as long as it has to be,
# and tickets of similar length go together. The mask says what is real. It is made from the lengths, not from the
# ids: a customer may write `<pad>`, and that is a real word.

# %% [markdown]
# ### Exercise: encode
#
# Write `encode(texts, vocab, max_len)`: a dict with `input_ids`, int64 of shape `(b, t)`, and `attention_mask`, bool
# of that shape, True where a word is real. Words are the lower-cased pieces between white space; unknown ones get the
# id of `<unk>`. Each text is cut at `max_len` words and padded on the right with the id of `<pad>`. `t` is the length
# of the longest text *after* cutting, not more. A text without any word becomes one `<unk>`.
#
# ```
# encode(["pay the bill", "pay"], {"<pad>": 0, "<unk>": 1, "pay": 2, "bill": 3}, max_len=16)
# # input_ids [[2, 1, 3], [2, 0, 0]], attention_mask [[True, True, True], [True, False, False]]
# ```

# %% exercise="encode" points=2
def encode(texts: list[str], vocab: dict[str, int], max_len: int) -> dict[str, Tensor]:
    """Ids and mask of a batch, as long as its longest text but at most `max_len`."""
    ### BEGIN SOLUTION
    rows = [
        [vocab.get(word, vocab["<unk>"]) for word in text.lower().split()[:max_len]]
        for text in texts
    ]
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
# To make batches, all that is left is to sort the tickets by length and to cut the list into pieces:

# %% tags=["demo"]
def batches(
    encode,
    texts: list[str],
    labels: Tensor,
    vocab: dict[str, int],
    max_len: int,
    size: int = 32,
) -> list[dict[str, Tensor]]:
    """Batches of tickets of like length, encoded, with their labels."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i].split()))
    return [
        {
            **encode([texts[i] for i in order[start : start + size]], vocab, max_len),
            "labels": labels[order[start : start + size]],
        }
        for start in range(0, len(order), size)
    ]

# %% tags=["demo"]
to_ids = router_parts.part("encode", globals())
numbers = torch.tensor([names.index(label) for label in labels])


def batched(part: list[int]) -> list[dict[str, Tensor]]:
    return batches(
        to_ids, [texts[i] for i in part], numbers[part], vocab, router_parts.MAX_LEN
    )


train, val, held = batched(train_rows), batched(val_rows), batched(held_rows)
real = sum(batch["attention_mask"].sum().item() for batch in train)
print(
    f"{real / sum(batch['input_ids'].numel() for batch in train):.0%} of what the "
    "model computes on is real"
)

# %% [markdown]
# ## What has to be beaten
#
# A number alone says nothing. Two baselines: always the largest class, and a logistic regression on the words of a
# ticket, whatever their order. The score is macro F1 (lesson 5). The F1 of a class is `2 * TP / (predicted +
# labelled)`, where TP counts the tickets that are both; macro F1 is the mean over the classes, so that a queue of 10 %
# counts as much as one of 60 %.

# %% tags=["demo"]
held_numbers = numbers[held_rows]
always = router_parts.majority(numbers[train_rows], held_numbers)
bag = router_parts.bag_of_words(
    [texts[i] for i in train_rows], numbers[train_rows], [texts[i] for i in held_rows]
)
for name, logits in (("majority", always), ("bag of words", bag)):
    accuracy = (logits.argmax(1) == held_numbers).float().mean().item()
    print(
        f"{name:13} accuracy {accuracy:.3f}, macro F1 "
        f"{router_parts.macro_f1(logits, held_numbers):.3f}"
    )

# %% [markdown]
# Where does the bag of words fail?

# %% tags=["demo"]
for i in (bag.argmax(1) != held_numbers).nonzero().flatten()[:4].tolist():
    print(f"{labels[held_rows[i]]:9} {texts[held_rows[i]][:150]}")

# %% [markdown]
# Two matters in one ticket, and the order of the words says which one is meant. A bag of words cannot know.

# %% [markdown]
# ## The router
#
# A small transformer encoder, made of blocks like the one of lesson 11: words and positions are looked up and added,
# two layers of attention mix them, the mean over the real words is one vector per ticket, and a linear layer turns it
# into logits.
#
# Padding gets in twice if you let it: words attend to it, and the mean counts it. Nothing fails, since the shapes
# fit; a ticket just gets another answer when a longer one happens to be in its batch. Mind the convention: in
# `src_key_padding_mask` True means *ignore*, the opposite of `attention_mask`.
#
# Without positions, order is lost. The layer cannot tell a ticket from its reverse:

# %%
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
words = torch.randn(1, 5, 8)
print(torch.allclose(layer(words).mean(1), layer(words.flip(1)).mean(1), atol=1e-6))

# %% [markdown]
# ### Exercise: TicketRouter
#
# Write `TicketRouter(vocab_size, num_classes, dim=32, heads=4, layers=2, max_len=64)`, a transformer encoder with
# `forward(input_ids, attention_mask)`, which gives logits `(b, num_classes)` for ids and mask as `encode` makes them,
# up to `max_len` words long. The last layer is `self.head`, an `nn.Linear` from one vector per ticket to the
# classes, with nothing after it.
#
# In eval mode, neither more padding (up to `max_len`), nor which ids stand under it, nor other tickets in the batch may
# change a ticket's logits by more than rounding. The order of its words must change them. Use
# `nn.TransformerEncoderLayer` (with `batch_first=True`) or your block of lesson 11, and keep the encoder layers in an
# `nn.ModuleList` called `layers`: a later exercise gives each of them a learning rate.
#
# ```
# router = TicketRouter(100, 3)
# router(torch.tensor([[5, 8, 0]]), torch.tensor([[True, True, False]])).shape    # (1, 3)
# ```

# %% exercise="TicketRouter" points=3
class TicketRouter(nn.Module):
    """A transformer encoder over the words, a mean over the real ones, and a head."""

    def __init__(
        self,
        vocab_size: int,
        num_classes: int,
        dim: int = 32,
        heads: int = 4,
        layers: int = 2,
        max_len: int = 64,
    ) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.words = nn.Embedding(vocab_size, dim)
        self.places = nn.Embedding(max_len, dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                dim, heads, 4 * dim, 0.1, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(dim, num_classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.words(input_ids) + self.places(
            torch.arange(input_ids.shape[1], device=input_ids.device)
        )
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
# Labels are expensive, texts are free. Before it sees any label, the model can learn what words do to each other: hide
# one word of a ticket, and let the model guess it. For that it gets a head as wide as the vocabulary. BERT was
# trained by a game of this kind, on more text; models of the GPT family guess the next word instead.
#
# Here is the game. In each ticket, one real word, drawn at random, is replaced by `<unk>` (id 1), and the model has to
# name the hidden word:

# %% tags=["demo"]
def pretrain(
    model: nn.Module, data: list[dict[str, Tensor]], epochs: int, lr: float = 3e-3
) -> list[float]:
    """Teach a model with a head as wide as the vocabulary to guess hidden words;
    the loss of each epoch."""
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr), []
    model.train()
    for _ in range(epochs):
        total = 0.0
        for place in torch.randperm(len(data)).tolist():
            ids, mask = data[place]["input_ids"].clone(), data[place]["attention_mask"]
            rows = torch.arange(len(ids))
            hidden = (torch.rand(ids.shape) * mask).argmax(1)    # never padding
            wanted = ids[rows, hidden].clone()
            ids[rows, hidden] = 1
            loss = F.cross_entropy(model(ids, mask), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total / len(data))
    return losses

# %% tags=["demo"]
Router = router_parts.part("TicketRouter", globals())
torch.manual_seed(0)
random.seed(0)
router = Router(len(vocab), len(vocab))
print([round(loss, 2) for loss in pretrain(router, train, router_parts.PRETRAINING)])

# %% [markdown]
# What is that worth? Guessing all words alike gives the logarithm of the vocabulary's size. Knowing only how frequent
# each word is gives less. What is below *that* has been learned from the other words of a ticket:

# %% tags=["demo"]
ids = torch.cat([batch["input_ids"][batch["attention_mask"]] for batch in train])
share = torch.bincount(ids, minlength=len(vocab)) / len(ids)
by_frequency = -(share * share.clamp(min=1e-9).log()).sum()
print(
    f"all alike {torch.tensor(len(vocab)).log():.2f}, by frequency {by_frequency:.2f}"
)

word_of = {number: word for word, number in vocab.items()}
hidden = to_ids(
    ["my card was charged <unk> for the family plan."], vocab, router_parts.MAX_LEN
)
router.eval()
guesses = router(hidden["input_ids"], hidden["attention_mask"])[0].topk(5).indices
print(
    "my card was charged ___ for the family plan:",
    [word_of[i] for i in guesses.tolist()],
)

# %% [markdown]
# Now the head has to go, and one for three queues takes its place. A new layer is made on the CPU and in float32
# unless you say otherwise, and an optimizer that was made before still holds the old one.

# %% [markdown]
# ### Exercise: swap_head
#
# Write `swap_head(model, num_classes)`: replace `model.head`, an `nn.Linear` with a bias, by a fresh one with
# `num_classes` outputs and a bias, on the device and in the dtype of the old one. Its parameters require gradients,
# even if the old head's did not; all other parameters and buffers keep their values and flags. Return the sorted names
# of the new parameters, as `model.named_parameters()` has them.
#
# ```
# swap_head(TicketRouter(100, 100), 3)    # ["head.bias", "head.weight"]
# ```

# %% exercise="swap_head" points=1
def swap_head(model: nn.Module, num_classes: int) -> list[str]:
    """Give the model a new head of this width; return the names of its parameters."""
    ### BEGIN SOLUTION
    old = model.head
    model.head = nn.Linear(
        old.in_features, num_classes, device=old.weight.device, dtype=old.weight.dtype
    )
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
# The head knows nothing yet, and what it sends down at first is close to random. If the layers below follow it at full
# speed, what they have learned is gone within a few steps. So the learning rate falls from the head down: `lr` for
# the head, `lr * decay` for the last layer, `lr * decay**2` for the one below it, and so on to the embeddings. The
# usual bug is a list of parts that somebody wrote by name: a norm added a year later is in no group, learns nothing,
# and no error says so.

# %% [markdown]
# ### Exercise: layerwise_groups
#
# Write `layerwise_groups(model, lr, decay)`: a list of dicts with `params` and `lr`, which an optimizer takes.
# `model.head` learns at `lr`. `model.layers` is an `nn.ModuleList`, the layer next to the embeddings first. Its last
# layer learns at `lr * decay`, the one before it at `lr * decay**2`, and so on. Everything else (embeddings, and
# whatever the model has besides) learns at `decay` times the rate of `model.layers[0]`, even if that layer is frozen.
# Each parameter that requires a gradient is in exactly one group, a frozen one in none; several groups may have the
# same rate. A parameter that two parts share belongs to the one nearer the head.
#
# ```
# groups = layerwise_groups(TicketRouter(100, 3), lr=0.001, decay=0.5)
# sorted({group["lr"] for group in groups})    # [0.000125, 0.00025, 0.0005, 0.001]
# ```

# %% exercise="layerwise_groups" points=2
def layerwise_groups(model: nn.Module, lr: float, decay: float) -> list[dict]:
    """Parameter groups whose learning rate falls from the head down to the
    embeddings."""
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
print(
    [
        (round(group["lr"], 5), sum(p.numel() for p in group["params"]))
        for group in gentle
    ]
)

optimizer = torch.optim.AdamW(gentle)
router.train()
for batch in random.sample(train, len(train)):
    loss = F.cross_entropy(
        router(batch["input_ids"], batch["attention_mask"]), batch["labels"]
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(
    "after one gentle epoch: macro F1 "
    f"{router_parts.macro_f1(*router_parts.scores(router, val)):.3f}"
)

# %% [markdown]
# ## Training with a log
#
# The head is no longer random, so the small steps have done their work; from here on all layers learn at one rate. What
# you will want to know in a month, when somebody asks why the model is as it is, has to be written down while it
# happens: one line of JSON per epoch, written right away, so that a killed run leaves its log. Validation decides
# when to stop and which weights to keep.
#
# The trap is in the copy. The tensors in a `state_dict` share memory with the parameters:

# %%
tiny = nn.Linear(1, 1)
best = tiny.state_dict()
with torch.no_grad():
    tiny.weight += 1
print(torch.equal(best["weight"], tiny.weight))

# %% [markdown]
# ### Exercise: train_router
#
# Write `train_router(model, train, val, *, epochs, lr, device, log)`. `train` and `val` are lists of batches, dicts
# with `input_ids`, `attention_mask` and `labels`, on the CPU. Train with AdamW and cross-entropy on `device`, going
# through the batches of `train` in a random order, drawn anew for each epoch.
#
# - After each epoch, append a line to the file `log`, a JSON object with `epoch` (from 1), `lr` (what the optimizer
#   used), `train_loss` (a mean over the tickets of the epoch, or over its batches), `val_loss` and `macro_f1`. The last
#   two are measured on all tickets of `val` together, in eval mode; a mean over batches is something else. Lines that
#   are there already stay.
# - Stop early: after two epochs in a row that bring no new lowest `val_loss`.
# - At the end the model has the weights of the epoch with the lowest `val_loss`; it may be in either mode. Return that
#   epoch's record, as a dict.
#
# Macro F1 is the mean of the classes' F1, `2 * TP / (predicted + labelled)`, over the classes that occur among the
# labels or the predictions.
#
# ```
# log = Path("log.jsonl")
# train_router(model, train, val, epochs=10, lr=1e-3, device=torch.device("cpu"), log=log)
# # for instance {'epoch': 4, 'lr': 0.001, 'train_loss': 0.41, 'val_loss': 0.52, 'macro_f1': 0.83}
# len(log.read_text().splitlines())    # 6: two epochs after the fourth brought nothing better
# ```

# %% exercise="train_router" points=4
def train_router(
    model: nn.Module, train: list, val: list, *, epochs: int, lr: float, device, log
) -> dict:
    """Fine-tune, log an epoch a line, stop early, keep the best weights."""
    ### BEGIN SOLUTION
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    best = {"val_loss": float("inf"), "epoch": 0}
    weights = copy.deepcopy(model.state_dict())

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
            f1.append(
                2 * hits / ((predicted == c).sum().item() + (labels == c).sum().item())
            )
        record = {
            "epoch": epoch,
            "lr": optimizer.param_groups[0]["lr"],
            "train_loss": total / count,
            "val_loss": F.cross_entropy(logits, labels).item(),
            "macro_f1": sum(f1) / len(f1),
        }
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
confusion = torch.zeros(3, 3, dtype=torch.int64).index_put(
    (wanted, logits.argmax(1)), torch.tensor(1), accumulate=True
)
print(names)
print(confusion)

# %% [markdown]
# Rows are the labels, columns what the router said. One run with one seed proves little. Here are five, each with a
# split, weights and an order of its own, as `python benchmarks/ticket_router.py` measured them with the solutions of
# this lesson. Each column is a macro F1 on held-out tickets:

# %% tags=["demo"]
from importlib import resources

recorded = json.loads(
    (resources.files("torchcourse") / "data" / "router_seeds.json").read_text()
)
print(
    f"recorded {recorded['date']} with torch {recorded['torch']}: {recorded['command']}"
)
for row in recorded["rows"]:
    print(
        "  ".join(
            f"{key} {value:.3f}" if key != "seed" else f"seed {value}"
            for key, value in row.items()
        )
    )

# %% [markdown]
# ## Labels that look wrong
#
# The model has seen all labels at once and never tires. Where it is sure that a ticket belongs elsewhere, either the
# model is wrong or the label is. Both are worth a look. A ticket of which it is merely *unsure* is another matter.

# %% [markdown]
# ### Exercise: suspect_labels
#
# Write `suspect_labels(logits, labels, k)` for logits `(n, classes)` and int64 labels `(n,)`: an int64 tensor, on their
# device, with the indices of the `k` tickets whose label is least probable according to the model, least probable
# first; of equally probable ones, the lower index first. With fewer than `k` tickets, all of them. Compare log
# probabilities: when labels are extremely improbable, their float32 probabilities are all rounded to 0 and can no
# longer be told apart.
#
# ```
# logits = torch.tensor([[4.0, 0.0], [0.0, 1.0], [0.0, 6.0]])
# suspect_labels(logits, torch.tensor([0, 0, 0]), 2)    # tensor([2, 1])
# ```

# %% exercise="suspect_labels" points=2
def suspect_labels(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    """Indices of the tickets whose own label the model finds least likely,
    worst first."""
    ### BEGIN SOLUTION
    own = logits.log_softmax(-1).gather(1, labels[:, None])[:, 0]
    return own.argsort(stable=True)[:k]
    ### END SOLUTION

# %% check="suspect_labels"
check("suspect_labels")

# %% tags=["demo"]
suspects = router_parts.part("suspect_labels", globals())
val_logits, val_labels = router_parts.scores(router, val)
# the batches go by length
in_order = sorted(val_rows, key=lambda i: len(texts[i].split()))
for i in suspects(val_logits, val_labels, 5).tolist():
    said, given = names[val_logits[i].argmax()], names[val_labels[i]]
    print(f"labelled {given:9} the router says {said:9} {texts[in_order[i]][:90]}")

# %% [markdown]
# These go back to the desk, with the question which queue is right. They are not relabelled by the model: then it
# would be marking its own homework. Here only validation tickets were asked about, because the model has seen the
# labels of the training tickets, and may know the wrong ones by heart. To ask about those, train on four fifths, ask
# about the last, and take turns.

# %% [markdown]
# ## When to ask a human
#
# A wrong queue costs 6, a human costs 1. Routing a ticket that is right with probability p costs 6 (1 − p) on
# average, so it pays above p = 5/6. The desk has set another rule, which is easier to explain: of the tickets that
# are routed, at least 90 % must be right. That is a mean; tickets close to the threshold do worse than it.
#
# A softmax of 0.9 is no promise of 90 %. So the threshold is measured, on tickets that the model has not learned from.
# As the threshold is lowered, the share that is right goes down and up: one early mistake pushes it below the
# target, and later tickets lift it again. And many tickets may share one confidence: then all of them are routed, or none.

# %% [markdown]
# ### Exercise: route_threshold
#
# Write `route_threshold(logits, labels, precision)`. A ticket's confidence is its largest probability, as
# `logits.softmax(-1)` gives it. Routing at `c` means that all tickets with a confidence of at least `c` are routed.
# Among the confidences that occur, return the lowest at which the share of right ones among the routed is at least
# `precision`, as a float; `inf` if there is none. Tickets with the same confidence are routed together or not at all.
#
# ```
# logits = torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
# route_threshold(logits, torch.tensor([0, 1, 0]), 0.6)    # 0.7311: of all three, two are right
# ```

# %% exercise="route_threshold" points=2
def route_threshold(logits: Tensor, labels: Tensor, precision: float) -> float:
    """The lowest confidence from which on routing automatically is right often
    enough."""
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
threshold = find(val_logits, val_labels, precision=0.9)
print(f"threshold {threshold:.3f}")
for name, z, y in (
    ("validation", val_logits, val_labels),
    ("held out", logits, wanted),
):
    automatic = z.softmax(-1).amax(-1) >= threshold
    hits = (z.argmax(1) == y)[automatic]
    right = hits.float().mean().item() if len(hits) else 0.0
    print(
        f"{name:10} {automatic.float().mean():.0%} are routed, {right:.1%} of them "
        "right"
    )

# %% [markdown]
# Validation has chosen the epoch and the threshold, so its share is a little too good; the other is the honest one. The
# picture below is about validation tickets. Move the threshold to where a ticket costs least, and see what share is
# routed there. The release goes by the rule of the desk; with this picture you can tell them what the rule costs.

# %% tags=["demo"]
desk_charts.threshold(val_logits, val_labels).show()

# %% [markdown]
# ## How long one request takes
#
# A customer sends one ticket and waits for it. The time of a batch of 64, divided by 64, tells you the throughput, and
# nothing about that wait. Nor does a mean: if ninety of a hundred requests take 2 ms and ten take 40 ms, the mean is
# 5.8 ms, and nobody waited that long: all waited 2 or 40. Hence p50, what half of them take at most, and p95, what 95
# of 100 take at most.

# %% [markdown]
# ### Exercise: latency
#
# Write `latency(route, requests, *, warmup=5)`. `route(request)` answers one request, maybe on an accelerator, where
# the call returns before the work is done. First call `route` `warmup` times without measuring, with the requests of
# the list in turn (again from its beginning if the list is shorter than that), then once with each request, and
# measure these calls. Return a dict with `p50` and `p95`, the 50th and the 95th percentile of the single times, in
# milliseconds, by any usual definition. `torch.accelerator.synchronize()` waits for the device; it raises where
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
    p50, p95 = (
        torch.tensor(times, dtype=torch.float64)
        .quantile(torch.tensor([0.5, 0.95], dtype=torch.float64))
        .tolist()
    )
    return {"p50": p50, "p95": p95}
    ### END SOLUTION

# %% check="latency"
check("latency")

# %% [markdown]
# ## The release
#
# Weights alone are no release. Without the vocabulary nobody can feed them, without the names of the classes nobody
# understands the answer. For the server there is also an ONNX file (lesson 9). The exporter has two surprises: by
# default it puts the weights into a second file, and sizes are fixed unless they are declared dynamic:

# %% tags=["demo"]
import onnxruntime

line, small = nn.Linear(3, 2).eval(), Path(tempfile.mkdtemp()) / "line.onnx"
torch.onnx.export(
    line,
    (torch.randn(4, 3),),
    small,
    dynamo=True,
    verbose=False,
    external_data=False,
    input_names=["x"],
    output_names=["y"],
    dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
)
session = onnxruntime.InferenceSession(small, providers=["CPUExecutionProvider"])
print(
    session.get_inputs()[0].shape,
    session.run(None, {"x": torch.ones(7, 3).numpy()})[0].shape,
)

# %% [markdown]
# An exported file is a claim, and has to be checked before anybody depends on it. Check it on sizes other than the
# example's: a batch size that the exporter froze does no harm on inputs of that size. And the example that you give to
# the exporter must have more than one ticket and more than one word: what is traced at a size of 1 may work for that
# size only, even though the file declares the size dynamic.
#
# A release that fails must leave the old one as it was. So everything is written and proved elsewhere, and moved into
# place at the end.

# %% [markdown]
# ### Exercise: release
#
# Write `release(model, vocab, config, example, directory, atol=1e-4)`. `example` is a dict with `input_ids` and
# `attention_mask`, with which `model(**example)` works; it has several tickets of several words. Afterwards,
# `directory` is a folder with exactly these four files:
#
# - `weights.pt`, the `state_dict`, by `torch.save`; `config.json` and `vocab.json`, the two dicts as JSON;
# - `router.onnx`, the model in eval mode, for any batch size and length, with inputs `input_ids` and `attention_mask`.
#
# Write them to a temporary folder beside `directory`, whose parent exists. Run the ONNX file in ONNX Runtime on inputs
# of *another* size than the example: with more or fewer tickets, and with fewer words in each. Compare the logits with
# the model's. Only if all of them agree within `atol` (NaN agrees with nothing), put the folder in the place of
# `directory`, whatever was in it before. If they differ, raise `ValueError`; if the export fails, or ONNX Runtime
# refuses the other size, any exception will do. Then the old release stands as it was, and nothing else is left beside
# it. Whatever happens, the model and each of its parts get their modes back.
#
# ```
# release(model, vocab, {"classes": ["billing", "sales", "technical"]}, example, Path("router"))
# sorted(path.name for path in Path("router").iterdir())
# # ['config.json', 'router.onnx', 'vocab.json', 'weights.pt']
# ```

# %% exercise="release" points=4
def release(
    model: nn.Module,
    vocab: dict,
    config: dict,
    example: dict,
    directory,
    atol: float = 1e-4,
) -> None:
    """Write a release, prove its ONNX file right, and only then put it in place."""
    ### BEGIN SOLUTION
    import onnxruntime

    directory, names = Path(directory), ("input_ids", "attention_mask")
    folder = Path(tempfile.mkdtemp(dir=directory.parent))
    modes = [(m, m.training) for m in model.modules()]
    try:
        model.eval()
        torch.save(model.state_dict(), folder / "weights.pt")
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "vocab.json").write_text(json.dumps(vocab))
        torch.onnx.export(
            model,
            tuple(example[name] for name in names),
            folder / "router.onnx",
            dynamo=True,
            verbose=False,
            external_data=False,
            input_names=names,
            output_names=["logits"],
            dynamic_shapes=({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
            * 2,
        )
        session = onnxruntime.InferenceSession(
            folder / "router.onnx", providers=["CPUExecutionProvider"]
        )
        ids, mask = (example[name] for name in names)
        for rows, length in ((1, 1), (len(ids) + 1, max(ids.shape[1] - 1, 1)), (3, 2)):
            other = {
                "input_ids": torch.randint(len(vocab), (rows, length)),
                "attention_mask": torch.arange(length)
                < torch.randint(1, length + 1, (rows, 1)),
            }
            got = torch.from_numpy(
                session.run(
                    None, {name: tensor.numpy() for name, tensor in other.items()}
                )[0]
            )
            with torch.no_grad():
                wanted = model(*other.values())
            if not torch.allclose(got, wanted, rtol=0, atol=atol):
                raise ValueError(
                    f"the ONNX file is off by {(got - wanted).abs().max():.2g}, and "
                    f"atol is {atol}"
                )
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
config = {
    "classes": names, "max_len": router_parts.MAX_LEN, "macro_f1": record["macro_f1"],
    "threshold": min(threshold, 2.0),  # inf is not valid JSON; 2 routes nothing either
}
example = {name: val[-1][name][:4] for name in ("input_ids", "attention_mask")}
write(router, vocab, config, example, folder)
print({path.name: path.stat().st_size for path in sorted(folder.iterdir())})

# %% [markdown]
# ## The server
#
# It does without PyTorch: all it needs is NumPy, ONNX Runtime and the folder.

# %% tags=["demo"]
from torchcourse.demos import serve

print(Path(serve.__file__).read_text())

# %% tags=["demo"]
import subprocess
import sys

ticket = (
    "first I could not log in. But never mind that: my card was charged twice for the "
    "family plan"
)
done = subprocess.run(
    [sys.executable, serve.__file__, folder, ticket], capture_output=True, text=True
)
print(done.stdout or done.stderr[-300:])

# %% [markdown]
# Which words mattered? The server asks itself again, once for each word, with that word replaced by `<unk>`, and names
# the words whose loss costs it the most confidence. Type a ticket of your own, and then the same one the other way
# round:

# %% tags=["demo"]
server = serve.Server(folder)
desk_charts.ask(server, ticket).show()

# %% [markdown]
# And how fast is it? Three ways to answer the same requests, one at a time: PyTorch as it is, compiled (here with the
# backend that this machine can use), and ONNX Runtime. Encoding is part of a request.

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
    return router(**to_ids([text], vocab, router_parts.MAX_LEN))


@torch.no_grad()
def compiled_route(text: str) -> Tensor:
    return compiled(**to_ids([text], vocab, router_parts.MAX_LEN))


def onnx_route(text: str) -> Tensor:
    fed = {
        name: tensor.numpy()
        for name, tensor in to_ids([text], vocab, router_parts.MAX_LEN).items()
    }
    return torch.from_numpy(server.session.run(None, fed)[0])


for name, route in (
    ("eager", eager_route),
    (f"compiled ({backend})", compiled_route),
    ("ONNX Runtime", onnx_route),
):
    found = measure(route, requests, warmup=20)
    off = max((route(text) - eager_route(text)).abs().max().item() for text in requests)
    p95 = found["p95"]
    in_time = "within" if p95 <= 20 else "over" if p95 > 20 else "not compared with"
    print(
        f"{name:20} p50 {found['p50']:6.2f} ms, p95 {found['p95']:6.2f} ms, {in_time} "
        f"the 20 ms; off by {off:.0e}"
    )

# %% [markdown]
# All three give the same logits up to rounding. Which of them is fastest, and whether compiling pays for a model of
# this size, is for your machine to say. (If `latency` is not solved yet, there is no p95 and so nothing to compare.)

# %% [markdown]
# ## Drift and rollback
#
# The day after the release, customers write about something new. No test that you ran before could tell you. What can be
# watched without labels: how many words are unknown, and how sure the router is. Here are held-out tickets, and the same
# tickets after the company has renamed its products:

# %% tags=["demo"]
renamed = [
    text.lower()
    .replace("plan", "bundle")
    .replace("card", "wallet")
    .replace("account", "profile")
    for text in requests
]
for name, sample in (("as before", requests), ("renamed", renamed)):
    answers = [server.answer(text) for text in sample]
    lost = sum(word not in vocab for text in sample for word in text.lower().split())
    print(
        f"{name:10} unknown words {lost:4}, to a human "
        f"{sum(a['human'] for a in answers):3} of {len(sample)}"
    )

# %% [markdown]
# When such a number moves, look at tickets, label some, and train again. If a release turns out bad, go back: keep
# each one in a folder with a date, and let a link say which one is served. A new link that is renamed over the old
# one takes its place in a single step, so that there is a release at every moment; going back is the same step.

# %% tags=["demo"]
import os

def serve_from(wanted: Path, current: Path) -> None:
    fresh = current.with_name("fresh")
    fresh.symlink_to(wanted)
    os.replace(fresh, current)

current, yesterday = folder.with_name("current"), folder.with_name("yesterday")
shutil.copytree(folder, yesterday, dirs_exist_ok=True)
for wanted in (folder, yesterday, folder):
    serve_from(wanted, current)
    print(current.resolve().name, serve.Server(current).answer(ticket)["queue"])

# %% [markdown]
# ## The same in Lightning
#
# You have written each part by hand. Lightning has a place for each of them. This page maps the names; **its code is
# not run here**, since Lightning is not part of the course.
#
# | here | in Lightning |
# |---|---|
# | `TicketRouter`, and what is computed from it | a `LightningModule` with `forward` and `training_step` |
# | the two `for` loops of `train_router` | `Trainer(max_epochs=…).fit(module, datamodule)` |
# | `model.train()`, `model.eval()`, `no_grad`, `.to(device)` | done by the `Trainer` around `training_step` and `validation_step` |
# | `split_tickets`, `encode`, batches | a `LightningDataModule` with `setup`, `train_dataloader`, `val_dataloader` |
# | AdamW, with groups or without | `configure_optimizers`, which returns the optimizer |
# | patience 2 | `EarlyStopping(monitor="val_loss", patience=2)` |
# | best weights | `ModelCheckpoint(monitor="val_loss")`, then `LitRouter.load_from_checkpoint(path, router=router)` |
# | a JSON line an epoch | `self.log("val_loss", …)` with a logger, such as `CSVLogger` |
#
# ```python
# # not run here: pip install lightning
# import lightning
#
# class LitRouter(lightning.LightningModule):
#     def __init__(self, router):
#         super().__init__()
#         self.router = router
#
#     def forward(self, batch):
#         return self.router(batch["input_ids"], batch["attention_mask"])
#
#     def training_step(self, batch, batch_idx):
#         return F.cross_entropy(self(batch), batch["labels"])
#
#     def validation_step(self, batch, batch_idx):
#         loss = F.cross_entropy(self(batch), batch["labels"])
#         self.log("val_loss", loss, batch_size=len(batch["labels"]))
#
#     def configure_optimizers(self):
#         return torch.optim.AdamW(self.router.parameters(), lr=3e-3)
# ```
#
# One difference to know: `self.log` averages over batches, weighted by the batch size that it is told or guesses. Macro
# F1 is not a mean over batches, so it is computed in `on_validation_epoch_end`, or by `torchmetrics`.

# %% [markdown]
# ## The same with Hugging Face
#
# If you are online, you would begin with a model that has read more than our tickets, such as DistilBERT. **This code
# is not run here** either; it downloads a model.
#
# | here | in Hugging Face's libraries |
# |---|---|
# | the CSV file, `clean_tickets` | `datasets.load_dataset("csv", …)`, `.map`, `.filter` |
# | `build_vocab`, `encode` | a tokenizer: `AutoTokenizer.from_pretrained(name)`; it cuts words into pieces, so that hardly anything is unknown |
# | padding to the longest of a batch | `DataCollatorWithPadding(tokenizer)` |
# | the pretrained router with a new head | `AutoModelForSequenceClassification.from_pretrained(name, num_labels=3)`, which warns that the head is new |
# | guessing hidden words | `AutoModelForMaskedLM` |
# | `train_router` | `Trainer` with `TrainingArguments`; with `eval_strategy="epoch"` and `save_strategy="epoch"` also `EarlyStoppingCallback(2)` and `load_best_model_at_end=True` |
# | macro F1 on all of validation | `compute_metrics`, which gets all logits and labels at once |
# | `release` | `save_pretrained(folder)`, `push_to_hub`; ONNX by `optimum` |
#
# ```python
# # not run here: pip install transformers datasets
# from datasets import load_dataset
# from transformers import (AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding,
#                           Trainer, TrainingArguments)
#
# name = "distilbert-base-uncased"
# tokenizer = AutoTokenizer.from_pretrained(name)
# model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=3)
# data = load_dataset("csv", data_files="tickets.csv")["train"].class_encode_column("label")
# data = data.map(lambda row: tokenizer(row["text"], truncation=True)).train_test_split(0.15)
# trainer = Trainer(model, TrainingArguments("out", learning_rate=5e-5, eval_strategy="epoch"),
#                   train_dataset=data["train"], eval_dataset=data["test"],
#                   data_collator=DataCollatorWithPadding(tokenizer))
# trainer.train()
# ```
#
# The tokenizer's `attention_mask` is the same as yours, but with 1 for real and 0 for padding. What the libraries do
# not do for you: keep copies out of the test, find contradictory labels, measure a threshold. That stays your work.

# %% [markdown]
# ## What you have now
#
# A folder that answers tickets. If all twelve checks pass, the tickets were cleaned and split, and the router was
# built, trained and released, by your code. What would you do next: label the suspects, or look at the tickets that
# went to a human?
