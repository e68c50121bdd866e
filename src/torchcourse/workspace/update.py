"""Bring a newer release of the lessons into a working copy, with every answer kept.

Three notebooks are merged: the learner's (`mine`), the release that it was made from (`base`), and the newer release
(`new`). A released cell that the learner left alone becomes the newer one; an answer stays with its exercise; a
released cell that the learner changed stays changed as long as the newer release still has it; the learner's own cells
stay behind the cell that they followed. If the stub of an answer has changed, both are shown. The old notebook is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from torchcourse.model.lessons import released
from torchcourse.model.notebook_file import (
    Cell,
    Notebook,
    WorkspaceError,
    cells,
    grade_id,
    is_check,
    normalized,
    read,
    replace_text,
    set_aside,
    source_of,
)
from torchcourse.workspace import working_copy
from torchcourse.workspace.notebook_trust import rewrite

__all__ = ["Merged", "Updated", "merge", "update"]

RELEASED_ID = re.compile(r"cell-(\d{3}|[0-9a-f]{8}(-\d+)?)")
"""The ids of released cells without a `grade_id`: hashes, or consecutive numbers in the first releases."""
RELEASED_METADATA = ("deletable", "editable", "nbgrader", "tags")
"""The metadata of a cell that belongs to the release; the rest is the learner's."""
NOTE_ID = "changed-"
"""Prefix of the id of a note, which shows an exercise's newer stub."""


@dataclass(frozen=True)
class Merged:
    """A merged notebook, with names of exercises: `answers` that were kept, among them `conflicts`, whose stub has
    changed; and `gone`, which the newer release lacks.
    """

    notebook: Notebook
    answers: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Updated:
    """The outcome for one notebook of a working copy.

    `aside` is the file with the old notebook; `problem` says why it could not be updated.
    """

    name: str
    merged: Merged | None = None
    aside: Path | None = None
    problem: str = ""

    def in_words(self) -> str:
        """Describe the outcome to the learner."""
        if self.problem:
            return f"{self.name} is not updated: {self.problem}"
        if self.merged is None:
            return f"{self.name} is new."
        merged, count = self.merged, len(self.merged.answers)
        kept = f"{count} {'answer' if count == 1 else 'answers'} kept" if count else "no answers to keep"
        lines = [f"{self.name} is updated: {kept}. The old notebook: {self.aside}"]
        lines += [f"  {name} has changed: both your answer and the new stub are there." for name in merged.conflicts]
        lines += [f"  {name} is no longer an exercise: your answer is now an ordinary cell." for name in merged.gone]
        return "\n".join(lines)


def update(folder: Path) -> Iterator[Updated]:
    """Bring the installed release into the working copy `folder`, notebook by notebook.

    A notebook of this release is changed only if the cell of an exercise is missing. One that cannot be updated is
    left as it is, and the others are updated all the same.

    Raises:
        WorkspaceError: if new lessons cannot be copied.
    """
    new = working_copy.copy_notebooks(folder)
    yield from (Updated(path.name) for path in new)
    for source in released().values():
        if folder / source.name in new:
            continue
        try:
            merged, aside = _update_one(folder, source)
        except WorkspaceError as error:
            yield Updated(source.name, problem=str(error))
            continue
        if merged:
            yield Updated(source.name, merged, aside)


def _update_one(folder: Path, source: Path) -> tuple[Merged | None, Path | None]:
    path, origin = folder / source.name, working_copy.origin(folder, source.name)
    if origin.is_file() and origin.read_bytes() == source.read_bytes() and not _lacks_an_exercise(path, source):
        return None, None
    mine, new = read(path), read(source)
    base = _read_if_complete(origin)
    merged = merge(mine, base, new)
    aside = None
    if merged.notebook != mine:
        aside = set_aside(path, path.name, path.read_text(encoding="utf-8-sig"))
        rewrite(path, merged.notebook)
    replace_text(origin, source.read_text(encoding="utf-8"))
    return (merged, aside) if aside else (None, None)


