"""The roster: who is in the class, read from a CSV file that somebody exported from somewhere.

A bad row is left out and named, with its line and the remedy; the rest goes on.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from autograde.files import write_atomically

__all__ = ["Fault", "Member", "Roster", "RosterError", "is_formula", "read_roster", "write_roster"]

IDENTITY = re.compile(r"\w[\w.@-]{0,99}")
"""What an id may be: it names a folder, an nbgrader submission (`id+lesson+time`) and a cell of a spreadsheet."""
LONGEST_NAME = 120
DELIMITERS = ",;\t"
WIDE = "\uff1d\uff0b\uff0d\uff20"
"""The same four signs as East Asian keyboards write them: some spreadsheets calculate after these too."""


class RosterError(ValueError):
    """A roster that cannot be read at all: says file and remedy."""


@dataclass(frozen=True)
class Member:
    """A student. `lms_user_id` is Canvas's number for her, where it is known; only `id` must not be empty."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_user_id: str = ""


@dataclass(frozen=True)
class Fault:
    """A row that was left out: its line, whom it speaks of as far as can be told, why, and what helps."""

    line: int
    who: str
    why: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.who or 'no id'}: {self.why}"


@dataclass(frozen=True)
class Roster:
    """The students in the order of the file, and the rows that were left out."""

    members: tuple[Member, ...] = ()
    faults: tuple[Fault, ...] = ()

    def __contains__(self, student: object) -> bool:
        return any(member.id == student for member in self.members)


COLUMNS = tuple(field.name for field in fields(Member))


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would calculate this cell in place of showing it."""
    return text.startswith(("=", "+", "-", "@", "\t", "\r", *WIDE))


def read_roster(path: Path) -> Roster:
    """The roster in a CSV file with a header: id, and first_name, last_name, email, lms_user_id where there are any.

    Commas, semicolons and tabs separate; byte-order marks, UTF-16 and the encoding of old spreadsheets are understood.

    Raises:
        RosterError: when the file is missing, is no table or has no column `id`.
    """
    text = _decoded(path)
    header = text.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=header.count)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    members: list[Member] = []
    faults: list[Fault] = []
    try:
        names = [re.sub(r"\s+", "_", name.strip().lower()) for name in next(table, [])]
        if "id" not in names or len(set(names)) < len(names):
            raise RosterError(f"{path}:1: the header names {', '.join(names) or 'nothing'}; a roster has the column id "
                              f"and may have {', '.join(COLUMNS[1:])}, each once.")  # fmt: skip
        for row in table:
            if not any(cell.strip() for cell in row):
                continue
            cells = dict(zip(names, (unicodedata.normalize("NFC", cell.strip()) for cell in row), strict=False))
            member = Member(**{name: cells.get(name, "") for name in COLUMNS})
            why = _too_long(row, names) or _fault(member, members)
            if why:
                faults.append(Fault(table.line_num, _shown(member), why))
            else:
                members.append(member)
    except csv.Error as error:
        raise RosterError(f"{path}:{table.line_num}: this is no CSV file ({error}).") from None
    return Roster(tuple(members), tuple(faults))


def write_roster(path: Path, members: Iterable[Member]) -> None:
    """Write a roster that `read_roster` reads back."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(astuple(member) for member in members)
    write_atomically(path, text.getvalue())


def _decoded(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RosterError(f"{path} cannot be read: {error.strerror}.") from None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _too_long(row: Sequence[str], names: Sequence[str]) -> str:
    if len(row) <= len(names):
        return ""
    return f"it has {len(row)} cells and the header {len(names)}; put a name with a comma in quotes."


def _fault(member: Member, before: Sequence[Member]) -> str:
    """What is wrong with a row, in one sentence with the remedy; empty where nothing is."""
    if not member.id:
        return "the id is blank; every student needs one."
    for name in COLUMNS:
        cell = getattr(member, name)
        if is_formula(cell):
            return f"the {name} {cell[:40]!a} is a formula to spreadsheets; write it without its first character."
        if not cell.isprintable() or len(cell) > LONGEST_NAME:
            return f"the {name} holds characters that do not print, or more than {LONGEST_NAME}; correct it."
    if not IDENTITY.fullmatch(member.id):
        return "an id names folders: up to 100 letters, digits and . _ - @, beginning with a letter or digit."
    if member.email and not re.fullmatch(r"[^@\s]+@[^@\s]+", member.email):
        return f"{member.email!a} is no e-mail address; correct it or leave it empty."
    for other in before:
        if other.id.casefold() == member.id.casefold():
            return f"this id stands already further up, for {_name(other)}; the first one was taken."
        if member.email and other.email.casefold() == member.email.casefold():
            return f"{member.email} is already the e-mail address of {other.id}; correct it or leave it empty."
    return ""


def _name(member: Member) -> str:
    return f"{member.first_name} {member.last_name}".strip() or member.id


def _shown(member: Member) -> str:
    """Whom a bad row speaks of, fit for a terminal."""
    shown = member.id or f"{member.first_name} {member.last_name}".strip() or member.email
    return shown if shown.isprintable() and len(shown) <= LONGEST_NAME else ascii(shown)[:LONGEST_NAME]
