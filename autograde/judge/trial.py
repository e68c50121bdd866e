"""Try the grader with answers that are known to be right: where one fails, the machine is at fault, not the learner."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from autograde.judge.submission import Submission, SubmittedCell
from autograde.judge.verdict import Verdict
from autograde.sandbox.sandbox import NO_VERDICT, SandboxError
from autograde.source import paths
from autograde.source.release import cell_text, load_release
from autograde.source.script import answers_as_text

__all__ = ["check_trial", "trial_submission"]


def trial_submission(lesson: str, names: Collection[str] = ()) -> Submission:
    """Return the released notebook with the references of these exercises, or of the first if none is named, and of
    those that they are built from."""
    release = load_release(lesson)
    references = answers_as_text(paths.script(lesson))
    right = {name: references[name] for name in _with_parts([*(names or release.exercises[:1])], references)}
    cells = []
    for cell in release.notebook["cells"]:
        grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        cells.append(SubmittedCell(cell["cell_type"], right.get(grade_id, cell_text(cell["source"])), grade_id))
    return Submission("", release, tuple(cells))


def _with_parts(names: list[str], references: Mapping[str, str]) -> list[str]:
    """Return the names of exercises, and of all others that their references mention."""
    for name in names:  # it grows while it is gone through
        names += [other for other in references if other not in names and re.search(rf"\b{other}\b", references[name])]
    return names


def check_trial(verdict: Verdict) -> None:
    """Check the verdict on an answer in `trial_submission`.

    Raises:
        SandboxError: when it is not `passed`.
    """
    if verdict.status != "passed":
        raise SandboxError(
            f"The grader does not work on this machine: an answer to `{verdict.exercise}` that is known to be right is "
            f"{verdict.status}. {verdict.line} {NO_VERDICT}"
        )
