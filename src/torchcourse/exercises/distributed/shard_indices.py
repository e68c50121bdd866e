"""The exercise `shard_indices`: its probe, visible cases and hints."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.data_loading import EPOCHS, seed_generators, touched, variety
from torchcourse.probes.observe import kind
from torchcourse.probes.trainable_models import with_detail

ENOUGH = 16
"""The number of samples from which on two drawn orders never agree by chance."""


def probe(
    answer: Watched, n: int, world_size: int, epochs: list[int], seed: int, other_seed: int, options: dict[str, Any]
) -> Observations:
    """Observe the shares of all ranks in some epochs, in the first of them once more, and with another seed, and of
    the first rank in many."""
    seen: Observations = {}
    calls = [(f"epoch {epoch}", epoch, seed) for epoch in epochs]
    for name, epoch, chosen in [*calls, ("again", epochs[0], seed), ("another seed", epochs[0], other_seed)]:
        seed_generators(len(seen))  # an order that depends on the global generators shows
        shares = [answer(n, rank, world_size, epoch=epoch, seed=chosen, **options) for rank in range(world_size)]
        if not all(isinstance(share, list) and all(type(i) is int for i in share) for share in shares):
            return {"returned": "no list of integers: " + kind(shares[0])}
        seen[name] = shares
    seen["many"] = [answer(n, 0, world_size, epoch=epoch, seed=seed, **options) for epoch in range(EPOCHS)]
    if n >= ENOUGH and (n % world_size == 0 or options.get("drop_last", False)):
        seen["alone"] = [answer(n, 0, 1, epoch=epoch, seed=seed, **options) for epoch in epochs[:2]]
    with touched() as changed:
        answer(n, 0, world_size, epoch=epochs[0], seed=seed, **options)
    return seen | {"global generators changed": changed}


def derive(case: Case, seen: Observations) -> Observations:
    """Derive what every right answer has in common: which order and whose turn are its own choice."""
    if "returned" in seen:
        return seen
    n, epochs = case.inputs["n"], case.inputs["epochs"]
    first = seen[f"epoch {epochs[0]}"]
    held = Counter(i for share in first for i in share)
    missing = sum(i not in held for i in range(n))
    found: Observations = {
        "lengths of the shares": [len(share) for share in first],
        "samples that no rank has": with_detail("some", str(missing)) if missing else 0,
        "samples that more than one place has": "some" if max(held.values(), default=0) > 1 else 0,
        "indices outside": sum(not 0 <= i < n for i in held),
        "the same call again": "the same share" if seen["again"] == first else "another share",
        "global generators changed": seen["global generators changed"],
    }
    if case.inputs["options"].get("drop_last", False):
        del found["samples that no rank has"]  # as many as the equal shares leave over
        if n >= ENOUGH and n % case.inputs["world_size"] > 1:  # a single one may be left out again by chance
            drawn = [shares for name, shares in seen.items() if name.startswith(("epoch", "another"))]
            left_out = {frozenset(range(n)).difference(*shares) for shares in drawn}
            same = "the same" if len(left_out) == 1 else "different"
            found["samples left out in each epoch"] = same if any(left_out) else "none"
    if "alone" in seen:
        shared = [seen[f"epoch {epoch}"] for epoch in epochs[:2]]
        found["order with another number of ranks"] = "the same" if _one_order(seen["alone"], shared) else "another"
    if n >= ENOUGH:
        others = [seen[f"epoch {epoch}"] for epoch in epochs[1:]]
        found["order in another epoch"] = "the same" if first in others else "another"
        found[f"orders in {EPOCHS} epochs"] = variety(seen["many"])
        found["order with another seed"] = "the same" if first == seen["another seed"] else "another"
        found["shares of all ranks"] = (
            "the same" if len(first) > 1 and first.count(first[0]) == len(first) else "different"
        )
        found["shares in rising order"] = all(share == sorted(share) for share in first)
        if n > len(first[0]):
            samples = {frozenset(shares[0]) for shares in (first, *others)}
            found["samples of rank 0 in each epoch"] = "the same" if len(samples) == 1 else "different"
    return found


def _one_order(alone: list[list[int]], shared: list[list[list[int]]]) -> bool:
    """Return whether ranks take the same places of the order that a single rank has, in one epoch as in another."""
    places = []
    for order, shares in zip(alone, shared, strict=True):
        place = {index: n for n, index in enumerate(order)}
        places.append([[place.get(index) for index in share] for share in shares])
    return places[0] == places[1]


def cases(draw: Draw) -> list[Case]:
    def order(n: int, world_size: int, **options: Any) -> dict[str, Any]:
        seed = draw.size(0, 999)
        return {"n": n, "world_size": world_size, "epochs": [0, 1, draw.size(2, 9)], "seed": seed,
                "other_seed": seed + draw.size(1000, 9999), "options": options}  # fmt: skip

    zero = {"seed": 0, "other_seed": draw.size(1, 999)}
    ranks = draw.size(3, 5)
    some = ranks * draw.size(8, 12)
    return [
        case("two equal shares", **order(2 * draw.size(10, 20), 2)),
        case("one sample too many", **order(some + 1, ranks)),
        case("one sample too many, drop_last", **order(some + 1, ranks, drop_last=True)),
        case("one sample too few, drop_last", **order(some - 1, ranks, drop_last=True)),
        case("fewer samples than ranks", **order(2, 7)),
        case("fewer samples than ranks, drop_last", **order(2, 3, drop_last=True)),
        case("a single rank", **order(20, 1)),
        case("seed 0", **order(24, 2) | zero),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"lengths": seen.get("lengths of the shares"), "ranks": inputs["world_size"]}
    missing = seen.get("samples that no rank has")
    fields |= {"missing": missing.message if isinstance(missing, Raised) else missing, "n": inputs["n"]}
    fields |= {"right": wanted.get("lengths of the shares")}
    return fields | {"generators": " and ".join(seen.get("global generators changed", []))}


EXERCISE = Exercise(
    "shard_indices",
    probe,
    cases,
    hints=(
        "All ranks have to draw the same order without asking each other. What do they have in common that may go "
        "into the seed, and what of it must not?",
        "`torch.randperm` takes a `generator`, and a generator of your own leaves the global one alone. Which two "
        "numbers make its seed, so that each epoch has another order?",
        "Make the length of the order a multiple of `world_size` before you deal it out: cut it, or repeat it. With "
        "2 samples and 7 ranks once is not enough.",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
)
