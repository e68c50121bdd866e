"""Bringing a newer release of the lessons into a working copy, with every answer kept.

Three notebooks meet: the learner's, the release that it was made from, and the newer one. A released cell that the
learner left alone becomes the newer one; an answer stays, by its exercise; a released cell that she changed stays
changed where the newer release still has it; cells of her own stay behind the cell that they stood behind. Where her
answer and a changed stub meet, both are shown. The notebook as it was is kept aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from torchcourse import desk
from torchcourse.lessons import released
from torchcourse.notebookfile import (
    Cell,
    DeskError,
    Notebook,
    cells,
    grade_id,
    keep_aside,
    read,
    squeezed,
    text,
    write_text,
)  # fmt: skip
from torchcourse.signing import rewrite

__all__ = ["Merged", "Updated", "merge", "update"]

RELEASED_ID = re.compile(r"cell-\d{3}")
RELEASED_METADATA = ("deletable", "editable", "nbgrader", "tags")
"""What a release says about a cell; the rest is the learner's."""
NOTE = "changed-"
"""What the id of a cell begins with that shows the newer stub of an exercise."""


@dataclass(frozen=True)
class Merged:
    """A notebook after an update. `answers` were kept, of them `conflicts` for an exercise whose stub has changed, and
    `gone` for one that the newer release no longer has."""

    notebook: Notebook
    answers: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Updated:
    """What became of one notebook of a working copy: `aside` keeps it as it was; `problem` says why it was left."""

    name: str
    merged: Merged | None = None
    aside: Path | None = None
    problem: str = ""

    def in_words(self) -> str:
        """The same for people."""
        if self.problem:
            return f"{self.name} is not updated: {self.problem}"
        if self.merged is None:
            return f"{self.name} is new."
        merged, count = self.merged, len(self.merged.answers)
        kept = f"{count} {'answer' if count == 1 else 'answers'} kept" if count else "no answers to keep"
        lines = [f"{self.name} is updated: {kept}. As it was: {self.aside}"]
        lines += [f"  {name} has changed: your answer and the new stub are both there." for name in merged.conflicts]
        lines += [f"  {name} is no longer an exercise: your answer is a cell of your own." for name in merged.gone]
        return "\n".join(lines)


def update(folder: Path) -> Iterator[Updated]:
    """Bring the installed release into the working copy `folder`, notebook by notebook; those that are of it already
    are not touched, but where an exercise's cell is gone. One that cannot be updated stays as it is, and the others go
    on.

    Raises:
        DeskError: when lessons that are not there yet cannot be copied.
    """
    new = desk.copy_notebooks(folder)
    yield from (Updated(path.name) for path in new)
    for source in sorted(released().glob("*.ipynb")):
        if folder / source.name in new:
            continue
        try:
            merged, aside = _update_one(folder, source)
        except DeskError as error:
            yield Updated(source.name, problem=str(error))
            continue
        if merged:
            yield Updated(source.name, merged, aside)


def _update_one(folder: Path, source: Path) -> tuple[Merged | None, Path | None]:
    path, origin = folder / source.name, desk.origin(folder, source.name)
    if origin.is_file() and origin.read_bytes() == source.read_bytes() and not _lacks_an_exercise(path, source):
        return None, None
    mine, new = read(path), read(source)
    base = _whole(origin)
    merged = merge(mine, base, new)
    aside = None
    if merged.notebook != mine:
        aside = keep_aside(path, path.name, path.read_text(encoding="utf-8-sig"))
        rewrite(path, merged.notebook)
    write_text(origin, source.read_text(encoding="utf-8"))
    return (merged, aside) if aside else (None, None)


def _lacks_an_exercise(path: Path, source: Path) -> bool:
    """Whether an exercise's cell was deleted, or its check. That of a notebook that is not whole, nobody can say."""
    mine = _whole(path)
    there = {grade_id(cell) for cell in cells(mine)} if mine else set()
    return mine is not None and any(grade_id(cell) not in there for cell in cells(read(source)) if grade_id(cell))


