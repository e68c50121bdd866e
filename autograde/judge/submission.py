"""Read submissions: tolerantly, trusting nothing in them, and following no links out of their folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autograde.files import regular_file
from autograde.settings import LIMITS
from autograde.source.release import Release, ReleasedCell, cell_text, load_release
from torchcourse.model.notebook_file import exercise_of, is_check, normalized

__all__ = ["Submission", "SubmittedCell", "read_submission"]


@dataclass(frozen=True)
class SubmittedCell:
    """A cell of a submission: its type, its text, and the grade_id of the released cell that it is, if any."""

    kind: str
    source: str
    grade_id: str = ""

    @property
    def runs(self) -> bool:
        """Whether grading may run it: code, except check cells, which the probes replace."""
        return self.kind == "code" and not is_check(self.grade_id)


@dataclass(frozen=True)
class Submission:
    """One learner's notebook, and the lesson as it was released.

    Attributes:
        problem: "", "missing" or "unreadable"; `reason` is a sentence on it.
        tampered: for each exercise whose cells were changed in a way that is not allowed, a sentence on the change.
    """

    student: str
    release: Release
    cells: tuple[SubmittedCell, ...] = ()
    problem: str = ""
    reason: str = ""
    tampered: dict[str, str] = field(default_factory=dict)

    @property
    def lesson(self) -> str:
        """The name of the lesson."""
        return self.release.lesson

    def cells_to_run(self, included: frozenset[str] = frozenset()) -> list[SubmittedCell]:
        """Return the cells that grading runs, in order.

        Args:
            included: the unchanged examples and demos that run all the same, by normalized source.
        """
        return [c for c in self.cells if c.runs and (c.grade_id or not self.release.omits(c.source, included))]

    def untouched(self, exercise: str) -> bool:
        """Return whether the exercise's cell is still the stub and no other cell mentions the exercise."""
        stub = normalized(self.release.cells[exercise].source)
        own = [c for c in self.cells if c.grade_id == exercise]
        word = re.compile(rf"\b{re.escape(exercise)}\b")
        others = (c for c in self.cells if c.runs and c.grade_id != exercise)
        return all(normalized(c.source) == stub for c in own) and not any(_mentions(word, c.source) for c in others)

    def answer_in_words(self, question: str) -> str:
        """Return what the learner wrote in answer to a question; "" where it is as it was released, or nothing."""
        written = next((cell.source for cell in self.cells if cell.grade_id == question), "")
        return "" if written == self.release.cells[question].source else written


def _mentions(word: re.Pattern[str], source: str) -> bool:
    return bool(word.search(source)) and any(word.search(line.split("#")[0]) for line in source.splitlines())


def read_submission(path: Path, student: str, lesson: str, earlier: Sequence[Release] = ()) -> Submission:
    """Read the submission at `path`; a file that is missing or no notebook is a `problem`, not an error.

    Args:
        earlier: releases of the lesson before the present one; the submission may have been made from one of them.
    """
    release = load_release(lesson)
    try:
        data = _read(path)
    except FileNotFoundError:
        return Submission(student, release, problem="missing", reason=_what_is_there(path))
    except ValueError as error:
        return Submission(student, release, problem="unreadable", reason=str(error))
    except OSError as error:  # its text would name folders of this machine
        reason = f"{path.name} cannot be read: {error.strerror}."
        return Submission(student, release, problem="unreadable", reason=reason)
    try:
        raw = list(_cells(_parsed(data)))
    except RecursionError:
        return Submission(student, release, problem="unreadable", reason=f"{path.name} is nested too deeply.")
    except ValueError as error:
        return Submission(student, release, problem="unreadable", reason=_damaged(path.name, error))
    return _matched(student, release, earlier, raw)


def _damaged(name: str, error: ValueError) -> str:
    """Return why a file cannot be read as a notebook, in words for the learner."""
    if isinstance(error, json.JSONDecodeError):
        return (f"{name} is not a notebook: it is cut off or damaged from line {error.lineno} on. Save the notebook in "
                "JupyterLab, and hand it in again.")  # fmt: skip
    return f"{name} is not a notebook: {error}."


def _read(path: Path) -> bytes:
    """Return the bytes of a regular file that is not a link.

    Raises:
        ValueError: when it is anything else, or too large.
        OSError: when it cannot be read.
    """
    for part in (path.parent.parent, path.parent):
        if part.is_symlink():
            raise ValueError(f"{part.name} is a symbolic link, which is not followed.")
    if path.is_symlink():
        raise ValueError(f"{path.name} is a symbolic link, which is not followed.")
    with regular_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > LIMITS.notebook_bytes:
            raise ValueError(f"{path.name} has {size} bytes; the limit is {LIMITS.notebook_bytes}.")
        return file.read(LIMITS.notebook_bytes + 1)


def _what_is_there(path: Path) -> str:
    """Say that the notebook is missing, and which other notebooks are in its folder."""
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


def _parsed(data: bytes) -> Any:
    """Return the JSON in a file.

    Raises:
        ValueError: when it holds none, or so many lists and objects that parsing it would take seconds.
        RecursionError: when it is nested too deeply.
    """
    if (brackets := data.count(b"[") + data.count(b"{")) > LIMITS.notebook_brackets:
        raise ValueError(f"it has {brackets} opening brackets, and the limit is {LIMITS.notebook_brackets}")
    return json.loads(_decoded(data))


