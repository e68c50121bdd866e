"""Lesson 04: probes, visible cases and hints. What is right is not written here."""

from __future__ import annotations

import copy
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

from torchcourse.exercise import Case, Draw, Exercise, Unattempted, case
from torchcourse.exercises.loading import disturb, drain, pickled, refused, scratch, touched, unpickled
from torchcourse.exercises.looking import kind
from torchcourse.observations import Observations, Raised, raised
from torchcourse.probing import Watched

# --- TicketDataset -----------------------------------------------------------------------------------------------


def probe_tickets(answer: Watched, text: str, vocab: dict[str, int], bad_line: int) -> dict[str, Any]:
    with scratch():
        path = Path("tickets.csv")
        path.write_bytes(text.encode())
        if bad_line:
            made: list[Any] = []
            seen = refused(lambda: made.append(answer(path, vocab)), lambda message: _names_line(message, bad_line))
            return seen if not made else {"refused with": "no exception", "reading the items": _readable(made[0])}
        dataset = answer(path, vocab)
        items = [dataset[i] for i in range(len(dataset))]
    classes = dataset.classes
    return {
        "length": len(dataset),
        "classes": list(classes) if isinstance(classes, list | tuple) else classes,
        "items": [_ticket(item) for item in items],
    }


def _readable(dataset: Any) -> str | Raised:
    try:
        return f"{len([dataset[i] for i in range(len(dataset))])} items"
    except Exception as error:
        return raised(error)


def _names_line(message: str, line: int) -> str:
    """Which line a message names; small numbers are taken for numbers of fields where there are others."""
    numbers = [int(word) for word in re.findall(r"\d+", message)]
    if line in numbers:
        return f"names line {line}"
    larger = [number for number in numbers if number > 3] or numbers
    return f"names {', '.join(map(str, larger))}" if larger else "names no line"


def _ticket(item: object) -> Any:
    if not (isinstance(item, tuple | list) and len(item) == 2):
        return f"{kind(item)}, where a pair of ids and label is wanted"
    ids, label = item
    if not isinstance(ids, Tensor):
        return f"ids are {kind(ids)}, where a tensor is wanted"
    whole = type(label) is int or isinstance(label, np.integer | str)
    return ids, label if whole else f"the label is {kind(label)}, where an int is wanted"


VOCAB = {
    "<pad>": 0, "<unk>": 1, "card": 2, "charged": 3, "twice": 4, "my": 5, "the": 6, "app": 7, "crashes": 8,
    "password": 9, "reset": 10, "größe": 11, "refund": 12, "please,": 13, "hello,": 14, "invoice": 15, "cannot": 16,
    "log": 17, "in": 18, "screen": 19, "a": 20,
}  # fmt: skip
KNOWN_WORDS = [word for word in VOCAB if word.isalpha()]
LABELS = ["billing", "technical", "account"]


def _words(draw: Draw, count: int) -> str:
    return " ".join(draw.pick(KNOWN_WORDS) for _ in range(count))


def _rows(draw: Draw, count: int) -> list[str]:
    return [f"{_words(draw, draw.size(2, 5))},{draw.pick(LABELS)}" for _ in range(count)]


def cases_tickets(draw: Draw) -> list[Case]:
    def lines(name: str, *rows: str, bad_line: int = 0, end: str = "\n") -> Case:
        return case(name, text=end.join(["text,label", *rows, ""]), vocab=dict(VOCAB), bad_line=bad_line)

    plain = [f"{_words(draw, 3)},{label}" for label in ("technical", "billing", "account")]
    word = draw.pick(["Frage", "router", "kündigen", "löschen"])
    quoted = f'"Hello, my card, {_words(draw, 2)}",billing'
    broken = f'"My app\ncrashes {_words(draw, 1)}\n\nthe screen",technical'
    return [
        lines("one word each, in order of need", *plain, *_rows(draw, 2)),
        lines("capital letters", f"Card CHARGED {_words(draw, 2)},billing", "Größe RESET,technical"),
        lines("an unknown word", f"my {word} {_words(draw, 1)},technical", *_rows(draw, 1)),
        lines("several spaces and a tab", f"card   charged\ttwice  {_words(draw, 1)},billing", *_rows(draw, 1)),
        lines("commas between quotes", quoted, *_rows(draw, 2)),
        lines("line breaks between quotes", broken, *_rows(draw, 2)),
        lines("blank lines", *_rows(draw, 1), "", "", *_rows(draw, 2), ""),
        lines("a ticket without text", ",account", *_rows(draw, 1)),
        lines("a row of three fields after a long one", broken, "", quoted, "card,refund,billing", bad_line=8),
        lines("a row without a label", *_rows(draw, 4), "", "my card,", *_rows(draw, 1), bad_line=7),
        lines("a row of one field", broken, *_rows(draw, 2), "the app crashes", bad_line=8),
    ]


def quotes_tickets(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"line": inputs["bad_line"]}
    error = seen.get("refused with")
    if isinstance(error, Raised):
        fields["message"] = error.message
    if "length" in seen:
        fields |= {"length": seen["length"], "wanted_length": _wanted["length"]}
        fields |= {"classes": seen["classes"], "wanted_classes": _wanted["classes"]}
        wrong = [(s, w) for s, w in zip(seen["items"], _wanted["items"], strict=False) if not _same_item(s, w)]
        if wrong:
            got, want = wrong[0]
            fields |= {"item": got, "wanted_item": want}
            if isinstance(got, tuple):
                fields |= {"ids_dtype": got[0].dtype, "wanted_ids_dtype": want[0].dtype}
    return fields


def _same_item(one: Any, other: Any) -> bool:
    if not (isinstance(one, tuple) and isinstance(other, tuple)):
        return one is other
    same = one[0].dtype == other[0].dtype and torch.equal(one[0], other[0])
    return same and one[1] == other[1]


