"""Which of a lesson's own example cells a submission needs: grading runs no others.

An example is needed if a cell that runs uses a global name that the example binds, or uses too and so may change,
modules excepted. A cell that can get at names without writing them out needs all of them, and so does one that Python
alone cannot read (a magic command).

What learners wrote is read inside the sandbox, before any of it runs: reading it can take for ever, or end the process.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Example", "examples", "unneeded"]

REACHING_NAMES = {"In", "Out", "__builtins__", "__import__", "_ih", "_oh", "eval", "exec", "get_ipython", "globals"}
REACHING_CALLS = {"locals", "vars"}  # without an argument
LAST_RESULTS = re.compile(r"_(\d+|_{0,2}|i+\d*)")
OPS = {"aten", "prim", "prims", "torchcourse"}  # of torch.ops, those that no example registers
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
    """A released cell: the global names that it uses, or binds for others to change, and those that it binds or may
    change itself; `always` where names do not tell."""

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
    nodes = list(ast.walk(tree))
    declared = (name for node in nodes if isinstance(node, ast.Global) for name in node.names)
    uses = frozenset((*_used(table), *declared, *(name for node in _outside(tree) for name in _altered(node))))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    earlier = any(LAST_RESULTS.fullmatch(name) for name in uses - frozenset(_bound(table)))
    return Cell(uses, earlier or any(_reaches(node, id(node) in called) for node in nodes))


def _used(table: symtable.SymbolTable) -> Iterator[str]:
    """Global names that are read; in the body of a class a name is read there even if it is bound there too."""
    local = table.get_type() == "function"
    yield from (s.get_name() for s in table.get_symbols() if s.is_referenced() and (s.is_global() or not local))
    for child in table.get_children():
        yield from _used(child)


def _outside(tree: ast.Module) -> Iterator[ast.AST]:
    """All parts of a cell but those inside functions, whose names are their own."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def _altered(node: ast.AST) -> Iterator[str]:
    """Names that have to be there already, though a cell does not read them."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.Delete):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _reaches(node: ast.AST, called: bool) -> bool:
    """Whether a part of a cell, the function of a call or not, can get at global names that it does not write out."""
    if isinstance(node, ast.Import):
        return any(alias.name.partition(".")[0] in REACHING_MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] in {*REACHING_MODULES, "sys"}
    if isinstance(node, ast.Attribute):
        registered = isinstance(node.value, ast.Attribute) and node.value.attr == "ops" and node.attr not in OPS
        of_nn = (isinstance(node.value, ast.Name) and node.value.id == "nn") or (
            isinstance(node.value, ast.Attribute) and node.value.attr == "nn"
        )
        of_sys = node.attr == "modules" and not called and not of_nn  # under whatever name
        return registered or of_sys or node.attr in REACHING_ATTRIBUTES
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
        return node.func.id in REACHING_CALLS
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and "__main__" in node.value
    return isinstance(node, ast.Name) and node.id in REACHING_NAMES


def examples(sources: Sequence[str]) -> list[Example]:
    """What is known of a lesson's example cells."""
    cells = [_cell(source) for source in sources]
    tables = [None if c.anything else symtable.symtable(s, "cell", "exec") for c, s in zip(cells, sources, strict=True)]
    bound = [frozenset(_bound(table)) if table else frozenset() for table in tables]
    imported = frozenset(name for source in sources for name in _imported(source))
    ours = frozenset[str]().union(*bound) - imported
    return [
        Example(cell.uses | (names & ours), names | (cell.uses & ours), always=cell.anything or _is_wide(source))
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
