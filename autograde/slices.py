"""What one exercise depends on of a module that holds the tables of all exercises of a lesson."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

__all__ = ["slices"]


def slices(source: str, tables: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """For each of `names` the statements of a module that its entries in `tables` reach, in order, as text.

    A table is a dict with texts as keys. A statement is reached by a name that it binds, through any number of others;
    imports, and what is more than a definition or a plain assignment, belong to every name. Comments and layout are no
    part of it. Where that cannot be followed, everything belongs to everyone.

    Raises:
        SyntaxError: when it is no Python.
    """
    body, tables = ast.parse(source).body, set(tables)
    bound: dict[str, list[int]] = {}
    for place, statement in enumerate(body):
        for name in _binds(statement):
            bound.setdefault(name, []).append(place)
    entries = {table: _entries(body, bound.get(table, [])) for table in tables}
    everywhere = [place for place, statement in enumerate(body) if not any(True for _ in _binds(statement))]
    if any(found is None for found in entries.values()) or any(_is_dynamic(statement) for statement in body):
        return dict.fromkeys(names, ast.unparse(ast.Module(body, [])))
    used = {place: _mentions(statement) & bound.keys() - tables for place, statement in enumerate(body)}
    common = set().union(*(used[place] for place in everywhere))
    made = {}
    for name in names:
        own = [found[name] for _, found in sorted(entries.items()) if found and name in found]
        roots = common.union(*(_mentions(value) for value in own)) & bound.keys() - tables
        reached = _reached(roots, bound, used).union(everywhere)
        made[name] = "\n".join([*map(ast.unparse, own), *(ast.unparse(body[place]) for place in sorted(reached))])
    return made


def _reached(names: set[str], bound: dict[str, list[int]], used: dict[int, set[str]]) -> set[int]:
    reached: set[int] = set()
    pending = {place for name in names for place in bound[name]}
    while pending:
        reached |= pending
        pending = {place for here in pending for name in used[here] for place in bound[name]} - reached
    return reached


def _binds(statement: ast.stmt) -> Iterator[str]:
    """The names that a definition or a plain assignment binds; none for any other statement."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        flat = [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
        if all(isinstance(target, ast.Name) for target in flat):
            yield from (target.id for target in flat if isinstance(target, ast.Name))


def _entries(body: list[ast.stmt], places: list[int]) -> dict[str, ast.expr] | None:
    """The entries of a table that is written as one dict with texts as keys; None for any other."""
    statement = body[places[0]] if len(places) == 1 else None
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    if not isinstance(value, ast.Dict):
        return None
    found = {key.value: entry for key, entry in zip(value.keys, value.values, strict=True)
             if isinstance(key, ast.Constant) and isinstance(key.value, str)}  # fmt: skip
    return found if len(found) == len(value.keys) else None


def _mentions(node: ast.AST) -> set[str]:
    """Names, and texts that could be names."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names | {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def _is_dynamic(statement: ast.stmt) -> bool:
    return not {"globals", "eval", "exec"}.isdisjoint(
        n.id for n in ast.walk(statement) if isinstance(n, ast.Name)
    )
