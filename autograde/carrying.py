"""Programs of the course's authors as the text of a cell that stands alone: with the helpers and imports they use."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from autograde import course

__all__ = ["carried"]

PLAIN = (str, int, float, bool, type(None))
REMARK = r" *# (?:fmt: skip|noqa|type: ignore).*"
"""What authors write for their tools, and learners do not."""
FUTURE = "from __future__ import annotations\n\n"


def carried(answer: Callable[..., Any], path: Path, name: str, setup: dict[str, Any]) -> str:
    """The text of a cell that binds `name` to `answer`, a program of the file at `path`.

    Args:
        setup: what the lesson's setup cell defines; the text is tried out with it.

    Returns:
        The text, or "" where the program is made in a way that no learner would write (a closure, an instance).
    """
    program: Callable[..., Any] = answer
    options: dict[str, Any] = {}
    if isinstance(answer, functools.partial):
        program, options = answer.func, dict(answer.keywords)
        if answer.args or not all(isinstance(value, PLAIN) for value in options.values()):
            return ""
    own = _definition(program, path)
    if own is None:
        return ""
    text = re.sub(REMARK, "", "\n\n".join(_closure(path, own)))
    text = _bound(text, own, name, options)
    return next((whole for whole in (text, FUTURE + text) if _stands_alone(whole, name, setup)), "")


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
def _defined(path: Path) -> dict[str, list[ast.stmt]]:
    """The statements at the top of a file, by each name they bind."""
    found: dict[str, list[ast.stmt]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
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


def _closure(path: Path, name: str) -> list[str]:
    """The pieces of text that `name` needs, what they need first."""
    chosen: dict[int, str] = {}
    elsewhere: list[str] = []
    imports: set[str] = set()
    lines = path.read_text(encoding="utf-8").splitlines()
    todo, seen = [name], set[str]()
    while todo:
        wanted = todo.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        for node in _defined(path).get(wanted, ()):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autograde."):
                source = course.ROOT / f"{(node.module or '').replace('.', '/')}.py"
                elsewhere += [piece for piece in _closure(source, wanted) if piece not in elsewhere]
            elif isinstance(node, ast.Import | ast.ImportFrom):
                imports.add(_import(node, wanted))
            else:
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                chosen[first] = "\n".join(lines[first - 1 : node.end_lineno])
                todo += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    return [*(["\n".join(sorted(imports))] if imports else []), *elsewhere, *(chosen[line] for line in sorted(chosen))]


def _import(node: ast.Import | ast.ImportFrom, wanted: str) -> str:
    """The import statement for one name alone."""
    alias = next(a for a in node.names if wanted in (a.asname, a.name.split(".")[0]))
    only = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
    return f"from {node.module} import {only}" if isinstance(node, ast.ImportFrom) else f"import {only}"


def _bound(text: str, own: str, name: str, options: dict[str, Any]) -> str:
    """The text with the exercise's name bound to the program `own`; a helper that has this name gets another."""
    if own != name or options:
        text, own = _renamed(text, name, f"_{name}"), f"_{name}" if own == name else own
    if not options:
        return _renamed(text, own, name)
    arguments = ", ".join(f"{option}={value!r}" for option, value in options.items())
    return f"import functools\n\n{text}\n\n{name} = functools.partial({own}, {arguments})"


def _renamed(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<!\.)\b{old}\b", new, text)


def _stands_alone(text: str, name: str, setup: dict[str, Any]) -> bool:
    """Whether the text defines `name` with nothing but what the lesson's setup cell gives."""
    namespace = dict(setup)
    try:
        exec(compile(text, f"<{name}>", "exec", dont_inherit=True), namespace)
    except Exception:  # it needs something that only its own file has
        return False
    return name in namespace
