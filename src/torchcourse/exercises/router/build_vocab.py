"""The exercise `build_vocab`: its probe, visible cases and hints."""

from __future__ import annotations

from typing import Any

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.observe import kind

SPECIAL = ("<pad>", "<unk>")
NAMES = ("zebra", "apple", "mango", "cherry", "kiwi", "banana", "quince", "date", "fig", "lemon")


def probe(answer: Watched, texts: list[str], max_size: int, min_count: int | None) -> Observations:
    """Observe the ids of the special entries, and the words by id."""
    options = {} if min_count is None else {"min_count": min_count}
    vocab: Any = answer(list(texts), max_size, **options)
    if not isinstance(vocab, dict):
        return {"returned": kind(vocab)}
    rest = {word: index for word, index in vocab.items() if word not in SPECIAL}
    whole = all(type(index) is int for index in vocab.values())
    ids = sorted(vocab.values()) if whole else []
    return {
        "id of <pad>": vocab.get("<pad>", "missing"),
        "id of <unk>": vocab.get("<unk>", "missing"),
        "words": sorted(map(str, rest), key=lambda word: (str(rest[word]).zfill(9), word)),
        "ids": "0, 1, 2 and so on" if ids == list(range(len(vocab))) else ids if whole else "not all are ints",
    }


def corpus(draw: Draw, counts: dict[str, int], per_text: int = 4) -> list[str]:
    """Return texts that hold each word so many times, in a drawn order."""
    words = [word for word, count in counts.items() for _ in range(count)]
    order = draw.normal(len(words)).argsort().tolist()
    mixed = [words[i] for i in order]
    return [" ".join(mixed[i : i + per_text]) for i in range(0, len(mixed), per_text)]


def cases(draw: Draw) -> list[Case]:
    falling = {name: 9 - n for n, name in enumerate(NAMES[:8])}
    ties = {"zebra": 3, "mango": 3, "apple": 3, "kiwi": 1, "banana": 1, "lemon": 2, "fig": 2}
    first = ["zebra", "kiwi", "mango", "apple", "lemon", "banana", "fig"]
    in_order = [" ".join(word for word in first if ties[word] > n) for n in range(3)]
    crowded = ["fig fig fig fig date", "date apple", "apple date"]
    return [
        case("all different counts", texts=corpus(draw, falling), max_size=100, min_count=None),
        case("ties", texts=in_order, max_size=100, min_count=None),
        case("room for six", texts=corpus(draw, falling), max_size=6, min_count=None),
        case("a tie at the end", texts=in_order, max_size=4, min_count=None),
        case("min_count 2", texts=in_order, max_size=100, min_count=2),
        case("min_count 3, room for five", texts=corpus(draw, ties), max_size=5, min_count=3),
        case("capitals", texts=["Fig fig FIG", "Date date", "Kiwi", "KIWI apple"], max_size=100, min_count=None),
        case("a word often in one text", texts=crowded, max_size=100, min_count=None),
        case("<unk> and <pad> in a ticket", texts=["kiwi <unk> fig <pad> <unk>", "fig <UNK>"], max_size=5,
             min_count=None),
        case("odd white space", texts=["  Fig\tfig\n", "", " zebra  apple fig"], max_size=4, min_count=1),
        case("full stops and commas", texts=["Charged twice.", "Twice, not once."], max_size=100, min_count=None),
        case("no texts", texts=[], max_size=10, min_count=None),
        case("ß is not ss", texts=["Straße STRASSE", "straße"], max_size=10, min_count=None),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"room": inputs["max_size"], "least": inputs["min_count"] or 1}
    if "words" in seen:
        fields |= {"words": " ".join(seen["words"]) or "none", "want_words": " ".join(wanted["words"]) or "none"}
        fields |= {"entries": len(seen["words"]) + sum(seen[f"id of {name}"] != "missing" for name in SPECIAL)}
    return fields | ({"returned": seen["returned"]} if "returned" in seen else {})


EXERCISE = Exercise(
    "build_vocab",
    probe,
    cases,
    hints=(
        "`collections.Counter` counts, and its `most_common` keeps the order of appearance among equals. What sorts "
        "by two things at once, one of them falling?",
        "`sorted` with a key that is a pair compares the second entry only where the first ones are equal. Which pair "
        "puts large counts first and then goes by the alphabet?",
        "`max_size` is the length of the dict that you return. How many words fit in beside the two special entries, "
        "and could one of the words be such an entry?",
    ),
    any_device=False,
    quotes=quotes,
)
