"""The exercise `load_outcome`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from autograde.source.mistakes import Mistake
from torchcourse.exercises.quizzes.load_outcome import Shapes
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Two differences of names, one in each direction, and one comparison of shapes where both sides have the name. "
    "`strict` excuses the first two and never the third, so it stands in one place only."
)
"""Why the reference is written as it is."""
REQUIRED = ("strict-false-skips-shapes", "missing-and-unexpected-swapped", "extra-never-raises")
"""The mistakes that a check must always be able to name."""

SECTION = "Strict loading"
Outcome = dict[str, Any]


def clash(saved: Shapes, wanted: Shapes) -> list[str]:
    return [name for name in wanted if name in saved and saved[name] != wanted[name]]


def right(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    missing = [name for name in wanted if name not in saved]
    unexpected = [name for name in saved if name not in wanted]
    raises = bool(clash(saved, wanted)) or (strict and bool(missing or unexpected))
    return {"missing": missing, "unexpected": unexpected, "raises": raises}


def strict_false_skips_shapes(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    return right(saved, wanted, strict) | ({} if strict else {"raises": False})


def swapped(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    outcome = right(saved, wanted, strict)
    return {"missing": outcome["unexpected"], "unexpected": outcome["missing"], "raises": outcome["raises"]}


def extra_never_raises(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    outcome = right(saved, wanted, strict)
    return outcome | {"raises": bool(clash(saved, wanted)) or (strict and bool(outcome["missing"]))}


def missing_never_raises(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    outcome = right(saved, wanted, strict)
    return outcome | {"raises": bool(clash(saved, wanted)) or (strict and bool(outcome["unexpected"]))}


def strips_the_prefix(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    return right({name.removeprefix("module."): shape for name, shape in saved.items()}, wanted, strict)


def strict_is_ignored(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    return right(saved, wanted, True)


def shapes_never_matter(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    return right(dict.fromkeys(saved, ()), dict.fromkeys(wanted, ()), strict)


def other_shape_is_missing(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    outcome, differing = right(saved, wanted, strict), clash(saved, wanted)
    return {key: value + differing if key != "raises" else value for key, value in outcome.items()}


def other_shape_is_only_missing(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    outcome = right(saved, wanted, strict)
    return outcome | {"missing": outcome["missing"] + clash(saved, wanted)}


def names_only_when_strict(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    return right(saved, wanted, strict) | ({} if strict else {"missing": [], "unexpected": []})


def names_lost_with_a_shape(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    return right(saved, wanted, strict) | ({"missing": [], "unexpected": []} if clash(saved, wanted) else {})


def names_lost_with_an_error(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    outcome = right(saved, wanted, strict)
    return {"missing": [], "unexpected": [], "raises": True} if outcome["raises"] else outcome


def first_size_only(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    def first(shapes: Shapes) -> Shapes:
        return {name: shape[:1] for name, shape in shapes.items()}

    return right(first(saved), first(wanted), strict)


def same_count_fits(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    def counts(shapes: Shapes) -> Shapes:
        return {name: (math.prod(shape),) for name, shape in shapes.items()}

    return right(counts(saved), counts(wanted), strict)


def broadcasts(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    def stretched(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        target = wanted.get(name, shape)
        pairs = zip(shape, target, strict=False)
        return target if len(shape) == len(target) and all(s in (1, t) for s, t in pairs) else shape

    return right({name: stretched(name, shape) for name, shape in saved.items()}, wanted, strict)


def order_matters(saved: Shapes, wanted: Shapes, strict: bool) -> Outcome:
    outcome = right(saved, wanted, strict)
    return outcome | {"raises": outcome["raises"] or (strict and list(saved) != list(wanted))}


IS = "PyTorch runs `{run}` and {said}; for `{what}` you predict {got}, but it is {want}: "
MISTAKES = [
    Mistake("strict-false-skips-shapes", strict_false_skips_shapes, IS + "`strict=False` excuses names, not shapes.",
            SECTION),
    Mistake("missing-and-unexpected-swapped", swapped, IS + "missing is what the model wants and the file lacks.",
            SECTION),
    Mistake("extra-never-raises", extra_never_raises, IS + "when strict, a name too many raises just as one too few "
            "does.",
            SECTION),
    Mistake("missing-never-raises", missing_never_raises, IS + "when strict, a name too few raises.", SECTION),
    Mistake("strict-is-ignored", strict_is_ignored, IS + "`strict=False` excuses names that one side lacks.", SECTION),
    Mistake("shapes-never-matter", shapes_never_matter, IS + "one name with two shapes always raises.", SECTION),
    Mistake("other-shape-is-missing", other_shape_is_missing, IS + "a name that both sides have is neither missing "
            "nor unexpected.", SECTION),
    Mistake("other-shape-is-missing", other_shape_is_only_missing, IS + "a name that both sides have is neither "
            "missing nor unexpected.", SECTION),
    Mistake("names-only-when-strict", names_only_when_strict, IS + "`strict=False` does not raise for names, but "
            "reports them all the same.", SECTION),
    Mistake("names-lost-when-it-raises", names_lost_with_a_shape, IS + "the names are reported even when it raises.",
            SECTION),
    Mistake("names-lost-when-it-raises", names_lost_with_an_error, IS + "the names are reported even when it raises.",
            SECTION),
    Mistake("compares-the-first-size", first_size_only, IS + "every size of a shape has to agree, the last one as "
            "well.", SECTION),
    Mistake("same-count-fits", same_count_fits, IS + "shapes have to be equal; the same number of elements is not "
            "enough.", SECTION),
    Mistake("shapes-broadcast", broadcasts, IS + "loading copies into the same shape and broadcasts nothing.",
            SECTION),
    Mistake("strips-the-prefix", strips_the_prefix, IS + "names are compared as they are; nothing strips `module.` "
            "from them.",
            SECTION),
    Mistake("order-matters", order_matters, IS + "weights are found by name, in any order.", SECTION),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    names = ["stem.weight", "stem.bias", "block.0.weight", "block.1.weight", "head.weight", "scale"]

    def some() -> Shapes:
        return {name: tuple(draw.size(1, 2) for _ in range(draw.size(1, 2))) for name in names if draw.size(0, 2)}

    drawn = []
    for n in range(14):
        wanted = some()
        saved = {name: wanted[name] if name in wanted and draw.size(0, 5) else shape for name, shape in some().items()}
        drawn.append(case(f"drawn {n}", saved=saved, wanted=wanted, strict=bool(draw.size(0, 1))))
    size, rank = draw.size(2, 5), draw.size(3, 4)
    kernel: Shapes = {"conv.0.weight": (size,) * rank, "conv.0.bias": (size,)}
    longer = {"conv.0.weight": (size,) * (rank - 1) + (size + 1,)}
    return [
        *drawn,
        case("the last of several sizes differs", saved=kernel | longer, wanted=kernel, strict=False),
        case("one dimension more, not strict", saved=kernel, wanted=kernel | {"conv.0.bias": (size, 1)}, strict=False),
        case("an empty file, not strict", saved={}, wanted={"w": (2,)}, strict=False),
    ]


# Right answers unlike the reference


def by_sets(saved: Shapes, wanted: Shapes, strict: bool) -> dict[str, Any]:
    names = saved.keys() ^ wanted.keys()
    both = saved.keys() & wanted.keys()
    return {
        "raises": (strict and len(names) > 0) or any(saved[name] != wanted[name] for name in both),
        "missing": names & wanted.keys(),
        "unexpected": names & saved.keys(),
    }


def by_loop(saved: Shapes, wanted: Shapes, strict: bool) -> dict[str, Any]:
    missing, unexpected, raises = [], [], False
    for name in sorted({*saved, *wanted}):
        if name not in saved:
            missing.append(name)
            raises |= strict
        elif name not in wanted:
            unexpected.append(name)
            raises |= strict
        elif tuple(saved[name]) != tuple(wanted[name]):
            raises = True
    return {"missing": missing, "unexpected": unexpected, "raises": raises}


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_sets, by_loop]
