"""Programs of the course's authors as the text of a cell that stands alone: with the helpers and imports they use."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from autograde import course

__all__ = ["bound_names", "carried"]

PLAIN = (str, int, float, bool, type(None))
REMARK = r" *# (?:fmt: skip|noqa|type: ignore).*"
"""What authors write for their tools, and learners do not."""
FUTURE = "from __future__ import annotations\n\n"


def carried(
    answer: Callable[..., Any], path: Path, name: str, setup: dict[str, Any], taken: Collection[str] = ()
) -> str:
    """The text of a cell that binds `name` to `answer`, a program of the file at `path`.

    Args:
        setup: what the lesson's setup cell defines; the text is tried out with it.
        taken: names that other cells of the lesson bind: a helper called so gets another name, or it would be lost.

    Returns:
        The text, or "" where the file does not tell how the program was made (an instance, a wrapper of another one).
    """
    program: Callable[..., Any] = answer
    options: dict[str, Any] = {}
    if isinstance(answer, functools.partial):
        program, options = answer.func, dict(answer.keywords)
        if answer.args:
            return ""
    try:
        text = _text(program, path, name, _arguments(options, path))
    except _OutOfReachError:
        return ""
    for helper in sorted(bound_names(text).intersection(taken) - {name}):
        text = _renamed(text, helper, f"_{name}_{helper}")
    return next((whole for whole in (text, FUTURE + text) if _stands_alone(whole, name, setup)), "")


class _OutOfReachError(Exception):
    """A program, or a part of one, of which the file does not tell how it was made."""


@dataclass(frozen=True)
class _Argument:
    """A value as text, and the names of the file that are in it."""

    text: str
    names: tuple[str, ...] = ()


def _text(program: Callable[..., Any], path: Path, name: str, options: dict[str, _Argument]) -> str:
    """The text that binds `name` to a program of the file, with these options."""
    if own := _definition(program, path):
        return _bound(_whole(path, [own], options), own, name, options)
    if options:
        raise _OutOfReachError
    if lines := _lambda(program, path):
        body = f"({ast.unparse(lines.args)}):\n    return {ast.unparse(lines.body)}"
        return _named("def ", name, body, _whole(path, _names(lines)))
    if isinstance(program, type) and (base := _subclassed(program, path)):
        given = _arguments(_attributes(program), path)
        body = "\n".join(f"    {key} = {value.text}" for key, value in given.items()) or "    pass"
        return _named("class ", name, f"({base}):\n{body}", _whole(path, [base], given))
    factory, given = _factory(program, path)
    called = ", ".join(f"{key}={value.text}" for key, value in given.items())
    return _named("", name, f" = {factory}({called})", _whole(path, [factory], given))


def bound_names(text: str) -> set[str]:
    """The names that a cell binds at its top level, imports aside; none where it is no plain Python."""
    try:
        body = ast.parse(text).body
    except SyntaxError:  # a line of IPython's own
        return set()
    return {name for node in body if not isinstance(node, ast.Import | ast.ImportFrom) for name in _binds(node)}


def _named(kind: str, name: str, rest: str, before: str) -> str:
    """`before`, and a statement that binds `name`; what has this name in the file gets another."""
    return f"{_renamed(before, name, f'_{name}')}\n\n{kind}{name}{_renamed(rest, name, f'_{name}')}".lstrip()


def _whole(path: Path, names: Iterable[str], given: Mapping[str, _Argument] | None = None) -> str:
    """The text of what the file defines under `names`, with all that this and the arguments need."""
    wanted = [*names, *(name for value in (given or {}).values() for name in value.names)]
    return re.sub(REMARK, "", "\n\n".join(_closure(path, wanted)))


def _arguments(values: Mapping[str, Any], path: Path) -> dict[str, _Argument]:
    return {key: _argument(value, path) for key, value in values.items()}


def _argument(value: Any, path: Path) -> _Argument:
    """A value as it can be written down: plain, an exception or another builtin, or a program of the file.

    Raises:
        _OutOfReachError: when it is anything else.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return _Argument(f"float({str(value)!r})")
    if isinstance(value, PLAIN) or type(value).__qualname__ == "dtype":  # torch's are printed as they are written
        return _Argument(repr(value))
    if type(value) in (tuple, list):
        parts = [_argument(part, path) for part in value]
        inside = "".join(f"{part.text}, " for part in parts).strip()
        text = f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
        return _Argument(text, tuple(name for part in parts for name in part.names))
    called = getattr(value, "__name__", "")
    if isinstance(value, type) and vars(builtins).get(called) is value:
        return _Argument(called)
    if own := _definition(value, path):
        return _Argument(own, (own,))
    if lines := _lambda(value, path):
        return _Argument(ast.unparse(lines), tuple(_names(lines)))
    raise _OutOfReachError


