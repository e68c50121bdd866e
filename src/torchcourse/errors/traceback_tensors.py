"""Find the tensors that an error is about: those in the failing expressions of the learner's and the library's code.

Frames are inspected without running any code: names, attributes of modules and items of dicts and lists are
looked up; calls and properties are not.
"""

from __future__ import annotations

import ast
import linecache
import re
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, TypeGuard

from torch import Tensor, nn

from torchcourse.model import own_code

__all__ = ["NamedTensor", "in_learners_code", "in_library", "written_in_place"]

COURSE = tuple(map(str, own_code.COURSE))
LIBRARIES = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"),
                   str(own_code.TORCH), *COURSE})  # fmt: skip
MAX_TENSORS, MAX_ITEMS, MAX_NAMES = 5, 3, 500
MISSING = object()


@dataclass(frozen=True)
class NamedTensor:
    """A tensor and the expression that stands for it in the code."""

    name: str
    tensor: Tensor

    def __str__(self) -> str:
        t = self.tensor
        return f"`{self.name}` has shape {tuple(t.shape)}, {str(t.dtype).removeprefix('torch.')}, on {t.device}"


def in_learners_code(traceback: TracebackType) -> list[NamedTensor]:
    """Return the tensors in the failing expression of the learner's own code, or else in its whole statement."""
    own = _learners_step(traceback)
    return _tensors_in(own) if own else []


def in_library(traceback: TracebackType) -> tuple[str, list[NamedTensor]]:
    """Return the innermost public function of a library with tensors, such as "Linear.forward", and those tensors.

    Return ("", []) if the error was raised in the learner's own code.
    """
    for step in reversed(_chain(traceback)):
        if _is_own(step.tb_frame):
            break
        code = step.tb_frame.f_code
        is_internal = code.co_filename.startswith(COURSE) or re.match(r"_(?!_)", code.co_name)
        found = [] if is_internal else _tensors_in(step)
        if found:
            return code.co_qualname, found
    return "", []


def written_in_place(traceback: TracebackType, shape: tuple[int, ...] | None, version: int | None) -> list[NamedTensor]:
    """Return the learner's tensors that were written in place, of this shape and version (None: any)."""
    own = _learners_step(traceback)
    if own is None:
        return []
    found: dict[int, NamedTensor] = {}
    names = {**_public(own.tb_frame.f_globals), **_public(own.tb_frame.f_locals)}
    for name, value in list(names.items())[-MAX_NAMES:]:
        for each in _tensors(name, value):
            written = _version(each.tensor)
            if written and version in (None, written) and shape in (None, tuple(each.tensor.shape)):
                found.setdefault(id(each.tensor), each)
    return list(found.values())[:MAX_TENSORS]


def _public(names: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in names.items() if not name.startswith("_")}


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else int(tensor._version)


def _chain(traceback: TracebackType) -> list[TracebackType]:
    chain = [traceback]
    while chain[-1].tb_next is not None:
        chain.append(chain[-1].tb_next)
    return chain


def _learners_step(traceback: TracebackType) -> TracebackType | None:
    """Return the innermost step of the traceback in the learner's own code."""
    return next((step for step in reversed(_chain(traceback)) if _is_own(step.tb_frame)), None)


def _is_own(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    entry = linecache.cache.get(name, ())
    is_cell = len(entry) > 1 and entry[1] is None
    return is_cell or (not name.startswith(LIBRARIES) and not name.startswith("<"))


def _tensors_in(step: TracebackType) -> list[NamedTensor]:
    found: dict[int, NamedTensor] = {}
    for node in _expressions(step):
        for each in _below(node, step.tb_frame):
            found.setdefault(id(each.tensor), each)
        if found:
            break
    return list(found.values())[:MAX_TENSORS]


def _expressions(step: TracebackType) -> Iterator[ast.AST]:
    """Yield the expression that failed, then the statement around it."""
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


def _below(node: ast.AST, frame: FrameType) -> Iterator[NamedTensor]:
    """Yield the tensors in `node`, whole expressions before their parts, in the order of the source."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        value = _value(node, frame)
        found = list(_tensors(ast.unparse(node), value)) if value is not MISSING else []
        if found:
            yield from found
            return
    for child in ast.iter_child_nodes(node):
        yield from _below(child, frame)


def _tensors(name: str, value: object) -> Iterator[NamedTensor]:
    """Yield the value if it is a tensor, or the first few tensors in a dict, list or tuple."""
    items: list[tuple[object, object]] = []
    if _is_tensor(value):
        yield NamedTensor(name, value)
    elif type(value) is dict:
        items = list(value.items())
    elif type(value) is list or type(value) is tuple:
        items = list(enumerate(value))
    tensors = [NamedTensor(f"{name}[{key!r}]", item) for key, item in items[:20] if _is_tensor(item)]
    yield from tensors[:MAX_ITEMS]


def _is_tensor(value: object) -> TypeGuard[Tensor]:
    """Return whether a value is a tensor, by its type: `isinstance` could run code of its class."""
    return issubclass(type(value), Tensor)


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of an expression if it can be looked up without running anything; else MISSING."""
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
    if _is_tensor(base):
        return base.mT if name in ("T", "mT") and base.dim() >= 2 else MISSING
    try:
        own: Mapping[str, Any] = object.__getattribute__(base, "__dict__")
    except AttributeError:  # a value without attributes of its own
        return MISSING
    registered = ("_parameters", "_buffers", "_modules") if issubclass(type(base), nn.Module) else ()
    return next((names[name] for names in (own, *(own[r] for r in registered)) if name in names), MISSING)
