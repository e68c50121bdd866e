"""The exercise `LengthBatchSampler`: its probe, visible cases and hints."""

from __future__ import annotations

import itertools
from collections import Counter
from itertools import islice
from typing import Any

import torch

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised, raised
from torchcourse.probes.data_loading import EPOCHS, another_salt, seed_generators, touched, variety
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import with_detail


def probe(answer: Watched, lengths: list[int], batch_size: int, seed: int) -> dict[str, Any]:
    """Run epochs 0, 1, 2 and 1 again, then epoch 1 of a fresh sampler and of one with another seed.

    Further samplers have epoch 0 without being told, and epoch 1 twice in one go and in another process. The first
    one goes on to have many epochs.
    """
    seed_generators(1)
    with touched() as found:
        sampler = answer(list(lengths), batch_size, seed)
        epochs = [_epoch(sampler, epoch) for epoch in (0, 1, 2, 1)]
    seed_generators(2)
    fresh = _epoch(answer(list(lengths), batch_size, seed), 1)
    other = _epoch(answer(list(lengths), batch_size, seed + 50), 1)
    try:
        untold: Any = _batches(answer(list(lengths), batch_size, seed))
    except Exception as error:
        untold = raised(error)
    again = _batches(sampler)
    many = [_epoch(sampler, epoch) for epoch in range(EPOCHS)]
    with another_salt():
        elsewhere = _epoch(answer(list(lengths), batch_size, seed), 1)
    return {"epochs": epochs, "fresh": fresh, "other": other, "untold": untold, "again": again, "elsewhere": elsewhere,
            "many": many, "global generators": found}  # fmt: skip


def _epoch(sampler: Any, epoch: int) -> list[Any]:
    sampler.set_epoch(epoch)
    return _batches(sampler)


def _batches(sampler: Any) -> list[Any]:
    batches = list(islice(sampler, 10_000))
    return [list(batch) if isinstance(batch, list | tuple) else batch for batch in batches]


def _padding(batches: list[list[int]], lengths: list[int]) -> int:
    long = [[lengths[i] for i in batch] for batch in batches if batch]
    return sum(max(each) * len(each) - sum(each) for each in long)


def _neighbours(batches: list[list[int]], lengths: list[int]) -> str:
    """Describe whether no batch has a length that lies within another batch."""
    ends = sorted((min(own), max(own)) for own in ([lengths[i] for i in batch] for batch in batches if batch))
    apart = all(one[1] <= following[0] for one, following in itertools.pairwise(ends))
    return "neighbours once all are sorted" if apart else "not neighbours once all are sorted"


def _same(order: list[Any], other: list[Any]) -> str:
    return "the same" if order == other else "another"


def derive(case: Case, seen: Observations) -> Observations:
    """Say what holds of the batches, whichever generator shuffled them."""
    lengths, size = case.inputs["lengths"], case.inputs["batch_size"]
    first, untold = seen["epochs"][0], seen["untold"]
    bad = next((batch for batch in first if not isinstance(batch, list)), None)
    if bad is not None:
        return {"yields": kind(bad)}
    flat = [i for batch in first for i in batch]
    n, counts = len(lengths), Counter[Any](flat)
    if any(type(i) is not int or not 0 <= i < n for i in flat):
        return {"yields": "indices that are not ints from range(n)"}
    chance = torch.randperm(n, generator=torch.Generator().manual_seed(0)).tolist()
    random_batches = [chance[i : i + size] for i in range(0, n, size)]
    wasted, usual = _padding(first, lengths), _padding(random_batches, lengths)
    orders, many = ([[frozenset(batch) for batch in epoch] for epoch in seen[name]] for name in ("epochs", "many"))
    return {
        "indices that are missing": n - len(counts),
        "indices that come twice": sum(count > 1 for count in counts.values()),
        "largest batch": max((len(batch) for batch in first), default=0) <= size,
        "padding": "little"
        if wasted <= 0.6 * usual
        else with_detail("too much", f"{wasted}, where random batches have {usual}"),
        "lengths in a batch": _neighbours(first, lengths),
        "order in epoch 1": "a new one" if orders[1] != orders[0] else "that of epoch 0",
        "order in epoch 2": "a new one" if orders[2] != orders[1] else "that of epoch 1",
        "epoch 1 a second time": "the same" if seen["epochs"][1] == seen["epochs"][3] else "another",
        "epoch 0 without set_epoch": untold if isinstance(untold, Raised) else _same(untold, seen["epochs"][0]),
        "epoch 1 read again": _same(seen["again"], seen["epochs"][3]) if seen["again"] else "empty",
        "epoch 1 in another process": "the same" if seen["elsewhere"] == seen["epochs"][1] else "another",
        "epoch 1 of a fresh sampler": "the same" if seen["epochs"][1] == seen["fresh"] else "another",
        "epoch 1 with another seed": "another" if seen["epochs"][1] != seen["other"] else "the same",
        f"orders in {EPOCHS} epochs": variety(many),
        "global generators": ", ".join(seen["global generators"]) or "untouched",
    }


def cases(draw: Draw) -> list[Case]:
    def lengths(count: int) -> list[int]:
        return [draw.size(1, 60) for _ in range(count)]

    seed = draw.size(3, 40)
    return [
        case("41 tickets in batches of 4", lengths=lengths(41), batch_size=4, seed=seed),
        case("48 tickets in batches of 8", lengths=lengths(48), batch_size=8, seed=seed),
        case("long and short in turn", lengths=[3 + 40 * (i % 2) for i in range(30)], batch_size=5, seed=seed + 1),
    ]


def quotes(inputs: Observations, seen: Observations, _wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "count": len(inputs["lengths"]),
        "missing": seen.get("indices that are missing"),
        "order": seen.get("order in epoch 1"),
        "padding": seen.get("padding"),
        "generators": seen.get("global generators"),
        "rerun": seen.get("epoch 1 a second time"),
        "fresh": seen.get("epoch 1 of a fresh sampler"),
        "reseeded": seen.get("epoch 1 with another seed"),
        "reread": seen.get("epoch 1 read again"),
        "elsewhere": seen.get("epoch 1 in another process"),
        "yields": seen.get("yields"),
        "neighbours": seen.get("lengths in a batch"),
    }
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "LengthBatchSampler",
    probe,
    cases,
    hints=(
        "If you sort all indices by length and cut the list into batches, similar lengths end up together. What must "
        "you then shuffle, so that training does not go from short to long: indices or batches?",
        "The order has to depend on seed and epoch and on nothing else. When would you make the generator, once in "
        "`__init__` or anew in `__iter__`?",
        "Sorting is stable: if you shuffle the indices before you sort, equal lengths come in a new order each epoch. "
        "And is the last, smaller batch still there?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
)