def _names(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def _lambda(program: Any, path: Path) -> ast.Lambda | None:
    """The lambda of the file that made this program, if it needs nothing of a function around it."""
    code = getattr(program, "__code__", None)
    if code is None or code.co_name != "<lambda>" or code.co_freevars or not _same_file(code, path):
        return None
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno and _kin(node, code):
            return node
    return None


def _kin(node: ast.Lambda, code: CodeType) -> bool:
    """Whether the code computes the body of this very lambda, where several stand in a line."""
    body = node.body
    return (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in code.co_positions()


def _same_file(code: CodeType, path: Path) -> bool:
    return Path(code.co_filename).resolve() == path.resolve()


def _subclassed(program: type, path: Path) -> str | None:
    """The one class of the file that a class called into being by `type(…)` adds attributes to."""
    methods = any(callable(value) or isinstance(value, staticmethod) for value in _attributes(program).values())
    if methods or len(program.__bases__) != 1 or "<locals>" in program.__qualname__:
        return None
    return _definition(program.__bases__[0], path)


def _attributes(program: type) -> dict[str, Any]:
    return {key: value for key, value in vars(program).items() if not key.startswith("__")}


def _factory(program: Callable[..., Any], path: Path) -> tuple[str, dict[str, _Argument]]:
    """The function of the file in which a program was made, and the arguments that the program still knows.

    Those that it does not know made no difference to it.

    Raises:
        _OutOfReachError: when it was made otherwise, or knows more than arguments.
    """
    factory, _, inner = getattr(program, "__qualname__", "").partition(".<locals>.")
    parts = list(vars(program).values()) if isinstance(program, type) else [program]
    known: dict[str, Any] = {}
    for function in (getattr(part, "__func__", part) for part in parts):
        if inspect.isfunction(function):
            if not _same_file(function.__code__, path):
                raise _OutOfReachError
            known |= inspect.getclosurevars(function).nonlocals
    made = next((node for node in _defined(path).get(factory, ()) if isinstance(node, ast.FunctionDef)), None)
    if made is None or not inner or "<locals>" in inner or not known:
        raise _OutOfReachError
    parameters = {arg.arg for arg in (*made.args.args, *made.args.kwonlyargs)}
    known.pop("__class__", None)
    if not known.keys() <= parameters or made.args.posonlyargs:
        raise _OutOfReachError
    return factory, _arguments(known, path)


def _definition(answer: Callable[..., Any], path: Path) -> str | None:
    """The name under which the file defines this very program at its top level."""
    if not (inspect.isfunction(answer) or inspect.isclass(answer)) or answer.__qualname__ != answer.__name__:
        return None
    for node in _defined(path).get(answer.__name__, ()):
        if inspect.isclass(answer) and isinstance(node, ast.ClassDef):
            return answer.__name__
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if inspect.isfunction(answer) and answer.__code__.co_firstlineno == first:
            return answer.__name__
    return None


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _defined(path: Path) -> dict[str, list[ast.stmt]]:
    """The statements at the top of a file, by each name they bind."""
    found: dict[str, list[ast.stmt]] = {}
    for node in _tree(path).body:
        for name in _binds(node):
            found.setdefault(name, []).append(node)
    return found


def _binds(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
    elif isinstance(node, ast.For):
        yield from (part.id for part in ast.walk(node.target) if isinstance(part, ast.Name))


def _closure(path: Path, names: Iterable[str]) -> list[str]:
    """The pieces of text that `names` need, what they need first."""
    chosen: dict[int, str] = {}
    elsewhere: list[str] = []
    imports: set[str] = set()
    lines = path.read_text(encoding="utf-8").splitlines()
    todo, seen = [*names], set[str]()
    while todo:
        wanted = todo.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        for node in _defined(path).get(wanted, ()):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autograde."):
                source = course.ROOT / f"{(node.module or '').replace('.', '/')}.py"
                elsewhere += [piece for piece in _closure(source, [wanted]) if piece not in elsewhere]
            elif isinstance(node, ast.Import | ast.ImportFrom):
                imports.add(_import(node, wanted))
            else:
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                chosen[first] = "\n".join(lines[first - 1 : node.end_lineno])
                todo += _names(node)
    return [*(["\n".join(sorted(imports))] if imports else []), *elsewhere, *(chosen[line] for line in sorted(chosen))]


def _import(node: ast.Import | ast.ImportFrom, wanted: str) -> str:
    """The import statement for one name alone."""
    alias = next(a for a in node.names if wanted in (a.asname, a.name.split(".")[0]))
    only = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
    return f"from {node.module} import {only}" if isinstance(node, ast.ImportFrom) else f"import {only}"


def _bound(text: str, own: str, name: str, options: Mapping[str, _Argument]) -> str:
    """The text with the exercise's name bound to the program `own`; a helper that has this name gets another."""
    if own != name or options:
        text, own = _renamed(text, name, f"_{name}"), f"_{name}" if own == name else own
    if not options:
        return _renamed(text, own, name)
    arguments = _renamed(", ".join(f"{option}={value.text}" for option, value in options.items()), name, f"_{name}")
    return f"import functools\n\n{text}\n\n{name} = functools.partial({own}, {arguments})"


def _renamed(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<!\.)\b{old}\b", new, text)


def _stands_alone(text: str, name: str, setup: dict[str, Any]) -> bool:
    """Whether the text defines `name` with nothing but what the lesson's setup cell gives."""
    namespace = dict(setup)
    if any(f'"{space}::' not in text for space in re.findall(r"torch\.ops\.(torchcourse\w+)", text)):
        return False  # the operator is registered elsewhere in its file
    try:
        exec(compile(text, f"<{name}>", "exec", dont_inherit=True), namespace)
    except Exception:  # it needs something that only its own file has
        return False
    return name in namespace
