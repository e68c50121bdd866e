"""The exercise `global_mean`: its probe, visible cases and hints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations
from torchcourse.probes.on_ranks import MODULES, on_ranks, rank
from torchcourse.probes.trainable_models import number_or_kind


def program(answer: Callable[..., Any], totals: list[float], counts: list[int]) -> Observations:
    """Observe the mean that this rank is given."""
    return {"mean": number_or_kind(answer(totals[rank()], counts[rank()]))}


def probe(answer: Watched, totals: list[float], counts: list[int]) -> Observations:
    """Observe the mean on each rank."""
    return on_ranks(answer, program, {"totals": totals, "counts": counts}, len(counts))


def cases(draw: Draw) -> list[Case]:
    def means(*counts: int) -> dict[str, Any]:
        each = [round(float(m), 3) for m in draw.uniform(0.5, 5, len(counts))]
        return {"totals": [m * n for m, n in zip(each, counts, strict=True)], "counts": list(counts)}

    few, many = draw.size(1, 3), draw.size(8, 20)
    exactly = {"rtol": 1e-9, "atol": 1e-12}
    return [
        case("shards of 3 and 1", totals=[24.0, 0.0], counts=[3, 1], **exactly),
        case("shards of one size", **means(many, many), **exactly),
        case("a rank with few samples", **means(many, few), **exactly),
        case("a rank without samples", totals=[0.0, 10.5], counts=[0, few], **exactly),
        case("no samples at all", totals=[0.0, 0.0], counts=[0, 0], **exactly),
        case("three ranks", **means(many, few, few + 1), **exactly),
        case("numbers that float32 cannot hold", totals=[2.0**24 + 1, 3.0], counts=[1, 1], **exactly),
        case("a count that float32 cannot hold", totals=[3.0 * 2**24, 0.0], counts=[2**24 + 1, 0], **exactly),
        case("a sum of zero", totals=[0.0, 0.0], counts=[few, 3], **exactly),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {"n0": inputs["counts"][0], "n1": inputs["counts"][1]}
    fields |= {"t0": inputs["totals"][0], "t1": inputs["totals"][1]}
    means = {"mean0": seen.get("mean, rank 0"), "mean1": seen.get("mean, rank 1"), "right": wanted.get("mean, rank 0")}
    fields |= {name: f"{value:.9g}" if isinstance(value, float) else value for name, value in means.items()}
    waiting = next((n for n in range(2) if seen.get(f"rank {n}") != "returned"), 0)
    return fields | {"ended0": seen.get("rank 0"), "who": waiting, "ended": seen.get(f"rank {waiting}")}


EXERCISE = Exercise(
    "global_mean",
    probe,
    cases,
    hints=(
        "Two ranks with 3 samples and 1 sample: how much does each sample count if you average the two means? Which "
        "two numbers can be added over ranks without losing anything?",
        "Put both numbers into one tensor and add it up over all ranks. Which collective leaves the sum on every rank, "
        "and which dtype holds a count of 16,777,217?",
        "Divide only after the exchange: then no rank divides by its own zero. What is left to do where the count of "
        "all ranks together is 0?",
    ),
    any_device=False,
    quotes=quotes,
    imports=MODULES,
)
