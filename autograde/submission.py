"""Submissions as they come: read tolerantly, never trusted, never followed out of their folder."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from autograde import course
from autograde.inside.needed import Example, examples
from autograde.settings import LIMITS

__all__ = ["Release", "ReleasedCell", "Submission", "SubmittedCell", "read_submission", "release"]


@dataclass(frozen=True)
class ReleasedCell:
    """A cell that nbgrader knows, as it was released."""

    grade_id: str
    cell_id: str
    kind: str
    source: str
    points: float | None


@dataclass(frozen=True)
class Release:
    """A lesson as learners got it. Demos and examples are its other code cells, by their squeezed sources."""

    lesson: str
    notebook: dict[str, Any]
    cells: dict[str, ReleasedCell]
    demos: frozenset[str]
    examples: dict[str, Example]

    @property
    def exercises(self) -> list[str]:
        return [grade_id.removeprefix("check_") for grade_id in self.cells if grade_id.startswith("check_")]

    def points(self, exercise: str) -> float:
        return float(self.cells[f"check_{exercise}"].points or 0)


@cache
def release(lesson: str) -> Release:
    """The released notebook of a lesson.

    Raises:
        FileNotFoundError: when it has not been built.
    """
    notebook = json.loads((course.NOTEBOOKS / f"{lesson}.ipynb").read_text(encoding="utf-8"))
    cells: dict[str, ReleasedCell] = {}
    for cell in notebook["cells"]:
        meta = cell["metadata"].get("nbgrader")
        if meta:
            released = ReleasedCell(
                meta["grade_id"], cell["id"], cell["cell_type"], _text(cell["source"]), meta.get("points")
            )
            cells[released.grade_id] = released
    others = [c for c in notebook["cells"] if c["cell_type"] == "code" and not c["metadata"].get("nbgrader")]
    demos = frozenset(squeezed(_text(c["source"])) for c in others if "demo" in c["metadata"].get("tags", ()))
    shown = {squeezed(source): source for source in (_text(c["source"]) for c in others)}
    known = [source for source in shown if source not in demos]
    found = examples([shown[source] for source in known])
    return Release(lesson, notebook, cells, demos, dict(zip(known, found, strict=True)))


@dataclass(frozen=True)
class SubmittedCell:
    """A cell of a submission: its kind, its text, and the released cell that it is, if any."""

    kind: str
    source: str
    grade_id: str = ""

    @property
    def runs(self) -> bool:
        """Whether grading runs it: code, but for check cells, whose place the probes take."""
        return self.kind == "code" and not self.grade_id.startswith("check_")


@dataclass(frozen=True)
class Submission:
    """One learner's notebook. `problem` is "", "missing" or "unreadable", `reason` says more.

    `tampered` gives the reason for each exercise whose cells are not as they were released.
    """

    student: str
    lesson: str
    cells: tuple[SubmittedCell, ...] = ()
    problem: str = ""
    reason: str = ""
    tampered: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _running(self) -> list[tuple[SubmittedCell, Example | None]]:
        """The cells that grading runs, each with what is known of it if it is an example as released."""
        known = release(self.lesson)
        running = ((c, squeezed(c.source)) for c in self.cells if c.runs)
        return [(c, None if c.grade_id else known.examples.get(text)) for c, text in running if text not in known.demos]

    def to_run(self) -> list[str]:
        """The sources that grading runs, in order; demo cells that are as released are left out."""
        return [cell.source for cell, _ in self._running]

    def shown(self) -> list[Example | None]:
        """What is known of each of them that is an example as released: it need not run if nothing needs it."""
        return [example for _, example in self._running]

    def solution(self, exercise: str) -> int | None:
        """The place in `to_run` of the cell that was meant for `exercise`."""
        places = [i for i, (cell, _) in enumerate(self._running) if cell.grade_id == exercise]
        return places[-1] if places else None

    def untouched(self, exercise: str) -> bool:
        """Whether the exercise's cell is the stub still, and no other cell speaks of it."""
        stub = release(self.lesson).cells[exercise].source
        mine = [c for c in self.cells if c.grade_id == exercise]
        word = re.compile(rf"\b{re.escape(exercise)}\b")
        others = (c for c in self.cells if c.runs and c.grade_id != exercise)
        is_stub = all(squeezed(c.source) == squeezed(stub) for c in mine)
        return is_stub and not any(_binds(word, c.source) for c in others)


def _binds(word: re.Pattern[str], source: str) -> bool:
    return any(word.search(line.split("#")[0]) for line in source.splitlines())


def squeezed(source: str) -> str:
    """A cell's source without comments and white space: what makes it the same cell."""
    lines = (re.sub(r"(^|\s)#.*$", "", line) for line in source.splitlines())
    return re.sub(r"\s+", "", "".join(lines))


