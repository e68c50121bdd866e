"""The exercise `strip_prefixes`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torch import Tensor

from autograde.hidden.common import one
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Wrappers put their prefix in front, and may be put around each other, so it is taken off as long as one is"
    " there, and at the front only: `replace` would also change names in the middle. The dict is new; the "
    "caller's stays."
)
"""Why the reference is written as it is."""
REQUIRED = ("replaces-inside-names", "one-level-only")
"""The mistakes that a check must always be able to name."""


NAMES = "Names that do not fit"
PREFIXES = ("module.", "_orig_mod.")
State = dict[str, Tensor]


def strip_and_copy(state: dict[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    for name, tensor in state.items():
        while name.startswith(("module.", "_orig_mod.")):
            name = name.split(".", 1)[1]
        found[name] = tensor.clone()
    return found


def strip_everywhere(state: State) -> State:
    return {name.replace("module.", "").replace("_orig_mod.", ""): tensor for name, tensor in state.items()}


def strip_middle(state: State) -> State:
    parts = {name: [part for part in name.split(".") if part not in ("module", "_orig_mod")] for name in state}
    return {".".join(parts[name]) or name: tensor for name, tensor in state.items()}


def strip_once(state: State, order: tuple[str, ...] = PREFIXES) -> State:
    def bare(name: str) -> str:
        for prefix in order:
            name = name.removeprefix(prefix)
        return name

    return {bare(name): tensor for name, tensor in state.items()}


def strip_one(state: State) -> State:
    def bare(name: str) -> str:
        found = next((prefix for prefix in PREFIXES if name.startswith(prefix)), "")
        return name.removeprefix(found)

    return {bare(name): tensor for name, tensor in state.items()}


def strip_in_turn(state: State) -> State:
    def bare(name: str) -> str:
        for prefix in PREFIXES:
            while name.startswith(prefix):
                name = name.removeprefix(prefix)
        return name

    return {bare(name): tensor for name, tensor in state.items()}


def strip_letters(state: State) -> State:
    return {name.lstrip("module.").lstrip("_orig_mod."): tensor for name, tensor in state.items()}  # noqa: B005


def strip_to_the_last(state: State) -> State:
    def bare(name: str) -> str:
        while any(prefix in name for prefix in PREFIXES):
            name = name.split(".", 1)[1]
        return name

    return {bare(name): tensor for name, tensor in state.items()}


def strip_without_dots(state: State) -> State:
    return {re.sub(r"^((module|_orig_mod)\.?)+", "", name): tensor for name, tensor in state.items()}


def strip_in_place(state: State) -> State:
    for name in list(state):
        bare = name
        while bare.startswith(PREFIXES):
            bare = bare.split(".", 1)[1]
        state[bare] = state.pop(name)
    return state


def strip_by_the_first(state: State) -> State:
    first, cut = next(iter(state)), 0
    while first[cut:].startswith(PREFIXES):
        cut += len(first[cut:].split(".", 1)[0]) + 1
    return {name[cut:]: tensor for name, tensor in state.items()}


def strip_only(state: State, prefix: str = "module.") -> State:
    stripped = {}
    for name, tensor in state.items():
        while name.startswith(prefix):
            name = name.removeprefix(prefix)
        stripped[name] = tensor
    return stripped


INSIDE = "The result has the name {name} where {meant} is wanted: the prefix is also taken out of the middle of names."
LEVELS = (
    "The result has the name {name} where {meant} is wanted: not all prefixes were taken off. They may be nested as "
    "deep as you like, and in any order."
)
ONE_PREFIX = (
    "The result has the name {name} where {meant} is wanted: wrappers put `module.` in front, compiling puts "
    "`_orig_mod.` there."
)
MISTAKES = [
    Mistake("copies-the-tensors", strip_and_copy, "The {what} in the result are {got} where {want} are wanted: a state "
            "may take gigabytes, and only its names change.", NAMES),
    Mistake("replaces-inside-names", strip_everywhere, INSIDE, NAMES),
    Mistake("replaces-inside-names", strip_middle, INSIDE, NAMES),
    Mistake("replaces-inside-names", strip_to_the_last, "The result has the name {name} where {meant} is wanted: "
            "everything up to the last such word was cut off, but only what stands in front belongs to a wrapper.",
            NAMES),
    Mistake("one-level-only", strip_once, LEVELS, NAMES),
    one("one-level-only", strip_once, LEVELS, NAMES, order=PREFIXES[::-1]),
    Mistake("one-level-only", strip_one, LEVELS, NAMES),
    Mistake("one-level-only", strip_in_turn, LEVELS, NAMES),
    Mistake("strips-letters", strip_letters, "The result has the name {name} where {meant} is wanted: `lstrip` takes "
            "off any of the given letters, not the word they make.", NAMES),
    Mistake("forgets-the-dot", strip_without_dots, "The result has the name {name} where {meant} is wanted: a name "
            "that only begins with the same letters lost them. The dot is part of the prefix.", NAMES),
    Mistake("changes-its-input", strip_in_place, "The state that was handed in is {afterwards} afterwards, because "
            "the names were taken out of it; a new dict is wanted.", NAMES),
    Mistake("goes-by-the-first-name", strip_by_the_first, "The result has the name {name} where {meant} is wanted: "
            "as much was cut from every name as the first one needed.", NAMES),
    one("knows-one-prefix", strip_only, ONE_PREFIX, NAMES),
    one("knows-one-prefix", strip_only, ONE_PREFIX, NAMES, prefix="_orig_mod."),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    layers = [draw.pick(PREFIXES) for _ in range(draw.size(17, 24))]
    return [
        case("many layers, drawn", names=["".join(layers) + "fc.weight", "".join(layers[::-1]) + "fc.bias"]),
        case("an empty state", names=[]),
        case("a submodule called module_", names=["module._module.weight", "_orig_mod.module_.weight", "_orig_mod"]),
    ]


# Right answers unlike the reference


def strip_recursively(state: dict[str, Tensor]) -> dict[str, Tensor]:
    def bare(name: str) -> str:
        for prefix in ("module.", "_orig_mod."):
            if name.startswith(prefix):
                return bare(name[len(prefix) :])
        return name

    return dict(zip(map(bare, state), state.values(), strict=True))


def strip_by_expression(state: dict[str, Tensor]) -> dict[str, Tensor]:
    import re

    return {re.sub(r"^(?:module\.|_orig_mod\.)+", "", name): value for name, value in state.items()}


def strip_by_parts(state: dict[str, Tensor]) -> dict[str, Tensor]:
    from collections import OrderedDict

    stripped = OrderedDict()
    for name, value in state.items():
        parts = name.split(".")
        while len(parts) > 1 and parts[0] in ("module", "_orig_mod"):
            parts.pop(0)
        stripped[".".join(parts)] = value
    return stripped


RIGHT_ANSWERS: list[Callable[..., Any]] = [strip_recursively, strip_by_expression, strip_by_parts]
