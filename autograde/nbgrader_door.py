"""The second door: stock `nbgrader autograde` and the formgrader's button, with our reader and our engine behind them.

nbgrader converts one submission at a time: it reads the notebook with an exporter, sanitises it, writes it, and runs
preprocessors over it. Ours read tolerantly (one duplicated cell stops a stock batch) and, in place of executing the
notebook, examine the submission in the sandbox and leave outputs that nbgrader's own SaveAutoGrades turns into scores.
"""

from __future__ import annotations

import atexit
import os
import stat
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import bleach
from nbconvert.exporters import NotebookExporter
from nbconvert.filters.markdown import markdown2html
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from nbgrader.utils import parse_utc

from autograde.autograded import restored, with_outputs
from autograde.examiner import examiner
from autograde.numbering import take_number
from autograde.sandbox import Sandbox, SandboxError, blocker
from autograde.submission import Submission, read_submission
from torchcourse.exercise import LESSONS, imports

__all__ = ["Examine", "TolerantExporter", "read_timestamps_tolerantly", "safe_markdown"]

LONGEST_TIMESTAMP = 100
TAGS = {
    "a", "abbr", "b", "blockquote", "br", "code", "dd", "del", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5",
    "h6", "hr", "i", "kbd", "li", "ol", "p", "pre", "s", "span", "strong", "sub", "sup", "table", "tbody", "td", "th",
    "thead", "tr", "ul",
}  # fmt: skip
"""What may stand in HTML that a learner wrote. No pictures: they would tell another server who reads them, and when."""


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
    made = Sandbox(number=take_number(), modules=imports(lesson))
    atexit.register(made.close)
    return made


def safe_markdown(source: str) -> str:
    """Markdown as HTML in which nothing runs, for nbgrader's templates: the formgrader shows a learner's cells on a
    page from which grades can be given."""
    cleaned: str = bleach.clean(markdown2html(source), tags=TAGS, attributes={"*": ["class", "id"], "a": ["href"]})
    return cleaned


def read_timestamps_tolerantly() -> None:
    """Have nbgrader take a `timestamp.txt` that says no time for none; by itself it ends the whole batch there."""
    CourseDirectory.get_existing_timestamp = lambda self, folder: timestamp(Path(folder) / "timestamp.txt")


def timestamp(path: Path) -> datetime | None:
    """The time that a file beside a submission says; None where it says none, or is no ordinary file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            text = file.read(LONGEST_TIMESTAMP) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
        said: datetime | None = parse_utc(text.decode().strip()) if text.strip() else None
    except Exception:  # dateutil raises many kinds for what a learner may write there
        return None
    return said
