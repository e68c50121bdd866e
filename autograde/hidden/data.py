"""Lesson 04: hidden cases and known mistakes."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, WeightedRandomSampler, get_worker_info

from autograde.hidden.common import apart, variants
from autograde.mistakes import Mistake, slips
from torchcourse.exercise import Case, Draw, case
from torchcourse.exercises.data import LABELS, VOCAB

# --- TicketDataset -----------------------------------------------------------------------------------------------

TICKETS = "A dataset with a length"


class Tickets(Dataset[Any]):
    def __init__(
        self, path: Path, vocab: dict[str, int], *, split: str = "csv", words: str = "lower", unknown: str = "<unk>",
        classes: str = "sorted", label: str = "index", ids: str = "int64", number: str = "line", header: str = "skip",
        blank: str = "skip", bad: str = "raise", empty: str = "keep", label_check: bool = True,
        encoding: str = "utf-8",
    ) -> None:  # fmt: skip
        self.vocab, self.words, self.unknown, self.label, self.ids = dict(vocab), words, unknown, label, ids
        self.tickets: list[list[str]] = []
        self.late = ""
        with path.open(newline="", encoding=encoding) as file:
            for place, (line, row) in enumerate(self._rows(file, split), 1):
                if place == 1 and header == "skip":
                    continue
                said = {"line": line, "row": place, "data row": place - 1, "data line": line - 1}.get(number)
                if not row or row == [""]:
                    if blank == "skip":
                        continue
                    raise ValueError(f"line {said} is blank")
                if len(row) != 2 or (label_check and not row[1]) or (empty == "refuse" and not row[0]):
                    if bad == "raise":
                        raise ValueError(f"line {said} is bad" if said else "a row is bad")
                    if bad == "drop":
                        continue
                    self.late = f"line {said} is bad"
                    if bad == "take" and len(row) < 2:
                        row = [*row, ""]
                if empty == "drop" and not row[0]:
                    continue
                self.tickets.append(row)
        names = list(dict.fromkeys(row[1] for row in self.tickets if len(row) > 1))
        self.classes = names if classes == "seen" else sorted(names)

    def _rows(self, file: Any, split: str) -> Iterator[tuple[int, list[str]]]:
        if split == "csv":
            reader = csv.reader(file)
            for row in reader:
                yield reader.line_num, row
            return
        for number, line in enumerate(file, 1):
            text = line.rstrip("\r\n")
            cuts: dict[str, Callable[[str], list[str]]] = {
                "commas": lambda text: text.split(","),
                "last": lambda text: text.rsplit(",", 1),
                "two": lambda text: ([*text.split(","), ""])[:2] if text else [],
            }
            yield number, cuts[split](text)

    def __len__(self) -> int:
        return len(self.tickets)

    def __getitem__(self, index: int) -> Any:
        if self.late and not self.tickets[index][1:]:
            raise ValueError(self.late)
        text, label = self.tickets[index][:2]
        text = text if self.words == "as is" else text.lower()
        tokens = text.split(" ") if self.words == "single" else list(text) if self.words == "letters" else text.split()
        numbers = list(map(self._id, tokens)) if self.unknown != "drop" else [
            self.vocab[t] for t in tokens if t in self.vocab
        ]  # fmt: skip
        makers: dict[str, Callable[[], Any]] = {
            "int64": lambda: torch.tensor(numbers, dtype=torch.int64),
            "guess": lambda: torch.tensor(numbers),
            "int32": lambda: torch.tensor(numbers, dtype=torch.int32),
            "list": lambda: numbers,
        }
        place = self.classes.index(label)
        labels: dict[str, Any] = {"index": place, "text": label, "tensor": torch.tensor(place), "one": place + 1}
        return makers[self.ids](), labels[self.label]

    def _id(self, token: str) -> int:
        if self.unknown == "crash":
            return self.vocab[token]
        if self.unknown == "new":
            return self.vocab.setdefault(token, len(self.vocab))
        return self.vocab.get(token, {"<unk>": self.vocab["<unk>"], "zero": 0, "minus": -1}[self.unknown])


COMMAS = (
    "In the case \"{case}\" the outcome was {got}: a field in quotes may hold commas and line breaks, so the file "
    "cannot be cut at commas or read line by line."
)
UNKNOWN = "In the case \"{case}\" the item is {item} and should be {wanted_item}: "
LINES = "The message of the ValueError says \"{message}\", and the bad row stands in line {line}: "
TICKET_MISTAKES = [
    *variants("splits-on-commas", Tickets, COMMAS, TICKETS, {"split": "commas"}, {"split": "last"}, {"split": "two"}),
    Mistake("crashes-on-unknown-word", Tickets, "In the case \"{case}\" the item could not be made, the dataset raised "
            "{got}: words that are not in the vocabulary become vocab[\"<unk>\"].", TICKETS, {"unknown": "crash"}),
    Mistake("counts-header", Tickets, "In the case \"{case}\" the dataset has {length} tickets where {wanted_length} "
            "are wanted: the header was counted as one of them.", TICKETS, {"header": "keep"}),
    *slips(
        Tickets, TICKETS,
        drops_unknown_words=({"unknown": "drop"}, UNKNOWN + "an unknown word becomes vocab[\"<unk>\"], it is not left "
                             "out."),
        words_not_lowered=({"words": "as is"}, UNKNOWN + "the words of the vocabulary are lower case, those of the "
                           "ticket were not made so."),
        classes_not_sorted=({"classes": "seen"}, "In the case \"{case}\" the classes are {classes} where "
                            "{wanted_classes} are wanted: their order must not depend on which ticket comes first."),
        label_left_as_text=({"label": "text"}, UNKNOWN + "the label is the place of its name among the classes."),
        empty_text_becomes_float=({"ids": "guess"}, "In the case \"{case}\" the ids are {ids_dtype} where "
                                  "{wanted_ids_dtype} is wanted: `torch.tensor` of an empty list is float32 "
                                  "unless a dtype is given."),
    ),
    *apart(slips(
        Tickets, TICKETS,
        assumes_unk_is_zero=({"unknown": "zero"}, UNKNOWN + "the vocabulary itself says which id `<unk>` has."),
        vocabulary_grows=({"unknown": "new"}, UNKNOWN + "an unknown word got an id of its own, which no embedding has "
                          "a row for."),
        splits_on_single_spaces=({"words": "single"}, UNKNOWN + "`split(\" \")` makes empty words of several "
                                 "spaces and leaves tabs and line breaks in, `split()` takes any white space."),
        letters_not_words=({"words": "letters"}, UNKNOWN + "each letter was looked up, and not each word."),
        ids_in_int32=({"ids": "int32"}, "In the case \"{case}\" the ids are {ids_dtype} where {wanted_ids_dtype} is "
                      "wanted."),
        ids_are_a_list=({"ids": "list"}, "In the case \"{case}\" the first items are {got}: ids have to be an int64 "
                        "tensor."),
        label_is_a_tensor=({"label": "tensor"}, "In the case \"{case}\" the items are {got}: the label has to be a "
                           "plain int."),
        labels_from_one=({"label": "one"}, UNKNOWN + "classes are numbered from 0."),
        bad_rows_skipped=({"bad": "drop"}, "In the case \"{case}\" the outcome was {got}: the row in line {line} was "
                          "left out without a word, where a ValueError is wanted."),
        bad_rows_found_too_late=({"bad": "later"}, "In the case \"{case}\" constructing gave {got}: the bad row in "
                                 "line {line} has to be found there, and not in the middle of training."),
        empty_label_accepted=({"label_check": False}, "In the case \"{case}\" the outcome was {got}: line {line} "
                              "has an empty label, and was taken."),
        empty_text_refused=({"empty": "refuse"}, "In the case \"{case}\" the dataset raised {got}: a text may be "
                            "empty, a label may not."),
        empty_text_dropped=({"empty": "drop"}, "In the case \"{case}\" the dataset has {length} tickets where "
                            "{wanted_length} are wanted: a text may be empty."),
        blank_lines_refused=({"blank": "refuse"}, "In the case \"{case}\" the dataset raised {got}: blank lines are "
                             "no rows and are skipped."),
        counts_rows_not_lines=({"number": "row"}, LINES + "a row may take several lines, and blank lines count too."),
        line_not_named=({"number": "none"}, LINES + "say which, or nobody finds it in a file of thousands."),
        wrong_encoding=({"encoding": "latin-1"}, UNKNOWN + "the file is UTF-8, and letters beyond ASCII came out as "
                        "others."),
    )),
    *variants("counts-rows-not-lines", Tickets, LINES + "a row may take several lines, and the header is line 1.",
              TICKETS, {"number": "data row"}, {"number": "data line"}),
]  # fmt: skip


def more_tickets(draw: Draw) -> list[Case]:
    def lines(name: str, *rows: str, bad_line: int = 0, end: str = "\n") -> Case:
        return case(name, text=end.join(["text,label", *rows, ""]), vocab=dict(VOCAB), bad_line=bad_line)

    def row() -> str:
        return f"{' '.join(draw.pick(list(VOCAB)[2:9]) for _ in range(4))},{draw.pick(LABELS)}"

    return [
        lines("header only"),
        lines("a quote inside quotes", '"My ""card"" \n\n charged, twice",billing', row(), row()),
        lines("line ends of Windows", row(), "", '"a\r\nscreen",technical', row(), end="\r\n"),
        lines("only unknown words", "Привет мир,account", "日本語 テスト,technical"),
        lines("many tickets", *(row() for _ in range(60))),
        lines("bad in the last line", *(row() for _ in range(11)), "", "", "a,b,c,d", bad_line=15),
        lines("no label after quotes", *(row() for _ in range(5)), '"the\napp\ncrashes",account', '"a, b",',
              bad_line=10),
    ]  # fmt: skip


# --- split_indices -----------------------------------------------------------------------------------------------

SPLITS = "Splits without leakage"


def split(
    n: int, fractions: list[float], seed: int, *, shuffle: str = "own", cut: str = "running", check: str = "near",
    parts: str = "list",
) -> Any:  # fmt: skip
    total = sum(fractions)
    if (check == "exact" and total != 1) or (check == "near" and abs(total - 1) > 1e-6):
        raise ValueError(f"fractions sum to {total:.6g}, not to 1")
    if check == "mute" and abs(total - 1) > 1e-6:
        raise ValueError("bad input")
    order = _shuffled(n, seed, shuffle)
    ends = [round(n * sum(fractions[: i + 1])) for i in range(len(fractions))]
    starts = [0, *ends]
    if cut == "floor":
        sizes = [int(n * f) for f in fractions]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    elif cut == "running floor":
        ends = [int(n * sum(fractions[: i + 1])) for i in range(len(fractions))]
        starts = [0, *ends]
    elif cut == "gap":
        starts = [0, *(end + 1 for end in ends)]
    elif cut == "overlap":
        starts = [0, *(max(end - 1, 0) for end in ends)]
    made = [order[start:end] for start, end in zip(starts, ends, strict=False)]
    if cut == "draws":
        made = [_shuffled(n, seed + i, "own")[: end - start] for i, (start, end) in
                enumerate(zip(starts, ends, strict=False))]  # fmt: skip
    return [torch.tensor(part) for part in made] if parts == "tensor" else made


def _shuffled(n: int, seed: int, how: str) -> list[int]:
    order = list(range(n))
    if how == "own":
        random.Random(seed).shuffle(order)
    elif how == "torch":
        torch.manual_seed(seed)
        order = torch.randperm(n).tolist()
    elif how == "python":
        random.seed(seed)
        random.shuffle(order)
    elif how == "numpy":
        np.random.seed(seed)
        order = np.random.permutation(n).tolist()
    elif how == "unseeded":
        random.shuffle(order)
    elif how == "one seed":
        random.Random(42).shuffle(order)
    return order


RESEEDED = (
    "In the case \"{case}\" the call moved the global generators: {generators}. Whoever draws afterwards draws "
    "other numbers than without the call; use a generator of its own."
)
SPLIT = [
    Mistake("unshuffled", split, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the parts are "
            "stretches of the file, which is often sorted by date or by class.", SPLITS, {"shuffle": "no"}),
    *slips(
        split, SPLITS,
        reseeds_global_rng=({"shuffle": "torch"}, RESEEDED),
        loses_samples=({"cut": "floor"}, "In the case \"{case}\" {missing} of the {n} indices are in no part: each "
                       "size was rounded down, and what was left over is lost."),
        accepts_any_fractions=({"check": "no"}, "In the case \"{case}\" the call gave {got}: fractions that do not sum "
                               "to 1 have to be refused."),
        compares_floats_exactly=({"check": "exact"}, "In the case \"{case}\" the call raised {got}: 0.7 + 0.2 + 0.1 is "
                                 "not exactly 1 in floating point, so compare with a tolerance."),
    ),
    *variants("reseeds-global-rng", split, RESEEDED, SPLITS, {"shuffle": "python"}, {"shuffle": "numpy"}),
    *variants("loses-samples", split, "In the case \"{case}\" {missing} of the {n} indices are in no part: each part "
              "has to begin where the one before ended.", SPLITS, {"cut": "gap"}),
    *variants("loses-samples", split, "In the case \"{case}\" {missing} of the {n} indices are in no part: the "
              "fractions add up to a little less than 1 in floating point, and the last cut was rounded down.", SPLITS,
              {"cut": "running floor"}),
    *apart(slips(
        split, SPLITS,
        parts_overlap=({"cut": "overlap"}, "In the case \"{case}\" {twice} indices are in two parts: what is trained "
                       "on and tested on says nothing."),
        seed_ignored=({"shuffle": "unseeded"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: "
                      "the split has to depend on `seed` and on nothing else."),
        same_split_for_every_seed=({"shuffle": "one seed"}, "In the case \"{case}\" `{what}` gave {got} where {want} "
                                   "are wanted: `seed` has to be used."),
        returns_tensors=({"parts": "tensor"}, "The call returned {got}; lists of plain ints are asked for."),
        says_not_what_is_wrong=({"check": "mute"}, "In the case \"{case}\" the call raised {got}: the message should "
                                "name `fractions` and say what they are or what they sum to."),
    )),
    *variants("parts-overlap", split, "In the case \"{case}\" {twice} indices are in several parts and {missing} in "
              "none: each part was drawn for itself.", SPLITS, {"cut": "draws"}),
]  # fmt: skip


def more_split(draw: Draw) -> list[Case]:
    n = draw.size(200, 400)
    return [
        case("seven parts", n=n, fractions=[0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1], seed=draw.size(100, 10_000)),
        case("thirds", n=n, fractions=[1 / 3] * 3, seed=1),
        case("nothing to split", n=0, fractions=[0.5, 0.5], seed=2),
        case("a large seed", n=50, fractions=[0.9, 0.1], seed=2**31 - 5),
        case("fractions that sum to 0.5", n=n, fractions=[0.25, 0.25], seed=3),
    ]


# --- pad_collate -------------------------------------------------------------------------------------------------

PADDING = "Padding and masks"


def collate(
    batch: list[tuple[Tensor, int]], pad_id: int = 0, *, mask: str = "lengths", side: str = "right",
    fill: str = "given", labels: str = "int64", width: str = "longest", order: str = "kept", ids: str = "int64",
    shape: str = "batch first",
) -> Any:  # fmt: skip
    if order == "sorted":
        batch = sorted(batch, key=lambda item: -len(item[0]))
    lengths = [len(one) for one, _ in batch]
    longest = {"longest": max(lengths), "shortest": min(lengths), "fixed": max(8, *lengths)}[width]
    number = {"given": pad_id, "zero": 0, "minus": -1}[fill]
    padded = torch.full((len(batch), longest), number, dtype=torch.int64)
    real = torch.zeros(len(batch), longest, dtype=torch.bool)
    for i, (one, _) in enumerate(batch):
        place = slice(0, len(one)) if side == "right" else slice(longest - len(one), longest)
        padded[i, place] = one[:longest]
        real[i, place] = True
    masks = {"lengths": real, "inverted": ~real, "values": padded != pad_id, "ints": real.long(),
             "floats": real.float(), "values against 0": padded != 0}  # fmt: skip
    kinds = {"int64": torch.int64, "float32": torch.float32, "int32": torch.int32}
    made = {
        "ids": padded.to(kinds[ids]),
        "mask": masks[mask],
        "labels": torch.tensor([label for _, label in batch], dtype=kinds.get(labels, torch.int64)),
    }
    if labels == "list":
        return {**made, "labels": [label for _, label in batch]}
    return {name: value.mT if value.dim() == 2 and shape == "time first" else value for name, value in made.items()}


def by_stack(batch: list[tuple[Tensor, int]], pad_id: int = 0) -> Any:
    ids = torch.stack([one for one, _ in batch])
    return {"ids": ids, "mask": torch.ones_like(ids, dtype=torch.bool), "labels": torch.tensor([y for _, y in batch])}


REAL = "In the case \"{case}\" the lengths are {lengths}, and the mask says that {real} tokens are real: "
COLLATE = [
    *slips(
        collate, PADDING,
        mask_inverted=({"mask": "inverted"}, REAL + "here True means real, as in lesson 1, and it marks the padding."),
        mask_from_values=({"mask": "values"}, REAL + "a real token may have the id of the padding, so the mask has to "
                          "come from the lengths."),
        pads_left=({"side": "left"}, "In the case \"{case}\" the value of `{what}` at {at} is {got_at} where {want_at} "
                   "is wanted: the padding stands before the tokens and belongs after them."),
        pad_id_ignored=({"fill": "zero"}, "In the case \"{case}\" the value of `{what}` at {at} is {got_at} where "
                        "{want_at} is wanted: the padding is `pad_id`, whatever that is."),
        labels_as_floats=({"labels": "float32"}, "The labels are {got_dtype} where {want_dtype} is wanted: "
                          "cross entropy takes class numbers as integers."),
    ),
    *apart(slips(
        collate, PADDING,
        mask_of_ints=({"mask": "ints"}, "The mask is {got_dtype} where {want_dtype} is wanted: an integer tensor used "
                      "as an index picks rows 0 and 1."),
        mask_of_floats=({"mask": "floats"}, "The mask is {got_dtype} where {want_dtype} is wanted."),
        ids_in_int32=({"ids": "int32"}, "The ids are {got_dtype} where {want_dtype} is wanted."),
        labels_are_a_list=({"labels": "list"}, "`{what}` is {got} where {want} is wanted: labels have to be an int64 "
                           "tensor."),
        cut_to_the_shortest=({"width": "shortest"}, "In the case \"{case}\" `{what}` has shape {got_shape} where "
                             "{want_shape} is wanted: the longest ticket sets the width, and no token is lost."),
        padded_to_a_fixed_width=({"width": "fixed"}, "In the case \"{case}\" `{what}` has shape {got_shape} where "
                                 "{want_shape} is wanted: the longest of this batch sets the width."),
        order_changed=({"order": "sorted"}, "In the case \"{case}\" `{what}` differs from what is wanted, {got} "
                       "against {want}: the tickets were sorted by length, and have to stay in the batch's order."),
        time_first=({"shape": "time first"}, "In the case \"{case}\" `{what}` has shape {got_shape} where {want_shape} "
                    "is wanted: the batch is the first axis."),
    )),
    *variants("mask-from-values", collate, REAL + "it asks whether an id is 0, and the lengths were not asked.",
              PADDING, {"mask": "values against 0"}),
    Mistake("stacks-without-padding", by_stack, "In the case \"{case}\", with tickets of the lengths {lengths}, the "
            "call raised {got}: a tensor is a block, so the short ones have to be filled up first.", PADDING),
]  # fmt: skip


def more_collate(draw: Draw) -> list[Case]:
    lengths = [draw.size(0, 12) for _ in range(9)]
    ids = [draw.integers(0, 4, length) for length in lengths]
    return [
        case("nine tickets", ids=ids, labels=[draw.size(0, 9) for _ in ids], pad_id=draw.size(0, 3)),
        case("a negative pad_id", ids=ids[:4], labels=[3, 0, 1, 1], pad_id=-100),
        case("one empty ticket", ids=[torch.empty(0, dtype=torch.int64)], labels=[2], pad_id=None),
    ]


# --- ShardedStream -----------------------------------------------------------------------------------------------

STREAMS = "Streams over workers and ranks"


class Stream(IterableDataset[Any]):
    def __init__(
        self, items: Any, rank: int = 0, world_size: int = 1, *, workers: str = "seen", ranks: bool = True,
        number: str = "right", cut: str = "every", offset: int = 0,
    ) -> None:  # fmt: skip
        self.items, self.rank, self.world_size = items, rank, world_size
        self.workers, self.ranks, self.number, self.cut, self.offset = workers, ranks, number, cut, offset
        self.spent: Any = iter(items) if cut == "once" else None

    def __iter__(self) -> Iterator[Any]:
        info: Any = get_worker_info()
        if self.workers == "assumed":
            worker, count = info.id, info.num_workers
        else:
            worker, count = (info.id, info.num_workers) if info and self.workers == "seen" else (0, 1)
        rank, ranks = (self.rank, self.world_size) if self.ranks else (0, 1)
        reader, readers = rank * count + worker, ranks * count
        if self.number == "sum":
            reader = rank + worker
        elif self.number == "by ranks":
            reader = rank * ranks + worker
        if self.spent is not None:
            return islice(self.spent, reader, None, readers)
        if self.cut == "every":
            return islice(self.items, reader + self.offset, None, readers)
        size = len(self.items) // readers
        return iter(self.items[reader * size : (reader + 1) * size])


SHARES = "In the case \"{case}\" {came} items came where there are {count}: {extra} too many and {missing} missing. "
STREAM = apart([
    *slips(
        Stream, STREAMS,
        duplicates_across_workers=({"workers": "ignored"}, SHARES + "Each worker runs `__iter__` on a copy of the "
                                   "dataset, and nothing told the copies apart."),
        ignores_rank=({"ranks": False}, SHARES + "There are {ranks} ranks, and each of them read everything."),
        crashes_without_workers=({"workers": "assumed"}, "In the case \"{case}\" reading ended with {error}: "
                                 "where there are no workers, `get_worker_info()` returns None."),
        rank_added_to_worker=({"number": "sum"}, SHARES + "Worker 1 of rank 0 and worker 0 of rank 1 got the same "
                              "number: rank + worker is no number of its own for each reader."),
        drops_the_remainder=({"cut": "blocks"}, SHARES + "Blocks of equal size leave over what does not divide "
                             "evenly."),
        can_be_read_once_only=({"cut": "once"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: an "
                               "iterator made in `__init__` is spent after the first epoch."),
        skips_the_first_item=({"offset": 1}, SHARES + "Items are counted from 0."),
    ),
    Mistake("ignores-rank", Stream, SHARES + "Neither the {ranks} ranks nor their workers were told apart.", STREAMS,
            {"ranks": False, "workers": "ignored"}),
])  # fmt: skip


def more_stream(draw: Draw) -> list[Case]:
    common: dict[str, Any] = {"epochs": 1}
    words = [f"item {draw.size(0, 5)}" for _ in range(draw.size(9, 13))]
    return [
        case("fewer items than readers", **common, items=[5, 6, 7], world_size=5, workers=0),
        case("nothing", **common, items=[], world_size=2, workers=0),
        case("strings, some of them equal", **common, items=words, world_size=3, workers=0),
        case("many items", **common, items=list(range(draw.size(50, 90))), world_size=4, workers=0),
    ]


# --- make_loader -------------------------------------------------------------------------------------------------

WORKERS = "Workers"


class _Seeding:
    """A `worker_init_fn`."""

    def __init__(self, how: str, seed: int) -> None:
        self.how, self.seed = how, seed

    def __call__(self, worker: int) -> None:
        seed = self.seed + (worker if self.how == "per worker" else 0)
        if self.how == "from outside":
            np.random.seed()
            random.seed()
            return
        if self.how != "constant random":
            np.random.seed(seed)
        if self.how != "constant NumPy":
            random.seed(seed)


def loader(
    dataset: Any, batch_size: int, *, train: bool, seed: int, device: torch.device, num_workers: int = 0,
    shuffle: str = "train", drop: str = "train", pin: str = "cuda", persist: str = "workers", draws: str = "own",
    workers: str = "given", init: str = "",
) -> Any:  # fmt: skip
    flags = {"train": train, "always": True, "never": False, "reversed": not train}
    generator = torch.Generator().manual_seed(0 if draws == "one seed" else seed)
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=flags[shuffle],
        drop_last=flags[drop],
        generator=None if draws == "global" else generator,
        pin_memory={"cuda": device.type == "cuda", "always": True, "never": False}[pin],
        num_workers={"given": num_workers, "none": 0}[workers],
        persistent_workers={"workers": num_workers > 0, "always": True, "never": False}[persist],
        worker_init_fn=_Seeding(init, seed) if init else None,
    )


TWINS = (
    "In the case \"{case}\" NumPy {numpy} and `random` {python} in the {workers} workers: a `worker_init_fn` that sets "
    "the same seed everywhere makes every worker augment alike."
)
LOADER = apart([
    *slips(
        loader, WORKERS,
        shuffles_evaluation=({"shuffle": "always"}, "In the case \"{case}\" the order is {order}, where evaluation "
                             "goes through the data in turn: shuffling is for training only."),
        pins_without_cuda=({"pin": "always"}, "In the case \"{case}\" `pin_memory` is {pins}: pinned memory speeds up "
                           "copies to a CUDA device, and elsewhere costs time or warns."),
        drops_evaluation_samples=({"drop": "always"}, "In the case \"{case}\" the batches have {sizes} items where "
                                  "{wanted_sizes} are wanted: an evaluation that leaves samples out measures something "
                                  "else."),
        identical_worker_rng=({"init": "constant"}, TWINS),
        never_shuffles=({"shuffle": "never"}, "In the case \"{case}\" the order is {order}: in training it has to be "
                        "shuffled."),
        keeps_the_last_training_batch=({"drop": "never"}, "In the case \"{case}\" the batches have {sizes} items where "
                                       "{wanted_sizes} are wanted: in training the small last batch is dropped."),
        never_pins=({"pin": "never"}, "In the case \"{case}\" `pin_memory` is {pins}: for a CUDA device batches "
                    "are pinned. A `torch.device` equals no string, so compare its `type`."),
        order_not_seeded=({"draws": "global"}, "In the case \"{case}\" a second run with the same seed has {rerun} "
                          "order: it was drawn from the global generator, so pass one made from `seed`."),
        seed_ignored=({"draws": "one seed"}, "In the case \"{case}\" another seed gave {reseeded} order."),
        workers_do_not_persist=({"persist": "never"}, "In the case \"{case}\" the workers of epoch 2 are {later}: "
                                "they are started again in every epoch unless they persist."),
        crashes_without_workers=({"persist": "always"}, "In the case \"{case}\" the call raised {error}: persistent "
                                 "workers are refused where there are none."),
        num_workers_ignored=({"workers": "none", "persist": "never"}, "In the case \"{case}\" {workers} workers took "
                             "part, where the caller asked for two."),
        workers_not_seeded=({"init": "from outside"}, "In the case \"{case}\" NumPy {numpy_rerun} in a second run with "
                            "the same seed: the seeds of the workers have to come from `seed`, in evaluation as well."),
    ),
    Mistake("shuffles-evaluation", loader, "In the case \"{case}\" the order is {order}: `shuffle` says the opposite "
            "of what is wanted.", WORKERS, {"shuffle": "reversed"}),
    Mistake("identical-worker-rng", loader, TWINS, WORKERS, {"init": "constant NumPy"}),
    Mistake("identical-worker-rng", loader, TWINS, WORKERS, {"init": "constant random"}),
])  # fmt: skip


def more_loader(draw: Draw) -> list[Case]:
    common: dict[str, Any] = {"batch_size": draw.size(2, 5), "seed": draw.size(0, 999), "num_workers": None}
    return [
        case("a whole number of batches", **{**common, "batch_size": 3}, device="cpu", count=12, train=True),
        case("fewer than a batch, evaluation", **common, device="cpu", count=1, train=False),
        case("evaluation for CUDA", **common, device="cuda:0", count=9, train=False),
        case("for MPS", **common, device="mps", count=9, train=False),
    ]


# --- balanced_sampler --------------------------------------------------------------------------------------------

RARE = "When classes are rare"


def balanced(
    labels: list[int], seed: int, *, weights: str = "inverse", draws: str = "all", replacement: bool = True,
    generator: str = "own",
) -> Any:  # fmt: skip
    classes = torch.tensor(labels)
    counts = torch.bincount(classes).double()
    by_class = {"inverse": 1 / counts, "counts": counts, "equal": torch.ones_like(counts), "root": counts**-0.5,
                "per class": 1 / counts, "per class, absent ones too": 1 / counts, "shares": counts / counts.sum(),
                "one minus": 1 - counts / counts.sum()}[weights]  # fmt: skip
    each = by_class if weights == "per class" else by_class[classes]
    if weights == "per class":
        each = torch.where(counts > 0, 1 / counts.clamp(min=1), 0.0)
    elif weights == "per class, absent ones too":
        each = 1 / counts
    count = {"all": len(labels), "largest": int(counts.max()) * len(set(labels)), "classes": len(set(labels)),
             "smallest": int(counts[counts > 0].min()) * len(set(labels))}[draws]  # fmt: skip
    if generator == "global":
        torch.manual_seed(seed)
    count = count if replacement else min(count, int((each > 0).sum()))
    own = torch.Generator().manual_seed(0 if generator == "one seed" else seed)
    return WeightedRandomSampler(
        each.tolist(), count, replacement=replacement, generator=own if generator in ("own", "one seed") else None
    )


def indices(labels: list[int], seed: int) -> list[int]:
    return list(balanced(labels, seed))


UNEVEN = "With {counts} samples in the classes, their shares of the draws are {shares} and should be {wanted_shares}: "
BALANCED = [
    Mistake("one-weight-per-class", balanced, "In the case \"{case}\" the sampler has no weight for each of the "
            "{count} samples: it draws indices of weights, so with one weight per class only the first few samples "
            "are ever drawn.", RARE, {"weights": "per class"}),
    *variants("one-weight-per-class", balanced, "In the case \"{case}\" the {count} samples have no weight each: "
              "one weight for each sample is wanted, or only the first few are ever drawn.", RARE,
              {"weights": "per class, absent ones too"}),
    *slips(
        balanced, RARE,
        weights_not_inverted=({"weights": "counts"}, UNEVEN + "frequent classes got the larger weight, so they come "
                              "even more often."),
        wrong_number_of_draws=({"draws": "largest"}, "In the case \"{case}\" an epoch has {draws} draws where there "
                               "are {count} samples: as many draws as labels are asked for."),
        without_replacement=({"replacement": False}, "In the case \"{case}\" `replacement` is {replacement}: then "
                             "every sample is drawn once, whatever its weight."),
        reseeds_global_rng=({"generator": "global"}, "In the case \"{case}\" the global generators were moved: "
                            "{generators}. Give the sampler a generator of its own."),
    ),
    *apart(slips(
        balanced, RARE,
        all_weights_equal=({"weights": "equal"}, UNEVEN + "all samples got the same weight."),
        root_of_the_counts=({"weights": "root"}, UNEVEN + "the root of the counts makes up for half of the imbalance "
                            "only."),
        one_minus_the_share=({"weights": "one minus"}, UNEVEN + "1 - share is smaller for frequent classes, but it is "
                             "the reciprocal that makes them equal."),
        not_seeded=({"generator": "none"}, "In the case \"{case}\", called again with the same seed, the draws are "
                    "{rerun}: the sampler needs a generator made from `seed`."),
        seed_ignored=({"generator": "one seed"}, "In the case \"{case}\" `{what}` gave {got} where {want} are wanted."),
    )),
    *variants("wrong-number-of-draws", balanced, "In the case \"{case}\" an epoch has {draws} draws where there are "
              "{count} samples: as many draws as labels are asked for.", RARE, {"draws": "classes"},
              {"draws": "smallest"}),
    Mistake("returns-indices", indices, "The call returned {got}: a loader asks its sampler anew in each epoch, so the "
            "sampler itself is wanted.", RARE),
]  # fmt: skip


def more_balanced(draw: Draw) -> list[Case]:
    def labels(count: int, *among: int) -> list[int]:
        return [*among, *(draw.pick(among) for _ in range(count))]

    return [
        case("one class", labels=[2] * 30, seed=draw.size(0, 99)),
        case("six classes", labels=labels(draw.size(80, 200), 0, 1, 1, 1, 2, 3, 4, 5, 5, 5), seed=draw.size(0, 99)),
        case("one sample of a class", labels=[*[0] * 50, 1], seed=draw.size(0, 99)),
    ]


# --- LengthBatchSampler ------------------------------------------------------------------------------------------

LENGTHS = "Batches of like lengths"


class ByLength(Sampler[Any]):
    def __init__(
        self, lengths: list[int], batch_size: int, seed: int, *, last: str = "kept", order: str = "epoch",
        generator: str = "own", alike: bool = True, flat: bool = False, pool: bool = True,
    ) -> None:  # fmt: skip
        self.lengths, self.size, self.seed, self.last, self.order = lengths, batch_size, seed, last, order
        self.generator, self.alike, self.flat, self.pool = generator, alike, flat, pool
        self.rng = random.Random(seed)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def _rng(self) -> Any:
        both = 1000 * self.seed + self.epoch
        number = {"epoch": both, "seed": self.seed, "only epoch": self.epoch}.get(self.order, 0)
        if self.generator == "python":
            random.seed(number)
            return random
        if self.generator == "numpy":
            np.random.seed(number)
        if self.generator == "torch":
            torch.manual_seed(number)
        if self.generator == "unseeded":
            return random
        return self.rng if self.order == "goes on" else random.Random(number)

    def __iter__(self) -> Iterator[Any]:
        rng, order = self._rng(), list(range(len(self.lengths)))
        if self.order != "sorted":
            rng.shuffle(order)
        if self.alike:
            order.sort(key=self.lengths.__getitem__)
        batches = [order[i : i + self.size] for i in range(0, len(order), self.size)]
        if self.last == "dropped":
            batches = [batch for batch in batches if len(batch) == self.size]
        if self.last == "filled":
            batches = [batch + order[: self.size - len(batch)] for batch in batches]
        if self.order != "sorted":
            rng.shuffle(batches)
        yield from [i for batch in batches for i in batch] if self.flat else batches


SAME = "In the case \"{case}\" the order of the batches in epoch 1 is {order}: "
BY_LENGTH = [
    *slips(
        ByLength, LENGTHS,
        drops_last_batch=({"last": "dropped"}, "In the case \"{case}\" {missing} of {count} indices never come: the "
                          "last batch is smaller, and belongs to the epoch too."),
        same_order_every_epoch=({"order": "seed"}, SAME + "the generator was made from the seed alone, and has to "
                                "depend on the epoch as well."),
        reseeds_global_rng=({"generator": "python"}, "In the case \"{case}\" the global generators were moved: "
                            "{generators}. Use a generator of the sampler's own."),
        ignores_lengths=({"alike": False}, "In the case \"{case}\" the padding is {padding}: batches of like lengths "
                         "are asked for."),
    ),
    *variants("same-order-every-epoch", ByLength, SAME + "sorted batches come in the same order each time, from short "
              "to long.", LENGTHS, {"order": "sorted"}),
    *variants("reseeds-global-rng", ByLength, "In the case \"{case}\" the global generators were moved: {generators}. "
              "Use a generator of the sampler's own.", LENGTHS, {"generator": "torch"}, {"generator": "numpy"}),
    *apart(slips(
        ByLength, LENGTHS,
        order_not_reproducible=({"order": "goes on"}, "In the case \"{case}\" epoch 1 came in {rerun} order the second "
                                "time: it has to depend on seed and epoch alone, not on what was drawn before."),
        seed_ignored=({"order": "only epoch"}, "In the case \"{case}\" epoch 1 with another seed has {reseeded} "
                      "order."),
        yields_indices_not_batches=({"flat": True}, "In the case \"{case}\" the sampler yields {yields}."),
        fills_the_last_batch=({"last": "filled"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: "
                              "the last batch may be smaller, it is not filled up."),
        draws_from_the_global_generators=({"generator": "unseeded"}, "In the case \"{case}\" epoch 1 of a fresh "
                                          "sampler has {fresh} order: nothing was seeded."),
    )),
]  # fmt: skip


def more_lengths(draw: Draw) -> list[Case]:
    def lengths(count: int) -> list[int]:
        return [draw.size(1, 200) for _ in range(count)]

    common: dict[str, Any] = {"seed": draw.size(0, 400)}
    return [
        case("many tickets", **common, lengths=lengths(draw.size(300, 400)), batch_size=16),
        case("one more than a batch", **common, lengths=lengths(6 * 5 + 1), batch_size=6),
        case("batches of one", **common, lengths=lengths(20), batch_size=1),
    ]


# --- channel_stats -----------------------------------------------------------------------------------------------

NORMAL = "Normalisation"


def stats(
    batches: Any, *, how: str = "exact", dtype: torch.dtype = torch.float64, correction: int = 0, dims: str = "pixels",
    root: bool = True, out: str = "float32",
) -> Any:  # fmt: skip
    over = {"pixels": (0, 2, 3), "batch": (0,), "space": (2, 3), "all": (0, 1, 2, 3)}[dims]
    xs = [x.to(dtype) for x, _ in batches]
    if how == "first":
        xs = xs[:1]
    if how in ("averages", "averages variances", "weighted"):
        share = [len(x) / sum(map(len, xs)) if how == "weighted" else 1 / len(xs) for x in xs]
        mean = sum(w * x.mean(over) for w, x in zip(share, xs, strict=True))
        power = 1 if how == "averages" else 2
        spread = sum(w * x.std(over, correction=correction) ** power for w, x in zip(share, xs, strict=True))
        std = spread if power == 1 else spread.sqrt()
    elif how == "batch moments":
        mean = sum(x.mean(over) for x in xs) / len(xs)
        std = (sum((x * x).mean(over) for x in xs) / len(xs) - mean**2).clamp(min=0).sqrt()
    elif how == "squares":
        count = sum(x[:, 0].numel() for x in xs)
        mean = sum(x.sum(over) for x in xs) / count
        std = (sum((x * x).sum(over) for x in xs) / count - mean**2).sqrt()
    else:
        joined = torch.cat(xs)
        mean, std = joined.mean(over), joined.std(over, correction=correction)
    std = std if root else std**2
    if out == "lists":
        return mean.tolist(), std.tolist()
    return (mean, std) if out == "as is" else (mean.float(), std.float())


AVERAGED = (
    "In the case \"{case}\" with batches of {sizes}, the mean is {mean} and should be {wanted_mean}, the std is {std} "
    "and should be {wanted_std}: "
)
STATS = [
    *slips(
        stats, NORMAL,
        averages_batch_statistics=({"how": "averages"}, AVERAGED + "the batches' own statistics were averaged, so a "
                                   "small batch counts as much as a large one, and their difference in mean is lost."),
        sample_variance=({"correction": 1}, "In the case \"{case}\" the std is {std} and should be {wanted_std}: the "
                         "variance was divided by n - 1, the population's is divided by n."),
    ),
    Mistake("catastrophic-cancellation", stats, "In the case \"{case}\" the std is {std} and should be {wanted_std}: "
            "E[x²] - E[x]² in float32 subtracts two numbers near 10⁸, of which only 7 digits are known.", NORMAL,
            {"how": "squares", "dtype": torch.float32}),
    *variants("averages-batch-statistics", stats, AVERAGED + "a std of everything is no average of the batches' stds "
              "or variances, for the batches differ in mean.", NORMAL, {"how": "weighted"},
              {"how": "averages variances"}, {"how": "weighted", "correction": 1},
              {"how": "averages variances", "correction": 1}, {"how": "batch moments"},
              {"how": "batch moments", "dtype": torch.float32}),
    *apart(slips(
        stats, NORMAL,
        first_batch_only=({"how": "first"}, AVERAGED + "only the first batch was looked at."),
        not_per_channel=({"dims": "all"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: each "
                         "channel has its own."),
        reduces_the_batch_only=({"dims": "batch"}, "In the case \"{case}\" `{what}` has shape {got_shape} where "
                                "{want_shape} is wanted: height and width are to be reduced too."),
        keeps_the_batch=({"dims": "space"}, "In the case \"{case}\" `{what}` has shape {got_shape} where {want_shape} "
                         "is wanted: the images of all batches make one number for each channel."),
        variance_not_rooted=({"root": False}, "In the case \"{case}\" the std is {std} and should be {wanted_std}: the "
                             "root of the variance is missing."),
        returns_float64=({"out": "as is"}, "`{what}` is {got_dtype} where {want_dtype} is wanted: compute in float64, "
                         "and return what the images are."),
        returns_lists=({"out": "lists"}, "`{what}` is {got}."),
    )),
]  # fmt: skip


def more_stats(draw: Draw) -> list[Case]:
    sizes = [draw.size(1, 9) for _ in range(6)]
    many = [draw.normal(size, 4, 5, 5) * (i + 1) for i, size in enumerate(sizes)]
    grey = [torch.full((size, 1, 4, 4), 0.5) for size in sizes]
    far = [-1e4 + 3 * draw.normal(size, 2, 6, 6) for size in sizes]
    return [
        case("six batches", images=many),
        case("a constant channel", images=grey),
        case("one batch", images=many[:1]),
        case("float64", images=[x.double() for x in many]),
        case("a mean of -10000", rtol=1e-6, atol=1e-2, images=far),
    ]


# --- MemmapDataset -----------------------------------------------------------------------------------------------

LARGE = "Data larger than memory"


class Mapped(Dataset[Any]):
    def __init__(
        self, path: Path, shape: tuple[int, ...], dtype: Any, *, opens: str = "first use", reads: str = "map",
        item: str = "own", state: str = "without", mode: str = "r",
    ) -> None:  # fmt: skip
        self.path, self.shape, self.dtype, self.mode = path, shape, dtype, mode
        self.reads, self.item, self.state = reads, item, state
        self.array: Any = None
        self.cache: dict[int, Tensor] = {}
        if opens == "init":
            self._open()

    def _open(self) -> None:
        if self.reads == "all":
            self.array = np.fromfile(self.path, self.dtype).reshape(self.shape)
        else:
            self.array = np.memmap(self.path, dtype=self.dtype, mode=self.mode, shape=self.shape)  # type: ignore[call-overload]

    def __len__(self) -> int:
        return 1 if self.item == "length" else self.shape[0]

    def __getitem__(self, index: int) -> Any:
        if self.array is None:
            self._open()
        row = self.array[index]
        if self.item == "shared":
            return torch.from_numpy(np.asarray(row)).float()
        if self.item == "as stored":
            return torch.from_numpy(np.array(row))
        if self.item == "array":
            return np.array(row, dtype=np.float32)
        if self.item == "cached":
            if index not in self.cache:
                self.cache[index] = torch.from_numpy(np.array(row, dtype=np.float32))
            return self.cache[index]
        if self.item == "scaled":
            return torch.from_numpy(np.array(row, dtype=np.float32)) / 255
        return torch.from_numpy(np.array(row, dtype=np.float32))

    def __getstate__(self) -> dict[str, Any]:
        if self.state == "whole":
            return self.__dict__
        left_out = {"path": None} if self.state == "forgets" else {}
        return self.__dict__ | {"array": None, "cache": {}} | left_out


OPENED = (
    "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the file was opened when the dataset was "
    "constructed, and another one has taken its place before the first use."
)
FILE = "In the case \"{case}\" `item 1 after the file changed` says: {follows}. "
MEMMAP = [
    *slips(
        Mapped, LARGE,
        opens_in_init=({"opens": "init"}, OPENED),
        loads_everything=({"reads": "all"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: all "
                          "{bytes} bytes had been read into memory at the first use, and the file was not asked "
                          "again."),
        shares_file_memory=({"item": "shared"}, FILE + "The item is no tensor of its own but looks into the mapped "
                            "file; writing to it would end the process."),
        pickles_the_data=({"state": "whole"}, "In the case \"{case}\" the pickled dataset takes {pickled}: a memmap "
                          "is pickled with all its numbers, so leave it out in `__getstate__`."),
        keeps_the_file_dtype=({"item": "as stored"}, "In the case \"{case}\" the item is {dtype}: items are float32 "
                              "whatever the file holds."),
    ),
    *variants("shares-file-memory", Mapped, FILE + "The file says: {file}. An item mapped for writing looks into the "
              "file.", LARGE, {"item": "shared", "mode": "r+"}, {"item": "shared", "mode": "c"}),
    *variants("opens-in-init", Mapped, OPENED + " And it travels with the pickled dataset.", LARGE,
              {"opens": "init", "state": "whole"}, {"opens": "init", "state": "whole", "item": "shared"}),
    *variants("loads-everything", Mapped, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the whole "
              "file, {bytes} bytes, was read into memory when the dataset was constructed.", LARGE,
              {"opens": "init", "reads": "all"}, {"opens": "init", "reads": "all", "state": "whole"},
              {"reads": "all", "state": "whole"}),
    *apart(slips(
        Mapped, LARGE,
        items_are_shared=({"item": "cached"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the "
                          "same tensor was handed out twice, and one reader's change reached the other."),
        returns_arrays=({"item": "array"}, "In the case \"{case}\" `{what}` is {got}."),
        wrong_length=({"item": "length"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: "
                      "the first entry of the shape is the number of items."),
        scales_the_items=({"item": "scaled"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted: the "
                          "numbers are to come as they are."),
        cannot_open_again=({"state": "forgets"}, "In the case \"{case}\" `{what}` is {got}: after unpickling, the "
                           "dataset has to find its file again."),
    )),
]  # fmt: skip


def more_memmap(draw: Draw) -> list[Case]:
    return [
        case("int16, one dimension more", array=draw.integers(-900, 900, 12, 3, 30, 30, dtype=torch.int16), workers=0),
        case("float16", array=draw.normal(4000, 2, dtype=torch.float16), workers=0),
    ]


# --- image_transforms --------------------------------------------------------------------------------------------

IMAGES = "Images, and what may be done to them"


def transforms(
    train: bool, mean: list[float], std: list[float], size: int, *, when: str = "train", flip: str = "half",
    crop: str = "random", scale: bool = True, normalise: str = "last", resize: str = "centre",
    dtype: torch.dtype = torch.float32,
) -> Any:  # fmt: skip
    from torchvision.transforms import v2

    augmented = {"train": train, "always": True, "never": False, "reversed": not train}[when]
    cut: list[Any] = []
    if augmented:
        cut += [v2.RandomResizedCrop(size, scale=(0.5, 1.0))] if crop == "random" else [v2.Resize((size, size))]
        cut += [v2.RandomHorizontalFlip({"half": 0.5, "never": 0.0, "always": 1.0}[flip])]
    elif resize == "short side":
        cut += [v2.Resize(size)]
    elif resize == "none":
        cut += []
    else:
        cut += [v2.Resize(size), v2.CenterCrop(size)]
    numbers = [v2.ToDtype(dtype, scale=scale)]
    normal = [v2.Normalize(mean, std)] if normalise != "variance" else [v2.Normalize(mean, [s * s for s in std])]
    steps = {"last": [*numbers, *normal], "variance": [*numbers, *normal], "no": numbers,
             "train only": [*numbers, *(normal if train else [])],
             "bytes": []}[normalise]  # fmt: skip
    return v2.Compose([*cut, *steps])


GREY = "In the case \"{case}\" a grey of {level} came out as {middle} in the first channel and should be "
GREY += "{wanted_middle}: "
TRANSFORMS = [
    *slips(
        transforms, IMAGES,
        augments_evaluation=({"when": "always"}, "In the case \"{case}\" the draws are {draws}: an evaluation that "
                             "crops and flips at random gives another result each time."),
        normalizes_unscaled=({"scale": False}, GREY + "mean and std are those of values in 0..1, and the values were "
                             "still 0..255."),
        does_not_flip=({"flip": "never"}, "In the case \"{case}\" the image was {flipped} flipped in 40 draws: "
                       "training wants a random flip."),
        does_not_normalise=({"normalise": "no"}, GREY + "the mean was not subtracted, the std not divided by."),
    ),
    *apart(slips(
        transforms, IMAGES,
        never_augments=({"when": "never"}, "In the case \"{case}\" the draws are {draws}: training wants a random crop "
                        "and a random flip."),
        augments_evaluation_only=({"when": "reversed"}, "In the case \"{case}\" the draws are {draws}: `train` is used "
                                  "the wrong way round."),
        does_not_crop=({"crop": "no"}, "In the case \"{case}\" the image is cropped {cropped}: training wants a random "
                       "crop."),
        always_flips=({"flip": "always"}, "In the case \"{case}\" the image is {flipped} flipped: a random flip leaves "
                      "half of the images as they are."),
        size_of_the_short_side=({"resize": "short side"}, "In the case \"{case}\" the result has shape {shape_got} "
                                "where {shape_wanted} is wanted: `Resize` with one int sets the shorter side."),
        evaluation_not_resized=({"resize": "none"}, "In the case \"{case}\" the result has shape {shape_got} where "
                                "{shape_wanted} is wanted."),
        normalises_training_only=({"normalise": "train only"}, GREY + "what the model saw in training it has to see in "
                                  "evaluation too."),
        divides_by_the_variance=({"normalise": "variance"}, GREY + "it is the standard deviation that is divided by."),
        left_as_bytes=({"normalise": "bytes"}, "In the case \"{case}\" the result is {kind_got} where {kind_wanted} is "
                       "wanted."),
    )),
]  # fmt: skip


def more_transforms(draw: Draw) -> list[Case]:
    mean, std = [0.1, 0.9], [0.5, 0.25]
    common: dict[str, Any] = {"mean": mean, "std": std, "size": draw.size(8, 20), "rtol": 1e-3, "atol": 2e-3}
    return [
        case("two channels, training", **common, train=True, shape=[50, 30], level=0, draws=40),
        case("two channels, evaluation", **common, train=False, shape=[30, 50], level=draw.size(1, 255), draws=5),
    ]


# --- ResumableSampler --------------------------------------------------------------------------------------------

STOPPING = "Stopping in the middle of an epoch"


class Resumable(Sampler[int]):
    def __init__(
        self, n: int, seed: int, *, load: str = "all", order: str = "seed and epoch", same: str = "keeps",
        count: str = "before", state: str = "copy",
    ) -> None:  # fmt: skip
        self.n, self.seed, self.load, self.order, self.same, self.count = n, seed, load, order, same, count
        self.saved = state
        self.now = {"epoch": 0, "position": 0}
        self.drawn: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        if self.same == "never resets":
            self.now["epoch"] = epoch
        elif self.same == "resets" or epoch != self.now["epoch"]:
            self.now.update(epoch=epoch, position=0)

    def state_dict(self) -> dict[str, Any]:
        if self.saved == "position only":
            return {"position": self.now["position"]}
        return self.now if self.saved == "alive" else dict(self.now)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.load == "nothing":
            return
        if self.load == "epoch":
            self.now = {"epoch": state["epoch"], "position": 0}
            return
        self.now = {**self.now, **state}

    def __len__(self) -> int:
        return self.n

    def _order(self) -> list[int]:
        order = list(range(self.n))
        if self.order == "global":
            return torch.randperm(self.n).tolist()
        numbers = {"seed and epoch": 1000 * self.seed + self.now["epoch"], "seed": self.seed,
                   "epoch": self.now["epoch"]}  # fmt: skip
        if self.order == "position too":
            random.Random(1000 * self.seed + self.now["epoch"] + 77 * self.now["position"]).shuffle(order)
        elif self.order != "unshuffled":
            random.Random(numbers[self.order]).shuffle(order)
        return order

    def __iter__(self) -> Iterator[int]:
        begin = self.now["position"]
        for done, index in enumerate(self._order()[begin:], 1):
            if self.count == "before":
                self.now["position"] += 1
            elif self.count == "since the start":
                self.now["position"] = done
            yield index
            if self.count == "after":
                self.now["position"] += 1
        self.now["position"] = 0


JOINED = "In the case \"{case}\", stopped after {stops} and taken up again, the epoch had {joined}: "
RESUMABLE = [
    *slips(
        Resumable, STOPPING,
        restarts_epoch=({"load": "epoch"}, JOINED + "after loading, the epoch began again at its first index."),
        reshuffles_on_resume=({"order": "global"}, JOINED + "the order was shuffled anew instead of being made from "
                              "seed and epoch."),
        set_epoch_resets_position=({"same": "resets"}, JOINED + "`set_epoch` with the present epoch has to keep the "
                                   "position that was loaded."),
        same_order_every_epoch=({"order": "seed"}, "In the case \"{case}\" the order of the next epoch is {following}: "
                                "it has to depend on the epoch as well as on the seed."),
        counts_after_the_yield=({"count": "after"}, JOINED + "what stands after `yield` runs only when the next index "
                                "is asked for, so the saved position was one behind."),
    ),
    *variants("restarts-epoch", Resumable, JOINED + "the loaded state was not used.", STOPPING, {"load": "nothing"}),
    *variants("reshuffles-on-resume", Resumable, JOINED + "the order depends on the position at which it is taken "
              "up.", STOPPING, {"order": "position too"}),
    *apart(slips(
        Resumable, STOPPING,
        position_since_the_resume=({"count": "since the start"}, JOINED + "the position was counted from the last "
                                   "resume, not from the start of the epoch."),
        epoch_not_saved=({"state": "position only"}, JOINED + "the state holds no epoch, so the order was "
                         "another."),
        state_changes_later=({"state": "alive"}, JOINED + "`state_dict` returned the sampler's own dict, which "
                             "went on counting."),
        new_epoch_keeps_position=({"same": "never resets"}, "In the case \"{case}\" `{what}` is {got} where {want} "
                                  "is wanted: a new epoch begins at its first index."),
        unshuffled=({"order": "unshuffled"}, "In the case \"{case}\" the {n} indices come in the order {order}, where "
                    "a shuffled one is wanted."),
        seed_ignored=({"order": "epoch"}, "In the case \"{case}\" `{what}` is {got} where {want} is wanted."),
    )),
]  # fmt: skip


def more_resumable(draw: Draw) -> list[Case]:
    common: dict[str, Any] = {"seed": draw.size(0, 900)}
    n = draw.size(40, 90)
    return [
        case("stopped before the last", **common, n=n, epoch=draw.size(1, 9), stops=[n - 1], set_again=True),
        case("stopped five times", **common, n=n, epoch=0, stops=[1, 2, 3, 4, 5], set_again=False),
        case("stopped at once, twice", **common, n=n, epoch=4, stops=[0, 3, 0, 7], set_again=True),
    ]


MISTAKES: dict[str, list[Mistake]] = {
    "TicketDataset": TICKET_MISTAKES,
    "split_indices": SPLIT,
    "pad_collate": COLLATE,
    "ShardedStream": STREAM,
    "make_loader": LOADER,
    "balanced_sampler": BALANCED,
    "LengthBatchSampler": BY_LENGTH,
    "channel_stats": STATS,
    "MemmapDataset": MEMMAP,
    "image_transforms": TRANSFORMS,
    "ResumableSampler": RESUMABLE,
}

MORE_CASES: dict[str, Callable[[Draw], list[Case]]] = {
    "TicketDataset": more_tickets,
    "split_indices": more_split,
    "pad_collate": more_collate,
    "ShardedStream": more_stream,
    "make_loader": more_loader,
    "balanced_sampler": more_balanced,
    "LengthBatchSampler": more_lengths,
    "channel_stats": more_stats,
    "MemmapDataset": more_memmap,
    "image_transforms": more_transforms,
    "ResumableSampler": more_resumable,
}