def _whole(path: Path) -> Notebook | None:
    """The notebook at `path`, None where it is not whole or not there."""
    try:
        return read(path)
    except DeskError:
        return None


def merge(mine: Notebook, base: Notebook | None, new: Notebook) -> Merged:
    """The release `new` with what the learner wrote into `mine`, which was made from `base` (None: not known)."""
    merging = _Merging(mine, base, new)
    metadata = {**new["metadata"], **mine.get("metadata", {})}
    metadata["torchcourse"] = new["metadata"].get("torchcourse", {})
    notebook = {**new, "metadata": metadata, "cells": merging.all_cells()}
    return Merged(notebook, merging.answers, merging.conflicts, merging.gone)


def _guess(mine: Notebook, new: Notebook) -> Notebook:
    """Stands in for a release that is not known: prose was as it is, code that the newer release has came from one,
    and the stubs were those of the newer release."""
    news = {key for key, _ in _keyed(new)}
    kept = [cell for key, cell in _keyed(mine) if not grade_id(cell) and (key in news or _is_released_prose(cell))]
    return {**new, "cells": [*kept, *filter(grade_id, cells(new))]}


def _is_released_prose(cell: Cell) -> bool:
    return cell.get("cell_type") == "markdown" and bool(RELEASED_ID.fullmatch(str(cell.get("id"))))


def _keyed(notebook: Notebook) -> list[tuple[str, Cell]]:
    """The cells, each with what makes it the same as a cell of another release: its name, or else what it holds and
    the how manieth such cell it is."""
    seen: dict[str, int] = {}
    keyed = []
    for cell in cells(notebook):
        content = squeezed(text(cell)) if cell.get("cell_type") == "code" else "".join(text(cell).split())
        key = grade_id(cell) or f"{cell.get('cell_type')}:{content}"
        seen[key] = seen.get(key, 0) + 1
        keyed.append((key if seen[key] == 1 else f"{key}:{seen[key]}", cell))
    return keyed


