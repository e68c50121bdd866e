"""Update a gradebook to a lesson that changed after submissions had been graded.

nbgrader itself refuses to add or remove cells of an assignment with submissions.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import nbformat
from nbgrader.api import BaseCell, Comment, Grade, Gradebook, GradeCell, Notebook, SolutionCell, SourceCell
from nbgrader.utils import compute_checksum

from autograde.source.release import Release

__all__ = ["follow_release"]


def follow_release(book: Gradebook, release: Release) -> None:
    """Make the cells of an assignment those of a release, without a commit.

    Automatic scores keep their share of the points; nobody has points yet in cells that are new. What was given for
    cells that are gone is removed.
    """
    notebook = book.find_notebook(release.lesson, release.lesson)
    graded = {name: cell.points for name, cell in release.cells.items() if cell.points is not None}
    answered = {name for name, cell in release.cells.items() if cell.points is None or name in release.questions}
    _remove(book, [cell for cell in notebook.grade_cells if cell.name not in graded])
    _remove(book, [cell for cell in notebook.solution_cells if cell.name not in answered])
    book.db.expire(notebook)
    for cell in notebook.grade_cells:
        _set_points(book, cell, graded.pop(cell.name))
    for name, points in graded.items():
        kind = release.cells[name].kind
        added = GradeCell(name=name, max_score=points, cell_type=kind, notebook=notebook)
        _add(book, added, notebook, lambda fields: Grade(auto_score=0.0, needs_manual_grade=False, **fields))
    for name in answered - {cell.name for cell in notebook.solution_cells}:
        _add(book, SolutionCell(name=name, notebook=notebook), notebook, lambda fields: Comment(**fields))
    _renew_sources(book, notebook, release)
    book.db.flush()


def _remove(book: Gradebook, cells: Collection[BaseCell]) -> None:
    for cell in cells:
        for table in (Grade, Comment):
            book.db.query(table).filter(table.cell_id == cell.id).delete()
        book.db.expire(cell)
        book.db.delete(cell)
    book.db.flush()


def _set_points(book: Gradebook, cell: GradeCell, points: float) -> None:
    if cell.max_score == points:
        return
    for grade in book.db.query(Grade).filter(Grade.cell_id == cell.id, Grade.auto_score.isnot(None)):
        grade.auto_score = grade.auto_score * points / cell.max_score if cell.max_score else 0.0
    cell.max_score = points


def _add(book: Gradebook, cell: BaseCell, notebook: Notebook, make: Any) -> None:
    """Add a cell, and what `make` returns for it to each submission, given the columns that say where it belongs."""
    book.db.add(cell)
    book.db.flush()
    book.db.add_all([make({"cell_id": cell.id, "notebook_id": each.id}) for each in notebook.submissions])


def _renew_sources(book: Gradebook, notebook: Notebook, release: Release) -> None:
    notebook_cells = nbformat.reads(json.dumps(release.notebook), as_version=4).cells
    released = {cell.metadata.nbgrader.grade_id: cell for cell in notebook_cells if "nbgrader" in cell.metadata}
    for old in list(notebook.source_cells):
        if old.name not in released:
            book.db.delete(old)
    known = {cell.name: cell for cell in notebook.source_cells if cell.name in released}
    for name, cell in released.items():
        row = known.get(name) or SourceCell(name=name, notebook=notebook)
        row.cell_type, row.source = cell.cell_type, release.cells[name].source
        row.locked, row.checksum = cell.metadata.nbgrader.locked, compute_checksum(cell)
        book.db.add(row)