def _lacks_an_exercise(path: Path, source: Path) -> bool:
    """Return whether an exercise's cell or check was deleted; False for a damaged notebook."""
    mine = _read_if_complete(path)
    present = {grade_id(cell) for cell in cells(mine)} if mine else set()
    return mine is not None and any(grade_id(cell) not in present for cell in cells(read(source)) if grade_id(cell))


def _read_if_complete(path: Path) -> Notebook | None:
    try:
        return read(path)
    except WorkspaceError:
        return None


def merge(mine: Notebook, base: Notebook | None, new: Notebook) -> Merged:
    """Return the release `new` with the learner's work from `mine`, which was made from `base` (None: unknown)."""
    result = _Merge(mine, base, new)
    metadata = {**new["metadata"], **mine.get("metadata", {})}
    metadata["torchcourse"] = new["metadata"].get("torchcourse", {})
    notebook = {**new, "metadata": metadata, "cells": result.all_cells()}
    return Merged(notebook, result.answers, result.conflicts, result.gone)


def _guess(mine: Notebook, new: Notebook) -> Notebook:
    """Return a stand-in for an unknown release.

    It assumes that prose is unchanged, that code which is in the newer release was in the old one too, and that the
    stubs are the same.
    """
    new_keys = {key for key, _ in _keyed(new)}
    base = [cell for key, cell in _keyed(mine) if not grade_id(cell) and (key in new_keys or _is_released_prose(cell))]
    return {**new, "cells": [*base, *filter(grade_id, cells(new))]}


def _is_released_prose(cell: Cell) -> bool:
    return cell.get("cell_type") == "markdown" and bool(RELEASED_ID.fullmatch(str(cell.get("id"))))


def _keyed(notebook: Notebook) -> list[tuple[str, Cell]]:
    """Return the cells, each with a key that identifies it across releases.

    The key is the cell's `grade_id`; without one its content, numbered if several cells have the same.
    """
    seen: dict[str, int] = {}
    keyed = []
    for cell in cells(notebook):
        content = normalized(source_of(cell)) if cell.get("cell_type") == "code" else "".join(source_of(cell).split())
        key = grade_id(cell) or f"{cell.get('cell_type')}:{content}"
        seen[key] = seen.get(key, 0) + 1
        keyed.append((key if seen[key] == 1 else f"{key}:{seen[key]}", cell))
    return keyed