TicketDataset = Exercise(
    "TicketDataset",
    probe_tickets,
    cases_tickets,
    hints=(
        "Which module of Python's standard library reads a file in which a quoted field may hold commas and line "
        "breaks? It wants the file opened with `newline=\"\"`.",
        "A row and a line are not the same thing here. Which attribute of the reader says how many physical lines it "
        "has read so far?",
        "Do all reading and refusing in `__init__`, so that a bad file is found before training. What dtype has "
        "`torch.tensor([])` when nobody says?",
    ),
    any_device=False,
    quotes=quotes_tickets,
)

# --- split_indices -----------------------------------------------------------------------------------------------


def probe_split(answer: Watched, n: int, fractions: list[float], seed: int) -> dict[str, Any]:
    if abs(sum(fractions) - 1) > 1e-3:

        def told(message: str) -> str:
            named = "names the argument" if "fraction" in message.lower() else "does not name the argument"
            numbers = [float(number) for number in re.findall(r"\d+\.?\d*", message)]
            tells = any(abs(number - f) < 1e-6 for number in numbers for f in [*fractions, sum(fractions)])
            return f"{named}, {'tells' if tells else 'does not tell'} what it got"

        seen = refused(lambda: answer(n, list(fractions), seed), told)
        error = seen["refused with"]
        return {"refused with": Raised("an exception", str(error), error.reason)
                if isinstance(error, Raised) else error}  # fmt: skip
    disturb(1)
    with touched() as found:
        parts = answer(n, list(fractions), seed)
    disturb(2)
    again, other = answer(n, list(fractions), seed), answer(n, list(fractions), seed + 1)
    return {"parts": parts, "again": again, "with another seed": other, "global generators": found}


def _mixed(part: list[int], n: int) -> str:
    """How the members of a part lie among all."""
    ordered = sorted(part)
    gaps = {b - a for a, b in pairwise(ordered)}
    if len(part) < 5 or len(part) == n:
        return "too few or all to tell"
    return "evenly spaced" if len(gaps) == 1 else "mixed"


def derive_split(case: Case, seen: Observations) -> Observations:
    if "refused with" in seen:
        return seen
    n, fractions, parts = case.inputs["n"], case.inputs["fractions"], seen["parts"]
    if not (isinstance(parts, list | tuple) and all(isinstance(part, list) for part in parts)):
        inner = type(parts[0]).__name__ if isinstance(parts, list | tuple) and parts else ""
        return {"returned": f"{kind(parts)}{inner and f' that holds {inner}'}, where a list of lists is wanted"}
    flat = [index for part in parts for index in part]
    strange = [index for index in flat if type(index) is not int]
    if strange:
        return {"returned": f"indices that are {kind(strange[0])}, where ints are wanted"}
    counts = Counter(flat)
    sizes, exact = [len(part) for part in parts], [n * f for f in fractions]
    trivial = n < 5 or len(exact) == 1
    near = len(sizes) == len(exact) and all(abs(s - e) < len(exact) for s, e in zip(sizes, exact, strict=True))
    return {
        "sizes": "as the fractions say" if near else sizes,
        "indices that are missing": sum(i not in counts for i in range(n)),
        "indices that come twice": sum(count > 1 for count in counts.values()),
        "indices from outside": sum(not 0 <= i < n for i in counts),
        "order": [_mixed(part, n) for part in parts],
        "called again with the same seed": "the same parts" if seen["again"] == parts else "other parts",
        "with another seed": "other parts" if seen["with another seed"] != parts or trivial else "the same parts",
        "global generators": ", ".join(seen["global generators"]) or "untouched",
    }


def cases_split(draw: Draw) -> list[Case]:
    seed = draw.size(3, 99)
    return [
        case("100 in two parts", n=100, fractions=[0.8, 0.2], seed=seed),
        case("97 in three parts", n=97, fractions=[0.7, 0.2, 0.1], seed=seed),
        case("53 in five parts", n=53, fractions=[0.2] * 5, seed=seed + 1),
        case("all in one part", n=draw.size(20, 30), fractions=[1.0], seed=seed),
        case("seed 0", n=draw.size(60, 70), fractions=[0.5, 0.25, 0.25], seed=0),
        case("fractions that sum to 0.9", n=20, fractions=[0.7, 0.2], seed=seed),
        case("fractions that sum to 1.1", n=20, fractions=[0.8, 0.3], seed=seed),
    ]


def quotes_split(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "sum": sum(inputs["fractions"]),
        "missing": seen.get("indices that are missing"),
        "twice": seen.get("indices that come twice"),
        "generators": seen.get("global generators"),
        "sizes": seen.get("sizes"),
        "order": next((o for o in seen.get("order", []) if o != "mixed"), "mixed"),
    }
    return {name: value for name, value in fields.items() if value is not None}


split_indices = Exercise(
    "split_indices",
    probe_split,
    cases_split,
    hints=(
        "Shuffle all of `range(n)` once, then cut the shuffled list into pieces. Can anything be lost or come twice "
        "that way?",
        "A generator of your own, made from `seed`, leaves the global ones alone. Which argument of `torch.randperm` "
        "takes it?",
        "Where do you cut? Round the running sum of the fractions times n, so that the last cut is at n. And "
        "is `0.7 + 0.2 + 0.1 == 1` true in floating point?",
    ),
    any_device=False,
    derive=derive_split,
    quotes=quotes_split,
)

# --- pad_collate -------------------------------------------------------------------------------------------------


def probe_collate(answer: Watched, ids: list[Tensor], labels: list[int], pad_id: int | None) -> dict[str, Any]:
    before = [one.clone() for one in ids]
    batch = list(zip(ids, labels, strict=True))
    made = answer(batch) if pad_id is None else answer(batch, pad_id)
    if not isinstance(made, dict):
        return {"returned": f"{kind(made)}, where a dict is wanted"}
    same = len(batch) == len(before) and all(torch.equal(a, b[0]) for a, b in zip(before, batch, strict=True))
    names = ("ids", "mask", "labels")
    return {
        **{name: made[name] if isinstance(made[name], Tensor) else kind(made[name]) for name in names if name in made},
        "batch afterwards": "as before" if same else "changed",
    }


