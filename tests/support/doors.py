"""Run stock nbgrader with our configuration, and read its gradebook."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

from autograde.course.build import generate
from autograde.source import paths
from torchcourse.model.notebook_file import exercise_of, is_check

__all__ = ["grades", "scores", "stock_scores"]


def scores(url: str, lesson: str) -> dict[tuple[str, str], float | None]:
    """Return the automatic scores of a lesson in a gradebook, by student and exercise."""
    by_cell = grades(url, lesson)
    return {(student, exercise_of(cell)): score for (student, cell), (score, _) in by_cell.items() if is_check(cell)}


def grades(url: str, lesson: str) -> dict[tuple[str, str], tuple[float | None, bool]]:
    """Return for each student and graded cell of a lesson the automatic score, and whether it waits for a person."""
    from nbgrader.api import Gradebook

    with Gradebook(url) as book:
        return {
            (submission.student.id, g.name): (g.auto_score, g.needs_manual_grade)
            for submission in book.assignment_submissions(lesson)
            for notebook in submission.notebooks
            for g in notebook.grades
        }


def stock_scores(lesson: str, folder: Path) -> dict[tuple[str, str], float | None]:
    """Return the scores that `nbgrader autograde` with our configuration gives to `folder`/submitted."""
    url = f"sqlite:///{folder / 'gradebook.db'}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        generate([lesson], folder, url)
    (folder / "nbgrader_config.py").write_text(
        "c = get_config()\n"
        f"load_subconfig('nbgrader_config.py', path={str(paths.AUTOGRADE)!r})\n"
        f"c.CourseDirectory.root, c.CourseDirectory.db_url = {str(folder)!r}, {url!r}\n"
    )
    done = subprocess.run(
        [Path(sys.executable).parent / "nbgrader", "autograde", lesson], cwd=folder, capture_output=True, text=True,
        check=False, env={**os.environ, "HOME": str(folder), "JUPYTER_CONFIG_DIR": str(folder / "none")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return scores(url, lesson)
