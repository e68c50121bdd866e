"""Check a notebook from the terminal: run the cells that its answers need in a separate process.

The answers to check are needed, and so is each cell that assigns a name which a needed cell uses; other experiments do
not run, nor do released demonstrations and checks. If a cell raises, that is reported and the next one runs, as in
grading.
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
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from torchcourse.checking.card import as_text
from torchcourse.checking.card_details import CardDetails
from torchcourse.checking.check import TimeIsUpError, report_on, time_limit
from torchcourse.checking.report import Report
from torchcourse.checking.run_record import RunRecord
from torchcourse.model.catalogue import UnknownExerciseError, find, preload
from torchcourse.model.exercise import Unattempted
from torchcourse.model.lessons import lessons
from torchcourse.model.notebook_file import (
    Notebook,
    WorkspaceError,
    cells,
    exercises_of,
    grade_id,
    is_check,
    read,
    source_of,
)
from torchcourse.workspace import progress

__all__ = ["check_notebook", "code_cells", "needed", "watch"]

START = "fork" if sys.platform.startswith("linux") else "spawn"
"""The start method of the process: a fork has torch loaded already; elsewhere it is imported anew."""
CELL_SECONDS = 60.0
"""Time limit for one cell."""
FIRST_USED = ("torch.distributed.tensor", "IPython.core.interactiveshell")
"""Modules that each check's process would otherwise import: `watch` imports them beforehand. torch imports the first
with the first tensor subclass, such as those of the simulated device."""
ALL_PASSED, SOME_NOT, BROKEN = 0, 1, 2
COMPLETED = 64
"""What the process adds to its exit status when it has come to the end, which `os._exit(0)` in an answer does not."""


@dataclass(frozen=True)
class CodeCell:
    """A code cell: its number among all cells (from 1), source, `grade_id`, and the names that it binds and uses."""

    number: int
    source: str
    grade_id: str = ""
    binds: frozenset[str] = field(default_factory=frozenset)
    uses: frozenset[str] = field(default_factory=frozenset)
    opaque: bool = False
    """Whether its names are unknown, because of magics or a syntax error; such a cell is always run."""


def code_cells(notebook: Notebook) -> list[CodeCell]:
    """Return the cells that may have to run: code other than checks and demonstrations."""
    code = []
    for number, cell in enumerate(cells(notebook), 1):
        name, tags = grade_id(cell), cell.get("metadata", {}).get("tags", [])
        if cell.get("cell_type") == "code" and not is_check(name) and "demo" not in tags:
            code.append(_code_cell(number, source_of(cell), name))
    return code


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
    """Yield the names that the cell assigns, and those of objects whose attributes or items it sets."""
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
    """Yield the names that the cell, or a function in it, looks up in the notebook's namespace."""
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (outermost or symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _used(inner, outermost=False)


def needed(code: Sequence[CodeCell], names: Sequence[str]) -> list[CodeCell]:
    """Return the cells that have to run so that `names` are what they would be after all cells."""
    wanted = set(names)
    chosen: set[int] = set()
    while True:
        more = [c for c in code if c.number not in chosen and (c.opaque or c.grade_id in names or c.binds & wanted)]
        if not more:
            return [cell for cell in code if cell.number in chosen]
        chosen.update(cell.number for cell in more)
        wanted.update(name for cell in more for name in cell.uses)


def check_notebook(path: Path, names: Sequence[str] = (), say: Callable[[str], None] = print) -> int:
    """Check the exercises `names` (default: all) of the notebook at `path` in a separate process.

    Returns:
        The exit status: 0 if all of them passed, 1 if some did not, 2 if the process died.

    Raises:
        WorkspaceError: if the notebook cannot be read, or has no such exercise.
    """
    notebook = read(path)
    asked = list(names) or exercises_of(notebook)
    _require_exercises(path, notebook, asked)
    chosen = needed(code_cells(notebook), asked)
    context: Any = multiprocessing.get_context(START)
    child = context.Process(target=_child, args=(path, asked, chosen, bool(names)))
    sys.stdout.flush()
    with warnings.catch_warnings():  # Python warns about NumPy's threads, which handle forks themselves
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    try:
        child.join()
    finally:
        child.kill()
    status = int(child.exitcode)
    if status not in (COMPLETED + ALL_PASSED, COMPLETED + SOME_NOT):
        cause = signal.Signals(-status).name if status < 0 else f"itself, with status {status}"
        say(f"The process that ran your cells was ended by {cause}: the checks could not be completed.")
        return BROKEN
    return status - COMPLETED


def _require_exercises(path: Path, notebook: Notebook, asked: Sequence[str]) -> None:
    present = exercises_of(notebook)
    if not present:
        raise WorkspaceError(f"{path} has no exercises: is it a lesson of this course?")
    home = progress.working_copy_of(path.parent)
    for name in asked:
        try:
            lesson, _ = find(name)
        except UnknownExerciseError as error:
            if name in present:
                raise WorkspaceError(f"{path} is of another release: this one has no exercise {name!r}. "
                                f"{f'torchcourse update {home}' if home else 'torchcourse lab FOLDER'} brings the "
                                "lessons of this one.") from None  # fmt: skip
            raise WorkspaceError(str(error.args[0])) from None
        if name not in present:
            raise WorkspaceError(_missing_exercise(path, name, lesson, home))


def _missing_exercise(path: Path, name: str, lesson: str, home: Path | None) -> str:
    """Explain why a notebook has no cell of an existing exercise."""
    if path.stem != lesson:
        return f"{path} has no exercise {name!r}: it belongs to {lesson}.ipynb."
    remedy = f"torchcourse update {home} brings it." if home else "torchcourse lab FOLDER makes a copy that has it."
    return f"{path} has no cell of {name}: it is of another release, or the cell was deleted. {remedy}"


def watch(path: Path, names: Sequence[str] = (), say: Callable[[str], None] = print) -> None:
    """Check a notebook now and whenever it is saved, until interrupted; once `names` are right, go on to the next one.

    Raises:
        WorkspaceError: if the first check cannot be made; later, a damaged notebook is only reported.
    """
    import watchfiles

    preload(FIRST_USED)
    target = path.resolve()

    def is_save(change: watchfiles.Change, changed: str) -> bool:
        return change != watchfiles.Change.deleted and Path(changed).name == target.name

    saves = watchfiles.watch(
        target.parent, watch_filter=is_save, step=200, rust_timeout=200, yield_on_timeout=True, recursive=False
    )
    with contextlib.suppress(KeyboardInterrupt):
        next(saves)  # starts watching: a save during the first check counts
        names = _go_on(path, names, check_notebook(path, names, say), say)
        waiting = f"Waiting for {path} to be saved; press Ctrl-C to stop."
        say(waiting)
        for _ in filter(None, saves):
            try:
                names = _go_on(path, names, check_notebook(path, names, say), say)
            except WorkspaceError as error:
                say(str(error))
            say(waiting)


def _go_on(path: Path, names: Sequence[str], status: int, say: Callable[[str], None]) -> Sequence[str]:
    """Return the exercises to watch after a check: the same, or the next one that is not passed if all were right."""
    if not names or status != ALL_PASSED:
        return names
    home = progress.working_copy_of(path.parent)
    states = progress.read(home) if home else {}
    every = exercises_of(read(path))
    place = every.index(names[-1]) + 1
    left = [e for e in (*every[place:], *every[:place]) if e not in names and states.get(e) != progress.PASSED]
    say(f"Next: {left[0]}." if left else "Every exercise of this lesson is right.")
    return left[:1] or names


def _child(path: Path, asked: Sequence[str], chosen: Sequence[CodeCell], verbose: bool) -> None:
    """Run the cells, print the reports, and exit with `COMPLETED` and `ALL_PASSED` or `SOME_NOT`."""
    torch.seed()  # a process that waits for checks has the same random state for each
    os.environ.setdefault("MPLBACKEND", "agg")
    os.chdir(path.resolve().parent)
    sys.path.insert(0, "")
    with Path(os.devnull).open() as empty:
        sys.stdin = empty
        checked = _check(asked, chosen)
    reports = [report for report, _ in checked]
    _record(reports)
    _print(checked, verbose)
    sys.stdout.flush()
    os._exit(COMPLETED + (ALL_PASSED if all(r.passed for r in reports) else SOME_NOT))


def _check(asked: Sequence[str], chosen: Sequence[CodeCell]) -> list[tuple[Report, RunRecord]]:
    """Run the cells; return the report on each exercise, and what its answer printed and where it raised."""
    shell = _shell()
    raised = {cell: error for cell in chosen if (error := _run(shell, cell))}
    for cell, error in raised.items():
        if cell.grade_id not in asked:
            print(f"Cell {cell.number} raised {error}")
    broken = {cell.grade_id: f"Its cell raised {error}" for cell, error in raised.items() if cell.grade_id}
    return [_report(name, shell.user_ns, broken.get(name, "")) for name in asked]


def _report(name: str, namespace: dict[str, Any], broken: str) -> tuple[Report, RunRecord]:
    record = RunRecord()
    if broken and name not in namespace:
        return Report(name, "error", broken), record
    return report_on(name, namespace, record), record


def _shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell: Any = InteractiveShell.instance(config=config)
    shell.showtraceback = shell.showsyntaxerror = shell.enable_gui = lambda *args, **kwargs: None
    return shell


def _run(shell: Any, cell: CodeCell) -> str:
    """Run a cell without showing its output; return the exception in one line, "" if there was none."""
    try:
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), time_limit(CELL_SECONDS):
            result = shell.run_cell(cell.source, store_history=False)
    except (TimeIsUpError, KeyboardInterrupt) as stopped:
        return _in_one_line(stopped)
    error = result.error_before_exec or result.error_in_exec
    return "" if error is None or isinstance(error, Unattempted) else _in_one_line(error)


def _in_one_line(error: BaseException) -> str:
    if isinstance(error, TimeIsUpError):
        return f"nothing, but took more than {CELL_SECONDS:g} seconds and was stopped."
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + lines[0] if lines else ''}"


def _record(reports: Sequence[Report]) -> None:
    home = progress.working_copy_of(Path())
    if home is None:
        return
    known = {name for lesson in lessons() for name in lesson.exercises}
    with contextlib.suppress(OSError):  # the reports matter more
        for report in reports:
            if report.exercise in known:
                progress.record(home, report.exercise, report.status)


def _print(checked: Sequence[tuple[Report, RunRecord]], verbose: bool) -> None:
    """Print the reports; unless `verbose`, one line for each right answer and one for all that are not attempted."""
    reports = [report for report, _ in checked]
    untouched = [r.exercise for r in reports if r.status == "unattempted"]
    for report, record in checked:
        if verbose or not (report.passed or report.status == "unattempted"):
            print(as_text(report, CardDetails(record=record)))
        elif report.passed:
            print(as_text(report).splitlines()[0])
    if not verbose and untouched:
        print(f"Not attempted: {', '.join(untouched)}.")
    if len(reports) > 1:
        print(f"{sum(r.passed for r in reports)} of {len(reports)} passed.")
