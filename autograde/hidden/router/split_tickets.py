"""The exercise `split_tickets`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from autograde.source.mistakes import Mistake
from torchcourse.exercises.router.split_tickets import heap
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Groups of equal texts are dealt out, not rows, so no text can be learned by heart and then asked for. "
    "Each class is dealt out by itself, until as many rows are held out as its share says. "
    "A generator of its own leaves everybody else's random numbers alone."
)
"""Why the reference is written as it is."""
REQUIRED = ("duplicates-on-both-sides", "unstratified", "reseeds-global-rng")
"""The mistakes that a check must always be able to name."""

Groups = list[list[int]]


class Splitting:
    """A right split; a mistake overrides one of its methods."""

    def __call__(self, texts: list[str], labels: list[str], fraction: float, seed: int) -> Any:
        groups: dict[Any, list[int]] = {}
        for i, text in enumerate(texts):
            groups.setdefault(self.key(text, labels[i], i), []).append(i)
        classes: dict[str, Groups] = {}
        for group in groups.values():
            classes.setdefault(self.class_of(labels[group[0]]), []).append(group)
        train: list[int] = []
        held: list[int] = []
        self.seeded(seed)
        for label in self.ordered(classes):
            members = classes[label]
            self.refuse(label, members)
            self.shuffle(members)
            out = self.dealt(members, fraction)
            held += [i for group in members[:out] for i in group]
            train += [i for group in members[out:] for i in group]
        return self.returned(train, held)

    def key(self, text: str, label: str, place: int) -> Any:
        return " ".join(text.split()).lower()

    def class_of(self, label: str) -> str:
        return label

    def ordered(self, classes: dict[str, Groups]) -> list[str]:
        return sorted(classes)

    def seeded(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def refuse(self, label: str, members: Groups) -> None:
        if len(members) < 2:
            raise ValueError(f"the class {label} has a single text")

    def shuffle(self, members: Groups) -> None:
        self.draw.shuffle(members)

    def dealt(self, members: Groups, fraction: float) -> int:
        wanted, taken, out = fraction * sum(map(len, members)), 0, 0
        while out < len(members) - 1 and (out == 0 or taken + len(members[out]) / 2 <= wanted):
            taken += len(members[out])
            out += 1
        return out

    def returned(self, train: list[int], held: list[int]) -> Any:
        return train, held


class InTheOrderOfASet(Splitting):
    def ordered(self, classes: dict[str, Groups]) -> list[str]:
        return list(set(classes))


class EachRowForItself(Splitting):
    def key(self, text: str, label: str, place: int) -> Any:
        return place

    def refuse(self, label: str, members: Groups) -> None:
        if len(members) < 2:
            raise ValueError(f"the class {label} has a single ticket")


class RawTexts(Splitting):
    def key(self, text: str, label: str, place: int) -> Any:
        return text


class KeepsInnerSpaces(Splitting):
    def key(self, text: str, label: str, place: int) -> Any:
        return text.strip().lower()


class TextAndLabel(Splitting):
    def key(self, text: str, label: str, place: int) -> Any:
        return super().key(text, label, place), label


class Unstratified(Splitting):
    def __call__(self, texts: list[str], labels: list[str], fraction: float, seed: int) -> Any:
        for label in set(labels):
            keys = {" ".join(t.split()).lower() for t, own in zip(texts, labels, strict=True) if own == label}
            if len(keys) < 2:
                raise ValueError(f"the class {label} has a single text")
        return super().__call__(texts, labels, fraction, seed)

    def class_of(self, label: str) -> str:
        return "all"


class UnstratifiedRows(Unstratified):
    def key(self, text: str, label: str, place: int) -> Any:
        return place


class EquallyMany(Splitting):
    def __call__(self, texts: list[str], labels: list[str], fraction: float, seed: int) -> Any:
        self.each = fraction * len(texts) / len(set(labels))
        return super().__call__(texts, labels, fraction, seed)

    def dealt(self, members: Groups, fraction: float) -> int:
        return super().dealt(members, self.each / sum(map(len, members)))


class CountsGroups(Splitting):
    def dealt(self, members: Groups, fraction: float) -> int:
        members.sort(key=len)
        return min(max(round(fraction * len(members)), 1), len(members) - 1)


class HoldsOutTheRest(Splitting):
    def returned(self, train: list[int], held: list[int]) -> Any:
        return held, train


class RoundsDown(Splitting):
    def dealt(self, members: Groups, fraction: float) -> int:
        return super().dealt(members, fraction) if len(members) > 4 else int(fraction * len(members))


class LeavesNone(Splitting):
    def dealt(self, members: Groups, fraction: float) -> int:
        out = super().dealt(members, fraction)
        return out + (out == len(members) - 1 and fraction > 1 - 0.5 / len(members))


class ReseedsRandom(Splitting):
    def seeded(self, seed: int) -> None:
        random.seed(seed)

    def shuffle(self, members: Groups) -> None:
        random.shuffle(members)


class ReseedsTorch(Splitting):
    def seeded(self, seed: int) -> None:
        torch.manual_seed(seed)

    def shuffle(self, members: Groups) -> None:
        members[:] = [members[i] for i in torch.randperm(len(members)).tolist()]


class ReseedsNumPy(Splitting):
    def seeded(self, seed: int) -> None:
        np.random.seed(seed)

    def shuffle(self, members: Groups) -> None:
        members[:] = [members[i] for i in np.random.permutation(len(members)).tolist()]


class IgnoresTheSeed(Splitting):
    def shuffle(self, members: Groups) -> None:
        random.shuffle(members)


class NeverShuffles(Splitting):
    def shuffle(self, members: Groups) -> None:
        pass


class AlwaysSeed42(Splitting):
    def seeded(self, seed: int) -> None:
        self.draw = random.Random(42)


class AcceptsSingles(Splitting):
    def refuse(self, label: str, members: Groups) -> None:
        pass


class SaysNotWhich(Splitting):
    def refuse(self, label: str, members: Groups) -> None:
        if len(members) < 2:
            raise ValueError("too few tickets")


class ReturnsTensors(Splitting):
    def returned(self, train: list[int], held: list[int]) -> Any:
        return torch.tensor(train), torch.tensor(held)


class HeldOutOnly(Splitting):
    def returned(self, train: list[int], held: list[int]) -> Any:
        return held


SPLIT = "Split before anything is learned"
BOTH = 'In the case "{case}" {both} texts stand on both sides: '
SHARES = 'In the case "{case}" the wrong number is held out, {shares}: '
RESEEDED = (
    'In the case "{case}" the call moved the global generators: {generators}. Whoever draws afterwards draws other '
    "numbers than without the call; use a generator of your own."
)
SEED = 'In the case "{case}" the function, {what}, gives {got} and should give {want}: '
MISTAKES = [
    Mistake("duplicates-on-both-sides", EachRowForItself(), BOTH + "rows were dealt out one by one, so the test asks "
            "for what training has learned by heart.", SPLIT),
    Mistake("duplicates-on-both-sides", RawTexts(), BOTH + "texts were compared as they were written, with capitals "
            "and spaces.", SPLIT),
    Mistake("duplicates-on-both-sides", KeepsInnerSpaces(), BOTH + "white space between words made a difference.",
            SPLIT),
    Mistake("duplicates-on-both-sides", TextAndLabel(), BOTH + "texts with different labels were taken for different "
            "texts.", SPLIT),
    Mistake("unstratified", Unstratified(), SHARES + "all classes were shuffled together, and chance decided how many "
            "tickets of a rare one are held out.", SPLIT),
    Mistake("unstratified", UnstratifiedRows(), SHARES + "all rows were shuffled together, and chance decided how "
            "many of a rare class are held out, and which texts stand on both sides.", SPLIT),
    Mistake("equally-many-of-each-class", EquallyMany(), SHARES + "the same number was taken from each class. Numbers "
            "measured on such a set say nothing about real traffic.", SPLIT),
    Mistake("share-of-texts-not-rows", CountsGroups(), SHARES + "the share was taken of the different texts, but some "
            "texts stand in many rows.", SPLIT),
    Mistake("sides-swapped", HoldsOutTheRest(), SHARES + "`fraction` is the share to hold out, and the second list "
            "holds it.", SPLIT),
    Mistake("small-class-on-one-side", RoundsDown(), SHARES + "the share was rounded down to none. Every class has to "
            "be on both sides.", SPLIT),
    Mistake("small-class-on-one-side", LeavesNone(), SHARES + "all texts of a class are held out, and none are left to "
            "train on. Every class has to be on both sides.", SPLIT),
    Mistake("reseeds-global-rng", ReseedsRandom(), RESEEDED, SPLIT),
    Mistake("reseeds-global-rng", ReseedsTorch(), RESEEDED, SPLIT),
    Mistake("reseeds-global-rng", ReseedsNumPy(), RESEEDED, SPLIT),
    Mistake("seed-ignored", IgnoresTheSeed(), SEED + "the split has to depend on `seed`, and on nothing else.", SPLIT),
    Mistake("same-split-for-every-seed", AlwaysSeed42(), SEED + "`seed` has to be used.", SPLIT),
    Mistake("in-the-order-of-a-set", InTheOrderOfASet(), 'In the case "{case}" the function, {what}, gives {got} for '
            'the same seed: '
            "the classes were dealt out in the order of a set. For strings that changes from process to process; "
            "`sorted` or a dict keeps one order.", SPLIT),
    Mistake("unshuffled", NeverShuffles(), 'In the case "{case}" the held-out rows are {stretch} of each '
            "class: files are often sorted by date, so shuffle first.", SPLIT),
    Mistake("accepts-single-text", AcceptsSingles(), 'In the case "{case}" the '
            "outcome was {refused}: a class with a single text cannot be on both sides, so raise a ValueError.", SPLIT),
    Mistake("says-not-which-class", SaysNotWhich(), 'In the case "{case}" the call raised ValueError with the message '
            '"{refused}": it should name the class.', SPLIT),
    Mistake("returns-tensors", ReturnsTensors(), "The call gave {returned}.", SPLIT),
    Mistake("returns-one-side", HeldOutOnly(), "The call gave {returned}; `train` and `held_out` are asked for, in "
            "this order.", SPLIT),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    return [
        case("drawn sizes", **heap(draw, {"billing": draw.size(200, 300), "technical": draw.size(80, 120),
                                          "account": draw.size(20, 30)}, 60), fraction=0.25, seed=draw.size(100, 999)),
        case("five classes, half and half", **heap(draw, dict.fromkeys("abcde", 12)), fraction=0.5, seed=1),
        case("hold out nearly all", **heap(draw, {"x": 40, "y": 3}), fraction=0.9, seed=5),
        case("a drawn class with one text", **heap(draw, {"x": 8, "lonely": 1, "y": 5}), fraction=0.2, seed=2),
    ]  # fmt: skip


# Right answers unlike the reference


def with_numpy(texts: list[str], labels: list[str], fraction: float, seed: int) -> Any:
    keys = np.array([" ".join(t.lower().split()) for t in texts])
    names = np.array(labels)
    generator = np.random.default_rng(seed)
    owner = {key: names[keys == key][0] for key in np.unique(keys)}
    out = np.zeros(len(texts), dtype=bool)
    for name in np.unique(names):
        own = np.array([key for key, label in owner.items() if label == name])
        if len(own) == 1:
            raise ValueError(f"cannot split the class {name}: it has one text")
        sizes = [(keys == key).sum() for key in own]
        order = generator.permutation(len(own))
        ends = np.cumsum(np.array(sizes)[order])
        count = int(np.abs(ends - fraction * ends[-1]).argmin()) + 1
        out |= np.isin(keys, own[order[: min(count, len(own) - 1)]])
    return np.flatnonzero(~out).tolist(), np.flatnonzero(out).tolist()


def by_sorted_keys(texts: list[str], labels: list[str], fraction: float, seed: int) -> Any:
    rows: dict[str, dict[str, list[int]]] = {}
    home: dict[str, str] = {}
    for i, (text, label) in enumerate(zip(texts, labels, strict=True)):
        key = " ".join(text.strip().casefold().split())
        rows.setdefault(home.setdefault(key, label), {}).setdefault(key, []).append(i)
    held: set[int] = set()
    for label, members in rows.items():
        if len(members) == 1:
            raise ValueError(f"only one text is labelled {label}")
        draw = random.Random(f"{seed} {label}")
        keys = sorted(members, key=lambda key, draw=draw: draw.random())  # type: ignore[misc]
        left = round(fraction * sum(map(len, members.values())))
        for key in keys[:-1]:
            if left >= len(members[key]) or key == keys[0]:
                held.update(members[key])
                left -= len(members[key])
    return [i for i in range(len(texts)) if i not in held], sorted(held)


RIGHT_ANSWERS: list[Callable[..., Any]] = [with_numpy, by_sorted_keys]
