"""The second door: stock `nbgrader autograde` and the formgrader's button, with our reader and our engine behind them.

nbgrader converts one submission at a time: it reads the notebook with an exporter, sanitises it, writes it, and runs
preprocessors over it. Ours read tolerantly (one duplicated cell stops a stock batch) and, in place of executing the
notebook, examine the submission in the sandbox and leave outputs that nbgrader's own SaveAutoGrades turns into scores.
"""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbgrader.preprocessors import NbGraderPreprocessor

from autograde.autograded import restored, with_outputs
from autograde.examiner import examiner
from autograde.sandbox import Sandbox, SandboxError, blocker
from autograde.submission import Submission, read_submission
from torchcourse.exercise import LESSONS, imports

__all__ = ["Examine", "TolerantExporter"]


class TolerantExporter(NotebookExporter):  # type: ignore[misc]
    """Reads a notebook as `torchcourse grade` does; what cannot be read becomes the released notebook."""

    def from_filename(self, filename: str, resources: dict[str, Any] | None = None, **kw: Any) -> tuple[str, Any]:
        where = (resources or {}).get("nbgrader", {})
        lesson = where.get("notebook", "")
        if lesson not in LESSONS:
            plain: tuple[str, Any] = super().from_filename(filename, resources=resources, **kw)
            return plain
        submission = read_submission(Path(filename), where["student"], lesson)
        made: tuple[str, Any] = self.from_notebook_node(restored(submission), resources=resources, **kw)
        return made


class Examine(NbGraderPreprocessor):  # type: ignore[misc]
    """In place of nbgrader's Execute: examine the submission itself, and put each verdict under its check cell."""

    def preprocess(self, nb: Any, resources: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        where = resources["nbgrader"]
        if where["notebook"] not in LESSONS:
            raise ValueError(f"{where['notebook']} is no lesson of this course")
        graded = examiner(where["notebook"]).grade(sandbox(where["notebook"]), self._submission(where))
        return with_outputs(nb, graded.verdicts), resources

    def _submission(self, where: dict[str, str]) -> Submission:
        course = self.parent.parent.coursedir  # the exporter's parent is the converter
        folder = course.format_path(course.submitted_directory, where["student"], where["assignment"])
        return read_submission(Path(folder) / f"{where['notebook']}.ipynb", where["student"], where["notebook"])


@cache
def sandbox(lesson: str) -> Sandbox:
    """One worker for all submissions of a lesson that this process grades.

    Raises:
        SandboxError: when submissions cannot be isolated on this machine.
    """
    if reason := blocker():
        raise SandboxError(f"Submissions are not run without isolation. {reason}")
    made = Sandbox(number=list(LESSONS).index(lesson), modules=imports(lesson))
    atexit.register(made.close)
    return made
