"""Which tensors an error is about: those that the failing expression names, in the learner's code and where it ended.

Looks at frames and never runs anything of theirs: a name, an attribute of a module, an item of a dict or list are
looked up, a call or a property is not.
"""

from __future__ import annotations

import ast
import linecache
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Named", "in_call", "inside", "written_in_place"]

LIBRARIES = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"),
                   str(Path(torch.__file__).parent), str(Path(__file__).parent)})  # fmt: skip
MOST, MOST_ITEMS, MOST_NAMES = 5, 3, 500
MISSING = object()


@dataclass(frozen=True)
class Named:
    """A tensor under the name that the code has for it."""

    name: str
    tensor: Tensor

    def __str__(self) -> str:
        t = self.tensor
        return f"`{self.name}` has shape {tuple(t.shape)}, {str(t.dtype).removeprefix('torch.')}, on {t.device}"


def in_call(traceback: TracebackType) -> list[Named]:
    """The tensors that the failing expression of the learner's own code names, or else its whole statement."""
    own = _learners(traceback)
    return _named(own) if own else []


def inside(traceback: TracebackType) -> tuple[str, list[Named]]:
    """Where in a library's Python the error came up, as `Linear.forward`, and the tensors named there; ("", []) where
    it came up in the learner's own code."""
    last = _chain(traceback)[-1]
    if last is _learners(traceback):
        return "", []
    return last.tb_frame.f_code.co_qualname, _named(last)


def written_in_place(traceback: TracebackType, shape: tuple[int, ...] | None, version: int | None) -> list[Named]:
    """The tensors in the learner's reach that were written in place, of this shape and version (None: of any)."""
    own = _learners(traceback)
    if own is None:
        return []
    found: dict[int, Named] = {}
    names = {**_plain(own.tb_frame.f_globals), **_plain(own.tb_frame.f_locals)}
    for name, value in list(names.items())[-MOST_NAMES:]:
        for each in _tensors(name, value):
            written = _version(each.tensor)
            if written and version in (None, written) and shape in (None, tuple(each.tensor.shape)):
                found.setdefault(id(each.tensor), each)
    return list(found.values())[:MOST]


def _plain(names: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in names.items() if not name.startswith("_")}


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else int(tensor._version)


def _chain(traceback: TracebackType) -> list[TracebackType]:
    chain = [traceback]
    while chain[-1].tb_next is not None:
        chain.append(chain[-1].tb_next)
    return chain


def _learners(traceback: TracebackType) -> TracebackType | None:
    """The innermost step that is nobody's library: a cell, or a file of the learner's."""
    return next((step for step in reversed(_chain(traceback)) if _is_own(step.tb_frame)), None)


def _is_own(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    entry = linecache.cache.get(name, ())
    is_cell = len(entry) > 1 and entry[1] is None
    return is_cell or (not name.startswith(LIBRARIES) and not name.startswith("<"))


def _named(step: TracebackType) -> list[Named]:
    found: dict[int, Named] = {}
    for node in _expressions(step):
        for each in _below(node, step.tb_frame):
            found.setdefault(id(each.tensor), each)
        if found:
            break
    return list(found.values())[:MOST]


def _expressions(step: TracebackType) -> Iterator[ast.AST]:
    """The expression that failed, then the statement around it."""
    code = step.tb_frame.f_code
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename, step.tb_frame.f_globals)))
    except SyntaxError:
        return
    at = list(code.co_positions())[step.tb_lasti // 2]
    exact = [n for n in ast.walk(tree) if isinstance(n, ast.expr | ast.stmt) and _place(n) == at]
    yield from exact[-1:]
    simple = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and not hasattr(n, "body")]
    yield from [n for n in simple if n.lineno <= step.tb_lineno <= (n.end_lineno or 0)][:1]


def _place(node: Any) -> tuple[int | None, int | None, int | None, int | None]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _below(node: ast.AST, frame: FrameType) -> Iterator[Named]:
    """The tensors named in `node`, whole expressions before their parts, in the order of the text."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        value = _value(node, frame)
        found = list(_tensors(ast.unparse(node), value)) if value is not MISSING else []
        if found:
            yield from found
            return
    for child in ast.iter_child_nodes(node):
        yield from _below(child, frame)


def _tensors(name: str, value: object) -> Iterator[Named]:
    """The tensor that a value is, or the first few that a dict, list or tuple holds."""
    if isinstance(value, Tensor):
        yield Named(name, value)
    elif type(value) is dict:
        held = [Named(f"{name}[{key!r}]", item) for key, item in list(value.items())[:20] if isinstance(item, Tensor)]
        yield from held[:MOST_ITEMS]
    elif type(value) in (list, tuple):
        held = [Named(f"{name}[{i}]", item) for i, item in enumerate(value[:20]) if isinstance(item, Tensor)]  # type: ignore[index]
        yield from held[:MOST_ITEMS]


def _value(node: ast.expr, frame: FrameType) -> Any:
    """What an expression stands for, where that can be looked up without running anything; else MISSING."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, MISSING))
    if isinstance(node, ast.Attribute):
        return _attribute(_value(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        base, key = _value(node.value, frame), _value(node.slice, frame)
        if type(base) in (dict, list, tuple) and type(key) in (str, int):
            try:
                return base[key]
            except LookupError:
                return MISSING
    return MISSING


def _attribute(base: Any, name: str) -> Any:
    if isinstance(base, Tensor):
        return base.mT if name in ("T", "mT") and base.dim() >= 2 else MISSING
    own = getattr(base, "__dict__", {})
    if isinstance(base, nn.Module):
        own = {**own, **base._modules, **base._buffers, **base._parameters}
    return own.get(name, MISSING) if re.match(r"[^_]", name) else MISSING
