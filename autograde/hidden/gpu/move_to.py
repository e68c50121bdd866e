"""The exercise `move_to`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from autograde.hidden.gpu.shared import move_by_match
from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "Each container is rebuilt from its moved parts and keeps its type; a namedtuple takes its fields one by "
    "one. Towards a device, `non_blocking` lets a copy from pinned memory run beside other work. Towards the "
    "CPU it would hand out numbers that have not arrived yet, so there it is off."
)
"""Why the reference is written as it is."""
REQUIRED = ("namedtuple-lost", "mutates-input", "only-top-level")
"""The mistakes that a check must always be able to name."""


class Move:
    """A right answer, as an object that is called. Each mistake below is this one with one method written otherwise."""

    def __call__(self, obj: Any, device: torch.device) -> Any:
        self.device = device
        return self.moved(obj)

    def moved(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return obj.to(self.device)
        if isinstance(obj, dict):
            return self.moved_dict(obj)
        if isinstance(obj, list):
            return self.moved_list(obj)
        if isinstance(obj, tuple):
            return self.moved_tuple(obj)
        return self.passed(obj)

    def moved_dict(self, obj: dict[Any, Any]) -> Any:
        return {key: self.moved(value) for key, value in obj.items()}

    def moved_list(self, obj: list[Any]) -> Any:
        return [self.moved(value) for value in obj]

    def moved_tuple(self, obj: tuple[Any, ...]) -> Any:
        moved = [self.moved(value) for value in obj]
        return type(obj)(*moved) if hasattr(obj, "_fields") else tuple(moved)

    def passed(self, obj: Any) -> Any:
        return obj


class LosesNamedtuples(Move):
    def moved_tuple(self, obj: tuple[Any, ...]) -> Any:
        return tuple(self.moved(value) for value in obj)


class NamedtupleFromOneList(Move):
    def moved_tuple(self, obj: tuple[Any, ...]) -> Any:
        return type(obj)([self.moved(value) for value in obj])


class TupleFromSingleItems(Move):
    def moved_tuple(self, obj: tuple[Any, ...]) -> Any:
        return type(obj)(*[self.moved(value) for value in obj])


class TuplesBecomeLists(Move):
    def moved_tuple(self, obj: tuple[Any, ...]) -> Any:
        return super().moved_tuple(obj) if hasattr(obj, "_fields") else self.moved_list(list(obj))


class MutatesInput(Move):
    def moved_dict(self, obj: dict[Any, Any]) -> Any:
        for key in obj:
            obj[key] = self.moved(obj[key])
        return obj

    def moved_list(self, obj: list[Any]) -> Any:
        obj[:] = [self.moved(value) for value in obj]
        return obj


class MovesTensorsOfADict(Move):
    def moved_dict(self, obj: dict[Any, Any]) -> Any:
        return {key: only_tensors(value, self.device) for key, value in obj.items()}


class PassesListsBy(Move):
    def moved_list(self, obj: list[Any]) -> Any:
        return obj


class PassesDictsBy(Move):
    def moved_dict(self, obj: dict[Any, Any]) -> Any:
        return obj


class PassesTuplesBy(Move):
    def moved_tuple(self, obj: tuple[Any, ...]) -> Any:
        return obj


class MovesNothing(Move):
    def moved(self, obj: Any) -> Any:
        return obj if isinstance(obj, Tensor) else super().moved(obj)


class MovesModulesToo(Move):
    def passed(self, obj: Any) -> Any:
        return obj.to(self.device) if isinstance(obj, torch.nn.Module) else obj


class MovesWhateverCan(Move):
    def passed(self, obj: Any) -> Any:
        return obj.to(self.device) if hasattr(obj, "to") else obj


class MovesObjectsToo(Move):
    def passed(self, obj: Any) -> Any:
        return obj.to(self.device) if hasattr(obj, "to") and not isinstance(obj, torch.nn.Module) else obj


class MovesAllElse(Move):
    def passed(self, obj: Any) -> Any:
        return obj.to(self.device)


class ForgetsOtherThings(Move):
    def passed(self, obj: Any) -> Any:
        return None


def only_tensors(obj: Any, device: torch.device) -> Any:
    return obj.to(device) if isinstance(obj, Tensor) else obj


def only_the_outermost(obj: Any, device: torch.device) -> Any:
    if isinstance(obj, dict):
        return {key: only_tensors(value, device) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        moved = [only_tensors(value, device) for value in obj]
        return type(obj)(*moved) if hasattr(obj, "_fields") else type(obj)(moved)
    return only_tensors(obj, device)


def always_to_the_cpu(obj: Any, device: torch.device) -> Any:
    return Move()(obj, torch.device("cpu"))


class Detaches(Move):
    def moved(self, obj: Any) -> Any:
        return super().moved(obj.detach() if isinstance(obj, Tensor) else obj)


class DetachesLeaves(Move):
    def moved(self, obj: Any) -> Any:
        return super().moved(obj.data if isinstance(obj, Tensor) and obj.is_leaf else obj)


class TakesApartWhatCanBeWalked(Move):
    def passed(self, obj: Any) -> Any:
        if hasattr(obj, "__iter__") and not isinstance(obj, str | torch.nn.Module):
            return [self.moved(value) for value in obj]
        return obj


MOVING = "Moving what you have"
CAME = 'In the case "{case}" the result is {came}, and {should} is wanted: '
RESULT = 'In the case "{case}" the result is {came}: '
TOP = RESULT + "containers inside containers were left as they were."
RAISED = 'In the case "{case}" the call raised {error}: '
MISTAKES = [
    Mistake("namedtuple-lost", LosesNamedtuples(), "A namedtuple came out as {came}, and {should} is wanted: without "
            "its fields, `batch.x` no longer works.", MOVING),
    Mistake("detached", Detaches(), CAME + "a tensor that moves stays part of its graph, and gradients go back to "
            "where it came from.", MOVING),
    Mistake("detached", DetachesLeaves(), CAME + "a tensor that requires a gradient, as a parameter does, still does "
            "so after it has moved; `.detach()` and `.data` cut it off.", MOVING),
    Mistake("takes-other-things-apart", TakesApartWhatCanBeWalked(), CAME + "only dicts, lists, tuples and namedtuples "
            "are looked into; that something can be iterated over does not make it one of these.", MOVING),
    Mistake("mutates-input", MutatesInput(), "In the case \"{case}\" the caller's own object was {afterwards}, since "
            "its items were overwritten: build a new container instead.", MOVING),
    Mistake("only-top-level", only_the_outermost, TOP, MOVING),
    Mistake("only-top-level", MovesTensorsOfADict(), TOP, MOVING),
    Mistake("tuples-become-lists", TuplesBecomeLists(), CAME + "a tuple stays a tuple.", MOVING),
    Mistake("moves-modules-too", MovesModulesToo(), 'In the case "{case}" the result is {came}: a module has a method '
            "`to` as well, but it changes the module that the caller still holds.", MOVING),
    Mistake("moves-modules-too", MovesWhateverCan(), 'In the case "{case}" the result is {came}: modules and other '
            "objects may have a method `to` as well, which does not make them tensors.", MOVING),
    Mistake("moves-other-things-too", MovesObjectsToo(), CAME + "other objects may have a method `to` as well, which "
            "does not make them tensors.", MOVING),
    Mistake("namedtuple-from-one-list", NamedtupleFromOneList(), RAISED + "a namedtuple takes its fields one by one, "
            "so a list of them has to be unpacked.", MOVING),
    Mistake("tuple-from-single-items", TupleFromSingleItems(), RAISED + "a plain tuple takes one iterable; only a "
            "namedtuple takes its fields one by one.", MOVING),
    Mistake("forgets-other-things", ForgetsOtherThings(), RESULT + "what is neither a tensor nor a container passes "
            "through, and a function without `return` returns None.", MOVING),
    Mistake("crashes-on-other-things", MovesAllElse(), RAISED + "only tensors can be moved, and everything else passes "
            "through.",
            MOVING),
    Mistake("passes-lists-by", PassesListsBy(), RESULT + "there are tensors in lists as well.", MOVING),
    Mistake("passes-dicts-by", PassesDictsBy(), RESULT + "there are tensors in dicts as well.", MOVING),
    Mistake("passes-tuples-by", PassesTuplesBy(), RESULT + "there are tensors in tuples as well.", MOVING),
    Mistake("moves-nothing", MovesNothing(), CAME + "tensors were left where they are. `.to()` moves no tensor in "
            "place; it returns one that is on the device.", MOVING),
    Mistake("only-top-level", only_tensors, RESULT + "what is inside a container was left where it was.", MOVING),
    Mistake("device-ignored", always_to_the_cpu, CAME + "everything goes to one device, whichever was asked for.",
            MOVING),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    x, n = draw.normal(2, 3), draw.size(2, 5)
    like: dict[str, Any] = {"like": torch.zeros(1)}
    mixed: list[Any] = [{"Batch": [[x], {"a": (x, None)}]}, ("b", [{"Sample": [{"ids": x}, n, (x,)]}])]
    return [
        case("many levels", obj=mixed, target="elsewhere", **like),
        case("many levels, to the device", obj=mixed, target="device", **like),
        case("empty containers", obj=[(), {}, []], target="elsewhere", **like),
        case("a number", obj=n, target="elsewhere", **like),
        case("a transposed tensor", obj=(draw.normal(3, n).t(), draw.integers(0, 2, 2)), target="device", **like),
    ]


# Right answers unlike the reference


def move_by_tree(obj: Any, device: torch.device) -> Any:
    return tree_map_only(Tensor, lambda t: t.to(device), obj)


def move_with_a_stack(obj: Any, device: torch.device) -> Any:
    if torch.is_tensor(obj):
        there = torch.empty_like(obj, device=device)
        return there.copy_(obj)
    if hasattr(obj, "_asdict"):
        return type(obj)(**{name: move_with_a_stack(value, device) for name, value in obj._asdict().items()})
    if isinstance(obj, dict):
        made = obj.copy()
        for key in obj:
            made[key] = move_with_a_stack(obj[key], device)
        return made
    if isinstance(obj, (list, tuple)):
        items = []
        for item in obj:
            items.append(move_with_a_stack(item, device))
        return items if isinstance(obj, list) else tuple(items)
    return obj


RIGHT_ANSWERS: list[Callable[..., Any]] = [move_by_tree, move_by_match, move_with_a_stack]
