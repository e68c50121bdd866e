"""The exercise `registered`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograde.hidden.common import one
from torchcourse.exercises.quizzes.registered import KINDS, Attributes, drawn
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "What a module does with an attribute depends on its kind alone, so three sets of kinds say it all. They are "
    "nested: what is trained is saved, and what is saved is moved. Kinds that are in none of them are plain Python "
    "attributes."
)
"""Why the reference is written as it is."""
REQUIRED = ("list-is-registered", "buffer-is-parameter", "non-persistent-is-saved", "tensor-moves")
"""The mistakes that a check must always be able to name."""

SECTION = "What a module knows"
Kinds = frozenset[str]
TRAINED = frozenset({"parameter", "module", "ModuleList"})
SAVED = TRAINED | {"buffer"}
MOVED = SAVED | {"non-persistent buffer"}


def by_kind(
    attributes: Attributes, *, parameters: Kinds = TRAINED, state_dict: Kinds = SAVED, moved: Kinds = MOVED
) -> dict[str, list[str]]:
    """Predict by three sets of kinds."""
    places = {"parameters": parameters, "state_dict": state_dict, "moved": moved}
    return {place: [name for name, kind in attributes if kind in kinds] for place, kinds in places.items()}


def without_empty_lists(attributes: Attributes) -> dict[str, list[str]]:
    return {place: names for place, names in by_kind(attributes).items() if names}


LIST = {"list of modules"}
NON_PERSISTENT = {"non-persistent buffer"}
SAID = "With `{run}`, PyTorch {said}: "
MISTAKES = [
    one("list-is-registered", by_kind, SAID + "a module does not look into a Python list (you predict {got}).", SECTION,
        parameters=TRAINED | LIST, state_dict=SAVED | LIST, moved=MOVED | LIST),
    one("list-moves", by_kind, SAID + "`.to` does not look into a Python list (you predict {got}).", SECTION,
        moved=MOVED | LIST),
    one("buffer-is-parameter", by_kind, SAID + "a buffer is not trained (you predict {got}).", SECTION,
        parameters=TRAINED | {"buffer"} | NON_PERSISTENT),
    one("buffer-is-parameter", by_kind, SAID + "a buffer is not trained (you predict {got}).", SECTION,
        parameters=TRAINED | {"buffer"}),
    one("non-persistent-is-saved", by_kind, SAID + "`persistent=False` leaves it out of the `state_dict` (you predict "
        "{got}).", SECTION, state_dict=MOVED),
    one("tensor-moves", by_kind, SAID + "a plain tensor is unknown to the module (you predict {got}).", SECTION,
        moved=MOVED | {"tensor"}),
    one("tensor-is-saved", by_kind, SAID + "a plain tensor is unknown to the module (you predict {got}).", SECTION,
        state_dict=SAVED | {"tensor"}, moved=MOVED | {"tensor"}),
    one("non-persistent-stays", by_kind, SAID + "what is not saved is moved all the same (you predict {got}).", SECTION,
        moved=SAVED),
    one("buffer-is-not-saved", by_kind, SAID + "a buffer is saved unless you ask for `persistent=False` (you predict "
            "{got}).",
        SECTION, state_dict=TRAINED),
    one("buffers-stay", by_kind, SAID + "`.to` moves buffers too (you predict {got}).", SECTION, moved=TRAINED),
    one("modulelist-is-a-list", by_kind, SAID + "a ModuleList is a module, and its layers are known (you predict "
        "{got}).", SECTION, parameters=TRAINED - {"ModuleList"}, state_dict=SAVED - {"ModuleList"},
        moved=MOVED - {"ModuleList"}),
    one("only-own-parameters", by_kind, SAID + "`parameters` goes through modules in the module (you predict {got}).",
        SECTION, parameters=TRAINED - {"module", "ModuleList"}),
    one("empty-lists-left-out", without_empty_lists, 'In the case "{case}" the dict has no `{what}` where {want} is '
        "wanted: it has all three lists, even where one is empty.", SECTION),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    kinds = list(KINDS)
    some = [[draw.pick(kinds) for _ in range(draw.size(1, 7))] for _ in range(12)]
    return [case(f"drawn {n}", attributes=drawn(draw, *row)) for n, row in enumerate(some)]


# Right answers unlike the reference

TABLE = {
    "parameter": (1, 1, 1), "tensor": (0, 0, 0), "buffer": (0, 1, 1), "non-persistent buffer": (0, 0, 1),
    "module": (1, 1, 1), "list of modules": (0, 0, 0), "ModuleList": (1, 1, 1),
}  # fmt: skip


def by_table(attributes: Attributes) -> dict[str, set[str]]:
    result: dict[str, set[str]] = {"parameters": set(), "state_dict": set(), "moved": set()}
    for name, kind in attributes:
        for names, belongs in zip(result.values(), TABLE[kind], strict=True):
            if belongs:
                names.add(name)
    return result


def by_words(attributes: Attributes) -> dict[str, tuple[str, ...]]:
    known = [(n, k) for n, k in attributes if k != "tensor" and "list of" not in k]
    return {
        "moved": tuple(n for n, _ in known),
        "state_dict": tuple(n for n, k in known if "non-" not in k),
        "parameters": tuple(n for n, k in known if "buffer" not in k),
    }


RIGHT_ANSWERS: list[Callable[..., Any]] = [by_table, by_words]
