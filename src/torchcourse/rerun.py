"""Checking a notebook from the terminal: the cells that its answers need are run in a process of their own.

A cell is needed if it assigns a name that a needed cell uses, beginning with the answers that are checked; so what was
only tried out costs nothing. Released demonstrations and checks do not run. A cell that raises is reported, and the
others go on, as in grading.
"""

from __future__ import annotations

import ast
import contextlib
import io
import multiprocessing
import os
import signal
import symtable
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchcourse import progress
from torchcourse.card import as_text
from torchcourse.checking import TimeIsUpError, examine, time_limit
from torchcourse.exercise import Unattempted, UnknownExerciseError, find
from torchcourse.lessons import lessons
from torchcourse.notebookfile import DeskError, Notebook, cells, grade_id, read, text
from torchcourse.reporting import Report

__all__ = ["check_notebook", "code_cells", "exercises_of", "needed", "watch"]

START = "fork" if sys.platform.startswith("linux") else "spawn"
"""How the process begins: a fork has torch loaded already; elsewhere forks are not safe, and it is imported anew."""
CELL_SECONDS = 60.0
"""The longest that one cell may take."""
ALL_PASSED, SOME_NOT, BROKEN = 0, 1, 2


@dataclass(frozen=True)
class CodeCell:
    """A cell of code: its number among all cells, from 1 on, its text, what nbgrader calls it, and its names."""

    number: int
    source: str
    grade_id: str = ""
    binds: frozenset[str] = field(default_factory=frozenset)
    uses: frozenset[str] = field(default_factory=frozenset)
    opaque: bool = False
    """Whether its names cannot be told, because of magics or an error; such a cell is always run."""


def exercises_of(notebook: Notebook) -> list[str]:
    """The exercises that a notebook has a check or an answer for, in order."""
    names = (grade_id(cell).removeprefix("check_") for cell in cells(notebook))
    return list(dict.fromkeys(filter(None, names)))


def code_cells(notebook: Notebook) -> list[CodeCell]:
    """The cells that may have to run: code, but for checks and demonstrations."""
    found = []
    for number, cell in enumerate(cells(notebook), 1):
        name, tags = grade_id(cell), cell.get("metadata", {}).get("tags", [])
        if cell.get("cell_type") == "code" and not name.startswith("check_") and "demo" not in tags:
            found.append(_code_cell(number, text(cell), name))
    return found


def _code_cell(number: int, source: str, name: str) -> CodeCell:
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        code = TransformerManager().transform_cell(source)
        tree, table = ast.parse(code), symtable.symtable(code, "cell", "exec")
    except (SyntaxError, ValueError, RecursionError):
        return CodeCell(number, source, name, opaque=True)
    opaque = "get_ipython" in code or any(isinstance(n, ast.alias) and n.name == "*" for n in ast.walk(tree))
    return CodeCell(number, source, name, frozenset(_bound(tree, table)), frozenset(_used(table)), opaque)


def _bound(tree: ast.Module, table: symtable.SymbolTable) -> Iterator[str]:
    """Names that running the cell assigns, and those of which it changes an attribute or an item."""
    for symbol in table.get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            yield symbol.get_name()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            inner: ast.expr = node
            while isinstance(inner, ast.Attribute | ast.Subscript):
                inner = inner.value
            if isinstance(inner, ast.Name):
                yield inner.id


