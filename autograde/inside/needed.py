"""Which of a lesson's own example cells a submission needs: grading runs no others.

An example is needed if a cell that runs uses a global name that the example binds, or uses too and so may change,
modules excepted. A cell that can get at names without writing them out needs all of them, and so does one that Python
alone cannot read (a magic command).

What learners wrote is read inside the sandbox, before any of it runs: reading it can take for ever, or end the process.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Example", "examples", "unneeded"]

REACHING_NAMES = {"In", "Out", "__builtins__", "__import__", "_ih", "_oh", "eval", "exec", "get_ipython", "globals"}
REACHING_CALLS = {"locals", "vars"}  # without an argument
REACHING_ATTRIBUTES = {"__globals__", "_current_frames", "_getframe", "cr_frame", "f_back", "f_builtins", "f_globals",
                       "f_locals", "gi_frame", "tb_frame", "user_global_ns", "user_module", "user_ns"}  # fmt: skip
REACHING_MODULES = {"IPython", "__main__", "builtins", "code", "gc", "importlib", "inspect", "pdb", "runpy"}


@dataclass(frozen=True)
class Cell:
    """The global names that a cell uses; `anything` where it may use any."""

    uses: frozenset[str] = frozenset()
    anything: bool = False


@dataclass(frozen=True)
class Example:
    """A released cell: the global names that it uses, and those that it binds or may change; `always` where names do
    not tell."""

    uses: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    always: bool = False

    def packed(self) -> list[object]:
        """As plain data."""
        return [sorted(self.uses), sorted(self.changes), self.always]

    @staticmethod
    def unpacked(data: list[Any]) -> Example:
        """What was packed."""
        return Example(frozenset(data[0]), frozenset(data[1]), data[2])


def _cell(source: str) -> Cell:
    try:
        tree = ast.parse(source)
        table = symtable.symtable(source, "cell", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Cell(anything=True)
    return Cell(frozenset(_used(table)), any(map(_reaches, ast.walk(tree))))


def _used(table: symtable.SymbolTable) -> Iterator[str]:
    top = table.get_type() == "module"
    yield from (s.get_name() for s in table.get_symbols() if s.is_referenced() and (top or s.is_global()))
    for child in table.get_children():
        yield from _used(child)


def _reaches(node: ast.AST) -> bool:
    """Whether a part of a cell can get at global names that it does not write out."""
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] in REACHING_MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] in {*REACHING_MODULES, "sys"}
    if isinstance(node, ast.Attribute):
        of_sys = isinstance(node.value, ast.Name) and node.value.id == "sys" and node.attr == "modules"
        return of_sys or node.attr in REACHING_ATTRIBUTES
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        return node.func.id in REACHING_CALLS
    return isinstance(node, ast.Name) and node.id in REACHING_NAMES


def examples(sources: Sequence[str]) -> list[Example]:
    """What is known of a lesson's example cells."""
    cells = [_cell(source) for source in sources]
    tables = [None if c.anything else symtable.symtable(s, "cell", "exec") for c, s in zip(cells, sources, strict=True)]
    bound = [frozenset(_bound(table)) if table else frozenset() for table in tables]
    imported = frozenset(name for source in sources for name in _imported(source))
    ours = frozenset[str]().union(*bound) - imported
    return [
        Example(cell.uses, names | (cell.uses & ours), always=cell.anything or _is_wide(source))
        for cell, names, source in zip(cells, bound, sources, strict=True)
    ]


def _tree(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError:
        return ast.Module([], [])


def _imported(source: str) -> Iterator[str]:
    """Names that a cell imports: who uses those changes nothing that another cell would find."""
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)


def _is_wide(source: str) -> bool:
    """Whether a cell imports what it does not name, or changes how later cells are read."""
    imports = (node for node in ast.walk(_tree(source)) if isinstance(node, ast.ImportFrom))
    return any(node.module == "__future__" or node.names[0].name == "*" for node in imports)


def _bound(table: symtable.SymbolTable) -> Iterator[str]:
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if (symbol.is_assigned() or symbol.is_imported()) and (top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _bound(child)


def unneeded(cells: Sequence[tuple[str, Example | None]]) -> list[int]:
    """The places of the examples that none of the other cells needs, nor another example that one of them needs.

    Args:
        cells: the source of each cell that is to run, and what is known of it if it is an example.
    """
    others = [_cell(source) for source, known in cells if known is None]
    every = any(cell.anything for cell in others)
    used = frozenset[str]().union(*(cell.uses for cell in others))
    left = {place: known for place, (_, known) in enumerate(cells) if known and not (every or known.always)}
    used = used.union(*(known.uses for _, known in cells if known and known.always))
    while found := {place for place, known in left.items() if not known.changes.isdisjoint(used)}:
        used = used.union(*(left.pop(place).uses for place in found))
    return sorted(left)
