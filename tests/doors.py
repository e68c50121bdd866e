"""The stock nbgrader, as tests use it: grading with our configuration, and its gradebook."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

from autograde import course
from autograde.building import generate

__all__ = ["scores", "stock_scores"]


def scores(url: str, lesson: str) -> dict[tuple[str, str], float | None]:
    """What a gradebook holds of a lesson, by student and exercise."""
    from nbgrader.api import Gradebook

    with Gradebook(url) as book:
        return {
            (submission.student.id, g.name.removeprefix("check_")): g.auto_score
            for submission in book.assignment_submissions(lesson)
            for notebook in submission.notebooks
            for g in notebook.grades
        }


def stock_scores(lesson: str, folder: Path) -> dict[tuple[str, str], float | None]:
    """What stock `nbgrader autograde`, with our configuration, gives to what lies in `folder`/submitted."""
    url = f"sqlite:///{folder / 'gradebook.db'}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        generate([lesson], folder, url)
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\n"
        f"load_subconfig('nbgrader_config.py', path={str(course.AUTOGRADE)!r})\n"
        f"c.CourseDirectory.root, c.CourseDirectory.db_url = {str(folder)!r}, {url!r}\n"
    )
    done = subprocess.run(
        [Path(sys.executable).parent / "nbgrader", "autograde", lesson], cwd=folder, capture_output=True, text=True,
        check=False, env={**os.environ, "HOME": str(folder), "JUPYTER_CONFIG_DIR": str(folder / "none")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return scores(url, lesson)
