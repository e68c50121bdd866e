"""Torch's own modules, as they were before any of a learner's code ran: what is watched is recognized by them."""

from __future__ import annotations

import inspect
import os
import sys
from functools import cache
from types import BuiltinFunctionType
from typing import Any, TypeGuard

import torch

from torchcourse.model import own_code

__all__ = [
    "FOLDER",
    "LATE",
    "TORCH",
    "exists_in_torch",
    "fingerprints",
    "module_by_namespace_id",
    "module_of_builtin",
    "torchs_classes",
    "torchs_functions",
    "torchs_namespaces",
    "watched_namespaces",
]

TORCH = "torch"
"""The name in `forbids` that stands for any call of torch. A dtype and its attributes are values, not calls."""
FOLDER = f"{own_code.TORCH}{os.sep}"
IN_PYTHON = ("torch._refs.", "torch._decomp.", "torch._prims.", "torch._inductor.decomposition.")
"""Modules and packages, with a dot after each, that reimplement operators in Python."""
LATE = tuple(f"{FOLDER}{name}" for name in (f"_decomp{os.sep}", f"_inductor{os.sep}decomposition.py"))
"""Where those of them are that `import torch` leaves out."""
SHORT = 100
"""Functions with less bytecode than this are not compared: two may be equal by chance."""


@cache
def fingerprints(modules: frozenset[str]) -> dict[bytes, str]:
    """Map the bytecode of each function and method that modules define, except short ones, to its full name.

    Bytecode holds no global names, so a copy that renames what it calls still matches.

    Args:
        modules: modules of torch, or single functions by their full name.
    """
    found: dict[bytes, str] = {}
    for name in modules - torchs_namespaces().keys():
        module, _, function = name.rpartition(".")
        if single := torchs_namespaces().get(module, {}).get(function):
            found[single.__code__.co_code] = name
    for name in modules & torchs_namespaces().keys():
        own = [value for value in torchs_namespaces()[name].values() if getattr(value, "__module__", "") == name]
        methods = [value for owner in own if isinstance(owner, type) for value in vars(owner).values()]
        for function in (*own, *methods):
            code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
            if code is not None and len(code.co_code) >= SHORT:
                found[code.co_code] = f"{name}.{code.co_qualname.split('.')[0]}"
    return found


def _is_below(name: object) -> TypeGuard[str]:
    """Return whether a name is torch's or of a module below it; a text of a class of a learner's own is not asked."""
    return type(name) is str and f"{name}.".startswith(f"{TORCH}.")


@cache
def torchs_namespaces() -> dict[str, dict[str, Any]]:
    """Map the names of torch's modules to their global names, as they were before any cell ran."""
    return {name: vars(module) for name, module in [*sys.modules.items()] if _is_below(name)}


@cache
def module_by_namespace_id() -> dict[int, str]:
    """Map the ids of the global names of torch's modules to the modules' names."""
    return {id(names): module for module, names in torchs_namespaces().items()}


@cache
def torchs_classes() -> dict[int, tuple[str, type]]:
    """Map the ids of torch's classes to the names of their modules, as they were before any cell ran, and to the
    classes, so that they live on and nothing else gets their ids."""
    modules = [module for name, module in [*sys.modules.items()] if _is_below(name)]
    classes = (value for module in modules for value in vars(module).values() if issubclass(type(value), type))
    return {id(cls): (cls.__module__, cls) for cls in classes if _is_below(cls.__module__)}


@cache
def watched_namespaces(modules: frozenset[str]) -> list[tuple[dict[str, Any], str, bool]]:
    """Return the global names of each module to be watched, its name, and whether it reimplements operators."""
    known = [(names, name, f"{name}.".startswith(IN_PYTHON)) for name, names in torchs_namespaces().items()]
    return [each for each in known if each[2] or each[1] in modules]


@cache
def torchs_functions() -> dict[int, tuple[str, Any]]:
    """Map id(function) to (module name, function) for the built-in functions in torch's modules.

    The name is not read from the function, whose `__module__` a cell can overwrite; keeping the function alive keeps
    its id from being reused.
    """
    every = ((id(value), (name, value)) for name, names in torchs_namespaces().items() for value in names.values()
             if type(value) is BuiltinFunctionType and _is_below(value.__module__))  # fmt: skip
    return dict(every)


def module_of_builtin(function: Any) -> str:
    """Return the module of torch that a built-in function is of, or the class whose method it is; else ""."""
    owner, module, classes = function.__self__, function.__module__, torchs_classes()
    if _is_below(module):
        return module
    found = torchs_functions().get(id(function)) or classes.get(id(owner)) or classes.get(id(type(owner)))
    return found[0] if found else ""


def exists_in_torch(name: str) -> bool:
    """Return whether torch has what a name with dots such as "torch.nn.functional.relu" names."""
    first, *rest = name.split(".")
    found: Any = torch if first == TORCH else None
    for part in rest:
        found = getattr(found, part, None)
    return found is not None