class _Merge:
    """A merge. Each cell of `mine` is a released one (unchanged or changed) or the learner's own."""

    def __init__(self, mine: Notebook, base: Notebook | None, new: Notebook) -> None:
        self.answers: list[str] = []
        self.conflicts: list[str] = []
        self.gone: list[str] = []
        self.guessed = base is None
        self.new = dict(_keyed(new))
        self.base = dict(_keyed(_guess(mine, new) if base is None else base))
        self.base_ids = {cell.get("id"): key for key, cell in self.base.items() if cell.get("id")}
        self.ids = {str(cell.get("id")) for cell in cells(new)}
        self.replacing: dict[str, Cell] = {}
        """The learner's cells that replace new ones, by the key of the new cell."""
        self.behind: dict[str, list[Cell]] = {}
        """The learner's own cells, by the key of the new cell that they follow; "" is the top."""
        self._sort(mine)

    def _sort(self, mine: Notebook) -> None:
        place = ""
        for content, cell in _keyed(mine):
            key = self._origin_of(content, cell)
            if key in self.new and key not in self.replacing:
                self.replacing[key] = cell
                place = key
            elif not self._is_released(cell, key):
                self.behind.setdefault(place, []).append(self._own(cell))

    def _origin_of(self, content: str, cell: Cell) -> str:
        """Return the key of the released cell that this one came from, by `grade_id`, id or content; "" if none."""
        name = grade_id(cell)
        known = self.base.get(name) or self.new.get(name)
        if known and known.get("cell_type") == cell.get("cell_type"):
            return name
        key = self.base_ids.get(cell.get("id"), "")
        if key and self.base[key].get("cell_type") == cell.get("cell_type"):
            return key
        return content if content in self.base and not name else ""

    def _is_released(self, cell: Cell, key: str) -> bool:
        """Return whether a cell is as it was released, so that the learner loses nothing with it."""
        was = self.base.get(key)
        return is_check(grade_id(cell)) or (was is not None and _equal(cell, was))

    def _own(self, cell: Cell) -> Cell:
        """Return a cell that the newer release has no place for; an answer loses its nbgrader metadata."""
        name = grade_id(cell)
        own = dict(cell)
        if name and name not in self.new:
            self.gone.append(name)
        if name and self.new.get(name, {}).get("cell_type") != cell.get("cell_type"):
            own["metadata"] = {k: v for k, v in cell["metadata"].items() if k not in RELEASED_METADATA}
        base = str(cell.get("id", "mine"))[:50]
        ids = (base, *(f"{base}-{n}" for n in range(2, len(self.ids) + 3)))
        own["id"] = next(fresh for fresh in ids if fresh not in self.ids)
        self.ids.add(own["id"])
        return own

    def all_cells(self) -> list[Cell]:
        """Return the cells of the merged notebook."""
        made = [*self.behind.get("", ())]
        for key, cell in self.new.items():
            made += [*self._placed(cell, key), *self.behind.get(key, ())]
        again = {NOTE_ID + name for name in self.conflicts}
        earlier = [cell for place in self.behind.values() for cell in place if cell.get("id") in again]
        return [cell for cell in made if not any(cell is note for note in earlier)]

    def _placed(self, new: Cell, key: str) -> list[Cell]:
        """Return the cells that take the place of a cell of the newer release."""
        mine, was = self.replacing.get(key), self.base.get(key)
        name = grade_id(new)
        if mine is None:
            deleted = was is not None and not name
            return [] if deleted else [new]
        if is_check(name):
            return [_with_outputs(new, mine)]
        if name:
            return self._answer(new, mine, name)
        return [_with_outputs(new, mine) if was and _equal(mine, was) else _replacing(new, mine)]

    def _answer(self, new: Cell, mine: Cell, name: str) -> list[Cell]:
        was = self.base.get(name, new)
        if _equal(mine, was) or _equal(mine, new) or not source_of(mine).strip():
            return [new]
        if not _same(mine, was):  # otherwise only comments were added, which stay too
            self.answers.append(name)
        answer = _replacing(new, mine)
        if _same(was, new) and not (self.guessed and _head(new) not in normalized(source_of(mine))):
            return [answer]
        self.conflicts.append(name)
        return [_note(name, source_of(new)), answer]


def _equal(one: Cell, other: Cell) -> bool:
    return source_of(one).strip() == source_of(other).strip()


def _same(one: Cell, other: Cell) -> bool:
    """Return whether two cells of code are the same program."""
    return normalized(source_of(one)) == normalized(source_of(other))


def _head(stub: Cell) -> str:
    """Return the start of a stub, up to where learners write their answer."""
    return normalized(source_of(stub).partition("raise Unattempted(")[0])


def _replacing(new: Cell, mine: Cell) -> Cell:
    """Return the learner's cell with the identity of the released one that it replaces."""
    metadata = {k: v for k, v in mine.get("metadata", {}).items() if k not in RELEASED_METADATA}
    return {**mine, "id": new["id"], "metadata": {**metadata, **new["metadata"]}}


def _with_outputs(new: Cell, mine: Cell) -> Cell:
    """Return the released cell, with the outputs of the learner's cell if that is the same program."""
    if new.get("cell_type") != "code" or not _same(mine, new):
        return new
    return {**new, **{key: mine[key] for key in ("outputs", "execution_count") if key in mine}}


def _note(name: str, stub: str) -> Cell:
    says = (
        f"**`{name}` has changed in the newer release.** Your answer is below as you left it. The exercise now begins "
        f"like this:\n\n```python\n{stub}\n```\n\nOnce your answer fits, delete this cell."
    )
    return {"cell_type": "markdown", "id": f"{NOTE_ID}{name}"[:64], "metadata": {}, "source": says.splitlines(True)}
