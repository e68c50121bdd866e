"""Plugins for nbgrader: our reader and grader behind stock `nbgrader autograde` and the formgrader's button.

nbgrader converts one submission at a time: it reads the notebook with an exporter, sanitises it, writes it, and runs
preprocessors on it. Ours read tolerantly (one duplicated cell stops a stock batch) and, instead of executing the
notebook, grade the submission in the sandbox and leave outputs that nbgrader's own SaveAutoGrades turns into scores.
"""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Integer

from autograde.batch.grading_log import Run, append
from autograde.batch.journal import Journal
from autograde.batch.worker_ids import allocate_id
from autograde.judge.exposed import exposed_answers_problem
from autograde.judge.lesson_grader import lesson_grader
from autograde.judge.submission import Submission, read_submission
from autograde.results.autograded_notebook import restored, with_outputs
from autograde.sandbox.requirements import isolation_problem
from autograde.sandbox.sandbox import Sandbox, SandboxError
from autograde.settings import SEED
from autograde.source.release import load_release, released_to
from torchcourse.model.catalogue import LESSONS, imports

__all__ = ["GradeSubmission", "TolerantExporter"]


class TolerantExporter(NotebookExporter):  # type: ignore[misc]
    """Reads a notebook as `torchcourse grade` does; what cannot be read becomes the released notebook."""

    def from_filename(self, filename: str, resources: dict[str, Any] | None = None, **kw: Any) -> tuple[str, Any]:
        where = (resources or {}).get("nbgrader", {})
        lesson = where.get("notebook", "")
        if lesson not in LESSONS:
            plain: tuple[str, Any] = super().from_filename(filename, resources=resources, **kw)
            return plain
        earlier = Journal(Path(self.parent.coursedir.root) / "journal").earlier(lesson)
        submission = read_submission(Path(filename), where["student"], lesson, earlier)
        made: tuple[str, Any] = self.from_notebook_node(restored(submission), resources=resources, **kw)
        return made


class GradeSubmission(NbGraderPreprocessor):  # type: ignore[misc]
    """Grade the submission itself, in place of nbgrader's Execute, and put each verdict under its check cell."""

    seed = Integer(SEED, help="what the hidden cases are drawn from").tag(config=True)

    def preprocess(self, nb: Any, resources: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        where, root = resources["nbgrader"], Path(self.parent.parent.coursedir.root)
        lesson = where["notebook"]
        if lesson not in LESSONS:
            raise ValueError(f"{lesson} is not a lesson of this course")
        released = released_to(root, lesson)
        if released and (difference := load_release(lesson).difference(released)):
            raise ValueError(f"{lesson} has changed since it was released to the class ({difference}): "
                             "`torchcourse class init` updates the class")  # fmt: skip
        if reason := exposed_answers_problem(root):
            raise SandboxError(reason)
        graded = lesson_grader(lesson, self.seed).grade(sandbox(lesson), self._submission(where))
        run = Run([lesson], 1, self.seed, finished=True, changes=(), by="nbgrader", student=where["student"])
        try:
            append(root, run)
        except OSError as error:  # the verdicts are worth more than their log
            self.log.warning("The log of gradings cannot be written: %s", error)
        return with_outputs(nb, graded.verdicts), resources

    def _submission(self, where: dict[str, str]) -> Submission:
        course = self.parent.parent.coursedir  # the exporter's parent is the converter
        folder = course.format_path(course.submitted_directory, where["student"], where["assignment"])
        earlier = Journal(Path(course.root) / "journal").earlier(where["notebook"])
        path = Path(folder) / f"{where['notebook']}.ipynb"
        return read_submission(path, where["student"], where["notebook"], earlier)


@cache
def sandbox(lesson: str) -> Sandbox:
    """Return the sandbox for all submissions of a lesson that this process grades.

    Raises:
        SandboxError: when submissions cannot be isolated on this machine.
    """
    if reason := isolation_problem():
        raise SandboxError(f"Submissions are not run without isolation. {reason}")
    made = Sandbox(number=allocate_id(), modules=imports(lesson))
    atexit.register(made.close)
    return made