def cases_collate(draw: Draw) -> list[Case]:
    def batch(name: str, *lengths: int, low: int = 1, pad_id: int | None = None) -> Case:
        ids = [draw.integers(low, 50, length) for length in lengths]
        labels = [draw.size(0, 2) for _ in lengths]
        return case(name, ids=ids, labels=labels, pad_id=pad_id)

    zeros = batch("an id that is 0 too", 4, 2, 3)
    zeros.inputs["ids"][0][:2] = 0
    return [
        batch("three tickets", 2, 5, 3),
        batch("the longest first", 6, 1, 4, 2),
        zeros,
        batch("another pad_id", 3, 5, 2, pad_id=draw.size(60, 90)),
        batch("all of one length", 4, 4),
        batch("a ticket without words", 3, 0, 2),
        batch("a batch of one", draw.size(3, 6)),
        batch("no words at all", 0, 0),
    ]


def quotes_collate(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"lengths": [len(one) for one in inputs["ids"]]}
    mask = seen.get("mask")
    if isinstance(mask, Tensor):
        fields |= {"real": int(mask.sum()), "wanted_real": int(wanted["mask"].sum())}
    return fields


pad_collate = Exercise(
    "pad_collate",
    probe_collate,
    cases_collate,
    hints=(
        "Start from a full tensor of `pad_id` and an all-False mask, both of shape (B, T). What do you write into "
        "row i of each?",
        "Could a real token have the same id as the padding? Then from what must the mask be made, if not from the "
        "values?",
        "`nn.utils.rnn.pad_sequence` pads on the right and takes `batch_first`. Or compare `torch.arange(T)` with the "
        "lengths. What are dtype and shape when every ticket is empty?",
    ),
    any_device=False,
    quotes=quotes_collate,
)

# --- ShardedStream -----------------------------------------------------------------------------------------------


def probe_stream(
    answer: Watched, items: list[Any], world_size: int | None, workers: int, epochs: int
) -> dict[str, Any]:  # fmt: skip
    shares: list[Any] = []
    for rank in range(world_size or 1):
        stream = answer(list(items)) if world_size is None else answer(list(items), rank, world_size)
        try:
            shares.append(drain(DataLoader(stream, batch_size=None, num_workers=workers), epochs))
        except Unattempted:
            raise
        except Exception as error:
            return {"raised while it was read": Raised(type(error).__name__, str(error).strip().split("\n")[-1][:200],
                                                       "while iterating")}  # fmt: skip
    return {"shares": shares}


def derive_stream(case: Case, seen: Observations) -> Observations:
    if "shares" not in seen:
        return seen
    items, made = case.inputs["items"], dict[str, Any]()
    for epoch in range(case.inputs["epochs"]):
        came = [item for share in seen["shares"] for item in share[epoch]]
        wanted, got = Counter[Any](items), Counter[Any](came)
        name = "" if epoch == 0 else f" in epoch {epoch + 1}"
        made[f"items that came{name}"] = len(came)
        made[f"items that are missing{name}"] = (wanted - got).total()
        made[f"items too many{name}"] = (got - wanted).total()
    return made


def cases_stream(draw: Draw) -> list[Case]:
    def stream(name: str, count: int, world_size: int | None, workers: int, epochs: int = 1) -> Case:
        items = [100 + 7 * i for i in range(count)]
        return case(name, items=items, world_size=world_size, workers=workers, epochs=epochs)

    return [
        stream("no workers, one rank", 7, None, 0, epochs=2),
        stream("no workers, three ranks", draw.size(10, 11), 3, 0),
        stream("two workers, one rank", draw.size(4, 5) * 2 + 1, None, 2),
        stream("two workers on each of two ranks", 11, 2, 2),
    ]


def quotes_stream(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "count": len(inputs["items"]),
        "ranks": inputs["world_size"] or 1,
        "came": seen.get("items that came"),
        "missing": seen.get("items that are missing"),
        "extra": seen.get("items too many"),
        "error": seen.get("raised while it was read"),
    }
    return {name: value for name, value in fields.items() if value is not None}


ShardedStream = Exercise(
    "ShardedStream",
    probe_stream,
    cases_stream,
    hints=(
        "Every worker gets a copy of the whole dataset and runs your `__iter__`. Which function of `torch.utils.data` "
        "tells the code in `__iter__` which worker it is, and what does it return where there are no workers?",
        "With r ranks of w workers each there are r * w readers in all. Give each of them a number from 0 on, no two "
        "the same.",
        "Reader k of m takes items k, k + m, k + 2m and so on: `itertools.islice` does that. Which of rank and "
        "worker number has to be multiplied, and by what?",
    ),
    any_device=False,
    derive=derive_stream,
    quotes=quotes_stream,
)

# --- make_loader -------------------------------------------------------------------------------------------------