def read_submission(path: Path, student: str, lesson: str) -> Submission:
    """The submission at `path`, whatever is there."""
    try:
        data = _read(path)
    except FileNotFoundError:
        return Submission(student, lesson, problem="missing", reason=_what_is_there(path))
    except ValueError as error:
        return Submission(student, lesson, problem="unreadable", reason=str(error))
    except OSError as error:  # its own text names the machine's folders
        reason = f"{path.name} cannot be read: {error.strerror}."
        return Submission(student, lesson, problem="unreadable", reason=reason)
    try:
        raw = list(_cells(json.loads(_decoded(data))))
    except RecursionError:
        return Submission(student, lesson, problem="unreadable", reason=f"{path.name} is nested too deeply.")
    except ValueError as error:
        return Submission(student, lesson, problem="unreadable", reason=f"{path.name} is no notebook: {error}.")
    return _matched(student, lesson, raw)


def _read(path: Path) -> bytes:
    """The bytes of a regular file that is no link.

    Raises:
        ValueError: when it is something else, or too large.
        OSError: when it cannot be read.
    """
    for part in (path.parent.parent, path.parent):
        if part.is_symlink():
            raise ValueError(f"{part.name} is a symbolic link, which is not followed.")
    if path.is_symlink():
        raise ValueError(f"{path.name} is a symbolic link, which is not followed.")
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path.name} is no regular file.")
        if status.st_size > LIMITS.notebook_bytes:
            raise ValueError(f"{path.name} has {status.st_size} bytes; the limit is {LIMITS.notebook_bytes}.")
        return file.read(LIMITS.notebook_bytes + 1)


def _what_is_there(path: Path) -> str:
    there = sorted(p.name for p in path.parent.glob("*.ipynb"))[:3] if path.parent.is_dir() else []
    if there:
        return f"{path.name} is missing; the folder holds {', '.join(there)}: it has to be renamed."
    return f"{path.name} was not submitted."


def _decoded(data: bytes) -> str:
    if not data.strip():
        raise ValueError("it is empty")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _cells(notebook: Any) -> Iterator[dict[str, Any]]:
    """The cells of a notebook of format 4, or of 3, where they lie in worksheets.

    Raises:
        ValueError: when there are none.
    """
    if not isinstance(notebook, dict):
        raise ValueError("it holds no notebook, but something else")
    cells = notebook.get("cells")
    if not isinstance(cells, list) and isinstance(notebook.get("worksheets"), list):
        sheets = [sheet.get("cells") for sheet in notebook["worksheets"] if isinstance(sheet, dict)]
        cells = [cell for sheet in sheets if isinstance(sheet, list) for cell in sheet]
    if not isinstance(cells, list):
        raise ValueError("it has no cells")
    if len(cells) > LIMITS.notebook_cells:
        raise ValueError(f"it has {len(cells)} cells, and the limit is {LIMITS.notebook_cells}")
    yield from (cell for cell in cells if isinstance(cell, dict))


def _text(source: Any) -> str:
    """The text of a cell, without what no file could hold: JSON can spell half a surrogate pair."""
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    return source.encode("utf-8", "replace").decode() if isinstance(source, str) else ""


def _matched(student: str, lesson: str, raw: list[dict[str, Any]]) -> Submission:
    known = release(lesson)
    cells: list[SubmittedCell] = []
    tampered: dict[str, str] = {}
    for cell in raw:
        released, complaint = _recognise(cell, known)
        if released and complaint:
            tampered.setdefault(released.grade_id.removeprefix("check_"), complaint)
        kind = str(cell.get("cell_type"))
        kind = kind if kind in ("code", "markdown") else "raw"
        source = _text(cell.get("source", cell.get("input", ""))).replace("\r\n", "\n")
        cells.append(SubmittedCell(kind, source, released.grade_id if released else ""))
    return Submission(student, lesson, tuple(cells), tampered=tampered)


def _recognise(cell: dict[str, Any], known: Release) -> tuple[ReleasedCell | None, str]:
    """The released cell that this one is, and what about it was changed that must not be."""
    metadata = cell.get("metadata")
    meta = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    grade_id = meta.get("grade_id")
    by_id = next((r for r in known.cells.values() if r.cell_id == cell.get("id")), None)
    if by_id and "grade_id" in meta and grade_id != by_id.grade_id:
        return by_id, f"The grade_id of the cell {by_id.grade_id} was changed to {ascii(grade_id)[:40]}."
    released = known.cells.get(grade_id) if isinstance(grade_id, str) else by_id
    return released, _changes(cell, meta, released) if released else ""


def _changes(cell: dict[str, Any], meta: dict[str, Any], released: ReleasedCell) -> str:
    if cell.get("cell_type") != released.kind:
        kind = ascii(cell.get("cell_type"))[:20]
        return f"The cell {released.grade_id} was made a cell of type {kind}; it was released as code."
    points = meta.get("points", released.points)
    same = isinstance(points, int | float) and not isinstance(points, bool) and points == released.points
    if released.points is not None and not same:
        return (
            f"The points of the cell {released.grade_id} were changed from {released.points:g} to {ascii(points)[:20]}."
        )
    return ""
