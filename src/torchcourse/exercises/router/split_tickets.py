"""The exercise `split_tickets`: its probe, visible cases and hints."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any

from torchcourse.checking.probe import Watched
from torchcourse.exercises.router.clean_tickets import spelled
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.data_loading import seed_generators, touched
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import with_detail

GLOBAL = 77  # the global generators are seeded with this, and with the next number for the second call

SEEDS = 6  # so many seeds are tried
SALTS = 4  # and so many orders of sets


class Salted(str):
    """A label whose place in a set goes by a number, as that of a string changes from process to process."""

    salt = 0

    def __hash__(self) -> int:
        return zlib.crc32(f"{self.salt} {self}".encode())


def salted(labels: list[str], salt: int) -> list[str]:
    made = [Salted(label) for label in labels]
    for label in made:
        label.salt = salt
    return list(made)


def probe(answer: Watched, texts: list[str], labels: list[str], fraction: float, seed: int) -> Observations:
    """Split twice with a seed and once with another, or see how a class with one text is refused."""
    single = sorted(name for name, count in Counter(labels).items() if _texts(texts, labels, name) == 1 and count)
    if single:
        return _refusal(answer, single[0], texts, labels, fraction, seed)
    seed_generators(GLOBAL)
    with touched() as found:
        first = answer(list(texts), list(labels), fraction, seed)
    seed_generators(GLOBAL + 1)
    again = answer(list(texts), list(labels), fraction, seed)
    elsewhere = [answer(list(texts), salted(labels, n), fraction, seed) for n in range(SALTS)]
    another = answer(list(texts), list(labels), fraction, seed + 1)
    if not (isinstance(first, tuple | list) and len(first) == 2):
        return {"returned": f"{kind(first)}, where a pair of lists is wanted"}
    strange = [part for part in first if not isinstance(part, list) or not all(type(i) is int for i in part)]
    if strange:
        return {"returned": f"a pair with {_described(strange[0])}, where lists of ints are wanted"}
    more = [_listed(answer(list(texts), list(labels), fraction, seed + n)) for n in range(2, SEEDS)]
    return {"split": list(first), "again": _listed(again), "another": _listed(another), "more": more,
            "elsewhere": [_listed(split) for split in elsewhere], "generators": found}  # fmt: skip


def _refusal(answer: Watched, single: str, *args: Any) -> Observations:
    try:
        result = answer(*args)
    except ValueError as error:
        named = "names the class" if single in str(error) else "does not name the class"
        return {"refused with": with_detail(f"ValueError that {named}", str(error)[:200])}
    return {"refused with": f"no exception but {kind(result)}"}


def _texts(texts: list[str], labels: list[str], label: str) -> int:
    """Return how many different texts a class has."""
    return len({_key(text) for text, own in zip(texts, labels, strict=True) if own == label})


def _key(text: str) -> str:
    return " ".join(text.split()).lower()


def _described(part: Any) -> str:
    return f"a list that holds {kind(part[0])}" if isinstance(part, list) else kind(part)


def _listed(split: Any) -> Any:
    return [sorted(part) for part in split] if isinstance(split, tuple | list) else kind(split)


def derive(case: Case, seen: Observations) -> Observations:
    """Describe a split by the properties that every right one has."""
    if "split" not in seen:
        return seen
    (train, held), texts, labels = seen["split"], case.inputs["texts"], case.inputs["labels"]
    counts, keys = Counter([*train, *held]), [_key(text) for text in texts]
    inside = [i for i in held if 0 <= i < len(texts)]
    both = {keys[i] for i in train if 0 <= i < len(texts)} & {keys[i] for i in inside}
    facts: Observations = {
        "indices": "each once" if counts == Counter(range(len(texts))) else "not each of them once",
        "texts on both sides": with_detail("some", f"{len(both)} of {len(set(keys))}") if both else "none",
    }
    if case.inputs["fraction"] and _clear(keys, labels):
        splits = [split for split in (seen["again"], seen["another"], *seen["more"]) if isinstance(split, list)]
        parts = [inside, *([i for i in split[1] if 0 <= i < len(texts)] for split in splits)]
        facts["shares of the classes"] = _shares(keys, labels, case.inputs["fraction"], parts)
    mixed = [sorted(train), sorted(held)]
    different = len({str(split) for split in (mixed, seen["another"], *seen["more"])})
    return {
        **facts,
        "held-out rows of each class": _stretch(labels, inside),
        "called again with the same seed": "the same split" if seen["again"] == mixed else "another split",
        "called in another process": "the same split" if _agree(seen) else "another split",
        "with another seed": "another split" if seen["another"] != mixed else "the same split",
        f"splits of {SEEDS} seeds": "different" if different > SEEDS - 2 else f"{different} in turn",
        "global generators": ", ".join(seen["generators"]) or "untouched",
    }


def _agree(seen: Observations) -> bool:
    """Return whether a split is the same in whichever order sets are; as far as it is the same when called again."""
    plain = [sorted(part) for part in seen["split"]]
    return seen["again"] != plain or all(split == plain for split in seen["elsewhere"])


def _clear(keys: list[str], labels: list[str]) -> bool:
    """Return whether each text has one label."""
    return len(set(zip(keys, labels, strict=True))) == len(set(keys))


def _shares(keys: list[str], labels: list[str], fraction: float, splits: list[list[int]]) -> Any:
    """Describe whether each class is held out in its share, as nearly as its texts allow, in every split.

    What an answer leaves to chance shows in one of several; the one that is most off is quoted.
    """
    off: list[list[str]] = [[] for _ in splits]
    verdicts: set[str] = set()
    for name in sorted(set(labels)):
        own = [i for i, label in enumerate(labels) if label == name]
        groups = Counter(keys[i] for i in own)
        for held, found in zip(splits, off, strict=True):
            out = len(set(own) & set(held))
            near = len(groups) == 2 or abs(out - fraction * len(own)) <= max(groups.values())
            if not (near and 0 < out < len(own)):
                found.append(f"{out} of {len(own)} of {name!r}")
                verdicts.add("a class of two texts is on one side" if len(groups) == 2 else "not those of the whole")
    if not verdicts:
        return "those of the whole"
    most = max(off, key=len)
    return with_detail(" and ".join(sorted(verdicts)), ", ".join(most))


def _stretch(labels: list[str], held: list[int]) -> str:
    """Describe whether the held-out rows of the largest class are its first or last ones."""
    largest = Counter(labels).most_common(1)[0][0]
    own = [i for i, label in enumerate(labels) if label == largest]
    out = [i for i in own if i in set(held)]
    if not 4 <= len(out) <= len(own) - 4:
        return "mixed"
    return "the first" if out == own[: len(out)] else "the last" if out == own[-len(out) :] else "mixed"


def heap(draw: Draw, sizes: dict[str, int], copies: int = 0) -> dict[str, Any]:
    """Draw texts with labels in these numbers, in random order; `copies` of them again in another spelling."""
    rows = [(f"{name[:3]} {draw.size(100, 999)} {i}", name) for name, size in sizes.items() for i in range(size)]
    rows += [(spelled(draw, text, 1 + n % 4), name) for n, (text, name) in enumerate(draw.pick(rows)
             for _ in range(copies))]  # fmt: skip
    order = draw.normal(len(rows)).argsort().tolist()
    return {"texts": [rows[i][0] for i in order], "labels": [rows[i][1] for i in order]}


def uneven(draw: Draw, sizes: dict[str, int]) -> dict[str, Any]:
    """Draw classes of so many texts, each second of which stands in six rows."""
    one = heap(draw, sizes)
    rows = [
        (t, label)
        for n, (t, label) in enumerate(zip(one["texts"], one["labels"], strict=True))
        for _ in range(1 + 5 * (n % 2))
    ]
    return {"texts": [t for t, _ in rows], "labels": [label for _, label in rows]}


def cases(draw: Draw) -> list[Case]:
    large, seed = {"billing": 240, "technical": 120, "account": 40}, draw.size(3, 99)
    ordered = heap(draw, {"billing": 40, "technical": 30})
    order = sorted(range(70), key=lambda i: ordered["labels"][i])
    by_class: dict[str, Any] = {key: [values[i] for i in order] for key, values in ordered.items()}
    contradictory = heap(draw, {"billing": 30, "technical": 20})
    for n in range(0, 12, 2):
        contradictory["texts"].append(contradictory["texts"][n])
        contradictory["labels"].append("technical" if contradictory["labels"][n] == "billing" else "billing")
    return [
        case("classes of 6 : 3 : 1", **heap(draw, large), fraction=0.2, seed=seed),
        case("many copies of some texts", **heap(draw, {"billing": 150, "account": 100}, 250), fraction=0.3, seed=seed),
        case("texts of one row and of six", **uneven(draw, dict.fromkeys(("billing", "technical", "account"), 200)),
             fraction=0.5, seed=seed),
        case("sorted by class", **by_class, fraction=0.5, seed=0),
        case("a class of two texts", **heap(draw, {"billing": 60, "account": 2}), fraction=0.2, seed=seed),
        case("most of two texts", **heap(draw, {"billing": 30, "account": 2}), fraction=0.8, seed=seed),
        case("texts with two labels", **contradictory, fraction=0.4, seed=seed),
        case("a class with a single text", **heap(draw, {"billing": 9, "account": 1}), fraction=0.3, seed=seed),
        case("a single text, three times", texts=["a b", "c d", "e f", "x", "X ", " x"],
             labels=["billing"] * 3 + ["account"] * 3, fraction=0.5, seed=seed),
    ]  # fmt: skip


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"count": len(inputs["texts"])}
    for field, name in (("both", "texts on both sides"), ("shares", "shares of the classes"),
                        ("generators", "global generators"), ("refused", "refused with")):  # fmt: skip
        if name in seen:
            fields[field] = getattr(seen[name], "message", "") or seen[name]
    stretch = seen.get("held-out rows of each class")
    fields |= {"stretch": stretch} if stretch else {}
    return fields | ({"returned": seen["returned"]} if "returned" in seen else {})


EXERCISE = Exercise(
    "split_tickets",
    probe,
    cases,
    hints=(
        "If the same text can stand in several rows, what is it that you shuffle and deal out: rows, or groups of "
        "rows with the same key?",
        "Within one class, how many rows should be held out? Deal its shuffled groups out until that number is reached "
        "as nearly as it goes, and then do the next class.",
        "Which generator do you shuffle with, so that nobody else's random numbers move? And with two groups in a "
        "class, what keeps both sides from being empty?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
    imports=("sklearn.model_selection",),
)
