"""From solved scripts to nbgrader's source and, through nbgrader's generate_assignment, to learners' notebooks."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import nbgrader.api
from alembic.script import ScriptDirectory
from nbgrader import dbutil
from nbgrader.apps import NbGraderAPI
from nbgrader.preprocessors import ClearSolutions
from traitlets.config import Config

from autograde import course, storing
from autograde.script import Cell, read_script
from torchcourse.exercise import LESSONS

__all__ = ["NameTheTask", "build", "generate", "newest_tables", "source_notebook"]

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
}


COURSE = "default_course"
"""What nbgrader's gradebook calls a course without a name; its commands leave the name empty, and SQLite lets them."""


class NameTheTask(ClearSolutions):  # type: ignore[misc]
    """Clears solutions as nbgrader does, and leaves a stub that names its exercise."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        self.code_stub = {"python": f'raise Unattempted("{name}")  # write {name} here, in place of this line'}
        cleared: tuple[Any, Any] = super().preprocess_cell(cell, resources, cell_index)
        return cleared


def source_notebook(lesson: str) -> Any:
    """nbgrader's source notebook of a lesson: the solved script with nbgrader's metadata spelled out.

    Raises:
        MalformedScriptError: as `read_script` does.
    """
    script = read_script(course.SOLUTIONS / f"{lesson}.py")
    points = {cell.exercise: cell.points for cell in script if cell.exercise}
    cells = [_notebook_cell(cell, place, points) for place, cell in enumerate(script)]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={**METADATA, "torchcourse": {"lesson": lesson}})
    nbformat.validate(notebook)
    return notebook


def _notebook_cell(cell: Cell, place: int, points: dict[str, int]) -> Any:
    if cell.exercise:
        return _graded(cell, f"exercise-{cell.exercise}", cell.exercise)
    if cell.check:
        return _graded(cell, f"check-{cell.check}", f"check_{cell.check}", points[cell.check])
    make = nbformat.v4.new_markdown_cell if cell.kind == "markdown" else nbformat.v4.new_code_cell
    made = make(cell.source, id=f"cell-{place:03}")
    if cell.tags:
        made.metadata["tags"] = list(cell.tags)
    return made


def _graded(cell: Cell, cell_id: str, grade_id: str, points: int | None = None) -> Any:
    """A cell that nbgrader knows: one with points is a check, one without is to be solved."""
    check = points is not None
    nbgrader: dict[str, Any] = {
        "grade": check, "grade_id": grade_id, "locked": check, "schema_version": 3, "solution": not check,
        "task": False,
    }  # fmt: skip
    if check:
        nbgrader["points"] = points
    return nbformat.v4.new_code_cell(cell.source, id=cell_id, metadata={"nbgrader": nbgrader})


def write_source(lesson: str, folder: Path) -> Path:
    """Write a lesson's source notebook where nbgrader looks for it below `folder`; its path."""
    path = folder / lesson / f"{lesson}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(source_notebook(lesson), path)
    return path


def generate(lessons: list[str], root: Path, db_url: str) -> Path:
    """Source and release notebooks of `lessons` below `root`, and the assignments in the gradebook at `db_url`.

    Returns:
        The folder that holds the releases.

    Raises:
        RuntimeError: when nbgrader's generate_assignment fails, with the end of its log.
    """
    stamped_at_once()
    api = NbGraderAPI(config=_config(root, db_url))
    for lesson in lessons:
        write_source(lesson, root / "source")
        outcome = api.generate_assignment(lesson, force=True, create=True)
        if not outcome["success"]:
            raise RuntimeError(f"nbgrader could not generate {lesson}:\n{outcome.get('log', '')[-2000:]}")
    return root / "release"


def _config(root: Path, db_url: str) -> Config:
    from nbgrader.converters import GenerateAssignment

    config = Config()
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.db_url = db_url
    if not db_url.startswith("sqlite"):  # a server insists that the course of an assignment is there
        config.CourseDirectory.course_id = COURSE
    steps = GenerateAssignment.preprocessors.default()
    config.GenerateAssignment.preprocessors = [NameTheTask if step is ClearSolutions else step for step in steps]
    return config


def build(lessons: list[str] | None = None) -> list[Path]:
    """Build notebooks and stored observations of `lessons` (all of them by default); the files that changed.

    Raises:
        MalformedScriptError: when a script cannot be built.
    """
    lessons = list(LESSONS) if lessons is None else lessons
    changed = [course.STORED / f"{lesson}.bin" for lesson in lessons if storing.write(lesson)]
    course.BUILD.mkdir(exist_ok=True)
    release = generate(lessons, course.BUILD, f"sqlite:///{course.BUILD / 'gradebook.db'}")
    course.NOTEBOOKS.mkdir(exist_ok=True)
    for lesson in lessons:
        made, target = release / lesson / f"{lesson}.ipynb", course.NOTEBOOKS / f"{lesson}.ipynb"
        if not target.exists() or target.read_bytes() != made.read_bytes():
            shutil.copyfile(made, target)
            changed.append(target)
    return changed


def headings(lesson: str) -> list[str]:
    """The headings of a lesson, which explanations point to."""
    cells = read_script(course.SOLUTIONS / f"{lesson}.py")
    text = "\n".join(cell.source for cell in cells if cell.kind == "markdown")
    return [match.strip() for match in re.findall(r"^#{1,4} (.+)$", text, re.MULTILINE)]


def stamped_at_once() -> None:
    """For each new gradebook nbgrader starts the program `alembic` to ask for the version of its tables, which takes
    seconds and needs it on the path; the library gives the same answer here."""
    nbgrader.api.get_alembic_version = newest_tables


@cache
def newest_tables() -> str:
    """The version of nbgrader's tables that this nbgrader makes."""
    head = ScriptDirectory(dbutil.ALEMBIC_DIR).get_current_head()
    assert head is not None, "nbgrader ships its migrations"
    return str(head)
