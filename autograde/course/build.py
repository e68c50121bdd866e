"""Build nbgrader's source notebooks from solved scripts, and learners' notebooks through its generate_assignment."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
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

from autograde.course import store
from autograde.files import digest, write_atomically
from autograde.source import paths
from autograde.source.script import Cell, read_script, with_given_code
from torchcourse.model.catalogue import LESSONS
from torchcourse.model.own_course import own_home
from torchcourse.workspace.session import START

__all__ = [
    "NamedStubs",
    "ask_alembic_library",
    "build",
    "generate",
    "headings",
    "release_steps",
    "source_notebook",
    "table_version",
    "write_source",
]

METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
}

IMPORT_GUARD = """from importlib.util import find_spec

if not find_spec("torchcourse"):
    raise ModuleNotFoundError(
        "This lesson needs torchcourse: in a clone of the course run `make lab`, and "
        'elsewhere `%pip install "torchcourse-….whl[lab]"`, with the wheel you got.'
    )

"""
"""Begins a lesson's first code cell. It looks before anything is imported, because torch may be missing as well."""

HEADING = re.compile(r"^#+ Exercise: (\w+)$", re.MULTILINE)
"""Stands in the cell that sets an exercise."""

COURSE = "default_course"
"""The name of the course in a gradebook on a server; nbgrader's commands leave it empty, which only SQLite allows."""


class NamedStubs(ClearSolutions):  # type: ignore[misc]
    """Clears solutions as nbgrader does, leaving a stub that names its exercise, and the code that is given."""

    def preprocess_cell(self, cell: Any, resources: Any, cell_index: int) -> tuple[Any, Any]:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        self.text_stub = "*Write your answer here, in place of this line.*"
        self.code_stub = {"python": f'raise Unattempted("{name}")  # write it here, in place of this line'}
        cleared, resources = super().preprocess_cell(cell, resources, cell_index)
        if name:
            cleared.source = with_given_code(cleared.source)
        return cleared, resources


def source_notebook(lesson: str) -> Any:
    """Return nbgrader's source notebook of a lesson: the solved script with nbgrader's metadata.

    Raises:
        MalformedScriptError: as `read_script` does.
    """
    script = read_script(paths.script(lesson))
    points = {cell.exercise: cell.points for cell in script if cell.exercise}
    cells = [_notebook_cell(cell, made_id, points) for cell, made_id in zip(script, _ids(script), strict=True)]
    cells[0].source += f"\n\n[All lessons, and your progress]({START})"
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={**METADATA, "torchcourse": {"lesson": lesson}})
    nbformat.validate(notebook)
    return notebook


def _ids(script: list[Cell]) -> Iterator[str]:
    """Yield an id for each cell: from its name, or else from its content, so that cells added elsewhere change none.

    The start page links to the cells that set the exercises by their ids.
    """
    seen = Counter[str]()
    for cell in script:
        about = HEADING.findall(cell.source) if cell.kind == "markdown" else []
        named = {"about": "".join(about), "exercise": cell.exercise, "check": cell.check, "question": cell.question}
        content = digest(f"{cell.kind}:{cell.source}")[:8]
        made = next((f"{kind}-{name}" for kind, name in named.items() if name), f"cell-{content}")
        seen[made] += 1
        yield made if seen[made] == 1 else f"{made}-{seen[made]}"


def _notebook_cell(cell: Cell, cell_id: str, points: dict[str, int]) -> Any:
    if cell.exercise:
        return _graded(cell, cell_id, cell.exercise)
    if cell.check:
        return _graded(cell, cell_id, f"check_{cell.check}", points[cell.check])
    if cell.question:
        return _question(cell, cell_id)
    make = nbformat.v4.new_markdown_cell if cell.kind == "markdown" else nbformat.v4.new_code_cell
    made = make(IMPORT_GUARD + cell.source if "setup" in cell.tags else cell.source, id=cell_id)
    if cell.tags:
        made.metadata["tags"] = list(cell.tags)
    return made


def _graded(cell: Cell, cell_id: str, grade_id: str, points: int | None = None) -> Any:
    """Return a cell with nbgrader's metadata: with points a check cell, without points an answer cell."""
    is_check = points is not None
    nbgrader: dict[str, Any] = {
        "grade": is_check, "grade_id": grade_id, "locked": is_check, "schema_version": 3, "solution": not is_check,
        "task": False,
    }  # fmt: skip
    if is_check:
        nbgrader["points"] = points
    return nbformat.v4.new_code_cell(cell.source, id=cell_id, metadata={"nbgrader": nbgrader})


