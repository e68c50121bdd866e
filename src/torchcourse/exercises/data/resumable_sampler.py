"""The exercise `ResumableSampler`: its probe, visible cases and hints."""

from __future__ import annotations

import copy
from collections import Counter
from itertools import islice
from typing import Any

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.data_loading import EPOCHS, another_salt, arrangement, seed_generators, variety
from torchcourse.probes.resumable_training import equal_nested


def probe(
    answer: Watched, n: int, seed: int, epoch: int, stops: list[int], set_again: bool
) -> dict[str, Any]:  # fmt: skip
    """Stop an epoch after each of `stops` indices, and go on with a fresh sampler that loads the state."""

    def begun(disturbance: int, seed: int = seed) -> Any:
        seed_generators(disturbance)
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
        list(islice(iterator, 2))  # the old sampler continues; the saved state must not change
        sampler = begun(3 + number)
        sampler.load_state_dict(copy.deepcopy(state))
        if set_again:
            sampler.set_epoch(epoch)
    pieces.append(list(islice(sampler, 10 * n)))
    with another_salt():
        elsewhere = whole(begun(1), epoch)
    loaded, kept = begun(1), copy.deepcopy(state)
    loaded.load_state_dict(state)
    list(islice(loaded, 2))  # the state is the caller's
    seen = {"orders": orders, "other": other, "elsewhere": elsewhere, "state kept": equal_nested(state, kept),
            "pieces": pieces, "next epoch": whole(sampler, epoch + 1)}  # fmt: skip
    left = begun(1)
    left.set_epoch(epoch)
    list(islice(left, 3))
    seen["many"] = [whole(begun(1), e) for e in range(EPOCHS)]
    return {**seen, "next epoch, this one not finished": whole(left, epoch + 1)}


def derive(case: Case, seen: Observations) -> Observations:
    """Compare an epoch in pieces with one in a single run."""
    n, (order, following) = case.inputs["n"], seen["orders"]
    joined = [index for piece in seen["pieces"] for index in piece]
    whole = sorted(order) == list(range(n)) if all(type(i) is int for i in order) else False
    return {
        "one epoch": "each index once" if whole else "not each index once",
        "order": arrangement(order),
        "order of the next epoch": "that of this epoch" if following == order else "a new one",
        f"orders in {EPOCHS} epochs": variety(seen["many"]),
        "order in another process": "the same" if seen["elsewhere"] == order else "another",
        "state after loading it and going on": "as before" if seen["state kept"] else "changed",
        "order with another seed": "the same" if seen["other"] == order else "another",
        "stopped and resumed": "as if never stopped" if joined == order else _broken(joined, order, case.inputs),
        "next epoch after resuming": "as if never stopped" if seen["next epoch"] == following else "another",
        "next epoch, this one not finished": _whole(seen["next epoch, this one not finished"], following),
    }


def _whole(epoch: list[Any], wanted: list[Any]) -> str:
    if epoch == wanted:
        return "whole"
    return "whole, but in another order" if Counter(epoch) == Counter(wanted) else "not whole"


def _broken(joined: list[Any], order: list[Any], inputs: Observations) -> str:
    counts = Counter(joined)
    twice, missing = sum(count > 1 for count in counts.values()), sum(index not in counts for index in order)
    if not twice and not missing:
        return "each index once, in another order"
    return f"{twice} of {inputs['n']} indices twice, {missing} never"


def cases(draw: Draw) -> list[Case]:
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


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    return {
        "n": inputs["n"],
        "stops": inputs["stops"],
        "joined": seen.get("stopped and resumed"),
        "following": seen.get("order of the next epoch"),
        "order": seen.get("order"),
    }


EXERCISE = Exercise(
    "ResumableSampler",
    probe,
    cases,
    hints=(
        "The order is a function of n, seed and epoch: it can be made again at any time, so it need not be saved. "
        "Which two numbers are left to be saved?",
        "In a generator, the line after `yield` runs only when the next index is asked for. Where then do you count, "
        "so that the state says k after k indices were handed out?",
        "`set_epoch` is called at the start of every epoch, also of the one that was just resumed. When may it set the "
        "position to 0, and when not?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
)