def _used(table: symtable.SymbolTable, outermost: bool = True) -> Iterator[str]:
    """Names that the cell, or a function in it, looks up among those of the notebook."""
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (outermost or symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _used(inner, outermost=False)


def needed(found: Sequence[CodeCell], names: Sequence[str]) -> list[CodeCell]:
    """The cells that have to run so that `names` are what they would be after all cells."""
    wanted = set(names)
    chosen: set[int] = set()
    while True:
        more = [c for c in found if c.number not in chosen and (c.opaque or c.grade_id in names or c.binds & wanted)]
        if not more:
            return [cell for cell in found if cell.number in chosen]
        chosen.update(cell.number for cell in more)
        wanted.update(name for cell in more for name in cell.uses)


def check_notebook(path: Path, names: Sequence[str] = (), say: Callable[[str], None] = print) -> int:
    """Run what the exercises `names` (all, if none is named) of the notebook at `path` need, in a process of its own,
    and say how their checks went.

    Returns:
        0 if all of them passed, 1 if some did not, 2 if the process died.

    Raises:
        DeskError: when the notebook cannot be read, or has no such exercise.
    """
    notebook = read(path)
    asked = list(names) or exercises_of(notebook)
    _complain(path, notebook, asked)
    chosen = needed(code_cells(notebook), asked)
    context: Any = multiprocessing.get_context(START)
    child = context.Process(target=_child, args=(path, asked, chosen, bool(names)))
    sys.stdout.flush()
    with warnings.catch_warnings():  # Python warns of the threads of NumPy's algebra, which takes care of forks itself
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    try:
        child.join()
    finally:
        child.kill()
    left = int(child.exitcode)
    if left < 0 or left > SOME_NOT:
        died = signal.Signals(-left).name if left < 0 else f"itself, with status {left}"
        say(f"The process that ran your cells was ended by {died}: no further check could be made.")
        return BROKEN
    return left


def _complain(path: Path, notebook: Notebook, asked: Sequence[str]) -> None:
    there = exercises_of(notebook)
    if not there:
        raise DeskError(f"{path} has no exercises: is it a lesson of this course?")
    home = progress.desk_of(path.parent)
    for name in asked:
        try:
            lesson, _ = find(name)
        except UnknownExerciseError as error:
            if name in there:
                raise DeskError(f"{path} is of another release: this one has no exercise {name!r}. "
                                f"{f'torchcourse update {home}' if home else 'torchcourse lab FOLDER'} brings the "
                                "lessons of this one.") from None  # fmt: skip
            raise DeskError(str(error.args[0])) from None
        if name not in there:
            raise DeskError(_not_there(path, name, lesson, home))


def _not_there(path: Path, name: str, lesson: str, home: Path | None) -> str:
    """Why a notebook has no cell of an exercise that there is."""
    if path.stem != lesson:
        return f"{path} has no exercise {name!r}: it belongs to {lesson}.ipynb."
    remedy = f"torchcourse update {home} brings it." if home else "torchcourse lab FOLDER makes a copy that has it."
    return f"{path} has no cell of {name}: it is of another release, or the cell was deleted. {remedy}"


def watch(path: Path, names: Sequence[str] = (), say: Callable[[str], None] = print) -> None:
    """Check a notebook now and whenever it is saved, until interrupted. One that is not whole is looked at again at its
    next save.

    Raises:
        DeskError: when it has no such exercise.
    """
    seen = _stamp(path)
    check_notebook(path, names, say)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            say(f"Waiting for {path} to be saved; Ctrl-C ends this.")
            while _stamp(path) in (seen, None):
                _nap(0.2)
            while (now := _stamp(path)) != seen:  # Jupyter writes in place, and may not have come to the end yet
                seen = now
                _nap(0.2)
            try:
                check_notebook(path, names, say)
            except DeskError as error:
                say(str(error))


_nap = time.sleep


def _stamp(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_mtime_ns, found.st_size
    return None


def _child(path: Path, asked: Sequence[str], chosen: Sequence[CodeCell], in_full: bool) -> None:
    """Run the cells, print the reports; the exit status says whether all passed."""
    os.environ.setdefault("MPLBACKEND", "agg")
    os.chdir(path.resolve().parent)
    sys.path.insert(0, "")
    with Path(os.devnull).open() as nothing:
        sys.stdin = nothing
        reports = _reports(asked, chosen)
    _note(reports)
    _print(reports, in_full)
    sys.stdout.flush()
    os._exit(ALL_PASSED if all(r.passed for r in reports) else SOME_NOT)


def _reports(asked: Sequence[str], chosen: Sequence[CodeCell]) -> list[Report]:
    shell = _shell()
    raised = {cell: error for cell in chosen if (error := _run(shell, cell))}
    for cell, error in raised.items():
        if cell.grade_id not in asked:
            print(f"Cell {cell.number} raised {error}")
    broken = {cell.grade_id: f"Its cell raised {error}" for cell, error in raised.items() if cell.grade_id}
    return [_report(name, shell.user_ns, broken.get(name, "")) for name in asked]


def _report(name: str, namespace: dict[str, Any], broken: str) -> Report:
    if broken and name not in namespace:
        return Report(name, "error", broken)
    return examine(name, namespace)


def _shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell: Any = InteractiveShell.instance(config=config)
    shell.showtraceback = shell.showsyntaxerror = shell.enable_gui = lambda *args, **kwargs: None
    return shell


def _run(shell: Any, cell: CodeCell) -> str:
    """What running the cell raised, in a line; "" where it raised nothing. What it prints is not shown."""
    try:
        nobody = io.StringIO()
        with contextlib.redirect_stdout(nobody), contextlib.redirect_stderr(nobody), time_limit(CELL_SECONDS):
            done = shell.run_cell(cell.source, store_history=False)
    except (TimeIsUpError, KeyboardInterrupt) as stopped:
        return _in_a_line(stopped)
    error = done.error_before_exec or done.error_in_exec
    return "" if error is None or isinstance(error, Unattempted) else _in_a_line(error)


def _in_a_line(error: BaseException) -> str:
    if isinstance(error, TimeIsUpError):
        return f"nothing, but took more than {CELL_SECONDS:g} seconds and was stopped."
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + lines[0] if lines else ''}"


def _note(reports: Sequence[Report]) -> None:
    home = progress.desk_of(Path())
    known = {name for lesson in lessons() for name in lesson.exercises}
    with contextlib.suppress(OSError):  # the reports are what was asked for
        for report in reports if home else ():
            if report.exercise in known and home:
                progress.note(home, report.exercise, report.status)


def _print(reports: Sequence[Report], in_full: bool) -> None:
    """The reports; where all exercises are checked, a line for what is right and one for what is not begun."""
    untouched = [r.exercise for r in reports if r.status == "unattempted"]
    for report in reports:
        if in_full or not (report.passed or report.status == "unattempted"):
            print(as_text(report))
        elif report.passed:
            print(as_text(report).splitlines()[0])
    if not in_full and untouched:
        print(f"Not attempted: {', '.join(untouched)}.")
    if len(reports) > 1:
        print(f"{sum(r.passed for r in reports)} of {len(reports)} passed.")