class Noting(Dataset[Any]):
    """Items that say which index was asked for, what NumPy and `random` drew for it, and in which process."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[int, float, float, int]:
        return index, np.random.rand(), random.random(), os.getpid()


def probe_loader(
    answer: Watched, count: int, batch_size: int, train: bool, seed: int, device: str, num_workers: int | None
) -> dict[str, Any]:
    def run(epochs: int, disturbance: int, seed: int) -> Any:
        disturb(disturbance)
        more = {} if num_workers is None else {"num_workers": num_workers}
        loader = answer(Noting(count), batch_size, train=train, seed=seed, device=torch.device(device), **more)
        if not isinstance(loader, DataLoader):
            return kind(loader)
        if device != "cpu":
            return loader.pin_memory
        pins = loader.pin_memory
        loader.pin_memory = False  # what it says has been seen; pinning without CUDA only warns
        return {"pins": pins, "epochs": drain(loader, epochs)}

    first = run(2 if num_workers else 1, 1, seed)
    if isinstance(first, bool):
        return {"pins": first}
    if isinstance(first, str):
        return {"returned": f"{first}, where a DataLoader is wanted"}
    again = run(1, 2, seed)
    seen: dict[str, Any] = {**first, "again": again["epochs"][0], "own process": os.getpid()}
    return seen if num_workers else {**seen, "other": run(1, 1, seed + 1)["epochs"][0]}


def _column(epoch: list[Any], place: int) -> list[Any]:
    return [value for batch in epoch for value in batch[place].flatten().tolist()]


def _by_process(epoch: list[Any], place: int) -> dict[int, list[float]]:
    drawn: dict[int, list[float]] = {}
    for pid, value in zip(_column(epoch, 3), _column(epoch, place), strict=True):
        drawn.setdefault(pid, []).append(value)
    return drawn


def derive_loader(case: Case, seen: Observations) -> Observations:
    if "epochs" not in seen:
        return seen
    inputs, epoch = case.inputs, seen["epochs"][0]
    order, again = _column(epoch, 0), _column(seen["again"], 0)
    found: dict[str, Any] = {
        "pins": seen["pins"],
        "batch sizes": [len(batch[0]) for batch in epoch],
        "indices": "each at most once" if len(set(order)) == len(order) else "some more than once",
        "order": "in turn" if order == list(range(len(order))) else "shuffled",
        "order in a second run": "the same" if order == again else "another",
    }
    if "other" in seen and inputs["train"]:
        found["order with another seed"] = "the same" if order == _column(seen["other"], 0) else "another"
    if not inputs["num_workers"]:
        return found
    pids = [set(_column(epoch, 3)) for epoch in seen["epochs"]]
    found["workers"] = len(pids[0] - {seen["own process"]})
    found["workers of epoch 2"] = "those of epoch 1" if pids[0] == pids[1] else "new ones"
    for place, whose in ((1, "NumPy"), (2, "random")):
        drawn = list(_by_process(epoch, place).values())
        different = len({value for values in drawn for value in values}) == sum(map(len, drawn))
        found[f"{whose} in each worker"] = "draws differently" if different else "draws the same numbers"
        same = sorted(_column(epoch, place)) == sorted(_column(seen["again"], place))
        found[f"{whose} in a second run"] = "draws equally" if same else "draws other numbers"
    return found


def cases_loader(draw: Draw) -> list[Case]:
    seed = draw.size(2, 99)
    common: dict[str, Any] = {"batch_size": 4, "seed": seed, "device": "cpu", "num_workers": None}
    return [
        case("training", **common, count=18, train=True),
        case("evaluation", **common, count=draw.size(17, 19), train=False),
        case("for CUDA", **{**common, "device": "cuda"}, count=8, train=True),
        case("training with two workers", **{**common, "num_workers": 2}, count=18, train=True),
        case("evaluation with two workers", **{**common, "num_workers": 2}, count=10, train=False),
    ]


def quotes_loader(_inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "pins": seen.get("pins"),
        "order": seen.get("order"),
        "rerun": seen.get("order in a second run"),
        "reseeded": seen.get("order with another seed"),
        "sizes": seen.get("batch sizes"),
        "wanted_sizes": wanted.get("batch sizes"),
        "workers": seen.get("workers"),
        "later": seen.get("workers of epoch 2"),
        "numpy": seen.get("NumPy in each worker"),
        "python": seen.get("random in each worker"),
        "numpy_rerun": seen.get("NumPy in a second run"),
        "error": seen.get("raised"),
    }
    return {name: value for name, value in fields.items() if value is not None}


make_loader = Exercise(
    "make_loader",
    probe_loader,
    cases_loader,
    hints=(
        "Which two of the loader's arguments should be just `train`? And which two depend on `device` and on "
        "`num_workers`?",
        "The order and the seeds of the workers are drawn from `generator`. What does the loader draw from if you give "
        "it none?",
        "`persistent_workers=True` is refused where there are no workers. And since the loader seeds each worker's "
        "NumPy and `random` differently by itself: what happens if a `worker_init_fn` sets one seed in all of them?",
    ),
    any_device=False,
    derive=derive_loader,
    quotes=quotes_loader,
    seconds=20.0,
)

# --- balanced_sampler --------------------------------------------------------------------------------------------


def probe_balanced(answer: Watched, labels: list[int], seed: int) -> dict[str, Any]:
    disturb(1)
    with touched() as found:
        sampler = answer(list(labels), seed)
        first = list(sampler) if isinstance(sampler, WeightedRandomSampler) else []
    if not isinstance(sampler, WeightedRandomSampler):
        return {"returned": f"{kind(sampler)}, where a WeightedRandomSampler is wanted"}
    disturb(2)
    again, other = list(answer(list(labels), seed)), list(answer(list(labels), seed + 1))
    return {
        "weights": torch.as_tensor(sampler.weights).double(),
        "draws": sampler.num_samples,
        "replacement": sampler.replacement,
        "first": torch.tensor(first), "again": torch.tensor(again), "other": torch.tensor(other),
        "global generators": found,
    }  # fmt: skip


def derive_balanced(case: Case, seen: Observations) -> Observations:
    if "weights" not in seen:
        return seen
    labels, weights = torch.tensor(case.inputs["labels"]), seen["weights"]
    each = "one for each sample" if len(weights) == len(labels) else "others"
    made: dict[str, Any] = {"weights": each, "draws": seen["draws"], "with replacement": seen["replacement"]}
    classes = sorted(set(case.inputs["labels"]))
    if len(weights) == len(labels):
        shares = torch.stack([weights[labels == label].sum() for label in classes]) / weights.sum()
        inside = [weights[labels == label] for label in classes]
        made["share of each class"] = shares.float()
        made["within a class"] = "equal" if all(torch.allclose(w, w[0].expand_as(w)) for w in inside) else "unequal"
    return {
        **made,
        "called again with the same seed": "the same draws" if torch.equal(seen["first"], seen["again"]) else "others",
        "with another seed": "other draws" if not torch.equal(seen["first"], seen["other"]) else "the same draws",
        "global generators": ", ".join(seen["global generators"]) or "untouched",
    }


def cases_balanced(draw: Draw) -> list[Case]:
    def labels(*counts: int, names: tuple[int, ...] = ()) -> list[int]:
        which = names or tuple(range(len(counts)))
        flat = torch.cat([torch.full((count,), name) for name, count in zip(which, counts, strict=True)])
        return [int(x) for x in flat[torch.randperm(len(flat), generator=draw.generator)]]

    seed = draw.size(3, 99)
    return [
        case("90 against 10", labels=labels(90, 10), seed=seed),
        case("three classes", labels=labels(60, 25, draw.size(3, 8)), seed=seed),
        case("a class number that does not occur", labels=labels(40, 10, 5, names=(0, 1, 3)), seed=seed),
        case("classes of equal size", labels=labels(20, 20), seed=seed + 1),
    ]


def quotes_balanced(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    counts = sorted(Counter[int](inputs["labels"]).items())
    fields: dict[str, object] = {
        "count": len(inputs["labels"]),
        "counts": [count for _, count in counts],
        "weights": seen.get("weights"),
        "draws": seen.get("draws"),
        "shares": seen.get("share of each class"),
        "wanted_shares": wanted.get("share of each class"),
        "replacement": seen.get("with replacement"),
        "rerun": seen.get("called again with the same seed"),
        "generators": seen.get("global generators"),
    }
    return {name: value for name, value in fields.items() if value is not None}


balanced_sampler = Exercise(
    "balanced_sampler",
    probe_balanced,
    cases_balanced,
    hints=(
        "`WeightedRandomSampler` wants one weight for each sample, not one for each class. How do you look up a "
        "class's number for all samples at once?",
        "A class of 90 samples should be drawn as often as one of 10. If all 90 have weight w, what weight must each "
        "of the 10 have?",
        "Count with `torch.bincount`, take the reciprocal, index it by the labels. Then: how many draws, with or "
        "without replacement, and from whose generator?",
    ),
    any_device=False,
    derive=derive_balanced,
    quotes=quotes_balanced,
)

# --- LengthBatchSampler ------------------------------------------------------------------------------------------


def probe_lengths(answer: Watched, lengths: list[int], batch_size: int, seed: int) -> dict[str, Any]:
    disturb(1)
    with touched() as found:
        sampler = answer(list(lengths), batch_size, seed)
        epochs = [_epoch(sampler, epoch) for epoch in (0, 1, 2, 1)]
    disturb(2)
    fresh = _epoch(answer(list(lengths), batch_size, seed), 1)
    other = _epoch(answer(list(lengths), batch_size, seed + 50), 1)
    return {"epochs": epochs, "fresh": fresh, "other": other, "global generators": found}


def _epoch(sampler: Any, epoch: int) -> list[Any]:
    sampler.set_epoch(epoch)
    batches = list(islice(sampler, 10_000))
    return [list(batch) if isinstance(batch, list | tuple) else batch for batch in batches]


def _padding(batches: list[list[int]], lengths: list[int]) -> int:
    long = [[lengths[i] for i in batch] for batch in batches if batch]
    return sum(max(each) * len(each) - sum(each) for each in long)


def derive_lengths(case: Case, seen: Observations) -> Observations:
    lengths, size = case.inputs["lengths"], case.inputs["batch_size"]
    first = seen["epochs"][0]
    bad = next((batch for batch in first if not isinstance(batch, list)), None)
    if bad is not None:
        return {"yields": f"{kind(bad)}, where a list of indices is wanted"}
    flat = [i for batch in first for i in batch]
    n, counts = len(lengths), Counter[Any](flat)
    if any(type(i) is not int or not 0 <= i < n for i in flat):
        return {"yields": "indices that are no ints from range(n)"}
    chance = torch.randperm(n, generator=torch.Generator().manual_seed(0)).tolist()
    random_batches = [chance[i : i + size] for i in range(0, n, size)]
    wasted, usual = _padding(first, lengths), _padding(random_batches, lengths)
    orders = [[frozenset(batch) for batch in epoch] for epoch in seen["epochs"]]
    return {
        "indices that are missing": n - len(counts),
        "indices that come twice": sum(count > 1 for count in counts.values()),
        "largest batch": max((len(batch) for batch in first), default=0) <= size,
        "padding": "little" if wasted <= 0.6 * usual else f"{wasted}, where random batches have {usual}",
        "order in epoch 1": "a new one" if orders[1] != orders[0] else "that of epoch 0",
        "order in epoch 2": "a new one" if orders[2] != orders[1] else "that of epoch 1",
        "epoch 1 a second time": "the same" if seen["epochs"][1] == seen["epochs"][3] else "another",
        "epoch 1 of a fresh sampler": "the same" if seen["epochs"][1] == seen["fresh"] else "another",
        "epoch 1 with another seed": "another" if seen["epochs"][1] != seen["other"] else "the same",
        "global generators": ", ".join(seen["global generators"]) or "untouched",
    }


def cases_lengths(draw: Draw) -> list[Case]:
    def lengths(count: int) -> list[int]:
        return [draw.size(1, 60) for _ in range(count)]

    seed = draw.size(3, 40)
    return [
        case("41 tickets in batches of 4", lengths=lengths(41), batch_size=4, seed=seed),
        case("48 tickets in batches of 8", lengths=lengths(48), batch_size=8, seed=seed),
        case("long and short in turn", lengths=[3 + 40 * (i % 2) for i in range(30)], batch_size=5, seed=seed + 1),
    ]


def quotes_lengths(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "count": len(inputs["lengths"]),
        "missing": seen.get("indices that are missing"),
        "order": seen.get("order in epoch 1"),
        "padding": seen.get("padding"),
        "generators": seen.get("global generators"),
        "rerun": seen.get("epoch 1 a second time"),
        "fresh": seen.get("epoch 1 of a fresh sampler"),
        "reseeded": seen.get("epoch 1 with another seed"),
        "yields": seen.get("yields"),
    }
    return {name: value for name, value in fields.items() if value is not None}


LengthBatchSampler = Exercise(
    "LengthBatchSampler",
    probe_lengths,
    cases_lengths,
    hints=(
        "If you sort all indices by length and cut the list into batches, like stands beside like. What must you then "
        "shuffle, so that training does not go from short to long: indices or batches?",
        "The order has to depend on seed and epoch and on nothing else. When would you make the generator, once in "
        "`__init__` or anew in `__iter__`?",
        "Sorting is stable: if you shuffle the indices before you sort, equal lengths come in a new order each epoch. "
        "And is the last, smaller batch still there?",
    ),
    any_device=False,
    derive=derive_lengths,
    quotes=quotes_lengths,
)

# --- channel_stats -----------------------------------------------------------------------------------------------


class Batches:
    """Batches that can be gone through as often as one likes, as a DataLoader's can."""

    def __init__(self, images: list[Tensor]) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for x in self.images:
            yield x, torch.zeros(len(x), dtype=torch.int64)