def _cells(notebook: Any) -> Iterator[dict[str, Any]]:
    """Yield the cells of a notebook of format 4, or of format 3, where they lie in worksheets.

    Raises:
        ValueError: when there are none.
    """
    if not isinstance(notebook, dict):
        raise ValueError("its content is not a notebook")
    cells = notebook.get("cells")
    if not isinstance(cells, list) and isinstance(notebook.get("worksheets"), list):
        sheets = [sheet.get("cells") for sheet in notebook["worksheets"] if isinstance(sheet, dict)]
        cells = [cell for sheet in sheets if isinstance(sheet, list) for cell in sheet]
    if not isinstance(cells, list):
        raise ValueError("it has no cells")
    if len(cells) > LIMITS.notebook_cells:
        raise ValueError(f"it has {len(cells)} cells, and the limit is {LIMITS.notebook_cells}")
    found = [cell for cell in cells if isinstance(cell, dict)]
    code = sum(len(_source(cell)) for cell in found if cell.get("cell_type") == "code")
    if code > LIMITS.notebook_code:
        raise ValueError(f"its code has {code} characters, and the limit is {LIMITS.notebook_code}")
    yield from found


def _source(cell: dict[str, Any]) -> str:
    """Return the source of a cell of format 4 or 3."""
    return cell_text(cell.get("source", cell.get("input", "")))


def _matched(student: str, release: Release, earlier: Sequence[Release], raw: list[dict[str, Any]]) -> Submission:
    """Return the submission whose cells are matched with the released ones.

    It is matched with the release that it was made from: the one with the fewest disallowed changes and, among those,
    with the most cells in common. Cells that the learner did not change are then replaced by those of the current
    release.
    """
    matched = [_matched_with(student, each, raw) for each in (release, *earlier)]
    texts = {_normalized_text(cell) for cell in raw} if earlier else set()

    def similarity(submission: Submission) -> tuple[int, int]:
        common = sum(_normalized_text(cell) in texts for cell in submission.release.notebook["cells"])
        return -len(submission.tampered), common

    made = max(matched, key=similarity)  # the first of several, which is the present one
    if made.release is release:
        return made
    tampered = {name: complaint for name, complaint in made.tampered.items() if name in release.exercises}
    return Submission(student, release, tuple(_renewed(made, release)), tampered=tampered)


def _normalized_text(cell: dict[str, Any]) -> str:
    return normalized(_source(cell))


def _renewed(submission: Submission, release: Release) -> Iterator[SubmittedCell]:
    """Yield the cells of a submission that was made from an earlier release, as if it had been made from `release`."""
    before = submission.release
    for cell in submission.cells:
        then, now = before.cells.get(cell.grade_id), release.cells.get(cell.grade_id)
        if then and now and _is_unchanged(cell, then):
            yield replace(cell, source=now.source)  # the stub stays a stub
        elif then and not now:
            if not is_check(cell.grade_id):
                yield replace(cell, grade_id="")
        elif then or not before.omits(cell.source, frozenset()) or release.omits(cell.source, frozenset()):
            yield cell


def _is_unchanged(cell: SubmittedCell, released: ReleasedCell) -> bool:
    """Return whether a cell is as released: an answer in words to the letter, code up to comments and white space."""
    if released.kind == "markdown":  # where "#" begins a heading
        return cell.source == released.source
    return normalized(cell.source) == normalized(released.source)


def _matched_with(student: str, release: Release, raw: list[dict[str, Any]]) -> Submission:
    cells: list[SubmittedCell] = []
    tampered: dict[str, str] = {}
    for cell in raw:
        released, complaint = _recognise(cell, release)
        if released and complaint:
            tampered.setdefault(exercise_of(released.grade_id), complaint)
        kind = str(cell.get("cell_type"))
        kind = kind if kind in ("code", "markdown") else "raw"
        source = _source(cell).replace("\r\n", "\n")
        cells.append(SubmittedCell(kind, source, released.grade_id if released else ""))
    return Submission(student, release, tuple(cells), tampered=tampered)


def _recognise(cell: dict[str, Any], release: Release) -> tuple[ReleasedCell | None, str]:
    """Return the released cell that this one is, and a complaint about a change that is not allowed, or ""."""
    metadata = cell.get("metadata")
    meta = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    meta = meta if isinstance(meta, dict) else {}
    grade_id = meta.get("grade_id")
    by_id = next((r for r in release.cells.values() if r.cell_id == cell.get("id")), None)
    if by_id and "grade_id" in meta and grade_id != by_id.grade_id:
        return by_id, f"The grade_id of the cell {by_id.grade_id} was changed to {ascii(grade_id)[:40]}."
    released = release.cells.get(grade_id) if isinstance(grade_id, str) else by_id
    return released, _changes(cell, meta, released) if released else ""


def _changes(cell: dict[str, Any], meta: dict[str, Any], released: ReleasedCell) -> str:
    """Return a complaint about a change of a released cell that is not allowed; "" where there is none."""
    if cell.get("cell_type") != released.kind:
        kind = ascii(cell.get("cell_type"))[:20]
        return f"The cell {released.grade_id} was made a cell of type {kind}; it was released as {released.kind}."
    points = meta.get("points", released.points)
    same = isinstance(points, int | float) and not isinstance(points, bool) and points == released.points
    if released.points is not None and not same:
        return (
            f"The points of the cell {released.grade_id} were changed from {released.points:g} to {ascii(points)[:20]}."
        )
    return ""
