"""Make the autograded notebook: the submission in its released form, with the verdict under each check cell."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import nbformat

from autograde.judge.submission import Submission
from autograde.judge.verdict import Verdict
from autograde.source import paths
from autograde.source.release import Release
from autograde.source.script import rubrics
from torchcourse.model.notebook_file import is_check

__all__ = ["autograded", "restored", "with_outputs"]


def restored(submission: Submission) -> Any:
    """Return the submission as a valid notebook: released metadata and check cells, the learner's sources and cells.

    Each question is followed by its rubric. Each check cell occurs once, where the learner had it or else at the end. A
    notebook that cannot be read is replaced by the released one.
    """
    made = nbformat.from_dict(_released(submission.release))  # a copy
    if submission.problem:
        return made
    by_grade_id = {c.metadata.nbgrader.grade_id: c for c in made.cells if "nbgrader" in c.metadata}
    cells: list[Any] = []
    placed: set[str] = set()
    for place, cell in enumerate(submission.cells):
        if not cell.grade_id:
            cells.append(_learner_cell(cell.kind, cell.source, place))
        elif cell.grade_id not in placed:
            placed.add(cell.grade_id)
            cells.append(_released_cell(by_grade_id[cell.grade_id], cell.source))
            cells += _rubric(submission.release, cell.grade_id)
        elif not is_check(cell.grade_id):
            cells.append(_learner_cell(cell.kind, cell.source, place))
    cells += [c for grade_id, c in by_grade_id.items() if grade_id not in placed]
    made.cells = cells
    return made


@cache
def _released(release: Release) -> Any:
    """Return the released notebook as an object of nbformat."""
    return nbformat.reads(json.dumps(release.notebook), as_version=4)


def _released_cell(released: Any, source: str) -> Any:
    if not is_check(released.metadata.nbgrader.grade_id):
        released.source = source
    return released


def _rubric(release: Release, grade_id: str) -> list[Any]:
    """Return a cell with the rubric of a question, which graders read below the answer; none for other cells."""
    if grade_id not in release.questions:
        return []
    text = f"**Rubric**\n\n{_rubrics(release.lesson)[grade_id]}"
    return [nbformat.from_dict({"cell_type": "markdown", "id": f"rubric-{grade_id}", "metadata": {}, "source": text})]


@cache
def _rubrics(lesson: str) -> dict[str, str]:
    return rubrics(paths.script(lesson))


def _learner_cell(kind: str, source: str, place: int) -> Any:
    """Return a cell that the learner added, not validated: writing the notebook does that."""
    cell = {"cell_type": kind, "id": f"submitted-{place:04}"}
    only_code: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return nbformat.from_dict({**cell, "metadata": {}, "source": source, **only_code})


def with_outputs(notebook: Any, verdicts: Sequence[Verdict]) -> Any:
    """Return `notebook` with each verdict as the output of its check cell.

    nbgrader reads the score from the outputs of a check cell: no points for an error, partial credit for a number, all
    points otherwise. The outputs are chosen so that nbgrader gets the same score as the verdict.
    """
    by_name = {f"check_{v.exercise}": v for v in verdicts}
    for cell in notebook.cells:
        verdict = by_name.get(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
        if verdict:
            cell.outputs = _outputs(verdict)
            cell.execution_count = None
    return notebook


def _outputs(verdict: Verdict) -> list[Any]:
    """Return the outputs of a check cell, whose message MathJax leaves alone: it may quote a learner's `\\href`."""
    named = f" ({verdict.misconception})" if verdict.misconception else ""
    words = f"{verdict.status}. {verdict.message}{named}"
    points = f"{verdict.score:g} of {verdict.max_score:g}"
    message, _, output = verdict.message.partition("\n")
    shown = f"<p class='tex2jax_ignore'><b>{verdict.status}</b> {points}. {html.escape(message + named)}</p>"
    shown += f"<pre>{html.escape(output)}</pre>" if output else ""
    card = _output("display_data", data={"text/plain": words, "text/html": shown}, metadata={})
    if verdict.score == verdict.max_score:
        return [card]
    if verdict.score == 0:
        return [card, _output("error", ename=verdict.status, evalue="", traceback=[])]  # the card has said it
    data = {"text/plain": f"{verdict.score:g}"}
    return [card, _output("execute_result", data=data, metadata={}, execution_count=None)]


def _output(kind: str, **fields: Any) -> Any:
    """Return an output of a cell, not validated."""
    return nbformat.from_dict({"output_type": kind, **fields})


def autograded(submission: Submission, verdicts: Sequence[Verdict]) -> str:
    """Return the autograded notebook as JSON text."""
    text: str = nbformat.writes(with_outputs(restored(submission), verdicts))
    return text + "\n"