def probe_stats(answer: Watched, images: list[Tensor]) -> dict[str, Any]:
    before = [x.clone() for x in images]
    returned = answer(Batches(images))
    if not (isinstance(returned, tuple | list) and len(returned) == 2):
        return {"returned": f"{kind(returned)}, where a pair of mean and std is wanted"}
    mean, std = (r if isinstance(r, Tensor) else f"{kind(r)}, where a tensor is wanted" for r in returned)
    same = all(torch.equal(a, b) for a, b in zip(before, images, strict=True))
    return {"mean": mean, "std": std, "batches afterwards": "as before" if same else "changed"}


def cases_stats(draw: Draw) -> list[Case]:
    height, width = draw.size(3, 4), draw.size(5, 6)

    def images(*sizes: int, mean: float = 0.0, channels: int = 3) -> list[Tensor]:
        scale = torch.arange(1.0, channels + 1)[:, None, None]
        return [mean + scale * draw.normal(size, channels, height, width) + scale for size in sizes]

    drifting = [x + 3.0 * i for i, x in enumerate(images(4, 4, 4))]
    return [
        case("batches of one size", images=images(4, 4, 4)),
        case("a small last batch", images=[*images(6, 6), 5 + images(1)[0]]),
        case("batches that differ in mean", images=drifting),
        case("one channel", images=images(3, 2, channels=1)),
        case("few pixels", images=[draw.normal(2, 2, 1, 1), draw.normal(1, 2, 1, 1)]),
        case("a mean of 10000", rtol=1e-6, atol=5e-3, images=images(8, 8, 5, mean=1e4)),
    ]