class _Merging:
    """One merge. Each cell of `mine` is a released one (as it was, or changed) or the learner's own."""

    def __init__(self, mine: Notebook, base: Notebook | None, new: Notebook) -> None:
        self.answers: list[str] = []
        self.conflicts: list[str] = []
        self.gone: list[str] = []
        self.guessed = base is None
        self.new = dict(_keyed(new))
        self.base = dict(_keyed(_guess(mine, new) if base is None else base))
        self.base_ids = {cell.get("id"): key for key, cell in self.base.items() if cell.get("id")}
        self.ids = {str(cell.get("id")) for cell in cells(new)}
        self.theirs: dict[str, Cell] = {}
        """Cells of the learner that take the place of a new one, by its key."""
        self.behind: dict[str, list[Cell]] = {}
        """Cells of the learner's own, by the key of the new cell that they stand behind; "" is the top."""
        self._sort(mine)

    def _sort(self, mine: Notebook) -> None:
        place = ""
        for content, cell in _keyed(mine):
            key = self._came_from(content, cell)
            if key in self.new and key not in self.theirs:
                self.theirs[key] = cell
                place = key
            elif not self._is_released(cell, key):
                self.behind.setdefault(place, []).append(self._own(cell))

    def _came_from(self, content: str, cell: Cell) -> str:
        """The key of the released cell that this one came from: nbgrader's name says so, its id, or what it holds."""
        name = grade_id(cell)
        known = self.base.get(name) or self.new.get(name)
        if known and known.get("cell_type") == cell.get("cell_type"):
            return name
        key = self.base_ids.get(cell.get("id"), "")
        if key and self.base[key].get("cell_type") == cell.get("cell_type"):
            return key
        return content if content in self.base and not name else ""

    def _is_released(self, cell: Cell, key: str) -> bool:
        """Whether the learner loses nothing with this cell, because a release made it so."""
        was = self.base.get(key)
        return grade_id(cell).startswith("check_") or (was is not None and _equal(cell, was))

    def _own(self, cell: Cell) -> Cell:
        """A cell for which the newer release has no place; nbgrader no longer knows an answer among them."""
        name = grade_id(cell)
        kept = dict(cell)
        if name and name not in self.new:
            self.gone.append(name)
        if name and self.new.get(name, {}).get("cell_type") != cell.get("cell_type"):
            kept["metadata"] = {k: v for k, v in cell["metadata"].items() if k not in RELEASED_METADATA}
        base = str(cell.get("id", "mine"))[:50]
        ids = (base, *(f"{base}-{n}" for n in range(2, len(self.ids) + 3)))
        kept["id"] = next(fresh for fresh in ids if fresh not in self.ids)
        self.ids.add(kept["id"])
        return kept

    def all_cells(self) -> list[Cell]:
        """The cells of the merged notebook."""
        made = [*self.behind.get("", ())]
        for key, cell in self.new.items():
            made += [*self._placed(cell, key), *self.behind.get(key, ())]
        again = {NOTE + name for name in self.conflicts}
        earlier = [cell for place in self.behind.values() for cell in place if cell.get("id") in again]
        return [cell for cell in made if not any(cell is note for note in earlier)]

    def _placed(self, new: Cell, key: str) -> list[Cell]:
        """What stands in the place of a cell of the newer release."""
        theirs, was = self.theirs.get(key), self.base.get(key)
        name = grade_id(new)
        if theirs is None:
            deleted = was is not None and not name
            return [] if deleted else [new]
        if name.startswith("check_"):
            return [_with_outputs(new, theirs)]
        if name:
            return self._answer(new, theirs, name)
        return [_with_outputs(new, theirs) if was and _equal(theirs, was) else _kept(new, theirs)]

    def _answer(self, new: Cell, theirs: Cell, name: str) -> list[Cell]:
        was = self.base.get(name, new)
        if _equal(theirs, was) or _equal(theirs, new) or not text(theirs).strip():
            return [new]
        if not _same(theirs, was):  # else nothing but comments were added, which stay too
            self.answers.append(name)
        answer = _kept(new, theirs)
        if _same(was, new) and not (self.guessed and _head(new) not in squeezed(text(theirs))):
            return [answer]
        self.conflicts.append(name)
        return [_note(name, text(new)), answer]


def _equal(one: Cell, other: Cell) -> bool:
    return text(one).strip() == text(other).strip()


def _same(one: Cell, other: Cell) -> bool:
    """Whether two cells of code are the same program."""
    return squeezed(text(one)) == squeezed(text(other))


def _head(stub: Cell) -> str:
    """A stub up to where the answer begins."""
    return squeezed(text(stub).partition("raise Unattempted(")[0])


def _kept(new: Cell, theirs: Cell) -> Cell:
    """The learner's cell in the place of a released one."""
    metadata = {k: v for k, v in theirs.get("metadata", {}).items() if k not in RELEASED_METADATA}
    return {**theirs, "id": new["id"], "metadata": {**metadata, **new["metadata"]}}


def _with_outputs(new: Cell, theirs: Cell) -> Cell:
    """The released cell with what the learner's had put out, where that was the same program."""
    if new.get("cell_type") != "code" or not _same(theirs, new):
        return new
    return {**new, **{key: theirs[key] for key in ("outputs", "execution_count") if key in theirs}}


def _note(name: str, stub: str) -> Cell:
    says = (
        f"**`{name}` has changed in the newer release.** Your answer is below as you left it. The exercise begins like "
        f"this now:\n\n```python\n{stub}\n```\n\nWhen your answer fits again, delete this cell."
    )
    return {"cell_type": "markdown", "id": f"{NOTE}{name}"[:64], "metadata": {}, "source": says.splitlines(True)}
