"""Turn a function or class of the course into self-contained source for a notebook cell, with the helpers that it uses.

The program becomes an expression in names of its file (a definition, its `functools.partial`, a lambda, an
instance, the call of a factory), and the statements that these names need are copied in front of it.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from autograde.source import paths

__all__ = ["bound_names", "inline_source"]

PLAIN = (str, int, float, bool, type(None))
STANDARD_ATTRIBUTES = ("__module__", "__doc__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__")
FUTURE = "from __future__ import annotations\n\n"


class _NotInSourceError(Exception):
    """The source file does not tell how a program, or a part of it, was made."""


def inline_source(
    program: Callable[..., Any], path: Path, name: str, setup: dict[str, Any], taken: Collection[str] = ()
) -> str:
    """Return the text of a cell that binds `name` to a program of the file at `path`.

    Args:
        setup: the names that the lesson's setup cell defines, with which the text is tested.
        taken: the names that other cells of the lesson bind; helpers with such a name are renamed.

    Returns:
        The text, or "" where the file does not say how the program was made.
    """
    try:
        expression = _expression(program, path)
    except _NotInSourceError:
        return ""
    statements = _with_dependencies(path, _names(expression))
    own = expression.id if isinstance(expression, ast.Name) else None
    helpers = {helper for statement in statements for helper in _binds(statement)}
    names = {helper: f"_{name}_{helper}" for helper in helpers.intersection(taken)} | {name: f"_{name}"}
    if own is not None:
        names[own] = name
    statements = [_renamed(statement, names) for statement in statements]
    if own is None:
        statements.append(_binding(name, _Rename(names).visit(expression)))
    text = ast.unparse(ast.Module(statements, []))
    return next((whole for whole in (text, FUTURE + text) if _stands_alone(whole, name, setup)), "")


def bound_names(text: str) -> set[str]:
    """Return the names that a cell binds at its top level, except imports; none if it is not plain Python."""
    try:
        body = ast.parse(text).body
    except SyntaxError:  # IPython magics
        return set()
    return {name for node in body if not isinstance(node, ast.Import | ast.ImportFrom) for name in _binds(node)}


# --- the program as an expression ---------------------------------------------------------------------------------


def _expression(value: Any, path: Path) -> ast.expr:
    """Return a value as an expression in names of the file.

    Raises:
        _NotInSourceError: when it is neither a plain value nor a program that the file makes in a way known here.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return _parsed(f"float({str(value)!r})")
    if isinstance(value, PLAIN) or type(value).__qualname__ == "dtype":  # torch's dtypes print as they are written
        return _parsed(repr(value))
    if type(value) in (tuple, list):
        parts = [_expression(part, path) for part in value]
        return ast.Tuple(parts, ast.Load()) if type(value) is tuple else ast.List(parts, ast.Load())
    if type(value) is frozenset:
        return ast.Call(_parsed("frozenset"), [_expression(sorted(value), path)], [])
    if isinstance(value, functools.partial) and not value.args:
        options = [ast.keyword(key, _expression(option, path)) for key, option in value.keywords.items()]
        function = _expression(value.func, path)
        return ast.Call(_parsed("functools.partial"), [function], options) if options else function
    name = getattr(value, "__name__", "")
    if _is_defined(value, path) or (isinstance(value, type) and vars(builtins).get(name) is value):
        return ast.Name(name, ast.Load())
    if inspect.ismethod(value):
        return ast.Attribute(_expression(value.__self__, path), value.__name__, ast.Load())
    made_here = _is_defined(type(value), path) or _is_subclass(type(value), path)
    if made_here and type(value).__init__ is object.__init__:
        return ast.Call(_expression(type(value), path), [], [])  # what it holds, it was given by an earlier run
    return _lambda(value, path) or _subclass(value, path) or _factory_call(value, path)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _is_defined(value: Any, path: Path) -> bool:
    """Return whether the file defines or imports this very function or class at its top level."""
    if not (inspect.isfunction(value) or inspect.isclass(value)) or value.__qualname__ != value.__name__:
        return False
    for node, file in _binding_statements(value.__name__, path):
        if inspect.isclass(value) and isinstance(node, ast.ClassDef):
            return True
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if inspect.isfunction(value) and _in_file(value.__code__, file) and value.__code__.co_firstlineno == first:
            return True
    return False