def quotes_stats(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"sizes": [len(x) for x in inputs["images"]]}
    for name in ("mean", "std"):
        fields |= {name: seen.get(name), f"wanted_{name}": wanted.get(name)}
    return fields


channel_stats = Exercise(
    "channel_stats",
    probe_stats,
    cases_stats,
    hints=(
        "The mean of all pixels is the sum of all pixels divided by their number. What do you have to add up from "
        "batch to batch, so that a small last batch counts for less?",
        "The standard deviation of everything is no average of the batches' standard deviations: batches may differ in "
        "mean. Which sums give the variance?",
        "E[x²] - E[x]² subtracts two nearly equal numbers when the mean is large. How many digits has float32 to "
        "spare for that, how many has float64? Going through the loader a second time is allowed as well.",
    ),
    any_device=False,
    quotes=quotes_stats,
)

# --- MemmapDataset -----------------------------------------------------------------------------------------------


def probe_memmap(answer: Watched, array: Tensor, workers: int) -> dict[str, Any]:
    values = array.numpy()
    with scratch():
        path, later = Path("data.bin"), Path("later.bin")
        np.zeros_like(values).tofile(path)  # another file of this name and size: whoever opens it now reads zeros
        dataset = answer(path, tuple(values.shape), values.dtype)
        values.tofile(later)
        path.rename("earlier.bin")
        later.rename(path)
        if workers:
            items = drain(DataLoader(dataset, batch_size=None, num_workers=workers))[0]
            return {"length": len(dataset), "items read by workers": [_own(item) for item in items]}
        return {"pickled before use": _size(dataset), **_used(dataset, path, values)}


def _own(item: object) -> Any:
    return item.clone() if isinstance(item, Tensor) else f"{kind(item)}, where a tensor is wanted"


def _size(dataset: object) -> Any:
    try:
        return "under 10 kB" if len(pickled(dataset)[0]) < 10_000 else "more than 10 kB"
    except Exception as error:
        return Raised(type(error).__name__, str(error)[:200], "while pickling")


