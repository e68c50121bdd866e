"""The autograded notebook: what a learner submitted, in the released form, with a card under each check."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import nbformat

from autograde.submission import Submission, release
from autograde.verdict import Verdict

__all__ = ["autograded", "restored", "with_outputs"]


def restored(submission: Submission) -> Any:
    """The submission as a sound notebook: released metadata and check cells, the learner's sources and further cells.

    Check cells stand once, where the learner had them or else at the end; a notebook that could not be read becomes the
    released one.
    """
    made = nbformat.from_dict(_released(submission.lesson))  # a copy
    if submission.problem:
        return made
    by_grade_id = {c.metadata.nbgrader.grade_id: c for c in made.cells if "nbgrader" in c.metadata}
    cells: list[Any] = []
    placed: set[str] = set()
    for place, cell in enumerate(submission.cells):
        if not cell.grade_id:
            cells.append(_further(cell.kind, cell.source, place))
        elif cell.grade_id not in placed:
            placed.add(cell.grade_id)
            cells.append(_known(by_grade_id[cell.grade_id], cell.source))
        elif not cell.grade_id.startswith("check_"):
            cells.append(_further(cell.kind, cell.source, place))
    cells += [c for grade_id, c in by_grade_id.items() if grade_id not in placed]
    made.cells = cells
    return made


@cache
def _released(lesson: str) -> Any:
    """The released notebook as nbformat has it."""
    return nbformat.reads(json.dumps(release(lesson).notebook), as_version=4)


def _known(released: Any, source: str) -> Any:
    if not released.metadata.nbgrader.grade_id.startswith("check_"):
        released.source = source
    return released


def _further(kind: str, source: str, place: int) -> Any:
    """A cell of the learner's own; nbformat's makers are not asked, since they validate each, and writing does too."""
    cell = {"cell_type": kind if kind in ("code", "markdown") else "raw", "id": f"submitted-{place:04}"}
    only_code: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return nbformat.from_dict({**cell, "metadata": {}, "source": source, **only_code})


def with_outputs(notebook: Any, verdicts: Sequence[Verdict]) -> Any:
    """`notebook` with each verdict as the output of its check cell.

    nbgrader reads a check cell's outputs as a grade: an error is nothing, a number partial credit, anything else all
    points. So the outputs say that too.
    """
    by_name = {f"check_{v.exercise}": v for v in verdicts}
    for cell in notebook.cells:
        verdict = by_name.get(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
        if verdict:
            cell.outputs = _outputs(verdict)
            cell.execution_count = None
    return notebook


def _outputs(verdict: Verdict) -> list[Any]:
    words = f"{verdict.status}. {verdict.message}" + (f" ({verdict.misconception})" if verdict.misconception else "")
    shown = f"<p><b>{verdict.status}</b> {verdict.score:g} of {verdict.max_score:g}. {html.escape(verdict.message)}</p>"
    card = _output("display_data", data={"text/plain": words, "text/html": shown}, metadata={})
    if verdict.score == verdict.max_score:
        return [card]
    if verdict.score == 0:
        return [card, _output("error", ename=verdict.status, evalue=verdict.message, traceback=[words])]
    data = {"text/plain": f"{verdict.score:g}"}
    return [card, _output("execute_result", data=data, metadata={}, execution_count=None)]


def _output(kind: str, **fields: Any) -> Any:
    """An output of a cell; as with cells, writing validates it."""
    return nbformat.from_dict({"output_type": kind, **fields})


def autograded(submission: Submission, verdicts: Sequence[Verdict]) -> str:
    """The autograded notebook as text."""
    text: str = nbformat.writes(with_outputs(restored(submission), verdicts))
    return text + "\n"
