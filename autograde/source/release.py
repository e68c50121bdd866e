"""A lesson as it was released to learners."""

from __future__ import annotations

import json
import symtable
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autograde.errors import CourseError
from autograde.source import paths
from autograde.source.script import read_script
from torchcourse.model.catalogue import LESSONS
from torchcourse.model.notebook_file import exercise_of, is_check, normalized

__all__ = [
    "Release",
    "ReleasedCell",
    "built_lessons",
    "cell_text",
    "check_built",
    "load_release",
    "release_of",
    "released_to",
]


@dataclass(frozen=True)
class ReleasedCell:
    """A released cell with a grade_id: an answer cell, a check cell or a question."""

    grade_id: str
    cell_id: str
    kind: str
    source: str
    points: float | None


@dataclass(frozen=True, eq=False)
class Release:
    """A lesson as it was released to learners.

    Attributes:
        notebook: the whole notebook, as JSON.
        cells: the answer and check cells, and questions that are graded by hand, by grade_id.
        examples: the global names that each example cell binds, by its normalized source. Examples are the other code
            cells, except those tagged `setup`, which always run, and `demo`.
        demos: the same for the cells tagged `demo`, which may take minutes.
    """

    lesson: str
    notebook: dict[str, Any]
    cells: dict[str, ReleasedCell]
    examples: dict[str, frozenset[str]]
    demos: dict[str, frozenset[str]]

    @property
    def exercises(self) -> list[str]:
        """The names of the exercises, in the order of their check cells."""
        return [exercise_of(grade_id) for grade_id in self.cells if is_check(grade_id)]

    @property
    def questions(self) -> list[str]:
        """The names of the questions that are answered in words and graded by hand."""
        return [grade_id for grade_id, cell in self.cells.items() if cell.kind == "markdown"]

    @property
    def all_points(self) -> dict[str, float]:
        """The points of each exercise and question."""
        return {name: self.points(name) for name in [*self.exercises, *self.questions]}

    def points(self, exercise: str) -> float:
        """Return the points of an exercise or a question."""
        cell = self.cells[exercise if exercise in self.questions else f"check_{exercise}"]
        return float(cell.points or 0)

    def difference(self, earlier: Release) -> str:
        """Say which exercises are new, gone, or worth other points than in an earlier release; "" where none is."""
        mine, theirs = self.all_points, earlier.all_points
        new, gone = [[name for name in one if name not in other] for one, other in ((mine, theirs), (theirs, mine))]
        worth = [f"{name} {theirs[name]:g} -> {mine[name]:g} points" for name in mine if name in theirs
                 and mine[name] != theirs[name]]  # fmt: skip
        parts = (("new: ", new), ("gone: ", gone), ("", worth))
        return "; ".join(f"{title}{', '.join(names)}" for title, names in parts if names)

    def omits(self, source: str, included: frozenset[str]) -> bool:
        """Return whether a cell is an unchanged example or demo that is not among those `included` in the run."""
        text = normalized(source)
        return (text in self.examples or text in self.demos) and text not in included

    def examples_to_run(self, name: str, included: frozenset[str]) -> frozenset[str]:
        """Return the examples and demos to run when a global name was missing.

        Args:
            included: those that were run already, by normalized source.

        Returns:
            `included` and all examples; if none of these binds the name, also the demos that do. `included` itself when
            no further cell binds the name.
        """
        with_examples = included.union(self.examples)
        if with_examples != included and any(name in names for names in self.examples.values()):
            return with_examples
        demos = {source for source, names in self.demos.items() if name in names}
        return with_examples | demos if demos else included


def built_lessons() -> list[str]:
    """Return the lessons whose notebooks have been built: an instructor's own lesson may be half written."""
    return [lesson for lesson in LESSONS if paths.notebook(lesson).is_file()]


@cache
def load_release(lesson: str) -> Release:
    """Load the released notebook of a lesson.

    Raises:
        CourseError: when it has not been built.
    """
    path = paths.notebook(lesson)
    if not path.is_file():
        raise CourseError(f"{paths.shown(path)} is missing: `{paths.build_command(lesson)}` makes it.")
    return release_of(lesson, json.loads(path.read_text(encoding="utf-8")))


def check_built(*lessons: str) -> None:
    """Check that the released notebooks and stored data have the exercises of the lessons' scripts, and their points.

    Raises:
        CourseError: when a script was changed since, or nothing has been built.
    """
    from torchcourse.model.stored_observations import UNREADABLE, StoredLesson  # imports torch, as scripts do

    for lesson in lessons:
        release, cells = load_release(lesson), read_script(paths.script(lesson))
        written = {cell.exercise: float(cell.points) for cell in cells if cell.exercise}
        if written != {name: release.points(name) for name in release.exercises}:
            raise CourseError(f"{paths.shown(paths.script(lesson))} has other exercises or points than its notebook: "
                              f"`{paths.build_command(lesson)}` builds it again.")  # fmt: skip
        try:
            stored = set(StoredLesson(paths.stored(lesson).read_bytes()))
        except UNREADABLE:
            stored = set()
        if not stored.issuperset(release.exercises):
            raise CourseError(f"{paths.shown(paths.stored(lesson))} is missing, damaged or of another version: "
                              f"`{paths.build_command(lesson)}` makes it again.")  # fmt: skip


def release_of(lesson: str, notebook: dict[str, Any]) -> Release:
    """Return the release that a lesson's notebook, current or earlier, represents."""
    cells: dict[str, ReleasedCell] = {}
    examples, demos = dict[str, frozenset[str]](), dict[str, frozenset[str]]()
    for cell in notebook["cells"]:
        source, meta = cell_text(cell["source"]), cell["metadata"].get("nbgrader")
        tags = cell["metadata"].get("tags", ())
        if meta:
            released = ReleasedCell(meta["grade_id"], cell["id"], cell["cell_type"], source, meta.get("points"))
            cells[released.grade_id] = released
        elif cell["cell_type"] == "code" and "setup" not in tags:
            (demos if "demo" in tags else examples)[normalized(source)] = frozenset(_global_names(source))
    return Release(lesson, notebook, cells, examples, demos)


def released_to(folder: Path, lesson: str) -> Release | None:
    """Return the release of a lesson that a class folder holds, None if it holds none."""
    try:
        text = (folder / "release" / lesson / f"{lesson}.ipynb").read_text(encoding="utf-8")
        return release_of(lesson, json.loads(text))
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _global_names(source: str) -> Iterator[str]:
    """Yield the global names that a cell binds; none when it is not plain Python (IPython magics)."""
    try:
        tables = [symtable.symtable(source, "cell", "exec")]
    except SyntaxError:
        return
    for table in tables:
        tables += table.get_children()
        for symbol in table.get_symbols():
            outermost = table.get_type() == "module" or symbol.is_declared_global()
            if outermost and (symbol.is_assigned() or symbol.is_imported()):
                yield symbol.get_name()


def cell_text(source: Any) -> str:
    """Return the text of a cell, with lone surrogates, which JSON allows and files do not, replaced."""
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    return source.encode("utf-8", "replace").decode() if isinstance(source, str) else ""
