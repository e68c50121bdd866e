"""The exercise `held_graphs`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from autograde.hidden.common import override
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "`grad_fn` is the way into the graph: a tensor that has one keeps the graph alive, a leaf has none. A function "
    "that calls itself follows containers as deep as they go, with the path so far as its second argument; only the "
    "first step writes keys bare."
)
"""Why the reference is written as it is."""
REQUIRED = ("flags-leaves", "only-top-level", "asks-grad-not-grad-fn")
"""The mistakes that a check must always be able to name."""

MEMORY = "Memory that grows"


class Held:
    """A right program; a mistake overrides one of its methods."""

    def __call__(self, obj: Any) -> Any:
        return self.returned([path for path, tensor in self.walk(obj, "", 0) if self.counts(tensor)])

    def counts(self, tensor: Tensor) -> bool:
        return tensor.grad_fn is not None

    def walk(self, value: Any, path: str, depth: int) -> Iterator[tuple[str, Tensor]]:
        if isinstance(value, Tensor):
            yield path, value
        for key, item in self.parts(value, depth):
            yield from self.walk(item, path + key, depth + 1)

    def parts(self, value: Any, depth: int) -> list[tuple[str, Any]]:
        if isinstance(value, dict):
            return [(self.key(key, depth), item) for key, item in value.items()]
        if isinstance(value, self.lists()):
            return [(f"[{place}]", item) for place, item in enumerate(value)]
        return []

    def lists(self) -> Any:
        return (list, tuple)

    def key(self, key: Any, depth: int) -> str:
        return f"[{key!r}]" if depth else str(key)

    def returned(self, paths: list[str]) -> Any:
        return sorted(paths)


def walking(**methods: Any) -> Callable[..., Any]:
    """Return the right program with these methods in place of its own."""
    program: Callable[..., Any] = override(Held, **methods)()
    return program


def keeps_bare_keys(self: Held, value: Any, path: Any, depth: int) -> Iterator[tuple[Any, Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
    top = depth == 0 and isinstance(value, dict)
    for key, item in value.items() if top else self.parts(value, depth):
        yield from self.walk(item, key if top else f"{path}{key}", depth + 1)


class OfTheVeryType(Held):
    def parts(self, value: Any, depth: int) -> list[tuple[str, Any]]:
        return [] if isinstance(value, dict) and type(value) is not dict else super().parts(value, depth)


class TopLevel(Held):
    def parts(self, value: Any, depth: int) -> list[tuple[str, Any]]:
        return super().parts(value, depth) if depth == 0 else []


class TwoLevels(Held):
    def parts(self, value: Any, depth: int) -> list[tuple[str, Any]]:
        return super().parts(value, depth) if depth < 2 else []


class EachOnce(Held):
    def __call__(self, obj: Any) -> Any:
        once: dict[int, str] = {}
        for path, tensor in self.walk(obj, "", 0):
            if self.counts(tensor):
                once.setdefault(id(tensor), path)
        return sorted(once.values())


class BareAtTheTop(Held):
    def parts(self, value: Any, depth: int) -> list[tuple[str, Any]]:
        parts = super().parts(value, depth)
        return parts if depth or isinstance(value, dict) else [(key.strip("[]"), item) for key, item in parts]


def without_quotes(_self: Any, key: Any, depth: int) -> str:
    return f"[{key}]" if depth else str(key)


def always_quoted(_self: Any, key: Any, depth: int) -> str:
    return f"['{key}']" if depth else str(key)


MISSING = 'In the case "{case}" the path {missing} is missing: '
EXTRA = 'In the case "{case}" there is the path {extra}, which is not wanted: '
MISTAKES = [
    Mistake("flags-leaves", walking(counts=lambda self, t: t.requires_grad), EXTRA + "a leaf may require a gradient, "
            "but it has no graph behind it; `grad_fn` tells the two apart.", MEMORY),
    Mistake("only-top-level", TopLevel(), MISSING + "containers hold containers, and the tensor lies deeper.", MEMORY),
    Mistake("only-two-levels", TwoLevels(), MISSING + "two levels were looked at, and the tensor lies deeper; a "
            "function that calls itself goes as deep as the containers do.", MEMORY),
    Mistake("asks-grad-not-grad-fn", walking(counts=lambda self, t: t.is_leaf and t.grad is not None), MISSING
            + "`.grad` holds the gradient of a leaf; the graph hangs on `grad_fn`.", MEMORY),
    Mistake("flags-every-tensor", walking(counts=lambda self, t: True), EXTRA + "a tensor without `grad_fn` keeps only "
            "its own numbers.", MEMORY),
    Mistake("dicts-of-the-very-type", OfTheVeryType(), MISSING + "an `OrderedDict` and a `defaultdict` are dicts too, "
            "which `isinstance` knows and `type(...) is dict` does not.", MEMORY),
    Mistake("skips-tuples", walking(lists=lambda self: list), MISSING + "the tensor lies in a tuple, so look into "
            "tuples as well.", MEMORY),
    Mistake("skips-lists", walking(lists=lambda self: tuple), MISSING + "the tensor lies in a list, so look into "
            "lists as well.", MEMORY),
    Mistake("not-sorted", walking(returned=lambda self, paths: paths), 'In the case "{case}" the paths are not '
            "sorted, and should be.", MEMORY),
    Mistake("keys-without-quotes", walking(key=without_quotes), EXTRA + "below the top a key is written by `repr`, "
            "with quotes around a string.", MEMORY),
    Mistake("keys-without-quotes", walking(key=without_quotes, lists=lambda self: list), EXTRA + "below the top a key "
            "is written by `repr`, with quotes around a string. And tensors may also lie in tuples.", MEMORY),
    Mistake("quotes-around-every-key", walking(key=always_quoted), EXTRA + "`repr` puts quotes around a string, and "
            "none around a number.", MEMORY),
    Mistake("brackets-at-the-top", walking(key=lambda self, key, depth: f"[{key!r}]"), EXTRA + "a key at the top is "
            "written without brackets.", MEMORY),
    Mistake("bare-index-at-the-top", BareAtTheTop(), EXTRA + "an index always stands in brackets, even at the top; "
            "only the keys of a dict are written without them there.", MEMORY),
    Mistake("keys-not-as-text", walking(walk=keeps_bare_keys), 'In the case "{case}" `paths` is {got} where {want} '
            "is wanted: a path is a string, even where a key at the top is a number.", MEMORY),
    Mistake("keys-with-dots", walking(key=lambda self, key, depth: f".{key}" if depth else str(key)), EXTRA + "a key "
            "below the top stands in brackets.", MEMORY),
    Mistake("each-tensor-once", EachOnce(), MISSING + "the same tensor lies under two paths, and both hold it.",
            MEMORY),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    def log(plan: Any) -> dict[str, Any]:
        return {"plan": plan, "weight": draw.normal(2, 4)}

    return [
        case("deep down", **log({"a": [["plain", {"b": ("loss", ["pair", "copy", "view"])}]]})),
        case("keys with quotes and numbers", **log({"it's": {"a'b": "loss", "#10": ["loss"], "#9": "leaf"}})),
        case("a list of lists", **log([["loss"], [], ["detached", "loss"], "parameter"])),
        case("a defaultdict at the top", **log(["default", {"epoch": ["ordered", {"#1": ["loss"]}], "it's": "copy"}])),
        case("an empty list", **log([])),
        case("words and numbers", **log({"text": "text", "n": ["its number", "nothing", "leaf with a gradient"]})),
    ]


# Right answers unlike the reference


def held_with_a_stack(obj: Any) -> list[str]:
    found, stack = [], [("", obj, True)]
    while stack:
        path, value, top = stack.pop()
        if torch.is_tensor(value):
            if not value.is_leaf:
                found.append(path)
        elif isinstance(value, dict):
            stack += [(str(k) if top else path + f"[{k!r}]", v, False) for k, v in value.items()]
        elif isinstance(value, list | tuple):
            stack += [(path + f"[{i}]", v, False) for i, v in enumerate(value)]
    found.sort()
    return found


def held_by_pytree(obj: Any) -> list[str]:
    def inner(value: Any) -> list[str]:
        if isinstance(value, Tensor):
            return [""] if value.grad_fn else []
        items: Any = value.items() if isinstance(value, dict) else ()
        items = enumerate(value) if isinstance(value, list | tuple) else items
        return [f"[{key!r}]{rest}" for key, item in items for rest in inner(item)]

    if isinstance(obj, dict):
        return sorted(f"{key}{rest}" for key, value in obj.items() for rest in inner(value))
    return sorted(inner(obj))


RIGHT_ANSWERS: list[Callable[..., Any]] = [held_with_a_stack, held_by_pytree]