def _lambda(value: Any, path: Path) -> ast.Lambda | None:
    """Return the lambda expression of this function, if it uses no variables of an enclosing function."""
    code = getattr(value, "__code__", None)
    if code is None or code.co_name != "<lambda>" or code.co_freevars or not _in_file(code, path):
        return None
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            body = node.body  # there may be several in a line
            if (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in code.co_positions():
                return copy.deepcopy(node)
    return None


def _is_subclass(value: Any, path: Path) -> bool:
    """Return whether this is a class whose one base is defined by the file."""
    return isinstance(value, type) and len(value.__bases__) == 1 and _is_defined(value.__bases__[0], path)


def _subclass(value: Any, path: Path) -> ast.expr | None:
    """Return the call of `type` that makes a class of plain attributes from one class of the file."""
    if not _is_subclass(value, path):
        return None
    options = {key: option for key, option in vars(value).items() if key not in STANDARD_ATTRIBUTES}
    attributes = ast.Dict([ast.Constant(key) for key in options], [_expression(o, path) for o in options.values()])
    base = ast.Name(value.__bases__[0].__name__, ast.Load())
    return ast.Call(_parsed("type"), [ast.Constant(value.__name__), ast.Tuple([base], ast.Load()), attributes], [])


def _factory_call(value: Any, path: Path) -> ast.expr:
    """Return the call of the factory in which a program was made, with the arguments that the program refers to.

    Raises:
        _NotInSourceError: when there is no factory, or the program refers to other variables of it.
    """
    factory, _, inner = getattr(value, "__qualname__", "").partition(".<locals>.")
    parts = vars(value).values() if isinstance(value, type) else [value]
    functions = [function for part in parts if inspect.isfunction(function := getattr(part, "__func__", part))]
    known = {key: v for function in functions for key, v in inspect.getclosurevars(function).nonlocals.items()}
    known.pop("__class__", None)
    made = next((node for node, _ in _binding_statements(factory, path) if isinstance(node, ast.FunctionDef)), None)
    parameters = {arg.arg for arg in (*made.args.args, *made.args.kwonlyargs)} if made else set()
    if not known or "<locals>" in inner or not known.keys() <= parameters:
        raise _NotInSourceError
    options = [ast.keyword(key, _expression(option, path)) for key, option in known.items()]
    return ast.Call(ast.Name(factory, ast.Load()), [], options)


def _in_file(code: CodeType, path: Path) -> bool:
    return Path(code.co_filename).resolve() == path.resolve()


def _binding(name: str, expression: ast.expr) -> ast.stmt:
    if isinstance(expression, ast.Lambda):
        function = ast.parse(f"def {name}(): pass").body[0]
        assert isinstance(function, ast.FunctionDef)
        function.args, function.body = expression.args, [ast.Return(expression.body)]
        return function
    return ast.fix_missing_locations(ast.Assign([ast.Name(name, ast.Store())], expression))


# --- the statements that it needs ------------------------------------------------------------------------------------


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _definitions(path: Path) -> dict[str, list[ast.stmt]]:
    """Return the top-level statements of a file, by the names that they bind."""
    found: dict[str, list[ast.stmt]] = {}
    for node in _tree(path).body:
        for name in _binds(node):
            found.setdefault(name, []).append(node)
    return found


def _course_file(node: ast.stmt) -> Path | None:
    """Return the file of autograde/ that a statement imports from, or None."""
    module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    return paths.module_file(module) if module.startswith("autograde.") else None


def _binding_statements(name: str, path: Path) -> Iterator[tuple[ast.stmt, Path]]:
    """Yield the statements that bind a name, followed through imports, and the files that they are in."""
    for node in _definitions(path).get(name, ()):
        source = _course_file(node)
        yield from _binding_statements(name, source) if source else [(node, path)]


def _binds(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.For):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (name for target in targets for name in _names(target))


def _names(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def _with_dependencies(path: Path, names: Iterable[str]) -> list[ast.stmt]:
    """Return copies of the statements that `names` need: imports, then those of other files, then those of this one."""
    imports: dict[str, None] = {}
    elsewhere: dict[str, None] = {}
    own: dict[int, ast.stmt] = {}
    to_do, seen = [*names], set[str]()
    if "functools" in to_do and "functools" not in _definitions(path):
        imports["import functools"] = None
    while to_do:
        name = to_do.pop()
        if name in seen:
            continue
        seen.add(name)
        for node in _definitions(path).get(name, ()):
            if source := _course_file(node):
                elsewhere |= dict.fromkeys(map(ast.unparse, _with_dependencies(source, [name])))
            elif isinstance(node, ast.Import | ast.ImportFrom):
                imports[_import(node, name)] = None
            else:
                own[node.lineno] = node
                to_do += _names(node)
    text = "\n".join([*sorted(imports), *elsewhere, *(ast.unparse(own[line]) for line in sorted(own))])
    return ast.parse(text).body


def _import(node: ast.Import | ast.ImportFrom, wanted: str) -> str:
    """Return the import statement for one name alone."""
    alias = next(a for a in node.names if wanted in (a.asname, a.name.split(".")[0]))
    only = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
    return f"from {node.module} import {only}" if isinstance(node, ast.ImportFrom) else f"import {only}"


def _renamed(statement: ast.stmt, names: Mapping[str, str]) -> ast.stmt:
    """Return a top-level statement with its global names replaced, in definitions and uses."""
    _Rename(names).visit(statement)
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        statement.name = names.get(statement.name, statement.name)
    return statement


class _Rename(ast.NodeTransformer):
    """Renames uses of global names, but no local names of functions."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        inside = [part for part in ast.walk(node) if part is not node]
        bound = {part.arg for part in inside if isinstance(part, ast.arg)}
        bound |= {part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        bound |= {part.name for part in inside if isinstance(part, ast.FunctionDef | ast.ClassDef)}
        return _Rename({old: new for old, new in self.names.items() if old not in bound}).generic_visit(node)


def _stands_alone(text: str, name: str, setup: dict[str, Any]) -> bool:
    """Return whether the text defines `name` with nothing but the names of the lesson's setup cell."""
    if any(f'"{space}::' not in text.replace("'", '"') for space in re.findall(r"torch\.ops\.(torchcourse\w+)", text)):
        return False  # the text does not register the operator that it uses
    namespace = dict(setup)
    try:
        exec(compile(text, f"<{name}>", "exec", dont_inherit=True), namespace)
    except Exception:  # it needs something else of its file
        return False
    return name in namespace