def _question(cell: Cell, cell_id: str) -> Any:
    """Return a cell that learners answer in words and that nbgrader leaves to be graded by hand."""
    nbgrader = {
        "grade": True, "grade_id": cell.question, "locked": False, "points": cell.points, "schema_version": 3,
        "solution": True, "task": False,
    }  # fmt: skip
    return nbformat.v4.new_markdown_cell(cell.source, id=cell_id, metadata={"nbgrader": nbgrader})


def write_source(lesson: str, folder: Path) -> Path:
    """Write a lesson's source notebook to `folder`/LESSON/LESSON.ipynb, and return its path."""
    path = folder / lesson / f"{lesson}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(source_notebook(lesson), path)
    return path


def generate(lessons: list[str], root: Path, db_url: str) -> Path:
    """Write source and release notebooks of `lessons` below `root`, and assignments to the gradebook at `db_url`.

    Returns:
        The folder that holds the releases.

    Raises:
        RuntimeError: when nbgrader's generate_assignment fails, with the end of its log.
    """
    ask_alembic_library()
    api = NbGraderAPI(config=_config(root, db_url))
    for lesson in lessons:
        write_source(lesson, root / "source")
        outcome = api.generate_assignment(lesson, force=True, create=True)
        if not outcome["success"]:
            raise RuntimeError(f"nbgrader could not generate {lesson}:\n{outcome.get('log', '')[-2000:]}")
    return root / "release"


def _config(root: Path, db_url: str) -> Config:
    config = Config()
    config.CourseDirectory.root = str(root)
    config.CourseDirectory.db_url = db_url
    if not db_url.startswith("sqlite"):  # a server requires the course of an assignment
        config.CourseDirectory.course_id = COURSE
    config.GenerateAssignment.preprocessors = release_steps()
    return config


def release_steps() -> list[Any]:
    """Return the steps by which nbgrader makes a learners' notebook, with stubs that name what is to be written."""
    from nbgrader.converters import GenerateAssignment

    steps = GenerateAssignment.preprocessors.default()
    return [NamedStubs if step is ClearSolutions else step for step in steps]


def build(lessons: list[str] | None = None) -> list[Path]:
    """Build notebooks and stored observations of `lessons`, of all by default, and return the files that changed.

    Raises:
        MalformedScriptError: when a script cannot be built.
    """
    lessons = list(LESSONS) if lessons is None else lessons
    changed = [paths.stored(lesson) for lesson in lessons if store.write(lesson)]
    paths.BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:  # the course's own folder knows nothing of lessons from elsewhere
        own = [lesson for lesson in lessons if own_home(lesson)]
        changed += _write_released([lesson for lesson in lessons if lesson not in own], paths.BUILD)
        return changed + _write_released(own, Path(scratch))


def _write_released(lessons: list[str], root: Path) -> list[Path]:
    """Write the learners' notebooks of lessons by way of nbgrader's folders in `root`; return those that changed."""
    changed, release = [], generate(lessons, root, f"sqlite:///{root / 'gradebook.db'}")
    for lesson in lessons:
        made, target = release / lesson / f"{lesson}.ipynb", paths.notebook(lesson)
        if not target.exists() or target.read_bytes() != made.read_bytes():
            target.parent.mkdir(exist_ok=True)
            write_atomically(target, made.read_bytes())
            changed.append(target)
    return changed


def headings(lesson: str) -> list[str]:
    """Return the headings of a lesson, one of which each known mistake names."""
    cells = read_script(paths.script(lesson))
    text = "\n".join(cell.source for cell in cells if cell.kind == "markdown")
    return [match.strip() for match in re.findall(r"^#{1,4} (.+)$", text, re.MULTILINE)]


def ask_alembic_library() -> None:
    """Have nbgrader get the version of its tables from the alembic library.

    Otherwise it runs the program `alembic` for each new gradebook, which takes seconds and has to be on the path.
    """
    nbgrader.api.get_alembic_version = table_version


@cache
def table_version() -> str:
    """Return the version of the gradebook tables of the installed nbgrader."""
    head = ScriptDirectory(dbutil.ALEMBIC_DIR).get_current_head()
    assert head is not None, "nbgrader ships its migrations"
    return str(head)
