"""Run a lesson's notebook from start to end, each exercise with its stub and with its answer."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from nbclient import NotebookClient
from nbformat import NotebookNode

from autograde.judge.verdict import clean

__all__ = ["faults_and_outcomes", "unsolved_and_solved"]

CELL_SECONDS = 120
"""The limit on the time of one cell; no exercise may take as long."""


def unsolved_and_solved(unsolved: NotebookNode, solved: NotebookNode) -> NotebookNode:
    """Return a notebook that runs a lesson both unsolved and solved, so that a kernel starts and demos run only once.

    Each cell that uses exercises, as a check does, runs once with their stubs and then with their answers.
    """
    cells: list[NotebookNode] = []
    ways: dict[str, tuple[NotebookNode, NotebookNode]] = {}
    for stub, answer in zip(unsolved.cells, solved.cells, strict=True):
        if _is_answer(answer):
            ways[answer.metadata.nbgrader.grade_id] = (stub, answer)
        used = [ways[name] for name in sorted(_names(answer) & set(ways))]
        if _is_answer(answer):
            cells += [stub, answer]
        elif used:
            cells += [*(mine for mine, _ in used), stub, *(right for _, right in used), answer]
        else:
            cells.append(answer)
    both: NotebookNode = deepcopy(solved)
    both.cells = [_again(cell, number) for number, cell in enumerate(cells)]
    return both


def _is_answer(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and bool(cell.metadata.get("nbgrader", {}).get("solution"))


def _names(cell: NotebookNode) -> set[str]:
    """Return the names and the short texts in a cell of code; none if only IPython can read it."""
    try:
        nodes = list(ast.walk(ast.parse(cell.source if cell.cell_type == "code" else "")))
    except SyntaxError:
        return set()
    texts = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    return texts | {node.id for node in nodes if isinstance(node, ast.Name)}


def _again(cell: NotebookNode, number: int) -> NotebookNode:
    """Return a copy of a cell with an id that no other has."""
    copied: NotebookNode = deepcopy(cell)
    copied.id = f"{cell.id}-{number}"[-64:]
    return copied


def faults_and_outcomes(notebook: NotebookNode) -> tuple[list[str], list[str]]:
    """Execute a notebook; return what went wrong in it, in words, and the outcome that each check showed."""
    with tempfile.TemporaryDirectory() as folder:
        quiet = ["--IPKernelApp.log_level=ERROR"]  # not a warning for each kernel that its socket is not encrypted
        where = {"metadata": {"path": folder}}
        NotebookClient(
            notebook, timeout=CELL_SECONDS, allow_errors=True, resources=where, extra_arguments=quiet
        ).execute()
    faults = [fault for cell in notebook.cells for fault in _output_faults(cell)]
    shown = [o.get("data", {}).get("text/plain", "") for c in notebook.cells for o in c.get("outputs", [])]
    return faults, [found[1] for text in shown if (found := re.match(r"\w+: ([A-Z][a-z ]+)\.", text))]


def _output_faults(cell: Any) -> Iterator[str]:
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            yield f"{cell.id} raised {output.ename}: {clean(output.evalue)}"
        if output.output_type == "stream" and output.name == "stderr":
            yield f"{cell.id} wrote to stderr: {clean(output.text)}"
