"""The exercise `balanced_sampler`: its probe, visible cases and hints."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.utils.data import WeightedRandomSampler

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.data_loading import seed_generators, touched
from torchcourse.probes.observe import kind


def probe(answer: Watched, labels: list[int], seed: int) -> dict[str, Any]:
    """Make the sampler, draw from it, and do so again with the same seed and with another one."""
    seed_generators(1)
    with touched() as found:
        sampler = answer(list(labels), seed)
        first = list(sampler) if isinstance(sampler, WeightedRandomSampler) else []
    if not isinstance(sampler, WeightedRandomSampler):
        return {"returned": f"{kind(sampler)}, where a WeightedRandomSampler is wanted"}
    seed_generators(2)
    again, other = list(answer(list(labels), seed)), list(answer(list(labels), seed + 1))
    return {
        "weights": torch.as_tensor(sampler.weights).double(),
        "draws": sampler.num_samples,
        "replacement": sampler.replacement,
        "first": torch.tensor(first), "again": torch.tensor(again), "other": torch.tensor(other),
        "global generators": found,
    }  # fmt: skip


def derive(case: Case, seen: Observations) -> Observations:
    """Say what holds of the draws, whichever generator they come from."""
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
        "called again with the same seed": "the same draws"
        if torch.equal(seen["first"], seen["again"])
        else "other draws",
        "with another seed": "other draws" if not torch.equal(seen["first"], seen["other"]) else "the same draws",
        "global generators": ", ".join(seen["global generators"]) or "untouched",
    }


def cases(draw: Draw) -> list[Case]:
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


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
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
        "returned": seen.get("returned"),
    }
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "balanced_sampler",
    probe,
    cases,
    hints=(
        "`WeightedRandomSampler` wants one weight for each sample, not one for each class. How do you look up a "
        "class's number for all samples at once?",
        "A class of 90 samples should be drawn as often as one of 10. If all 90 have weight w, what weight must each "
        "of the 10 have?",
        "Count with `torch.bincount`, take the reciprocal, index it by the labels. Then: how many draws, with or "
        "without replacement, and from whose generator?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
)
