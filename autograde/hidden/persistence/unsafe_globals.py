"""The exercise `unsafe_globals`: hidden cases, known mistakes, other right answers."""

from __future__ import annotations

import io
import pickle
import pickletools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from autograde.source.mistakes import Mistake
from torchcourse.model.exercise import Case, Draw, case

WHY = (
    "The names are read from the pickle's opcodes; nothing is imported or called. Loading the file to see what "
    "is in it would be too late: a pickle can run anything while it is loaded."
)
"""Why the reference is written as it is."""
REQUIRED = ("executes-pickle", "lists-safe-ones")
"""The mistakes that a check must always be able to name."""


PICKLE = "Pickle is code"


def _asked_for(path: Path) -> list[str]:
    """Every global that the pickle in a file names, in its order."""
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith("data.pkl"))
        operations = pickletools.genops(archive.read(name))
        return [str(argument).replace(" ", ".") for code, argument, _ in operations if code.name == "GLOBAL"]


def _unsafe(path: Path) -> list[str]:
    return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(str(path)))


def unsafe_by_loading(path: Path) -> list[str]:
    held = torch.load(path, weights_only=False)
    found = {f"{type(value).__module__}.{type(value).__qualname__}" for value in held.values()}
    return sorted(name for name in found if not name.startswith(("builtins", "collections", "torch.Tensor")))


def unsafe_after_loading(path: Path) -> list[str]:
    torch.load(path, weights_only=False)
    return _unsafe(path)


def unsafe_and_safe(path: Path) -> list[str]:
    return sorted(set(_asked_for(path)))


def unsafe_without_torch(path: Path) -> list[str]:
    return sorted(name for name in set(_asked_for(path)) if not name.startswith(("torch.", "__builtin__", "builtins")))


def unsafe_in_order(path: Path) -> list[str]:
    bad = set(_unsafe(path))
    return [name for name in dict.fromkeys(_asked_for(path)) if name in bad][::-1]


def unsafe_unsorted(path: Path) -> list[str]:
    return unsafe_in_order(path)[::-1]


def unsafe_first(path: Path) -> list[str]:
    bad = set(_unsafe(path))
    return [name for name in _asked_for(path) if name in bad][:1]


def unsafe_bare(path: Path) -> list[str]:
    return sorted(name.rpartition(".")[2] for name in _unsafe(path))


def unsafe_by_the_files_name(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        archive.getinfo(f"{path.stem}/data.pkl")
    return _unsafe(path)


def unsafe_functions(path: Path) -> list[str]:
    return [name for name in _unsafe(path) if not name.startswith("torch.")]


EXECUTED = (
    'In the case "{case}" the file was loaded with everything in it: whoever does that to find out what a pickle '
    "would do has run it already."
)
SAFE_LISTED = "The list has {extra}, which weights-only loading accepts: only what it would refuse is wanted."
MISTAKES = [
    Mistake("executes-pickle", unsafe_by_loading, EXECUTED, PICKLE),
    Mistake("executes-pickle", unsafe_after_loading, EXECUTED, PICKLE),
    Mistake("bound-to-the-files-name", unsafe_by_the_files_name, "In the case \"{case}\" the call raised {error}: the "
            "archive keeps the name under which it was saved, whatever the file is called now.", PICKLE),
    Mistake("lists-safe-ones", unsafe_and_safe, SAFE_LISTED, PICKLE),
    Mistake("lists-safe-ones", unsafe_without_torch, SAFE_LISTED, PICKLE),
    *(Mistake("not-sorted", program, "The names came as {came}, and should be sorted.", PICKLE)
      for program in (unsafe_in_order, unsafe_unsorted)),
    Mistake("only-the-first", unsafe_first, "The names came as {names} where {want_names} is wanted: the exception of "
            "weights-only loading names the first that it meets, and there are more.", PICKLE),
    Mistake("names-without-module", unsafe_bare, "The names came as {names} where {want_names} is wanted: what a name "
            "means depends on the module it is from.", PICKLE),
    Mistake("trusts-torch", unsafe_functions, "The list lacks {lost}: a name is not safe just because it is from "
            "torch: a whole module is an object with code.", PICKLE),
]  # fmt: skip


def more_cases(draw: Draw) -> list[Case]:
    some = [draw.pick(["namespace", "fraction", "decimal", "duration", "id", "counter"]) for _ in range(5)]
    return [
        case("drawn things", holds=["weights", *some], width=draw.size(2, 6)),
        case("a model and code", holds=["code", "model", "dtype"], width=draw.size(2, 6)),
        case("nothing at all", holds=[], width=2),
    ]


# Right answers unlike the reference


def allowed() -> set[str]:
    from torch._weights_only_unpickler import _get_allowed_globals

    return {*_get_allowed_globals(), "torch.nn.parameter.Parameter", "torch._utils._rebuild_parameter"}


def unsafe_by_operations(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("/data.pkl"))
        data = archive.read(name)
    found = {str(arg).replace(" ", ".") for code, arg, _ in pickletools.genops(data) if code.name == "GLOBAL"}
    return sorted(name for name in found if name not in allowed() and not name.startswith("__builtin__."))


class Named:
    """Stands for whatever a pickle names, and does nothing."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Named:
        return object.__new__(cls)

    def __setstate__(self, state: Any) -> None: ...

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def append(self, item: Any) -> None: ...

    def extend(self, items: Any) -> None: ...


class Listing(pickle.Unpickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.names: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.names.add(f"{module}.{name}")
        return Named

    def persistent_load(self, pid: Any) -> Any:
        return Named()


def unsafe_by_stand_ins(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        inside = next(n for n in archive.namelist() if n.endswith("data.pkl"))
        listing = Listing(io.BytesIO(archive.read(inside)))
    listing.load()
    return sorted(n for n in listing.names if n not in {*allowed(), "builtins.set", "__builtin__.set"})


RIGHT_ANSWERS: list[Callable[..., Any]] = [unsafe_by_operations, unsafe_by_stand_ins]
