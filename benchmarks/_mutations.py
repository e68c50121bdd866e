"""Small changes to a right answer, one at a time: what a slip or an omission makes of it."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["change", "mutants"]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,  # codespell:ignore
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip
AXES = {"dim", "axis", "dims", "start_dim", "end_dim"}
UNCHANGED = (ast.arguments, ast.JoinedStr, ast.Import, ast.ImportFrom)
"""Signatures are given in the lesson; texts of messages are free."""


def mutants(source: str) -> Iterator[str]:
    """Yield the mutants of a Python source, each once."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) and len(node.body) > 1:
            del node.body[0]
    seen = {ast.unparse(tree)}
    for place, put in list(_places(tree)):
        for replacement in _replacements(place):
            put(replacement)
            text = _unparsed(tree)
            put(place)
            if text and text not in seen:
                seen.add(text)
                yield text


def change(source: str, mutant: str) -> str:
    """Return the lines in which a mutant differs from its source, as `before -> after`."""
    before, after = ast.unparse(ast.parse(source)).splitlines(), mutant.splitlines()
    lines = [line for line in difflib.ndiff(before, after) if line[0] in "-+" and '"""' not in line]
    sides = (" / ".join(" ".join(line[2:].split()) for line in lines if line[0] == sign) for sign in "-+")
    return " -> ".join(side or "nothing" for side in sides)


def _unparsed(tree: ast.Module) -> str:
    try:
        text = ast.unparse(ast.fix_missing_locations(tree))
        compile(text, "mutant", "exec")
    except (SyntaxError, ValueError):
        return ""
    return text


def _places(node: ast.AST) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    """Yield the nodes below `node`, each with a function that puts another one in its place."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params") or isinstance(value, UNCHANGED):
            continue
        if isinstance(value, ast.AST):
            yield value, lambda new, name=name: setattr(node, name, new)  # type: ignore[misc]
            yield from _places(value)
        if isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST) and not isinstance(item, UNCHANGED):
                    yield item, lambda new, value=value, index=index: value.__setitem__(index, new)  # type: ignore[misc]
                    yield from _places(item)


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node."""
    match node:
        case ast.Compare(left, [operator, *others], comparators):
            yield ast.Compare(left, [COMPARISONS[type(operator)](), *others], comparators)
        case ast.BinOp(left, operator, right) if type(operator) in ARITHMETIC:
            yield ast.BinOp(left, ARITHMETIC[type(operator)](), right)
        case ast.AugAssign(target, operator, value) if type(operator) in ARITHMETIC:
            yield ast.AugAssign(target, ARITHMETIC[type(operator)](), value)
        case ast.BoolOp(operator, values):
            yield ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.USub() | ast.Not(), operand):
            yield operand
        case ast.keyword(name, ast.Constant(int(value))) if name in AXES:
            yield ast.keyword(name, ast.Constant(-1 if value == 0 else 0))
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(float(value)):
            yield ast.Constant(value * 2 or 1.0)
        case ast.Call(function, arguments, keywords):
            yield from _other_calls(function, arguments, keywords)
        case ast.Expr(ast.Call()) | ast.If(_, [ast.Raise()], []) | ast.Assert():
            yield ast.Pass()
        case ast.With(_, body):
            yield ast.If(ast.Constant(True), body, [])
        case ast.FunctionDef(decorator_list=[_, *others]):
            yield ast.FunctionDef(**{**dict(ast.iter_fields(node)), "decorator_list": others})


def _other_calls(function: ast.expr, arguments: list[ast.expr], keywords: list[ast.keyword]) -> Iterator[ast.AST]:
    """Yield a call without each of its keywords, and what is left where the call was forgotten."""
    for n in range(len(keywords)):
        yield ast.Call(function, arguments, keywords[:n] + keywords[n + 1 :])
    if isinstance(function, ast.Attribute) and not (isinstance(function.value, ast.Name) and function.value.id[0:5] in
                                                    ("torch", "F", "nn", "math", "np", "super")):  # fmt: skip
        yield function.value
    elif arguments and not isinstance(arguments[0], ast.Starred):
        yield arguments[0]