def _used(dataset: Any, path: Path, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    item = dataset[1]
    seen: dict[str, Any] = {"length": len(dataset), "item 1": _own(item), "pickled after use": _size(dataset)}
    if not isinstance(item, Tensor):
        return seen
    try:
        copy_of_it = unpickled(*pickled(dataset))
        seen["item 2 of an unpickled copy"] = _own(copy_of_it[2])
    except Exception as error:
        seen["item 2 of an unpickled copy"] = raised(error)
    kept = item.clone()
    for each in (path, Path("earlier.bin")):  # other numbers in both files: an item that looks into one shows them
        with each.open("r+b") as file:
            file.write((values + 1).tobytes())
    shares = not torch.equal(item, kept)
    seen["item 1 after the file changed"] = "follows the file" if shares else "as it was"
    seen["item 3, read after the file changed"] = _own(dataset[3])
    if not shares:
        item = dataset[1]
        item += 100  # a read-only map would end the process here; it has shown itself above
        seen["item 1, read again after item += 100"] = _own(dataset[1])
    seen["file"] = "as it was" if path.read_bytes() == (values + 1).tobytes() else "changed"
    return seen


def cases_memmap(draw: Draw) -> list[Case]:
    def memmap(name: str, array: Tensor, workers: int = 0) -> Case:
        return case(name, array=array, workers=workers)

    rows = draw.size(40, 50)
    return [
        memmap("float32", draw.normal(rows, 4, 20)),
        memmap("bytes", draw.integers(0, 200, 200, 8, 9, dtype=torch.uint8)),
        memmap("float64", draw.normal(rows, 50, dtype=torch.float64)),
        memmap("two workers", draw.normal(9, 3), workers=2),
    ]


def quotes_memmap(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "bytes": inputs["array"].nbytes,
        "pickled": next((seen[n] for n in ("pickled before use", "pickled after use") if seen.get(n) != wanted.get(n)),
                        "under 10 kB"),
        "follows": seen.get("item 1 after the file changed"),
        "file": seen.get("file"),
    }  # fmt: skip
    item = seen.get("item 1")
    if isinstance(item, Tensor):
        fields |= {"dtype": item.dtype}
    return {name: value for name, value in fields.items() if value is not None}


MemmapDataset = Exercise(
    "MemmapDataset",
    probe_memmap,
    cases_memmap,
    hints=(
        "`np.memmap(path, dtype=…, mode=\"r\", shape=…)` opens a file as an array without reading it. Where would you "
        "call it, so that constructing the dataset touches no file?",
        "A memmap that is an attribute is pickled with all its numbers. What can `__getstate__` leave out, so that the "
        "copy opens the file for itself?",
        "`torch.from_numpy(memmap[i])` looks straight into the file, and `.float()` copies only where there is "
        "something to convert. Which call always copies?",
    ),
    any_device=False,
    quotes=quotes_memmap,
    seconds=20.0,
)

# --- image_transforms --------------------------------------------------------------------------------------------


def probe_transforms(
    answer: Watched, train: bool, mean: list[float], std: list[float], size: int, shape: list[int], level: int,
    draws: int,
) -> dict[str, Any]:  # fmt: skip
    transform = answer(train, list(mean), list(std), size)
    flat = torch.full((len(mean), *shape), level, dtype=torch.uint8)
    plain = transform(flat.clone())
    if not isinstance(plain, Tensor):
        return {"returned": f"{kind(plain)}, where a tensor is wanted"}
    seen: dict[str, Any] = {"shape": list(plain.shape), "dtype": plain.dtype}
    seen["middle of a grey image"] = plain.flatten(1).median(dim=1).values if plain.dim() == 3 else "no image"
    seen["image afterwards"] = "as before" if bool((flat == level).all()) else "changed"
    if draws and plain.dim() == 3:
        seen["views"] = torch.stack([transform(_ramps(len(mean), *shape)).float() for _ in range(draws)])
    return seen


def _ramps(channels: int, height: int, width: int) -> Tensor:
    """Each pixel's brightness says where it is: in the first channel which column, in the others which row."""
    across = torch.linspace(10, 240, width).expand(height, width)
    down = torch.linspace(10, 240, height)[:, None].expand(height, width)
    return torch.stack([across, *[down] * (channels - 1)]).to(torch.uint8)


def derive_transforms(_case: Case, seen: Observations) -> Observations:
    if "views" not in seen:
        return seen
    views = seen["views"]
    rest = {name: value for name, value in seen.items() if name != "views"}
    half = views.shape[-1] // 2
    across = (views[:, 0, :, half:].mean((1, 2)) - views[:, 0, :, :half].mean((1, 2))).sign()
    down = (views[:, 1, half:].mean((1, 2)) - views[:, 1, :half].mean((1, 2))).sign()
    mirrored = bool((across != across[0]).any() or (down != down[0]).any())
    centre = views[:, :, half - 1 : half + 1, half - 1 : half + 1].mean((2, 3))
    moved = bool((centre[:, 1].std() > 1e-3) or (centre[:, 0].abs().std() > 1e-3 and not mirrored))
    same = bool((views == views[0]).all())
    return {
        **rest,
        "flipped": "in some draws" if mirrored else "never" if across[0] > 0 else "always",
        "cropped": "elsewhere in each draw" if moved else "always alike",
        "draws": "all the same" if same else "different",
    }


def cases_transforms(draw: Draw) -> list[Case]:
    mean, std = [0.2, 0.5, 0.4], [0.25, 0.5, 0.2]
    common: dict[str, Any] = {"mean": mean, "std": std, "size": 16, "rtol": 1e-3, "atol": 2e-3}
    level = draw.size(90, 220)
    return [
        case("training, a square image", **common, train=True, shape=[40, 40], level=level, draws=40),
        case("evaluation, a square image", **common, train=False, shape=[40, 40], level=level, draws=6),
        case("training, a wide image", **common, train=True, shape=[24, 48], level=255, draws=40),
        case("evaluation, a tall image", **common, train=False, shape=[48, 30], level=255, draws=6),
        case("evaluation, size as it is", **common, train=False, shape=[16, 16], level=level, draws=3),
    ]


def quotes_transforms(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    middle, right = seen.get("middle of a grey image"), wanted.get("middle of a grey image")
    fields: dict[str, object] = {
        "shape_got": seen.get("shape"),
        "shape_wanted": wanted.get("shape"),
        "flipped": seen.get("flipped"),
        "cropped": seen.get("cropped"),
        "draws": seen.get("draws"),
    }
    if isinstance(middle, Tensor) and isinstance(right, Tensor):
        fields |= {"middle": middle[0].item(), "wanted_middle": right[0].item()}
    fields["kind_got"], fields["kind_wanted"] = seen.get("dtype"), wanted.get("dtype")
    named = {name: value for name, value in fields.items() if value is not None}
    return {**named, "level": inputs["level"]}


image_transforms = Exercise(
    "image_transforms",
    probe_transforms,
    cases_transforms,
    hints=(
        "Two lists of transforms, put together by `v2.Compose`. Which steps should both lists end with, so that a "
        "picture of one grey comes out alike in training and in evaluation?",
        "`v2.ToDtype(torch.float32)` alone keeps 255 as 255. Which argument brings the bytes to 0..1?",
        "`v2.Resize(size)` with one int sets the shorter side and keeps the proportions. What follows it, or what "
        "else do you pass, so that the result is square?",
    ),
    any_device=False,
    derive=derive_transforms,
    quotes=quotes_transforms,
    seconds=30.0,
    imports=("torchvision.transforms.v2",),
)

# --- ResumableSampler --------------------------------------------------------------------------------------------


def probe_resumable(
    answer: Watched, n: int, seed: int, epoch: int, stops: list[int], set_again: bool
) -> dict[str, Any]:  # fmt: skip
    def begun(disturbance: int, seed: int = seed) -> Any:
        disturb(disturbance)
        return answer(n, seed)

    def whole(sampler: Any, epoch: int) -> list[Any]:
        sampler.set_epoch(epoch)
        return list(islice(sampler, 10 * n))

    orders = [whole(begun(1), e) for e in (epoch, epoch + 1)]
    other = whole(begun(1, seed + 100), epoch)
    sampler, pieces = begun(2), list[Any]()
    if epoch:
        sampler.set_epoch(epoch)
    for number, stop in enumerate(stops):
        iterator = iter(sampler)
        pieces.append(list(islice(iterator, stop)))
        state = sampler.state_dict()
        list(islice(iterator, 2))  # the old one goes on a little; what was saved stays as it was
        sampler = begun(3 + number)
        sampler.load_state_dict(copy.deepcopy(state))
        if set_again:
            sampler.set_epoch(epoch)
    pieces.append(list(islice(sampler, 10 * n)))
    seen = {"orders": orders, "other": other, "pieces": pieces, "next epoch": whole(sampler, epoch + 1)}
    left = begun(1)
    left.set_epoch(epoch)
    list(islice(left, 3))
    return {**seen, "next epoch, this one not finished": whole(left, epoch + 1)}


def derive_resumable(case: Case, seen: Observations) -> Observations:
    n, (order, following) = case.inputs["n"], seen["orders"]
    joined = [index for piece in seen["pieces"] for index in piece]
    whole = sorted(order) == list(range(n)) if all(type(i) is int for i in order) else False
    return {
        "one epoch": "each index once" if whole else "not each index once",
        "order": "in turn" if order == list(range(n)) else "shuffled",
        "order of the next epoch": "that of this epoch" if following == order else "a new one",
        "order with another seed": "the same" if seen["other"] == order else "another",
        "stopped and resumed": "as if never stopped" if joined == order else _broken(joined, order, case.inputs),
        "next epoch after resuming": "as if never stopped" if seen["next epoch"] == following else "another",
        "next epoch, this one not finished": "whole" if seen["next epoch, this one not finished"] == following
        else "not whole",
    }


def _broken(joined: list[Any], order: list[Any], inputs: Observations) -> str:
    counts = Counter(joined)
    twice, missing = sum(count > 1 for count in counts.values()), sum(index not in counts for index in order)
    if not twice and not missing:
        return "each index once, in another order"
    return f"{twice} of {inputs['n']} indices twice, {missing} never"


def cases_resumable(draw: Draw) -> list[Case]:
    seed = draw.size(3, 40)
    common: dict[str, Any] = {"seed": seed}
    return [
        case("stopped once", **common, n=20, epoch=0, stops=[7], set_again=False),
        case("stopped once, the epoch set again", **common, n=20, epoch=0, stops=[draw.size(5, 9)], set_again=True),
        case("stopped in epoch 3", **common, n=23, epoch=3, stops=[9], set_again=False),
        case("stopped in epoch 3, the epoch set again", **common, n=23, epoch=3, stops=[9], set_again=True),
        case("stopped three times", **common, n=30, epoch=1, stops=[4, 6, 5], set_again=True),
        case("stopped before the first", **common, n=12, epoch=2, stops=[0], set_again=False),
    ]


def quotes_resumable(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {
        "n": inputs["n"],
        "stops": inputs["stops"],
        "joined": seen.get("stopped and resumed"),
        "following": seen.get("order of the next epoch"),
        "order": seen.get("order"),
    }


ResumableSampler = Exercise(
    "ResumableSampler",
    probe_resumable,
    cases_resumable,
    hints=(
        "The order is a function of n, seed and epoch: it can be made again at any time, so it need not be saved. "
        "Which two numbers are left to be saved?",
        "In a generator, the line after `yield` runs only when the next index is asked for. Where then do you count, "
        "so that the state says k after k indices were handed out?",
        "`set_epoch` is called at the start of every epoch, also of the one that was just resumed. When may it set the "
        "position to 0, and when not?",
    ),
    any_device=False,
    derive=derive_resumable,
    quotes=quotes_resumable,
)

EXERCISES: tuple[Exercise, ...] = (
    TicketDataset,
    split_indices,
    pad_collate,
    balanced_sampler,
    LengthBatchSampler,
    ResumableSampler,
    make_loader,
    ShardedStream,
    channel_stats,
    MemmapDataset,
    image_transforms,
)
