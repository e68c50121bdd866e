"""The exercise `TicketDataset`: its probe, visible cases and hints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised, raised
from torchcourse.probes.data_loading import refused, scratch
from torchcourse.probes.observe import kind


def probe(answer: Watched, text: str, vocab: dict[str, int], bad_line: int) -> dict[str, Any]:
    """Write the text to a file and read it, by its path in a string; where a line is bad, see how it is refused."""
    with scratch():
        path = Path("tickets.csv")
        path.write_bytes(text.encode())
        if bad_line:
            made: list[Any] = []
            seen = refused(lambda: made.append(answer(path, vocab)), lambda message: _names_line(message, bad_line))
            return seen if not made else {"refused with": "no exception", "reading the items": _readable(made[0])}
        dataset = answer(str(path), vocab)
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
    """Describe which line a message names; if it has several numbers, small ones count as numbers of fields."""
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
        return f"ids are {kind(ids)}"
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


def cases(draw: Draw) -> list[Case]:
    def lines(name: str, *rows: str, bad_line: int = 0, end: str = "\n") -> Case:
        return case(name, text=end.join(["text,label", *rows, ""]), vocab=dict(VOCAB), bad_line=bad_line)

    plain = [f"{_words(draw, 3)},{label}" for label in ("technical", "billing", "account")]
    word = draw.pick(["Frage", "router", "kündigen", "löschen"])
    quoted = f'"Hello, my card, {_words(draw, 2)}",billing'
    broken = f'"My app\ncrashes {_words(draw, 1)}\n\nthe screen",technical'
    return [
        lines("one word each, in order of need", *plain, *_rows(draw, 2)),
        lines("capital letters", "Größe RESET,Technical", f"Card CHARGED {_words(draw, 2)},billing"),
        lines("an unknown word", f"my {word} {_words(draw, 1)},technical", *_rows(draw, 1)),
        lines("other white space", f"card   charged\ttwice  {_words(draw, 1)}\u00a0my,billing", *_rows(draw, 1)),
        lines("commas between quotes", quoted, *_rows(draw, 2)),
        lines("line breaks between quotes", broken, *_rows(draw, 2)),
        lines("blank lines", *_rows(draw, 1), "", "", *_rows(draw, 2), ""),
        lines("a ticket without text", ",account", *_rows(draw, 1)),
        lines("a row of three fields after a long one", broken, "", quoted, "card,refund,billing", bad_line=8),
        lines("a row of two empty fields", *_rows(draw, 2), ",", *_rows(draw, 1), bad_line=4),
        lines("a row without a label", *_rows(draw, 4), "", "my card,", *_rows(draw, 1), bad_line=7),
        lines("a row of one field", broken, *_rows(draw, 2), "the app crashes", bad_line=8),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
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


EXERCISE = Exercise(
    "TicketDataset",
    probe,
    cases,
    hints=(
        "Which module of Python's standard library reads a file in which a quoted field may hold commas and line "
        'breaks? It wants the file opened with `newline=""`.',
        "A row and a line are not the same thing here. Which attribute of the reader says how many physical lines it "
        "has read so far?",
        "Do all reading and refusing in `__init__`, so that a bad file is found before training. What dtype has "
        "`torch.tensor([])` when nobody says?",
    ),
    any_device=False,
    quotes=quotes,
)
