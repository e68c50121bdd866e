"""The exercise `split_indices`: its probe, visible cases and hints."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise
from typing import Any

from torchcourse.checking.probe import Watched
from torchcourse.model.exercise import Case, Draw, Exercise, case
from torchcourse.model.observations import Observations, Raised
from torchcourse.probes.data_loading import refused, seed_generators, touched
from torchcourse.probes.observe import kind


def probe(answer: Watched, n: int, fractions: list[float], seed: int) -> dict[str, Any]:
    """Split, split again with arguments by name, and with another seed; or see how fractions that do not sum to 1 are
    refused."""
    if abs(sum(fractions) - 1) > 1e-3:

        def judged(message: str) -> str:
            named = "names the argument" if "fraction" in message.lower() else "does not name the argument"
            numbers = [float(number) for number in re.findall(r"\d+\.?\d*", message)]
            tells = any(abs(number - f) < 1e-6 for number in numbers for f in [*fractions, sum(fractions)])
            return f"{named}, {'tells' if tells else 'does not tell'} what it got"

        seen = refused(lambda: answer(n, list(fractions), seed), judged)
        error = seen["refused with"]
        return {"refused with": Raised("an exception", str(error), error.reason)
                if isinstance(error, Raised) else error}  # fmt: skip
    seed_generators(1)
    with touched() as found:
        parts = answer(n, list(fractions), seed)
    seed_generators(2)
    again, other = answer(n=n, fractions=list(fractions), seed=seed), answer(n, list(fractions), seed + 1)
    return {"parts": parts, "again": again, "with another seed": other, "global generators": found}


def _mixed(part: list[int], n: int) -> str:
    """Describe how the members of a part are spread over all indices."""
    ordered = sorted(part)
    gaps = {b - a for a, b in pairwise(ordered)}
    if len(part) < 5 or len(part) == n:
        return "too few or all to tell"
    if len(gaps) == 1:
        return "evenly spaced"
    spread = math.sqrt((n - len(part)) * (n + 1) / (12 * len(part)))  # of the mean of as many random indices
    off = abs(sum(part) / len(part) - (n - 1) / 2) / spread
    return "mixed" if off < 5 else "mostly in the old order"


def derive(case: Case, seen: Observations) -> Observations:
    """Say what holds of the parts, whichever generator shuffled."""
    if "refused with" in seen:
        return seen
    n, fractions, parts = case.inputs["n"], case.inputs["fractions"], seen["parts"]
    if not (isinstance(parts, list | tuple) and all(isinstance(part, list) for part in parts)):
        inner = type(parts[0]).__name__ if isinstance(parts, list | tuple) and parts else ""
        return {"returned": f"{kind(parts)}{inner and f' that holds {inner}'}, where a list of lists is wanted"}
    flat = [index for part in parts for index in part]
    strange = [index for index in flat if type(index) is not int]
    if strange:
        return {"returned": f"indices that are {kind(strange[0])}, where ints are wanted"}
    counts = Counter(flat)
    sizes, exact = [len(part) for part in parts], [n * f for f in fractions]
    trivial = n < 5 or len(exact) == 1
    divides = len(exact) == 2 and all(abs(e - round(e)) < 1e-9 for e in exact)
    slack = 0.5 if divides else len(exact)
    near = len(sizes) == len(exact) and all(abs(s - e) < slack for s, e in zip(sizes, exact, strict=True))
    return {
        "sizes": "as the fractions say" if near else sizes,
        "indices that are missing": sum(i not in counts for i in range(n)),
        "indices that come twice": sum(count > 1 for count in counts.values()),
        "indices from outside": sum(not 0 <= i < n for i in counts),
        "order": [_mixed(part, n) for part in parts],
        "called again with the same seed": "the same parts" if seen["again"] == parts else "other parts",
        "with another seed": "other parts" if seen["with another seed"] != parts or trivial else "the same parts",
        "global generators": ", ".join(seen["global generators"]) or "untouched",
    }


def cases(draw: Draw) -> list[Case]:
    seed = draw.size(3, 99)
    return [
        case("100 in two parts", n=100, fractions=[0.8, 0.2], seed=seed),
        case("97 in three parts", n=97, fractions=[0.7, 0.2, 0.1], seed=seed),
        case("53 in five parts", n=53, fractions=[0.2] * 5, seed=seed + 1),
        case("all in one part", n=draw.size(20, 30), fractions=[1.0], seed=seed),
        case("seed 0", n=draw.size(60, 70), fractions=[0.5, 0.25, 0.25], seed=0),
        case("fractions that sum to 0.97", n=20, fractions=[0.7, 0.27], seed=seed),
        case("fractions that sum to 1.1", n=20, fractions=[0.8, 0.3], seed=seed),
    ]


def quotes(inputs: Observations, seen: Observations, wanted: Observations) -> dict[str, object]:
    fields: dict[str, object] = {
        "sum": sum(inputs["fractions"]),
        "missing": seen.get("indices that are missing"),
        "twice": seen.get("indices that come twice"),
        "generators": seen.get("global generators"),
        "sizes": seen.get("sizes"),
        "returned": seen.get("returned"),
        "order": next((o for o in seen.get("order", []) if o != "mixed"), "mixed"),
    }
    return {name: value for name, value in fields.items() if value is not None}


EXERCISE = Exercise(
    "split_indices",
    probe,
    cases,
    hints=(
        "Shuffle all of `range(n)` once, then cut the shuffled list into pieces. Can anything be lost or come twice "
        "that way?",
        "A generator of your own, made from `seed`, leaves the global ones alone. Which argument of `torch.randperm` "
        "takes it?",
        "Where do you cut? Round the running sum of the fractions times n, so that the last cut is at n. And "
        "is `0.7 + 0.2 + 0.1 == 1` true in floating point?",
    ),
    any_device=False,
    derive=derive,
    quotes=quotes,
)
